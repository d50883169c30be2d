//! Nothing is lost: crashes, stores that fail, hang or lose answers, conflicts, removal, retention.

use std::time::Duration;

use futures_util::{StreamExt, future::join_all};
use tokio::time::Instant;

use super::bed::{Bed, DB, StoreFault, at, content, wal};
use crate::{
    ArchiveHealth, BaseCopy, BaseError, Pruned, RestoreRefusal, Retention, WaitError, Who, name::Segment,
    verify::tests::backup,
};

const BASE: &str = "/base/base-20260101T000000Z.tar.gz";
const SEGMENT: Segment = Segment { timeline: 1, number: 2 };

#[tokio::test]
async fn what_was_answered_survives_a_crash() {
    let bed = Bed::new();
    for number in 1..=3 {
        assert_eq!(bed.send(DB, "POST", &wal(number), &["x-written: 1000"], &content(number)).await.0, 201);
    }
    // A process that died while it wrote.
    let home = bed.folder.path().join("spool").join(DB);
    std::fs::write(home.join(".new-0011"), b"half").unwrap();
    let bed = bed.reopen().await;
    assert!(!home.join(".new-0011").exists());
    assert_eq!(bed.archive.figures().spool_bytes, 300_000);
    assert_eq!(bed.get(&wal(2)).await, (200, content(2)));
    bed.archive.run();
    let state = bed.until("stored", |state| state.pending_segments == 0).await;
    assert_eq!(state.last_segment.as_deref(), Some("000000010000000000000003"));
    assert_eq!(bed.archive.figures().spool_bytes, 0);
    // The times came along.
    let names = bed.store.puts.lock().unwrap().clone();
    assert!(names.iter().all(|name| name.contains(".1000.")), "{names:?}");
    let bed = bed.reopen().await;
    assert_eq!(bed.get(&wal(3)).await, (200, content(3)));
    assert_eq!(bed.get(&wal(4)).await.0, 404);
}

#[tokio::test]
async fn a_store_that_is_down_or_hangs_loses_nothing_and_stops_nobody() {
    for fault in [StoreFault::Down, StoreFault::Hang] {
        let bed = Bed::new();
        bed.store.set(fault);
        bed.archive.run();
        for number in 1..=5 {
            let (path, body) = (wal(number), content(number));
            let sent = tokio::time::timeout(Duration::from_secs(60), bed.put(&path, &body));
            assert_eq!(sent.await.unwrap(), 201);
        }
        if fault == StoreFault::Down {
            assert_eq!(bed.get(&wal(9)).await.0, 502);
            let failing = |state: &crate::ArchiveState| state.health == ArchiveHealth::Failing;
            let state = bed.until("failing", failing).await;
            assert!(state.error.unwrap().contains("down"));
            assert_eq!(state.pending_segments, 5);
            let figures = bed.archive.figures();
            assert_eq!((figures.spooled, figures.segments, figures.spool_bytes), (5, 0, figures.spooled_bytes));
            assert!(figures.failures > 0 && figures.spooled_bytes > 0, "{figures:?}");
            tokio::time::sleep(Duration::from_millis(1100)).await;
            assert!(bed.archive.figures().behind_seconds >= 1);
            assert!(!bed.state(DB).await.listed);
            let refusal = bed.archive.plan_restore(DB, None).await;
            assert!(matches!(refusal, Err(RestoreRefusal::Unavailable { .. })), "{refusal:?}");
        }
        let bed = if fault == StoreFault::Hang { bed.reopen().await } else { bed };
        bed.store.set(StoreFault::None);
        bed.archive.run();
        let is_stored = |state: &crate::ArchiveState| state.pending_segments == 0 && state.health == ArchiveHealth::Ok;
        assert!(bed.until("stored", is_stored).await.listed);
        let order: Vec<_> =
            bed.store.puts.lock().unwrap().iter().map(|key| key.split('.').next().unwrap().to_owned()).collect();
        let wanted: Vec<_> = (1..=5).map(|number| format!("db/{DB}{}", wal(number))).collect();
        assert_eq!(order, wanted);
        assert_eq!(bed.get(&wal(5)).await, (200, content(5)));
        let figures = bed.archive.figures();
        assert_eq!((figures.segments, figures.behind_seconds, figures.spool_bytes), (5, 0, 0));
    }
}

#[tokio::test]
async fn every_step_of_an_upload_may_fail() {
    let faults = (1..=6).flat_map(|step| [StoreFault::Refuse(step), StoreFault::LoseAnswer(step)]);
    // At once, because most of the time they wait to try again.
    join_all(faults.map(an_upload_survives)).await;
}

async fn an_upload_survives(fault: StoreFault) {
    let bed = Bed::new();
    bed.store.set(fault);
    bed.archive.run();
    for number in 1..=3 {
        assert_eq!(bed.put(&wal(number), &content(number)).await, 201);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    bed.archive.wait_for(DB, "000000010000000000000003", deadline).await.unwrap();
    let bed = bed.reopen().await;
    bed.store.set(StoreFault::None);
    for number in 1..=3 {
        assert!(bed.get(&wal(number)).await == (200, content(number)), "{fault:?}");
    }
}

#[tokio::test]
async fn every_step_of_a_base_may_fail() {
    for step in 1..=6 {
        for fault in [StoreFault::Refuse(step), StoreFault::LoseAnswer(step)] {
            let bed = Bed::new();
            bed.store.set(fault);
            let sent = backup(SEGMENT, 1000);
            assert_eq!(bed.put(BASE, &sent).await, 201, "{fault:?}");
            let bed = bed.reopen().await;
            bed.store.set(StoreFault::None);
            assert!(bed.get(BASE).await == (200, sent));
            assert_eq!(bed.state(DB).await.window, Some((at(1001), at(1001))));
        }
    }
}

#[tokio::test]
async fn base_backups_that_fail_are_counted() {
    let bed = Bed::new();
    let whole = backup(SEGMENT, 1000);
    assert_eq!(bed.put(BASE, &whole[..whole.len() / 2]).await, 422);
    assert_eq!(bed.put("/base/nonsense", &whole).await, 400);
    assert_eq!(bed.put(BASE, &whole).await, 201);
    let figures = bed.archive.figures();
    assert_eq!((figures.bases, figures.base_bytes, figures.base_failures), (1, whole.len() as u64, 1));
}

#[tokio::test]
async fn the_same_again_is_fine_and_something_else_is_not() {
    let bed = Bed::new();
    let mut changes = bed.archive.health_changes();
    assert_eq!(bed.put(&wal(1), &content(1)).await, 201);
    assert_eq!(bed.put(&wal(1), &content(1)).await, 201);
    assert_eq!(bed.put(&wal(1), &content(9)).await, 409);
    let change = changes.recv().await.unwrap();
    assert_eq!((change.old, change.new), (ArchiveHealth::Ok, ArchiveHealth::Failing));
    bed.archive.run();
    bed.until("stored", |state| state.pending_segments == 0).await;
    assert_eq!(bed.put(&wal(1), &content(1)).await, 201);
    assert_eq!(bed.put(&wal(1), &content(9)).await, 409);
    assert_eq!(bed.get(&wal(1)).await.1, content(1));
    assert_eq!(bed.put(&wal(2), &content(2)).await, 201);
    assert_eq!(bed.state(DB).await.health, ArchiveHealth::Ok);

    // While the store cannot be asked, a conflict is found later, and both files stay.
    let bed = bed.reopen().await;
    bed.store.set(StoreFault::Down);
    assert_eq!(bed.put(&wal(1), &content(9)).await, 201);
    bed.store.set(StoreFault::None);
    bed.archive.run();
    bed.until("failing", |state| state.health == ArchiveHealth::Failing && state.pending_segments == 0).await;
    let aside = bed.folder.path().join("spool").join(DB).join("conflicts/000000010000000000000001");
    assert_eq!(std::fs::read(aside).unwrap(), content(9));
    assert_eq!(bed.get(&wal(1)).await.1, content(1));
}

#[tokio::test]
async fn a_damaged_object_is_not_handed_out() {
    let bed = Bed::new();
    bed.archive.run();
    bed.put(&wal(1), &content(1)).await;
    bed.until("stored", |state| state.last_segment.is_some() && state.pending_segments == 0).await;
    let folder = bed.folder.path().join("store/db").join(DB).join("wal");
    let object = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    assert_eq!(bed.get(&wal(1)).await.0, 502);
}

#[tokio::test]
async fn windows_gaps_and_plans() {
    let bed = Bed::new();
    bed.archive.run();
    assert_eq!(bed.archive.plan_restore(DB, None).await, Err(RestoreRefusal::NoBackup));
    assert_eq!(bed.put(BASE, &backup(SEGMENT, 1000)).await, 201);
    for number in [3, 4] {
        let written = format!("x-written: {}", 1000 + number * 10);
        bed.send(DB, "PUT", &wal(number), &[&written], &content(number)).await;
    }
    let state = bed.state(DB).await;
    assert_eq!((state.window, state.health), (Some((at(1001), at(1040))), ArchiveHealth::Ok));
    assert_eq!(state.bases[0].name, "base-20260101T000000Z.tar.gz");
    let plan = bed.archive.plan_restore(DB, Some(at(1039))).await.unwrap();
    assert_eq!((plan.base.as_str(), plan.target), ("base-20260101T000000Z.tar.gz", Some(at(1039))));
    assert_eq!(
        bed.archive.plan_restore(DB, Some(at(1000))).await,
        Err(RestoreRefusal::TooEarly { earliest: at(1001) })
    );
    assert_eq!(bed.archive.plan_restore(DB, Some(at(1041))).await, Err(RestoreRefusal::TooLate { latest: at(1040) }));
    bed.send(DB, "PUT", &wal(6), &["x-written: 1060"], &content(6)).await;
    let state = bed.state(DB).await;
    assert_eq!((state.window, state.health), (Some((at(1001), at(1040))), ArchiveHealth::Gap));
    assert!(state.error.unwrap().contains("000000010000000000000005"));
    // A new timeline that left at segment 4, also after a restart.
    bed.send(DB, "PUT", "/wal/00000002.history", &[], b"1\t0/4000100\tbefore 2026\n").await;
    let new = |number| format!("/wal/{}", Segment { timeline: 2, number });
    for number in [4, 5] {
        let written = format!("x-written: {}", 2000 + number);
        bed.send(DB, "PUT", &new(number), &[&written], &content(number)).await;
    }
    bed.until("stored", |state| state.pending_segments == 0).await;
    let bed = bed.reopen().await;
    let state = bed.state(DB).await;
    assert_eq!((state.window, state.health), (Some((at(1001), at(2005))), ArchiveHealth::Ok));
}

#[tokio::test]
async fn waiting_ends_when_it_is_stored_and_not_before() {
    let bed = Bed::new();
    let name = "000000010000000000000001";
    let soon = || Instant::now() + Duration::from_millis(100);
    assert!(matches!(bed.archive.wait_for(DB, name, soon()).await, Err(WaitError::Late { .. })));
    bed.put(&wal(1), &content(1)).await;
    assert!(matches!(bed.archive.wait_for(DB, name, soon()).await, Err(WaitError::Late { .. })));
    bed.archive.run();
    bed.archive.wait_for(DB, name, Instant::now() + Duration::from_secs(60)).await.unwrap();
    assert!(matches!(bed.archive.wait_for(DB, "x", soon()).await, Err(WaitError::Name(_))));
}

#[tokio::test]
async fn retention_drops_backups_and_the_log_before_them() {
    let bed = Bed::new();
    bed.archive.run();
    for (hour, number) in [(1, 2), (2, 5), (3, 8)] {
        let path = format!("/base/base-20260101T{hour:02}0000Z.tar.gz");
        assert_eq!(bed.put(&path, &backup(Segment { timeline: 1, number }, 1000 + number)).await, 201);
    }
    for number in 1..=9 {
        bed.put(&wal(number), &content(number)).await;
    }
    bed.until("stored", |state| state.pending_segments == 0).await;
    let all = Duration::from_secs(u64::MAX / 4);
    // All backups are young enough, but the first segment is older than all of them.
    let young = bed.archive.prune(DB, Retention { count: 1, age: all }).await.unwrap();
    assert_eq!((young.bases.len(), young.wal_files), (0, 1));
    let restores = ("restored".to_owned(), Ok(Who::Restoring { source: DB.to_owned() }));
    bed.directory.0.lock().unwrap().extend([restores]);
    let nothing = bed.archive.prune(DB, Retention { count: 2, age: Duration::ZERO }).await.unwrap();
    assert_eq!(nothing, Pruned::default(), "it is read");
    bed.directory.0.lock().unwrap().clear();
    let pruned = bed.archive.prune(DB, Retention { count: 2, age: Duration::ZERO }).await.unwrap();
    assert_eq!((pruned.bases, pruned.wal_files), (vec!["base-20260101T010000Z.tar.gz".to_owned()], 3));
    let bed = bed.reopen().await;
    let state = bed.state(DB).await;
    assert_eq!((state.bases.len(), state.health), (2, ArchiveHealth::Ok));
    assert_eq!(state.window.unwrap().0, at(1006));
    assert_eq!((bed.get(&wal(4)).await.0, bed.get(&wal(5)).await.0), (404, 200));
}

#[tokio::test]
async fn a_removed_archive_stays_removed() {
    let bed = Bed::new();
    bed.put(BASE, &backup(SEGMENT, 1000)).await;
    bed.put(&wal(1), &content(1)).await;
    bed.store.set(StoreFault::Down);
    bed.archive.remove(DB).await.unwrap();
    assert_eq!(bed.put(&wal(2), &content(2)).await, 410);
    // The store was away, and then this process.
    let bed = bed.reopen().await;
    assert_eq!(bed.put(&wal(2), &content(2)).await, 410);
    bed.store.set(StoreFault::None);
    bed.archive.run();
    let (spool, store) = (bed.folder.path().join("spool").join(DB), bed.folder.path().join("store/db").join(DB));
    let begun = std::time::Instant::now();
    while spool.exists() || store.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} {}", spool.exists(), store.exists());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bed.archive.figures().spool_bytes, 0);
    bed.is(DB, Who::Other);
    assert_eq!(bed.put(&wal(2), &content(2)).await, 204);
    assert!(!spool.exists());
}

#[tokio::test]
async fn a_base_is_copied_to_a_new_archive() {
    let bed = Bed::new();
    let copy = BaseCopy { from: DB.into(), to: "db_two".into(), since: at(5000) };
    assert!(matches!(bed.archive.copy_base(&copy).await, Err(BaseError::Absent)));
    let sent = backup(SEGMENT, 1000);
    bed.put(BASE, &sent).await;
    let copied = bed.archive.copy_base(&copy).await.unwrap();
    assert_eq!((copied.taken_at, copied.bytes), (at(5000), sent.len() as u64));
    bed.archive.remove(DB).await.unwrap();
    let bed = bed.reopen().await;
    assert_eq!(bed.state("db_two").await.window, Some((at(5000), at(5000))));
    let mut read = bed.archive.open_base("db_two", &copied.name).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = read.stream.next().await {
        bytes.extend(piece.unwrap());
    }
    assert_eq!((read.bytes, bytes), (sent.len() as u64, sent));
}
