//! Files through the edge.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use pandastack_wire_fleet::stub::file_entry;
use reqwest::{Body, Method};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{Rig, answer, within};

#[tokio::test]
async fn bytes_go_in_and_come_out_unchanged() {
    let rig = Rig::start().await;
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for (query, path, bytes) in [("%2Ftmp%2Fa+b%C3%A9", "/tmp/a bé", all), ("/empty", "/empty", Vec::new())] {
        let put = rig.call(Method::PUT, &format!("/fs?path={query}")).body(bytes.clone());
        assert_eq!(answer(put).await, (200, json!({"path": path, "bytes": bytes.len()})));
        let response = rig.call(Method::GET, &format!("/fs?path={query}")).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/octet-stream");
        assert_eq!(response.bytes().await.unwrap(), bytes);
        assert_eq!(answer(rig.call(Method::DELETE, &format!("/fs?path={query}"))).await.0, 204);
        assert_eq!(answer(rig.call(Method::GET, &format!("/fs?path={query}"))).await.0, 404);
    }
}

#[tokio::test]
async fn bad_paths_are_refused_and_missing_ones_are_missing() {
    let rig = Rig::start().await;
    for query in ["", "?path=", "?path=etc", "?path=%00", "?path=/a%00b", "?other=/x"] {
        for (method, route) in
            [(Method::GET, "/fs"), (Method::PUT, "/fs"), (Method::DELETE, "/fs"), (Method::GET, "/fs/stat")]
        {
            let (status, body) = answer(rig.call(method.clone(), &format!("{route}{query}"))).await;
            assert_eq!((status, &body["code"]), (400, &json!("fs.bad_path")), "{method} {route}{query}");
        }
    }
    assert_eq!(answer(rig.call(Method::GET, "/fs?path=/none")).await.0, 404);
    assert_eq!(answer(rig.call(Method::GET, "/fs/stat?path=/none")).await.0, 404);
    assert_eq!(answer(rig.call(Method::PUT, "/fs?path=/a&mode=999")).await.1["code"], "fs.bad_mode");
    let theirs = format!("{}/v1/sandboxes/{}/fs?path=/a", rig.url, rig.id);
    assert_eq!(answer(rig.http.get(&theirs).bearer_auth("theirs")).await.0, 404);
    assert_eq!(answer(rig.http.put(&theirs).body("x")).await.0, 401);
    assert!(rig.host.files.lock().unwrap().is_empty());
}

#[tokio::test]
async fn listings_are_sorted_and_never_leave_their_directory() {
    let rig = Rig::start().await;
    rig.host.listing.lock().unwrap().extend(["..", ".", "", "x/../../y", "nul\0", ".hidden"].map(file_entry));
    let (status, listing) = answer(rig.call(Method::GET, "/fs/dir?path=/tmp/")).await;
    assert_eq!((status, &listing["path"]), (200, &json!("/tmp/")));
    let entries = listing["entries"].as_array().unwrap();
    let paths: Vec<_> = entries.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/tmp/.hidden", "/tmp/a", "/tmp/b"]);
    let expected = json!({"name": "a", "path": "/tmp/a", "is_dir": false, "size": 3, "mode": "f", "permissions": "0644",
                          "mtime": 1_700_000_000});
    assert_eq!(entries[1], expected);
    rig.host.listing.lock().unwrap().clear();
    assert_eq!(answer(rig.call(Method::GET, "/fs/dir")).await.1, json!({"path": "/", "entries": []}));

    rig.host.put_file("/tmp/a", [1]);
    assert_eq!(answer(rig.call(Method::GET, "/fs/stat?path=/tmp/a")).await, (200, expected));
}

#[tokio::test]
async fn a_read_that_breaks_is_not_taken_for_the_whole() {
    let rig = Rig::start().await;
    rig.host.put_file("/breaks", "abcdef");
    let response = rig.call(Method::GET, "/fs?path=/breaks").send().await;
    let read = async { response?.bytes().await };
    assert!(read.await.is_err());
}

#[tokio::test]
async fn a_file_that_is_announced_too_large_is_refused_unread() {
    let rig = Rig::start().await;
    let mut socket = tokio::net::TcpStream::connect(rig.url.trim_start_matches("http://")).await.unwrap();
    let head = format!(
        "PUT /v1/sandboxes/{}/fs?path=/big HTTP/1.1\r\nhost: x\r\nauthorization: Bearer mine\r\ncontent-length: \
            9999999999\r\n\r\n",
        rig.id
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("a refusal", socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("fs.too_large"), "{answer}");
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_not_kept() {
    let rig = Rig::start().await;
    let half = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"half"))]).chain(stream::pending());
    let put = rig.call(Method::PUT, "/fs?path=/half").body(Body::wrap_stream(half)).timeout(Duration::from_millis(300));
    assert!(put.send().await.is_err());
    let told = async {
        while rig.host.broken_uploads.lock().unwrap().is_empty() {
            // The edge may also drop the write together with its connection. In both cases no file
            // is kept.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(500), told).await;
    assert!(!rig.host.files.lock().unwrap().contains_key("/half"));
}
