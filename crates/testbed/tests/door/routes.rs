//! The list of public routes equals the registered routes, so that tests over the list miss none.

use std::collections::BTreeSet;

use pandastack_wire_public::endpoint::{ENDPOINTS, Endpoint};
use reqwest::Method;

use crate::rig::{answer, with_door};

const CONTROL: &str = include_str!("../../../control/src/door/mod.rs");
const EDGE: &str = include_str!("../../../edge/src/lib.rs");

/// The methods to test a route with.
pub fn methods(endpoint: &Endpoint) -> Vec<Method> {
    match endpoint.method {
        "ANY" => vec![Method::GET, Method::POST],
        method => vec![method.parse().unwrap()],
    }
}

/// Every path and method in the source of a router.
fn registered(source: &str) -> BTreeSet<(String, String)> {
    let routes = source.split(".route(\"").skip(1);
    let verbs = ["get", "post", "put", "patch", "delete", "any"];
    let mut found = BTreeSet::new();
    for route in routes {
        let (path, rest) = route.split_once('"').unwrap();
        let line = rest.split("\n            .").next().unwrap();
        // The three spellings of the route to a guest's port are one route.
        let path = path.trim_end_matches('/').replace("/{*path}", "");
        let of_verb = |verb: &&str| line.contains(&format!(" {verb}(")) || line.contains(&format!(").{verb}("));
        for verb in verbs.iter().filter(|verb| of_verb(verb)) {
            found.insert((verb.to_uppercase(), path.clone()));
        }
    }
    found
}

#[test]
fn what_is_registered_is_listed_and_the_reverse() {
    let real: BTreeSet<_> = registered(CONTROL).into_iter().chain(registered(EDGE)).collect();
    let listed: BTreeSet<_> =
        ENDPOINTS.iter().map(|endpoint| (endpoint.method.to_owned(), endpoint.path.replace("/{path}", ""))).collect();
    assert!(real.len() > 100, "the routers are not where this test looks for them");
    assert_eq!(real, listed);
}

#[tokio::test]
async fn every_listed_route_is_there_and_asks_for_a_key() {
    with_door(async |door| {
        for endpoint in ENDPOINTS {
            let path = endpoint.path.replace(['{', '}'], "");
            for method in methods(endpoint) {
                let anybody = answer(door.http.request(method.clone(), format!("{}{path}", door.url))).await;
                let open = ["healthz", "version", "/metrics", "/openapi.json", "/docs"];
                if endpoint.method == "GET" && open.iter().any(|end| path.ends_with(end)) && !path.contains("/id/") {
                    assert_eq!(anybody.0, 200, "{method} {path}");
                } else {
                    assert_eq!(anybody.0, 401, "{method} {path}: {}", anybody.1);
                }
            }
        }
    })
    .await;
}
