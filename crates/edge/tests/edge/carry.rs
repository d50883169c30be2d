//! Bytes to and from a program in a guest: streams, back-pressure, upgrades, and disconnects of
//! either side.

use std::time::Duration;

use axum::{body::Body, http::Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_wire_public::PORT_BROKEN;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::{
    guest::{begin, gone, head, hear, say, serve},
    rig::{Rig, answer, within},
};

#[tokio::test]
async fn bodies_stream_both_ways_while_they_are_made() {
    let mut rig = Rig::start().await;
    let (feed, pieces) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let body = reqwest::Body::wrap_stream(tokio_stream(pieces));
    let send = begin(&rig.scope, rig.call(Method::POST, "/proxy/3000/echo").body(body).send());
    let stream = rig.connected().await.stream;
    let echo = begin(&rig.scope, serve(stream, |request| async { Response::new(Body::new(request.into_body())) }));
    feed.send(Ok("one".into())).await.unwrap();
    let mut response = within("the head", send).await.unwrap().unwrap();
    assert_eq!(within("one", response.chunk()).await.unwrap().unwrap(), "one");
    feed.send(Ok("two".into())).await.unwrap();
    assert_eq!(within("two", response.chunk()).await.unwrap().unwrap(), "two");
    drop(feed);
    assert_eq!(within("the end", response.chunk()).await.unwrap(), None);
    within("the guest's end", echo).await.unwrap();
}

fn tokio_stream<T: Send + 'static>(queue: tokio::sync::mpsc::Receiver<T>) -> impl futures_util::Stream<Item = T> {
    stream::unfold(queue, |mut queue| async move { queue.recv().await.map(|item| (item, queue)) })
}

#[tokio::test]
async fn a_slow_reader_stops_the_guest_and_nothing_grows() {
    let mut rig = Rig::start().await;
    let (request, guest) = (rig.call(Method::GET, "/proxy/3000/").send(), rig.ports.recv());
    let (answered, sent) = tokio::join!(request, async {
        let mut stream = guest.await.unwrap().stream;
        head(&mut stream).await;
        say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-type: x/y\r\n\r\n").await;
        stream
    });
    let (mut response, mut stream) = (answered.unwrap(), sent);
    let piece = vec![b'x'; 64 * 1024];
    let mut accepted = 0;
    while let Ok(count) = tokio::time::timeout(Duration::from_millis(500), stream.write(&piece)).await {
        accepted += count.unwrap();
        // Kernel socket buffers hold a few MiB. Without back-pressure this loop would not end.
        assert!(accepted < 64 << 20, "nothing holds the guest back");
    }
    let mut read = 0;
    while read < accepted {
        read += within("more", response.chunk()).await.unwrap().unwrap().len();
    }
    within("the guest goes on", stream.write_all(b"rest")).await.unwrap();
    drop(stream);
    let rest: Vec<u8> = within("the end", response.bytes()).await.unwrap().to_vec();
    assert_eq!(rest, b"rest");
}

#[tokio::test]
async fn a_client_that_leaves_takes_the_connection_along() {
    let mut rig = Rig::start().await;
    // The client leaves before the response head.
    let request = begin(&rig.scope, rig.call(Method::GET, "/proxy/3000/slow").send());
    let mut stream = rig.connected().await.stream;
    head(&mut stream).await;
    drop(request);
    gone(&mut stream).await;
    // The client leaves in the middle of the response.
    let request = begin(&rig.scope, rig.call(Method::GET, "/proxy/3000/stream").send());
    let mut stream = rig.connected().await.stream;
    head(&mut stream).await;
    say(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
    let mut response = request.await.unwrap().unwrap();
    assert_eq!(within("a piece", response.chunk()).await.unwrap().unwrap(), "abc");
    drop(response);
    gone(&mut stream).await;
    // The client leaves in the middle of its own body.
    let half = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"half"))]).chain(stream::pending());
    let body = reqwest::Body::wrap_stream(half);
    let request = begin(&rig.scope, rig.call(Method::PUT, "/proxy/3000/upload").body(body).send());
    let mut stream = rig.connected().await.stream;
    head(&mut stream).await;
    hear(&mut stream, "4\r\nhalf\r\n").await;
    drop(request);
    gone(&mut stream).await;
    let idle = async {
        while rig.scope.tasks() > rig.lasting {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("no task is left but the server's", idle).await;
}

#[tokio::test]
async fn an_upgrade_becomes_a_tunnel() {
    for shutdown_first in ["client", "guest"] {
        let mut rig = Rig::start().await;
        let mut client = rig.raw().await;
        let request = format!(
            "GET /chat?room=1 HTTP/1.1\r\nHost: {}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: a2V5\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
            rig.preview(3000)
        );
        say(&mut client, &request).await;
        let mut guest = rig.connected().await.stream;
        let asked = head(&mut guest).await.to_ascii_lowercase();
        assert!(asked.starts_with("get /chat?room=1 http/1.1\r\n"), "{asked}");
        for line in
            ["connection: upgrade", "upgrade: websocket", "sec-websocket-key: a2v5", "sec-websocket-protocol: chat"]
        {
            assert!(asked.contains(&format!("\r\n{line}\r\n")), "{line} is not in {asked}");
        }
        // The first frame arrives together with the head and must not be lost.
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: c2FpZA==\r\n\r\n\x01first";
        say(&mut guest, agreed).await;
        let answered = head(&mut client).await.to_ascii_lowercase();
        assert!(answered.starts_with("http/1.1 101 "), "{answered}");
        for line in ["connection: upgrade", "upgrade: websocket", "sec-websocket-accept: c2fpza=="] {
            assert!(answered.contains(&format!("\r\n{line}\r\n")), "{line} is not in {answered}");
        }
        hear(&mut client, "\x01first").await;
        say(&mut client, "from the client").await;
        hear(&mut guest, "from the client").await;
        say(&mut guest, "\u{0}from the guest").await;
        hear(&mut client, "\u{0}from the guest").await;
        if shutdown_first == "client" {
            client.shutdown().await.unwrap();
            gone(&mut guest).await;
            say(&mut guest, "last words").await;
            drop(guest);
            hear(&mut client, "last words").await;
            gone(&mut client).await;
        } else {
            drop(guest);
            gone(&mut client).await;
        }
    }
}

#[tokio::test]
async fn shutdown_ends_tunnels_and_leaves_no_task() {
    let mut rig = Rig::start().await;
    let mut client = rig.raw().await;
    let request =
        format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\n", rig.preview(3000));
    say(&mut client, &request).await;
    let mut guest = rig.connected().await.stream;
    head(&mut guest).await;
    say(&mut guest, "HTTP/1.1 101 Sure\r\nConnection: upgrade\r\nUpgrade: anything\r\n\r\n").await;
    head(&mut client).await;
    assert_eq!(rig.scope.close(Duration::from_secs(9)).await, 0);
    gone(&mut guest).await;
    gone(&mut client).await;
}

#[tokio::test]
async fn a_refused_upgrade_is_an_ordinary_answer() {
    let mut rig = Rig::start().await;
    let mut client = rig.raw().await;
    let host = rig.preview(3000);
    let ask = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    say(&mut client, &ask).await;
    let mut guest = rig.connected().await.stream;
    head(&mut guest).await;
    say(
        &mut guest,
        "HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nno",
    )
    .await;
    let answered = head(&mut client).await.to_ascii_lowercase();
    assert!(answered.starts_with("http/1.1 426 ") && !answered.contains("h2c"), "{answered}");
    hear(&mut client, "no").await;
    // The connection can still be used.
    say(&mut client, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
    let mut guest = rig.connected().await.stream;
    head(&mut guest).await;
    say(&mut guest, "HTTP/1.1 204 Fine\r\n\r\n").await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 204 "));
}

#[tokio::test]
async fn what_is_no_http_is_a_bad_gateway() {
    let mut rig = Rig::start().await;
    for (said, expected) in [
        ("", "closed the connection without a response"),
        ("HTTP/1.1 200 OK\r\nhalf", "closed the connection without a response"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not speak HTTP"),
        ("HTTP/1.1 101 Surprise\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "switched protocols without a request"),
        (&format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(80 * 1024)), ""),
    ] {
        let request = begin(&rig.scope, answer(rig.call(Method::GET, "/proxy/3000/")));
        let mut guest = rig.connected().await.stream;
        head(&mut guest).await;
        let _ = guest.write_all(said.as_bytes()).await;
        drop(guest);
        let (status, refused) = within("an answer", request).await.unwrap();
        assert_eq!((status, &refused["code"]), (502, &json!(PORT_BROKEN)), "{refused}");
        assert!(refused["error"].as_str().unwrap().contains(expected), "{refused}");
        assert!(refused["error"].as_str().unwrap().starts_with("upstream: "), "{refused}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_a_whole_one() {
    let mut rig = Rig::start().await;
    let request = begin(&rig.scope, rig.call(Method::GET, "/proxy/3000/").send());
    let mut guest = rig.connected().await.stream;
    head(&mut guest).await;
    say(&mut guest, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await;
    drop(guest);
    let response = request.await.unwrap().unwrap();
    assert!(within("the end", response.bytes()).await.is_err());
}

#[tokio::test]
async fn many_requests_at_once_each_get_their_own_answer() {
    const MANY: usize = 64;
    let mut rig = Rig::start().await;
    let ask = |number: usize| {
        let request = rig.call(Method::POST, &format!("/proxy/3000/{number}")).body(number.to_string());
        async move { request.send().await.unwrap().text().await.unwrap() }
    };
    let asks: Vec<_> = (0..MANY).map(ask).collect();
    let scope = rig.scope.clone();
    let serving = begin(&scope.clone(), async move {
        let mut serving = Vec::new();
        for _ in 0..MANY {
            let stream = rig.connected().await.stream;
            serving.push(begin(
                &scope,
                serve(stream, |request| async move {
                    let path = request.uri().path().to_owned();
                    let body = axum::body::to_bytes(Body::new(request.into_body()), 100).await.unwrap();
                    Response::new(Body::from(format!("{path} {}", String::from_utf8_lossy(&body))))
                }),
            ));
        }
        futures_util::future::join_all(serving).await;
        rig
    });
    let answers = within("all answers", futures_util::future::join_all(asks)).await;
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, format!("/{number} {number}"));
    }
    within("the guest", serving).await.unwrap();
}
