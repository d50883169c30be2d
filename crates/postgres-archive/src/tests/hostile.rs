//! What a machine can use up: the spool, memory and connections, by size, number and slowness.

use std::{fs::File, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{sleep, timeout},
};

use super::bed::{Bed, DB, answer, content, wal};
use crate::{
    ArchiveHealth, Retention,
    limits::{HISTORIES_MAX, HISTORY_BYTES_MAX, HISTORY_LINES_MAX, SPOOL_BYTES_PER_DATABASE_MAX, WAL_BYTES_MAX},
    name::Segment,
    verify::tests::backup,
};

fn history(timeline: usize) -> String {
    format!("/wal/{timeline:08X}.history")
}

#[tokio::test]
async fn one_database_cannot_fill_the_spool() {
    let bed = Bed::new();
    assert_eq!(bed.put(&wal(1), b"x").await, 201);
    // A file without blocks on the disk counts as much as one with them.
    let left = 1_000_000;
    let huge = bed.folder.path().join("spool").join(DB).join(wal(2).trim_start_matches('/'));
    File::create(huge).unwrap().set_len(SPOOL_BYTES_PER_DATABASE_MAX - left).unwrap();
    let bed = bed.reopen().await;
    assert_eq!(bed.put(&wal(3), &vec![3; left as usize]).await, 507);
    assert_eq!(bed.state(DB).await.health, ArchiveHealth::Behind);
    assert_eq!(bed.send("db_two", "PUT", &wal(1), &[], &content(1)).await.0, 201);
    // A file of unknown length would need room for the largest one.
    let chunked = format!("PUT {} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n", wal(3));
    let chunked = format!("{chunked}connection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    for (id, status) in [(DB, 507), ("db_two", 201)] {
        let mut stream = bed.connect(id).await;
        stream.write_all(chunked.as_bytes()).await.unwrap();
        assert_eq!(answer(&mut stream).await.0, status, "{id}");
    }
    assert_eq!(bed.put(&wal(3), &content(3)).await, 201);
    // What was reserved and not used is free again.
    let used = SPOOL_BYTES_PER_DATABASE_MAX - left + 1 + 3 * 100_000 - 100_000 + 3;
    assert_eq!(bed.archive.figures().spool_bytes, used);
    bed.archive.remove(DB).await.unwrap();
    assert_eq!(bed.archive.figures().spool_bytes, 100_003);
}

#[tokio::test]
async fn histories_have_limits() {
    let bed = Bed::new();
    assert_eq!(bed.put(&history(2), &vec![b'#'; HISTORY_BYTES_MAX as usize + 1]).await, 413);
    let line = "1\t0/4000100\tx\n";
    assert_eq!(bed.put(&history(2), line.repeat(HISTORY_LINES_MAX + 1).as_bytes()).await, 400);
    assert_eq!(bed.state(DB).await.health, ArchiveHealth::Failing);
    assert_eq!(bed.put(&history(2), line.repeat(HISTORY_LINES_MAX).as_bytes()).await, 201);
    assert_eq!(bed.state(DB).await.health, ArchiveHealth::Ok);
    for timeline in 3..HISTORIES_MAX + 2 {
        let path = format!("{DB}/wal/{timeline:08X}.history");
        std::fs::write(bed.folder.path().join("spool").join(path), line).unwrap();
    }
    let bed = bed.reopen().await;
    let next = history(HISTORIES_MAX + 2);
    assert_eq!(bed.put(&next, line.as_bytes()).await, 400);
    assert_eq!(bed.put(&history(2), line.repeat(HISTORY_LINES_MAX).as_bytes()).await, 201);
    let error = bed.state(DB).await.error.unwrap_or_default();
    assert_eq!(bed.send("db_two", "PUT", &next, &[], line.as_bytes()).await.0, 201, "{error}");
}

#[tokio::test]
async fn histories_before_the_oldest_base_go() {
    let bed = Bed::new();
    bed.archive.run();
    for timeline in 2..=4 {
        assert_eq!(bed.put(&history(timeline), b"1\t0/2000100\tx\n").await, 201);
    }
    for (hour, timeline) in [(1, 1), (2, 3), (3, 4)] {
        let path = format!("/base/base-20260101T{hour:02}0000Z.tar.gz");
        assert_eq!(bed.put(&path, &backup(Segment { timeline, number: 2 }, 1000)).await, 201);
    }
    bed.until("stored", |state| state.pending_segments == 0).await;
    let state = bed.state(DB).await;
    let pruned = bed.archive.prune(DB, Retention { count: 1, age: Duration::ZERO }).await.unwrap();
    assert_eq!((pruned.bases.len(), pruned.wal_files), (2, 2), "{state:?}");
    let bed = bed.reopen().await;
    for (timeline, status) in [(2, 404), (3, 404), (4, 200)] {
        assert_eq!(bed.get(&history(timeline)).await.0, status);
    }
}

/// Serves one connection, which must end although it never stands still.
async fn ends(bed: &Bed, far: DuplexStream, guest: impl Future<Output = ()>) {
    tokio::select! {
        ended = timeout(Duration::from_secs(420), bed.archive.serve(DB, far)) => ended.expect("it ends"),
        () = guest => unreachable!("the guest goes on and on"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_trickle_is_not_enough() {
    let bed = Bed::new();
    bed.put(&wal(1), &vec![1; 1_000_000]).await;
    let (mut near, far) = tokio::io::duplex(64);
    let reading = async move {
        near.write_all(format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", wal(1)).as_bytes()).await.unwrap();
        while near.read_u8().await.is_ok() {
            sleep(Duration::from_secs(20)).await;
        }
        std::future::pending().await
    };
    ends(&bed, far, reading).await;

    let (mut near, far) = tokio::io::duplex(1024);
    let head = format!("PUT {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n", wal(2));
    near.write_all(format!("{head}content-length: {WAL_BYTES_MAX}\r\n\r\n").as_bytes()).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(near);
    let writing = async move {
        while writer.write_all(b"x").await.is_ok() {
            sleep(Duration::from_secs(20)).await;
        }
        std::future::pending().await
    };
    ends(&bed, far, writing).await;
    let mut said = String::new();
    let _ = reader.read_to_string(&mut said).await;
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert_eq!(bed.archive.figures().spool_bytes, 1_000_000);
}
