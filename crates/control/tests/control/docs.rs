//! The API document lists exactly the routes that are served, and is public.

use std::collections::BTreeSet;

use pandastack_control::Control;
use pandastack_wire_public::endpoint::{ENDPOINTS, Room};
use reqwest::{Method, header};

use crate::rig::Rig;

/// The methods of a path, as the server reports them: no route has this method, so the refusal
/// lists the allowed ones.
async fn methods(rig: &Rig, path: &str) -> Vec<String> {
    let asked: String =
        path.split(['{', '}']).enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
    let answer = rig.call(Method::TRACE, &asked).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 405, "{path}");
    let allowed = answer.headers()[header::ALLOW].to_str().unwrap().to_owned();
    // Every GET answers HEAD too.
    allowed.split(',').map(|method| method.trim().to_owned()).filter(|method| method != "HEAD").collect()
}

#[tokio::test]
async fn every_route_is_on_the_public_list_and_the_reverse() {
    let rig = Rig::start().await;
    let mut served = BTreeSet::new();
    for path in Control::paths() {
        for method in methods(&rig, path).await {
            served.insert((path.to_owned(), method));
        }
    }
    let listed = ENDPOINTS.iter().filter(|endpoint| endpoint.room == Room::Control);
    let listed: BTreeSet<_> = listed.map(|it| (it.path.to_owned(), it.method.to_owned())).collect();
    let only =
        |these: &BTreeSet<(String, String)>, not: &BTreeSet<_>| these.difference(not).cloned().collect::<Vec<_>>();
    assert_eq!(only(&served, &listed), [], "served, but not in wire-public's endpoint.rs");
    assert_eq!(only(&listed, &served), [], "listed, but not served");
}

#[tokio::test]
async fn the_document_and_its_page_need_no_key() {
    let rig = Rig::start().await;
    let open = async |path: &str| rig.http.get(format!("{}{path}", rig.url)).send().await.unwrap();
    let document = open("/openapi.json").await;
    assert_eq!(
        (document.status().as_u16(), &document.headers()[header::CONTENT_TYPE]),
        (200, &"application/json".parse().unwrap())
    );
    let document: serde_json::Value = document.json().await.unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    for endpoint in ENDPOINTS {
        let methods = &document["paths"][endpoint.path];
        let method = if endpoint.method == "ANY" { "post".to_owned() } else { endpoint.method.to_lowercase() };
        assert!(methods[&method]["responses"].is_object(), "{} {} is not documented", endpoint.method, endpoint.path);
    }
    let page = open("/docs").await;
    assert_eq!(page.status().as_u16(), 200);
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert!(page.text().await.unwrap().contains("/openapi.json"));
}
