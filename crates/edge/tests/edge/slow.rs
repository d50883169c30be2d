//! Slow bodies, on a paused clock: a time limit ends each of them.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::{Method, Request},
};
use bytes::Bytes;
use futures_util::stream::unfold;
use pandastack_edge::Edge;
use pandastack_kit::Scope;
use pandastack_model::SandboxId;
use pandastack_wire_fleet::stub::StubHost;
use serde_json::Value;
use tower::ServiceExt;

use crate::stub_control::StubControl;

/// An endless body with one byte after each pause.
fn dribble(pause: Duration) -> Body {
    Body::from_stream(unfold((), move |()| async move {
        tokio::time::sleep(pause).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
    }))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_dribbles_is_given_up_on_every_kind_of_route() {
    let (id, host) = (SandboxId::random(), Arc::new(StubHost::default()));
    host.add(id);
    let edge = Edge::new(Arc::new(StubControl(id)), host.clone(), Scope::new());
    for (method, path, seconds) in [
        (Method::POST, "exec", 1),
        (Method::POST, "exec/stream", 29),
        (Method::POST, "processes", 1),
        (Method::POST, "repl", 1),
        (Method::POST, "mcp", 1),
        (Method::PUT, "fs?path=/f", 50),
        (Method::PUT, "fs?path=/f", 61),
        (Method::PUT, "fs/tar?path=/d", 50),
        (Method::POST, "processes/prc_1/stdin", 50),
    ] {
        let request = Request::builder().method(method).uri(format!("/v1/sandboxes/{id}/{path}"));
        let request = request.header("authorization", "Bearer mine");
        let request = request.body(dribble(Duration::from_secs(seconds))).unwrap();
        let response = edge.router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let said: Value = serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap();
        assert_eq!((status, said["code"].as_str()), (400, Some("body.slow")), "{path} every {seconds}s: {said}");
    }
    assert!(host.files.lock().unwrap().is_empty(), "half a file was kept");
}
