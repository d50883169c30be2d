//! The API document lists exactly the routes that are served. Other tests walk the document, so
//! they miss no route.

use std::collections::{BTreeMap, BTreeSet};

use pandastack_control::Control;
use pandastack_edge::Edge;
use pandastack_mcp::McpDoor;
use reqwest::{Method, header};
use serde_json::Value;

use crate::rig::{answer, with_door};

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

/// One route of the API document.
pub struct Endpoint {
    pub method: Method,
    pub path: String,
    /// Whether the route works without a key.
    pub open: bool,
    /// Whether the route is for persons only.
    pub person: bool,
    /// The least role that a person must have in the organisation.
    pub role: Option<String>,
    /// Whether the route reads JSON, and whether it needs a body.
    pub json: Option<Need>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
}

/// Every route of the document, without `HEAD` and `OPTIONS`, which the server answers by itself.
pub fn endpoints() -> Vec<Endpoint> {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if matches!(method.as_str(), "head" | "options") {
                continue;
            }
            let body = &operation["requestBody"];
            let need = if body["required"] == true { Need::Required } else { Need::Optional };
            all.push(Endpoint {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                open: operation["security"].as_array().is_some_and(Vec::is_empty),
                person: operation["security"][0].get("person").is_some(),
                role: operation["x-pandastack-least-role"].as_str().map(str::to_owned),
                json: body["content"].get("application/json").map(|_| need),
            });
        }
    }
    assert!(all.len() > 100, "only {} routes are in the document", all.len());
    all
}

#[tokio::test]
async fn what_is_served_is_documented_and_the_reverse() {
    with_door(async |door| {
        let mut served = BTreeSet::new();
        for path in Control::paths().into_iter().chain(Edge::paths()).chain(McpDoor::paths()) {
            let asked: String =
                path.split(['{', '}']).enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
            // No route has this method, so the refusal lists the allowed ones. A route that takes
            // every method has no such list.
            let refusal = door.call(Method::TRACE, &asked).send().await.unwrap();
            let Some(allowed) = refusal.headers().get(header::ALLOW) else {
                // A path with a wildcard is served in two more spellings, without a rest.
                if let Some(documented) = path.strip_suffix("{*path}") {
                    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
                    served.extend(methods.map(|method| (format!("{documented}{{path}}"), method.to_owned())));
                }
                continue;
            };
            assert_eq!(refusal.status().as_u16(), 405, "{path}");
            let allowed = allowed.to_str().unwrap().split(',').map(str::trim);
            served
                .extend(allowed.filter(|method| *method != "HEAD").map(|method| (path.to_owned(), method.to_owned())));
        }
        let documented: BTreeSet<_> = endpoints().into_iter().map(|it| (it.path, it.method.to_string())).collect();
        let only = |these: &BTreeSet<_>, not: &BTreeSet<_>| these.difference(not).cloned().collect::<Vec<_>>();
        assert_eq!(only(&served, &documented), [], "served, but not described in wire-public's openapi");
        assert_eq!(only(&documented, &served), [], "described, but not served");
    })
    .await;
}

#[tokio::test]
async fn every_documented_route_is_there_and_asks_for_a_key() {
    with_door(async |door| {
        let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
        for Endpoint { method, path, open, .. } in endpoints() {
            let path = path.replace(['{', '}'], "");
            let (status, said) = answer(door.http.request(method.clone(), format!("{}{path}", door.url))).await;
            // A signed preview is its own key, and this one is not signed.
            let is_asked = !open || path.starts_with("/v1/p/");
            assert_eq!(status == 401, is_asked, "{method} {path}: {status} {said}");
            assert!(status < 500, "{method} {path}: {said}");
            *statuses.entry(status).or_default() += 1;
        }
        assert!(statuses[&200] > 5 && statuses[&401] > 90, "{statuses:?}");
    })
    .await;
}
