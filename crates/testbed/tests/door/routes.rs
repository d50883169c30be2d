//! Every route of the public list is served, and those that are not public ask for a key.

use pandastack_wire_public::endpoint::{ENDPOINTS, Endpoint};
use reqwest::Method;

use crate::rig::{answer, with_door};

/// The methods to test a route with.
pub fn methods(endpoint: &Endpoint) -> Vec<Method> {
    match endpoint.method {
        "ANY" => vec![Method::GET, Method::POST],
        method => vec![method.parse().unwrap()],
    }
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
