//! Databases share the uploads, and a removed archive holds up nobody: neither the others nor a new
//! archive of its name.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::bed::{Bed, DB, StoreFault, content, wal};

const LONG: Duration = Duration::from_secs(60);

fn soon() -> Instant {
    Instant::now() + LONG
}

/// Waits until the store has a file of this database.
async fn begins(bed: &Bed, id: &str) {
    let start = format!("db/{id}/");
    let begun = Instant::now();
    while !bed.store.puts.lock().unwrap().iter().any(|key| key.starts_with(&start)) {
        assert!(begun.elapsed() < LONG, "nothing of {id} is in the store");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_removal_ends_while_files_wait_and_the_others_go_on() {
    let bed = Bed::new();
    bed.store.set(StoreFault::Slow(Duration::from_millis(100)));
    bed.archive.run();
    // More than there are uploads at once, so that a stuck one would be missed.
    let removed = ["db_a", "db_b", "db_c"];
    for id in removed {
        for number in 1..=10 {
            assert_eq!(bed.send(id, "PUT", &wal(number), &[], &content(number)).await.0, 201);
        }
    }
    begins(&bed, "db_a").await;
    for id in removed {
        timeout(LONG, bed.archive.remove(id)).await.expect("the removal ends").unwrap();
    }
    assert_eq!(bed.archive.figures().spool_bytes, 0);
    assert_eq!(bed.put(&wal(1), &content(1)).await, 201);
    bed.archive.wait_for(DB, "000000010000000000000001", soon()).await.unwrap();
    for id in removed {
        assert!(!bed.folder.path().join("spool").join(id).exists());
        assert_eq!(bed.send(id, "GET", &wal(1), &[], b"").await.0, 404);
    }
}

#[tokio::test]
async fn busy_databases_let_the_others_upload() {
    let bed = Bed::new();
    for id in ["db_a", "db_b"] {
        for number in 1..=40 {
            assert_eq!(bed.send(id, "PUT", &wal(number), &[], &content(number)).await.0, 201);
        }
    }
    bed.store.set(StoreFault::Slow(Duration::from_millis(50)));
    bed.archive.run();
    begins(&bed, "db_a").await;
    begins(&bed, "db_b").await;
    assert_eq!(bed.put(&wal(1), &content(1)).await, 201);
    bed.archive.wait_for(DB, "000000010000000000000001", soon()).await.unwrap();
    for id in ["db_a", "db_b"] {
        assert!(bed.state(id).await.pending_segments > 0, "{id} was not busy any more");
    }
}

#[tokio::test]
async fn a_late_removal_leaves_a_new_archive_of_the_name_alone() {
    let bed = Bed::new();
    assert_eq!(bed.put(&wal(1), &content(1)).await, 201);
    let old = bed.archive.shelf(DB).unwrap();
    bed.archive.remove(DB).await.unwrap();
    bed.archive.run();
    assert_eq!(bed.put(&wal(1), &content(7)).await, 201);
    bed.archive.wait_for(DB, "000000010000000000000001", soon()).await.unwrap();
    bed.archive.finish_removal(&old).await;
    let bed = bed.reopen().await;
    assert_eq!(bed.get(&wal(1)).await, (200, content(7)));
}
