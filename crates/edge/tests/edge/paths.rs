//! The list of public routes matches the routes that this room serves.

use std::collections::BTreeSet;

use pandastack_edge::Edge;
use pandastack_wire_public::endpoint::{ENDPOINTS, Room};
use reqwest::{Method, header};

use crate::rig::Rig;

#[tokio::test]
async fn every_route_is_on_the_public_list_and_the_reverse() {
    let rig = Rig::start().await;
    let mut served = BTreeSet::new();
    for path in Edge::paths() {
        let asked: String =
            path.split(['{', '}']).enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
        // No route has this method, so the refusal lists the allowed ones. A route that takes every
        // method has no such list.
        let answer = rig.http.request(Method::TRACE, format!("{}{asked}", rig.url)).send().await.unwrap();
        let Some(allowed) = answer.headers().get(header::ALLOW) else {
            // The public list writes the wildcard as `{path}`.
            served.insert((path.replace("{*path}", "{path}"), "ANY".to_owned()));
            continue;
        };
        for method in allowed.to_str().unwrap().split(',').map(str::trim).filter(|method| *method != "HEAD") {
            served.insert((path.to_owned(), method.to_owned()));
        }
    }
    let whole = served.clone();
    served.retain(|(path, method)| {
        method != "ANY" || !whole.contains(&(format!("{}/{{path}}", path.trim_end_matches('/')), method.clone()))
    });
    let listed = ENDPOINTS.iter().filter(|endpoint| endpoint.room == Room::Edge);
    let listed: BTreeSet<_> = listed.map(|it| (it.path.to_owned(), it.method.to_owned())).collect();
    let only =
        |these: &BTreeSet<(String, String)>, not: &BTreeSet<_>| these.difference(not).cloned().collect::<Vec<_>>();
    assert_eq!(only(&served, &listed), [], "served, but not in wire-public's endpoint.rs");
    assert_eq!(only(&listed, &served), [], "listed, but not served");
}
