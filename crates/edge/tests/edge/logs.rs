//! Consoles: plain, followed, in both spellings, and with all kinds of line ends.

use futures_util::StreamExt;
use reqwest::{Method, Response};

use crate::rig::{Rig, answer, within};

async fn plain(rig: &Rig, query: &str) -> String {
    let response = rig.call(Method::GET, &format!("/logs{query}")).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    response.text().await.unwrap()
}

/// Reads a stream until it contains the text.
async fn until(response: &mut Response, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let piece = within(text, response.chunk()).await.unwrap().expect("the stream goes on");
        seen.push_str(std::str::from_utf8(&piece).unwrap());
    }
    seen
}

#[tokio::test]
async fn the_whole_console_is_lines_that_end_with_lf() {
    let rig = Rig::start().await;
    let odd = "one\r\ntwo é\u{2028}\u{85}x\r50%\r100%\r\nlast";
    for query in ["", "?follow=0", "?follow=false&stream=both", "?tail=many"] {
        rig.host.set_console(odd);
        assert_eq!(plain(&rig, query).await, "one\ntwo é  x\n50%\n100%\nlast\n", "{query}");
    }
    rig.host.set_console(odd);
    assert_eq!(plain(&rig, "?tail=2").await, "100%\nlast\n");
    rig.host.set_console("");
    assert_eq!(plain(&rig, "").await, "");
    assert_eq!(plain(&rig, "").await, "", "one that only a row remembers");
}

#[tokio::test]
async fn a_follower_gets_what_was_and_what_comes_until_the_end() {
    let rig = Rig::start().await;
    for follow in ["1", "true"] {
        let tell = rig.host.set_console("one\r\ntwo\r\nhal");
        let call = rig.call(Method::GET, &format!("/logs?follow={follow}&stream=both"));
        let mut response = call.header("accept", "application/json").send().await.unwrap();
        for (name, value) in [
            ("content-type", "text/event-stream; charset=utf-8"),
            ("cache-control", "no-cache"),
            ("x-accel-buffering", "no"),
            ("transfer-encoding", "chunked"),
        ] {
            assert_eq!(response.headers()[name], value);
        }
        let past = until(&mut response, "two").await;
        let events = "event: line\ndata: {\"line\":\"one\\n\"}\n\nevent: line\ndata: {\"line\":\"two\\n\"}\n\n";
        assert_eq!(past, format!(": open\n\n{events}"));
        tell.send("f\né\u{2028}z\n".into()).await.unwrap();
        let text = until(&mut response, "z").await;
        assert_eq!(
            text,
            "event: line\ndata: {\"line\":\"half\\n\"}\n\nevent: line\ndata: {\"line\":\"\\u00e9\\u2028z\\n\"}\n\n"
        );
        tell.send(b"no end".into()).await.unwrap();
        drop(tell);
        let rest = within("the end", response.text()).await.unwrap();
        assert_eq!(rest, "event: line\ndata: {\"line\":\"no end\\n\"}\n\n");
    }
}

#[tokio::test]
async fn a_follower_sees_as_many_lines_as_it_asks_for() {
    let rig = Rig::start().await;
    drop(rig.host.set_console(&(0..2000).map(|number| format!("line {number}\n")).collect::<String>()));
    let all = rig.call(Method::GET, "/logs?follow=1&tail=3").send().await.unwrap().text().await.unwrap();
    assert_eq!(all.matches("event: line").count(), 3, "{all}");
    assert!(all.contains("line 1997") && all.ends_with("line 1999\\n\"}\n\n"));
}

#[tokio::test]
async fn a_quiet_console_is_kept_alive() {
    let rig = Rig::start().await;
    let _tell = rig.host.set_console("");
    let response = rig.call(Method::GET, "/logs?follow=1").send().await.unwrap();
    let mut pieces = response.bytes_stream();
    assert_eq!(within("open", pieces.next()).await.unwrap().unwrap(), ": open\n\n");
    tokio::time::pause();
    // The paused clock advances to the next event, which is the keepalive.
    let piece = pieces.next().await.unwrap().unwrap();
    assert!(piece.starts_with(b": ping\n\n"), "{piece:?}");
}

#[tokio::test]
async fn consoles_are_their_owners() {
    let rig = Rig::start().await;
    let _tell = rig.host.set_console("secret\n");
    let url = format!("{}/v1/sandboxes/{}/logs", rig.url, rig.id);
    for path in ["", "?follow=1"] {
        let (status, body) = answer(rig.http.get(format!("{url}{path}")).bearer_auth("theirs")).await;
        assert_eq!((status, body["code"].as_str()), (404, Some("sandbox.not_found")));
        assert_eq!(answer(rig.http.get(format!("{url}{path}"))).await.0, 401);
    }
}
