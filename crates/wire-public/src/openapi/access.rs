//! Routes for access to programs that listen in a sandbox.

use serde_json::json;

use super::operation::{Operation, route};
use crate::{DeclarePort, Port, Preview, PreviewRequest, RefusedPath};

const TAG: &str = "Ports";

pub fn operations() -> Vec<Operation> {
    let sign = |path, about| {
        route(TAG, "POST", path, about)
            .once()
            .machine()
            .takes::<PreviewRequest>(json!({"port": 3000, "paths": ["/public"]}))
            .gives::<Preview>(200)
    };
    let anything = || json!({"*/*": {"schema": {}}});
    vec![
        route(TAG, "GET", "/v1/sandboxes/{id}/ports", "List listening and declared ports")
            .machine()
            .gives::<Vec<Port>>(200),
        route(TAG, "POST", "/v1/sandboxes/{id}/ports", "Declare a port")
            .machine()
            .takes::<DeclarePort>(json!({"port": 3000, "label": "web"}))
            .gives::<Port>(201),
        route(TAG, "DELETE", "/v1/sandboxes/{id}/ports/{port}", "Remove the declaration of a port")
            .machine()
            .refuses(&[400])
            .gives_nothing(204),
        sign(
            "/v1/sandboxes/{id}/preview-token",
            "Create a signed preview link to a port, for some paths and a limited time",
        ),
        sign("/v1/sandboxes/{id}/preview", "Create a signed preview link (same as `preview-token`)"),
        route(TAG, "ANY", "/v1/sandboxes/{id}/proxy/{port}/{path}", "Forward a request to a port in the sandbox")
            .notes("Forwards requests, upgrades and responses unchanged, except that the API key is removed.")
            .machine()
            .takes_content(anything(), false)
            .gives_content(0, "*/*", json!({})),
        route(TAG, "ANY", "/v1/p/{token}/{path}", "Forward a request to a port, for holders of a signed preview link")
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
