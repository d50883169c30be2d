//! The trace of a request: on its answer, whatever that is.

use reqwest::Method;

use crate::rig::with_door;

#[tokio::test]
async fn every_answer_names_its_trace() {
    with_door(async |door| {
        let mine = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for path in ["/v1/sandboxes", "/v1/sandboxes/none", "/nowhere"] {
            let answered = async |sent: Option<&str>| {
                let mut request = door.call(Method::GET, path);
                if let Some(sent) = sent {
                    request = request.header("traceparent", sent);
                }
                request.send().await.unwrap().headers()["traceparent"].to_str().unwrap().to_owned()
            };
            let continued = answered(Some(mine)).await;
            assert!(continued.starts_with(&mine[..36]) && continued != mine, "{path}: {continued}");
            let begun = answered(None).await;
            assert!(begun.len() == mine.len() && begun != answered(Some("nonsense")).await, "{path}: {begun}");
        }
    })
    .await;
}
