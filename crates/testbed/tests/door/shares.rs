//! One workspace takes all it can of a shared resource. It is refused at its share, and another
//! workspace is still served.

use pandastack_edge::ServeSettings;
use pandastack_testbed::wait_for;
use reqwest::{Method, Response};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, client::IntoClientRequest},
};

use crate::{
    SOON,
    raw::{Raw, head},
    rig::{Door, FOLLOWERS, KEY, OTHER_KEY, SOCKETS, answer, with_door, with_door_as, within},
};

/// The share of one workspace, of four and of sixteen.
const OF_FOUR: usize = 3;
const OF_SIXTEEN: usize = 12;

/// Repeats a request until it is refused. Returns the open answers, which hold the resources, and
/// the refusal.
async fn all(door: &Door<'_>, method: &Method, path: &str, body: &serde_json::Value) -> (Vec<Response>, u16, String) {
    let mut held = Vec::new();
    loop {
        assert!(held.len() < 100, "never refused");
        let answered = within("an answer", door.call(method.clone(), path).json(body).send()).await.unwrap();
        if answered.status() == 200 {
            held.push(answered);
            continue;
        }
        let status = answered.status().as_u16();
        let refused: serde_json::Value = answered.json().await.unwrap();
        return (held, status, refused["code"].as_str().unwrap().to_owned());
    }
}

#[tokio::test]
async fn connections_of_one_workspace_leave_room_for_another() {
    let settings = ServeSettings { connections_max: 16, ..ServeSettings::default() };
    with_door_as(settings, async |door| {
        let path = format!("/v1/sandboxes/{}/exec/stream", door.sandbox().await);
        let (held, status, code) = all(door, &Method::POST, &path, &json!({"cmd": "sleep 1000"})).await;
        // Fifteen of sixteen connections have a place, and one workspace gets three quarters of
        // those.
        assert_eq!((held.len(), status, code.as_str()), (11, 429, "quota.connections"));
        let (status, made) =
            answer(door.stranger(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"}))).await;
        assert_eq!(status, 201, "{made}");
        door.is_well().await;
        drop(held);
        let again = async || (door.get("/v1/sandboxes").await.0 == 200).then_some(());
        wait_for("its places to be free again", SOON, again).await;
    })
    .await;
}

#[tokio::test]
async fn callers_without_a_key_do_not_take_the_places_of_those_who_have_one() {
    let settings = ServeSettings { connections_max: 16, ..ServeSettings::default() };
    with_door_as(settings, async |door| {
        let mut waiting = Vec::new();
        for _ in 0..40 {
            // A caller without a key is refused at once, whatever body size it announces.
            let mut raw = door.raw().await;
            raw.say("POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n").await;
            waiting.push(raw);
        }
        let (status, made) = answer(door.call(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"}))).await;
        assert_eq!(status, 201, "{made}");
        door.is_well().await;
    })
    .await;
}

async fn socket(door: &Door<'_>, key: &str, id: &str) -> Result<WebSocketStream<TcpStream>, Error> {
    let url = format!("{}/v1/sandboxes/{id}/exec/ws", door.url.replace("http://", "ws://"));
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    let stream = TcpStream::connect(door.url.trim_start_matches("http://")).await.unwrap();
    within("a handshake", client_async(request, stream)).await.map(|(socket, _)| socket)
}

#[tokio::test]
async fn sockets_of_one_workspace_leave_room_for_another() {
    with_door(async |door| {
        assert_eq!(SOCKETS, 16);
        let id = door.sandbox().await;
        let mut held = Vec::new();
        for _ in 0..OF_SIXTEEN {
            held.push(socket(door, KEY, &id).await.unwrap());
        }
        let Err(Error::Http(refused)) = socket(door, KEY, &id).await else { panic!("one more socket was opened") };
        assert_eq!(refused.status(), 429);
        let text = String::from_utf8(refused.into_body().unwrap()).unwrap();
        assert!(text.contains("quota.sockets"), "{text}");
        let (_, other) = answer(door.stranger(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"}))).await;
        held.push(socket(door, OTHER_KEY, other["id"].as_str().unwrap()).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn followers_of_one_workspace_leave_room_for_another() {
    with_door(async |door| {
        assert_eq!(FOLLOWERS, 16);
        let id = door.sandbox().await;
        let (_, other) = answer(door.stranger(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"}))).await;
        for what in ["events", "logs"] {
            let path = format!("/v1/sandboxes/{id}/{what}?follow=true");
            let (held, status, code) = all(door, &Method::GET, &path, &json!(null)).await;
            assert_eq!((held.len(), status, code.as_str()), (OF_SIXTEEN, 429, "quota.followers"), "{what}");
            let path = format!("/v1/sandboxes/{}/{what}?follow=true", other["id"].as_str().unwrap());
            let served = within("an answer", door.stranger(Method::GET, &path).send()).await.unwrap();
            assert_eq!(served.status(), 200, "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn uploads_of_one_workspace_leave_room_for_another() {
    with_door(async |door| {
        let form = "content-type: application/x-www-form-urlencoded\r\n";
        let mut held: Vec<Raw> = Vec::new();
        for _ in 0..OF_FOUR {
            let mut raw = door.raw().await;
            raw.say(head("POST", "/v1/templates/build", &format!("{form}content-length: 1000\r\n"))).await;
            raw.say("name=x").await;
            held.push(raw);
        }
        let kind = "application/x-www-form-urlencoded";
        let refused = async || {
            let upload = door.call(Method::POST, "/v1/templates/build").header("content-type", kind).body("name=x");
            let (status, body) = answer(upload).await;
            (body["code"] == "quota.uploads").then_some(status)
        };
        assert_eq!(wait_for("a refused upload", SOON, refused).await, 429);
        let upload = door.stranger(Method::POST, "/v1/templates/build").header("content-type", kind).body("name=x");
        let (status, body) = answer(upload).await;
        assert_eq!(status, 400, "its body was read: {body}");
    })
    .await;
}
