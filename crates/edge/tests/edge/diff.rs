//! The comparison of two sandboxes: who may ask for it. Real guests are compared in `e2e`.

use pandastack_model::SandboxId;
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, answer};

#[tokio::test]
async fn both_sandboxes_must_be_the_callers() {
    let rig = Rig::start().await;
    let ask = |query: String| rig.call(Method::GET, &format!("/diff{query}"));
    let (mine, other) = (rig.id, SandboxId::random());
    for (query, status, code) in [
        (String::new(), 400, "diff.no_with"),
        ("?with=".to_owned(), 400, "diff.no_with"),
        (format!("?with={mine}"), 400, "diff.same"),
        (format!("?with={other}"), 404, "sandbox.not_found"),
        ("?with=nonsense".to_owned(), 404, "sandbox.not_found"),
    ] {
        let (found, refused) = answer(ask(query.clone())).await;
        assert_eq!((found, &refused["code"]), (status, &json!(code)), "{query}");
    }
    let theirs = rig.http.get(format!("{}/v1/sandboxes/{mine}/diff?with={other}", rig.url)).bearer_auth("theirs");
    assert_eq!(answer(theirs).await.0, 404);
}
