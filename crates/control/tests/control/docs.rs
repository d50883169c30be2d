//! The API document and its page are public.

use reqwest::header;

use crate::rig::Rig;

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
    assert!(document["paths"]["/v1/sandboxes"]["post"]["responses"].is_object());
    let page = open("/docs").await;
    assert_eq!(page.status().as_u16(), 200);
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert!(page.text().await.unwrap().contains("/openapi.json"));
}
