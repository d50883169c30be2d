//! Sockets and streams of a revoked key: they are closed at once, with the reason.

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    SOON,
    rig::{Door, KEY, answer, with_door},
};

async fn socket(door: &Door<'_>, path: &str, key: &str) -> WebSocketStream<TcpStream> {
    let address = door.url.strip_prefix("http://").unwrap();
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    client_async(request, stream).await.unwrap().0
}

/// Reads a socket to its end, and returns the code and the reason of its close.
async fn closed(mut socket: WebSocketStream<TcpStream>) -> (u16, String) {
    let end = async {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(Some(frame)) = message {
                return (u16::from(frame.code), frame.reason.to_string());
            }
        }
        (0, "cut".to_owned())
    };
    tokio::time::timeout(SOON, end).await.expect("the socket of a revoked key is closed")
}

#[tokio::test]
async fn sockets_and_streams_of_a_revoked_key_are_closed() {
    with_door(async |door| {
        let id = door.sandbox().await;
        let key: Value = door.make("/v1/api-keys", json!({"label": "short"})).await;
        let (token, name) = (key["token"].as_str().unwrap(), key["id"].as_str().unwrap());
        let sockets = [
            socket(door, &format!("/v1/sandboxes/{id}/exec/ws"), token).await,
            socket(door, &format!("/v1/sandboxes/{id}/exec/pty?cmd=cat"), token).await,
        ];
        let mut other = socket(door, &format!("/v1/sandboxes/{id}/exec/ws"), KEY).await;
        let url = format!("{}/v1/sandboxes/{id}/logs?follow=1", door.url);
        let mut follower = door.http.get(&url).bearer_auth(token).send().await.unwrap();
        assert_eq!(follower.status(), 200);
        let (status, _) = answer(door.call(Method::DELETE, &format!("/v1/api-keys/{name}"))).await;
        assert_eq!(status, 204);
        for socket in sockets {
            assert_eq!(closed(socket).await, (1008, "the API key was revoked".to_owned()));
        }
        let end = async { while let Ok(Some(_)) = follower.chunk().await {} };
        tokio::time::timeout(SOON, end).await.expect("the follower of a revoked key ends");
        // Another key's socket is unaffected.
        use futures_util::SinkExt;
        other.send(Message::text("nonsense")).await.unwrap();
        let said = tokio::time::timeout(SOON, other.next()).await.unwrap().unwrap().unwrap();
        assert!(said.is_text(), "{said:?}");
        drop(other);
        let (status, _) = answer(door.http.get(format!("{}/v1/me", door.url)).bearer_auth(token)).await;
        assert_eq!(status, 401);
        door.is_well().await;
    })
    .await;
}
