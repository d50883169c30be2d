//! What does not fit is refused before anything is made, and what only stands by gives way.

use std::sync::Arc;

use pandastack_host::HostSettings;
use pandastack_model::{Bytes, FaultKind, SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, FakeGround, wait_for, with_fake_bed};
use pandastack_vmm_fake::Step;
use pandastack_wire_fleet::HostPort;

use crate::{SOON, fork_of};

async fn check_refused(settings: HostSettings, expected: (FaultKind, &str)) {
    with_fake_bed(settings, async |bed| {
        let id = SandboxId::random();
        let fault = bed.ensure(id).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), expected, "{fault}");
        assert_eq!(bed.host.observe(id).await, None);
        assert_eq!(bed.driver.faults().calls(Step::Restore), 0, "a machine was made for a refused create");
        assert_eq!(bed.audited().await, (1, 0));
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn memory_kept_in_reserve_is_not_given_out() {
    let settings = HostSettings { memory_reserve: Bytes::gib(1 << 20), ..FakeBed::settings() };
    check_refused(settings, (FaultKind::Busy, "host.full")).await;
}

#[tokio::test]
async fn more_memory_than_allowed_is_not_promised() {
    check_refused(HostSettings { overcommit_percent: 0, ..FakeBed::settings() }, (FaultKind::Busy, "host.full")).await;
}

#[tokio::test]
async fn disk_kept_in_reserve_is_not_given_out() {
    let settings = HostSettings { disk_reserve: Bytes::gib(1 << 20), ..FakeBed::settings() };
    check_refused(settings, (FaultKind::Storage, "host.storage")).await;
}

/// A host that promises no more memory than it has, with machines of which three fit.
async fn three_fit(standby: usize) -> FakeBed {
    let ground = FakeGround::make().await.unwrap();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    let path = ground.mini().join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let (small, large) = (format!("\"memory\": {}", 1 << 20), format!("\"memory\": {}", total * 1024 / 10 * 3));
    assert!(text.contains(&small), "{text}");
    std::fs::write(&path, text.replace(&small, &large)).unwrap();
    let settings = HostSettings { overcommit_percent: 100, standby, ..FakeBed::settings() };
    FakeBed::start_over(Arc::new(ground), settings).await.unwrap()
}

#[tokio::test]
async fn the_fourth_of_three_is_refused_until_one_goes_or_sleeps() {
    let bed = three_fit(0).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(bed.create().await.0);
    }
    let id = SandboxId::random();
    let fault = bed.ensure(id).await.unwrap_err();
    assert_eq!((fault.kind, fault.code), (FaultKind::Busy, "host.full"));
    assert!(fault.retry_after.is_some());
    assert_eq!((bed.audited().await, bed.state(id).await), ((1, 3), None));
    // One that sleeps has given its memory back; it cannot wake while another has it.
    bed.host.sleep(made[0]).await.unwrap();
    bed.ensure(id).await.unwrap();
    let fault = bed.run(made[0], "true").await.unwrap_err();
    assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "sandbox.wake_failed"));
    assert_eq!(bed.state(made[0]).await, Some(SandboxState::Asleep));
    bed.host.remove(id).await.unwrap();
    assert_eq!(bed.run(made[0], "echo up").await.unwrap().0, "up\n");
    // A refused create took nothing from the count.
    for _ in 0..3 {
        bed.ensure(SandboxId::random()).await.unwrap_err();
    }
    bed.host.remove(made[1]).await.unwrap();
    bed.create().await;
    bed.host.close().await;
}

#[tokio::test]
async fn children_that_do_not_fit_are_refused_one_by_one() {
    let bed = three_fit(0).await;
    let (parent, _) = bed.create().await;
    let outcomes = bed.host.fork(fork_of(parent, 4).0).await.unwrap().children;
    let refused: Vec<_> = outcomes.iter().filter_map(|child| child.as_ref().err()).collect();
    assert_eq!(refused.len(), 2, "{outcomes:?}");
    assert!(refused.iter().all(|fault| fault.code == "host.full"));
    assert_eq!(bed.audited().await, (2, 3));
    bed.host.close().await;
}

#[tokio::test]
async fn standby_machines_give_way() {
    let bed = three_fit(2).await;
    let standing_by = async |count: usize| {
        let stands = async || (bed.host.status().await.standby == count).then_some(());
        wait_for("the shelf", SOON, stands).await;
    };
    standing_by(2).await;
    // A fork needs machines of its own layer: the third place, then those of the machines that stand by.
    let parent = SandboxId::random();
    assert_eq!(bed.ensure(parent).await.unwrap().boot_mode, "standby");
    let outcomes = bed.host.fork(fork_of(parent, 2).0).await.unwrap().children;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!((bed.host.status().await.standby, bed.driver.live().len()), (0, 3));
    assert_eq!(bed.ensure(SandboxId::random()).await.unwrap_err().code, "host.full");
    bed.host.close().await;
}

#[tokio::test]
async fn adopted_machines_count() {
    let bed = three_fit(0).await;
    for _ in 0..3 {
        bed.create().await;
    }
    bed.host.close_as(pandastack_host::Leave::Running).await;
    let settings = HostSettings { overcommit_percent: 100, ..FakeBed::settings() };
    let bed = FakeBed::start_over(bed.ground.clone(), settings).await.unwrap();
    assert_eq!(bed.ensure(SandboxId::random()).await.unwrap_err().code, "host.full");
    assert_eq!(bed.driver.live().len(), 3);
    bed.host.close().await;
}
