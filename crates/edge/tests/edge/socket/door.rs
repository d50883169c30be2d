//! Which requests get a socket, and how the others are refused.

use std::time::Duration;

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::ExecEvent;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, handshake::client::Request};

use crate::rig::{Rig, answer, within};

const ROUTES: [&str; 3] = ["/exec/ws", "/exec/pty", "/ssh"];

async fn refused(rig: &Rig, request: Request) -> (u16, Value) {
    match rig.knock(request).await.map(|_| ()) {
        Err(Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            (response.status().as_u16(), serde_json::from_slice(body).unwrap_or_default())
        }
        other => panic!("not refused: {other:?}"),
    }
}

fn with_header(mut request: Request, name: &'static str, value: &str) -> Request {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

#[tokio::test]
async fn strangers_are_refused_before_the_socket_opens() {
    let mut rig = Rig::start().await;
    for route in ROUTES {
        let ours = |path: &str| rig.bare_socket_request(&format!("/{}{route}{path}", rig.id));
        let (status, body) = refused(&rig, ours("")).await;
        assert_eq!((status, &body["error"]), (401, &json!("unauthorized")), "{route}");
        for request in [
            with_header(ours(""), "authorization", "Bearer theirs"),
            ours("?access_token=theirs"),
            with_header(ours(""), "sec-websocket-protocol", "pds-pty, bearer.theirs"),
            with_header(
                rig.bare_socket_request(&format!("/{}{route}", SandboxId::random())),
                "authorization",
                "Bearer mine",
            ),
            with_header(rig.bare_socket_request(&format!("/x{route}")), "authorization", "Bearer mine"),
        ] {
            let (status, body) = refused(&rig, request).await;
            assert_eq!((status, &body["code"]), (404, &json!("sandbox.not_found")), "{route}");
            assert!(body["request_id"].as_str().is_some_and(|id| !id.is_empty()), "{body}");
        }
    }
    assert!(rig.played.try_recv().is_err(), "nothing ran");
}

#[tokio::test]
async fn a_sandbox_that_cannot_serve_is_a_status() {
    let rig = Rig::start().await;
    for (kind, code, status) in [
        (FaultKind::Conflict, "sandbox.invalid_state", 409),
        (FaultKind::Conflict, "sandbox.failed", 409),
        (FaultKind::Unavailable, "sandbox.wake_failed", 503),
    ] {
        rig.refuse_to_run(&Fault::new(kind, code, "not now"));
        for route in ROUTES {
            let (got, body) = refused(&rig, rig.socket_request(route)).await;
            assert_eq!((got, &body["code"], &body["error"]), (status, &json!(code), &json!("not now")), "{route}");
        }
    }
}

#[tokio::test]
async fn every_credential_opens_a_socket_and_only_the_protocol_is_repeated() {
    let mut rig = Rig::start().await;
    for route in ROUTES {
        let bare = |query: &str| rig.bare_socket_request(&format!("/{}{route}{query}", rig.id));
        for (request, protocol) in [
            (with_header(bare(""), "authorization", "bEARER mine"), None),
            (bare("?rows=5&access_token=mine"), None),
            (with_header(bare(""), "sec-websocket-protocol", "pds-pty, bearer.mine"), Some("pds-pty")),
            (with_header(bare(""), "sec-websocket-protocol", "bearer.mine, lsp, pds-pty"), Some("lsp")),
        ] {
            let (peer, response) = rig.knock(request).await.unwrap();
            let echoed = response.headers().get("sec-websocket-protocol").map(|value| value.to_str().unwrap());
            assert_eq!((response.status().as_u16(), echoed), (101, protocol), "{route}");
            assert!(response.headers().contains_key("x-request-id"));
            peer.cut();
        }
        while rig.played.try_recv().is_ok() {}
    }
}

#[tokio::test]
async fn a_request_that_wants_no_socket_is_told_so() {
    let rig = Rig::start().await;
    for route in ROUTES {
        let (status, body) = answer(rig.call(Method::GET, route)).await;
        assert_eq!((status, &body["code"]), (400, &json!("socket.no_upgrade")), "{route}");
        assert!(body["error"].as_str().unwrap().starts_with("this route requires a WebSocket upgrade"), "{body}");
        assert_eq!(answer(rig.call(Method::POST, route)).await.0, 405);
        // Another tenant gets 404 and does not learn whether the sandbox exists.
        let stranger = rig.http.get(format!("{}/v1/sandboxes/{}{route}", rig.url, rig.id)).bearer_auth("theirs");
        assert_eq!(answer(stranger).await.0, 404);
    }
    let (status, body) = answer(rig.call(Method::GET, "/exec/pty?cmd=%00")).await;
    assert_eq!((status, &body["code"]), (400, &json!("socket.no_upgrade")));
    let (status, body) = refused(&rig, rig.socket_request("/exec/pty?cmd=a%00b")).await;
    assert_eq!((status, &body["code"]), (400, &json!("exec.bad_request")));
}

#[tokio::test]
async fn a_socket_counts_as_a_use_until_it_is_gone() {
    let mut rig = Rig::start().await;
    assert_eq!(rig.host.presences(), 0);
    let mut peer = rig.open("/exec/ws").await;
    assert_eq!(rig.host.presences(), 1);
    // A command that wakes the sandbox renews the presence and does not add one.
    peer.say(json!({"id": "a", "cmd": "x"})).await;
    let played = rig.next_played().await;
    played.play([ExecEvent::Exit { code: 0 }]).await;
    peer.frame().await;
    assert_eq!(rig.host.presences(), 1);
    peer.leave().await;
    within("the end of the use", async {
        while rig.host.presences() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn shutdown_says_goodbye_to_every_socket() {
    let mut rig = Rig::start().await;
    let (mut idle, mut busy, mut shell) =
        (rig.open("/exec/ws").await, rig.open("/exec/ws").await, rig.open("/ssh").await);
    let terminal = rig.next_played().await;
    busy.say(json!({"id": "a", "cmd": "sleep 1000"})).await;
    let command = rig.next_played().await;
    let said = async {
        assert_eq!(u16::from(idle.closed().await.unwrap().code), 1001);
        assert_eq!(busy.frame().await, json!({"id": "a", "error": "the server is shutting down"}));
        assert_eq!(u16::from(busy.closed().await.unwrap().code), 1001);
        assert_eq!(shell.frame().await, json!({"error": "the server is shutting down"}));
        assert_eq!(u16::from(shell.closed().await.unwrap().code), 1001);
    };
    let (left, ()) = tokio::join!(rig.scope.close(Duration::from_secs(9)), said);
    assert_eq!(left, 0, "tasks were left");
    within("the end of the terminal", terminal.events.closed()).await;
    within("the end of the command", command.events.closed()).await;
}
