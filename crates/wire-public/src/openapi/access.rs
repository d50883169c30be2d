//! Routes for access to programs that listen in a sandbox.

use serde_json::json;

use super::operation::{Operation, route};
use crate::{DeclarePort, Port, Preview, PreviewRequest, RefusedPath};

const TAG: &str = "Ports";

pub fn operations() -> Vec<Operation> {
    let sign = |path| {
        route(TAG, "POST", path)
            .once()
            .machine()
            .takes::<PreviewRequest>(json!({"port": 3000, "paths": ["/public"]}))
            .gives::<Preview>(200)
    };
    let anything = || json!({"*/*": {"schema": {}}});
    vec![
        route(TAG, "GET", "/v1/sandboxes/{id}/ports").machine().gives::<Vec<Port>>(200),
        route(TAG, "POST", "/v1/sandboxes/{id}/ports")
            .machine()
            .takes::<DeclarePort>(json!({"port": 3000, "label": "web"}))
            .gives::<Port>(201),
        route(TAG, "DELETE", "/v1/sandboxes/{id}/ports/{port}").machine().refuses(&[400]).gives_nothing(204),
        sign("/v1/sandboxes/{id}/preview-token"),
        sign("/v1/sandboxes/{id}/preview"),
        route(TAG, "ANY", "/v1/sandboxes/{id}/proxy/{port}/{path}")
            .notes("Forwards requests, upgrades and responses unchanged, except that the API key is removed.")
            .machine()
            .takes_content(anything(), false)
            .gives_content(0, "*/*", json!({})),
        route(TAG, "ANY", "/v1/p/{token}/{path}")
            .notes(
                "On the link's own host name, requests, upgrades and responses are forwarded unchanged. On any other \
                 host name, the response is a `307` redirect to it.",
            )
            .open()
            .machine()
            .refuses(&[401, 429])
            .takes_content(anything(), false)
            .gives::<RefusedPath>(403)
            .gives_content(0, "*/*", json!({})),
    ]
}
