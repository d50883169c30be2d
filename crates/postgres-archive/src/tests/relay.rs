//! What machines may ask and what they are answered.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::bed::{Bed, DB, StoreFault, answer, content, wal};
use crate::{ArchiveHealth, Who, limits::CONNECTIONS_PER_DATABASE_MAX, name::Segment, verify::tests::backup};

const BASE: &str = "/base/base-20260101T000000Z.tar.gz";
const SEGMENT: Segment = Segment { timeline: 1, number: 2 };

#[tokio::test]
async fn databases_never_see_each_other() {
    let bed = Bed::new();
    bed.archive.run();
    bed.put(&wal(1), &content(1)).await;
    bed.put(BASE, &backup(SEGMENT, 1000)).await;
    for path in [&wal(1), BASE, "/wal/../db_one/000000010000000000000001", "/base/../../db_one/base/x"] {
        assert_eq!(bed.send("db_two", "GET", path, &[], b"").await.0, 404, "{path}");
    }
    assert_eq!(bed.send("db_two", "PUT", &wal(1), &[], &content(7)).await.0, 201);
    assert_eq!(bed.get(&wal(1)).await.1, content(1));
    assert_eq!(bed.send("db_two", "GET", &wal(1), &[], b"").await.1, content(7));
}

#[tokio::test]
async fn a_restoring_machine_reads_its_source_and_writes_nothing() {
    let bed = Bed::new();
    bed.put(&wal(1), &content(1)).await;
    let base = backup(SEGMENT, 1000);
    bed.put(BASE, &base).await;
    bed.is("db_two", Who::Restoring { source: DB.into() });
    assert_eq!(bed.send("db_two", "GET", &wal(1), &[], b"").await, (200, content(1)));
    assert!(bed.send("db_two", "GET", BASE, &[], b"").await == (200, base.clone()));
    assert_eq!(bed.send("db_two", "PUT", &wal(2), &[], &content(2)).await.0, 503);
    assert_eq!(bed.send("db_two", "PUT", BASE, &[], &base).await.0, 409);
    assert_eq!(bed.send("db_two", "GET", &wal(2), &[], b"").await.0, 404);
    bed.is("db_two", Who::Database);
    assert_eq!(bed.send("db_two", "GET", &wal(1), &[], b"").await.0, 404);
}

#[tokio::test]
async fn only_the_end_of_the_log_looks_like_its_end() {
    let bed = Bed::new();
    bed.is("db_two", Who::Restoring { source: DB.into() });
    let ask = async |path: &str| bed.send("db_two", "GET", path, &[], b"").await.0;
    // Without a base there is nothing that a log could end.
    assert_eq!((ask(&wal(3)).await, ask("/wal/00000002.history").await), (503, 404));
    bed.put(BASE, &backup(SEGMENT, 1000)).await;
    for number in [3, 4, 6] {
        assert_eq!(bed.put(&wal(number), &content(number)).await, 201);
    }
    // The same while the files wait and when they are in the store.
    for _ in 0..2 {
        assert_eq!((ask(&wal(3)).await, ask(&wal(4)).await, ask(&wal(6)).await), (200, 200, 200));
        // The first one is in the base.
        assert_eq!((ask(&wal(2)).await, ask(&wal(5)).await, ask(&wal(7)).await), (404, 503, 404));
        let other = format!("/wal/{}", Segment { timeline: 2, number: 5 });
        assert_eq!((ask(&other).await, ask("/wal/00000002.history").await, ask("/wal/what").await), (404, 404, 404));
        bed.archive.run();
        bed.until("stored", |state| state.pending_segments == 0).await;
    }
    // The database itself may ask for anything.
    assert_eq!(bed.get(&wal(5)).await.0, 404);
    bed.archive.remove(DB).await.unwrap();
    assert_eq!((ask(&wal(3)).await, ask("/wal/00000002.history").await), (503, 404));
}

#[tokio::test]
async fn a_server_without_an_archive_needs_no_log() {
    let ask = async |method: &str, path: &str, content: &[u8]| {
        let (mut near, far) = tokio::io::duplex(1024);
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        let head = format!("{head}content-length: {}\r\n\r\n", content.len());
        let talk = async {
            near.write_all(head.as_bytes()).await.unwrap();
            near.write_all(content).await.unwrap();
            let mut text = String::new();
            near.read_to_string(&mut text).await.unwrap();
            text
        };
        tokio::join!(crate::serve_without_archive(far), talk).1
    };
    let answers = [
        ("PUT", wal(1), "204"),
        ("POST", wal(2), "204"),
        ("GET", wal(1), "404"),
        ("GET", BASE.into(), "404"),
        ("PUT", BASE.into(), "409"),
        ("DELETE", wal(1), "405"),
        ("GET", "/".into(), "404"),
    ];
    for (method, path, status) in answers {
        let said = ask(method, &path, &content(1)).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {said}");
        assert_eq!(status == "409", said.contains("keeps no archive; its operator"), "{said}");
    }
}

#[tokio::test]
async fn others_have_no_archive_and_doubt_loses_nothing() {
    let bed = Bed::new();
    bed.is(DB, Who::Other);
    assert_eq!(bed.put(&wal(1), &content(1)).await, 204);
    assert_eq!(bed.get(&wal(1)).await.0, 404);
    assert_eq!(bed.put(BASE, b"x").await, 404);
    bed.directory.0.lock().unwrap().insert(DB.into(), Err("the store is busy".into()));
    assert_eq!(bed.put(&wal(1), &content(1)).await, 503);
    assert_eq!(bed.get(&wal(1)).await.0, 503);
}

#[tokio::test]
async fn wrong_requests_are_refused() {
    let bed = Bed::new();
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/wal", 404),
        ("GET", "/wal/", 404),
        ("GET", "/wal/pg_control", 404),
        ("PUT", "/wal/pg_control", 400),
        ("PUT", "/wal/..%2f..", 400),
        ("PUT", "/base/other.tar.gz", 400),
        ("DELETE", "/wal/00000002.history", 405),
    ] {
        assert_eq!(bed.send(DB, method, path, &[], b"").await.0, status, "{method} {path}");
    }
    let mut stream = bed.connect(DB).await;
    let head = format!("PUT {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 99000000\r\n\r\n", wal(1));
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(answer(&mut stream).await.0, 413);
    // A body that is larger than it says nothing about.
    let huge = "x".repeat(20_000);
    assert!(matches!(bed.send(DB, "GET", "/wal/x", &[&format!("a: {huge}")], b"").await.0, 0 | 400 | 431));
}

#[tokio::test]
async fn damaged_and_broken_backups_leave_nothing() {
    let bed = Bed::new();
    let whole = backup(SEGMENT, 1000);
    let mut damaged = whole.clone();
    damaged[50_000] ^= 4;
    assert_eq!(bed.put(BASE, &damaged).await, 422);
    assert_eq!(bed.put(BASE, &whole[..whole.len() / 2]).await, 422);
    assert_eq!(bed.put(BASE, b"").await, 422);
    let mut stream = bed.connect(DB).await;
    let head = format!("PUT {BASE} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", whole.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&whole[..whole.len() - 1]).await.unwrap();
    drop(stream);
    assert_eq!(bed.get(BASE).await.0, 404);
    let home = bed.folder.path().join("spool").join(DB);
    let begun = std::time::Instant::now();
    while std::fs::read_dir(&home).unwrap().any(|entry| entry.unwrap().file_name() != "wal") {
        assert!(begun.elapsed() < Duration::from_secs(60), "something is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bed.put(BASE, &whole).await, 201);
    assert_eq!(bed.put(BASE, &whole).await, 201);
    assert_eq!(bed.put(BASE, &backup(SEGMENT, 2000)).await, 409);
    assert_eq!(bed.state(DB).await.bases.len(), 1);
}

#[tokio::test]
async fn a_full_spool_makes_the_guest_keep_its_log() {
    let bed = Bed::sized(250_000);
    assert_eq!(bed.put(&wal(1), &content(1)).await, 201);
    assert_eq!(bed.put(&wal(2), &content(2)).await, 201);
    assert_eq!(bed.put(&wal(3), &content(3)).await, 507);
    assert_eq!(bed.state(DB).await.health, ArchiveHealth::Behind);
    bed.archive.run();
    bed.until("stored", |state| state.pending_segments == 0).await;
    assert_eq!(bed.put(&wal(3), &content(3)).await, 201);
    assert_eq!(bed.state(DB).await.health, ArchiveHealth::Ok);
}

#[tokio::test]
async fn one_machine_has_a_few_connections_and_keeps_them_alive() {
    let bed = Bed::new();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS_PER_DATABASE_MAX {
        open.push(bed.connect(DB).await);
    }
    assert_eq!(bed.get(&wal(1)).await.0, 0, "one too many");
    assert_eq!(bed.send("db_two", "GET", &wal(1), &[], b"").await.0, 404);
    let stream = &mut open[0];
    for _ in 0..3 {
        stream.write_all(b"GET /wal/00000002.history HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut bytes = [0; 512];
        let count = stream.read(&mut bytes).await.unwrap();
        assert!(String::from_utf8_lossy(&bytes[..count]).starts_with("HTTP/1.1 404"));
    }
}

#[tokio::test(start_paused = true)]
async fn silent_connections_end() {
    let bed = Bed::new();
    let (mut near, far) = tokio::io::duplex(1024);
    near.write_all(b"PUT /wal/000000010000000000000001 HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf")
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(300), bed.archive.serve(DB, far)).await.expect("it ends");
    // A reader that does not read.
    bed.put(&wal(1), &vec![1; 100_000]).await;
    let (mut near, far) = tokio::io::duplex(64);
    near.write_all(format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", wal(1)).as_bytes()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(300), bed.archive.serve(DB, far)).await.expect("it ends");
    bed.store.set(StoreFault::None);
}
