//! A request that does not fit is refused before anything is made. Standby machines are removed to
//! make space.

use std::sync::Arc;

use pandastack_host::{HostSettings, MemorySource};
use pandastack_model::{ByteSize, FaultKind, SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, FakeHostState, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::HostPort;

use crate::{SOON, fork_of};

async fn check_refused(settings: HostSettings, expected: (FaultKind, &str)) {
    with_fake_bed(settings, async |bed| {
        let id = SandboxId::random();
        let fault = bed.ensure(id).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), expected, "{fault}");
        assert_eq!(bed.host.observe(id).await, None);
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), 0, "a machine was made for a refused create");
        assert_eq!(bed.audited().await, (1, 0));
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn memory_kept_in_reserve_is_not_given_out() {
    let settings = HostSettings { memory_reserve: ByteSize::gib(1 << 20), ..FakeBed::settings() };
    check_refused(settings, (FaultKind::Busy, "host.full")).await;
}

#[tokio::test]
async fn more_memory_than_allowed_is_not_promised() {
    check_refused(HostSettings { overcommit_percent: 0, ..FakeBed::settings() }, (FaultKind::Busy, "host.full")).await;
}

#[tokio::test]
async fn disk_kept_in_reserve_is_not_given_out() {
    let settings = HostSettings { disk_reserve: ByteSize::gib(1 << 20), ..FakeBed::settings() };
    check_refused(settings, (FaultKind::Storage, "host.storage")).await;
}

/// A host that does not overcommit memory, with space for three machines.
async fn three_fit(standby: usize) -> FakeBed {
    let ground = FakeHostState::make().await.unwrap();
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
    // A sleeping sandbox has released its memory. It cannot wake while another uses it.
    bed.host.sleep(made[0]).await.unwrap();
    bed.ensure(id).await.unwrap();
    let fault = bed.run(made[0], "true").await.unwrap_err();
    assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "sandbox.wake_failed"));
    assert_eq!(bed.state(made[0]).await, Some(SandboxState::Asleep));
    bed.host.remove(id).await.unwrap();
    assert_eq!(bed.run(made[0], "echo up").await.unwrap().0, "up\n");
    // A refused create does not change the count.
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
    // A fork needs machines of its own layer: the third place, then those of the standby machines.
    let parent = SandboxId::random();
    assert_eq!(bed.ensure(parent).await.unwrap().boot_mode, "standby");
    let outcomes = bed.host.fork(fork_of(parent, 2).0).await.unwrap().children;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!((bed.host.status().await.standby, bed.driver.live().len()), (0, 3));
    assert_eq!(bed.ensure(SandboxId::random()).await.unwrap_err().code, "host.full");
    bed.host.close().await;
}

/// Removing a machine frees no disk space.
#[tokio::test]
async fn standby_machines_do_not_give_way_when_the_disk_is_full() {
    let ground = Arc::new(FakeHostState::with_small_volume(32 << 20).await.unwrap());
    let settings = HostSettings { disk_reserve: ByteSize::mib(4), standby: 2, ..FakeBed::settings() };
    let bed = FakeBed::start_over(ground.clone(), settings).await.unwrap();
    let filled = async || (bed.host.status().await.standby == 2).then_some(());
    wait_for("the shelf", SOON, filled).await;
    let id = SandboxId::random();
    bed.ensure(id).await.unwrap();
    bed.host.sleep(id).await.unwrap();
    wait_for("the shelf", SOON, filled).await;
    let filler = ground.fill().unwrap();
    let standing_by = bed.driver.live();
    // It has its own layer, so no standby machine fits.
    bed.host.wake(id).await.unwrap_err();
    assert_eq!((bed.host.status().await.standby, standing_by.len()), (2, 2));
    let live = bed.driver.live();
    assert!(standing_by.iter().all(|machine| live.contains(machine)), "one gave way for nothing");
    std::fs::remove_file(filler).unwrap();
    bed.host.wake(id).await.unwrap();
    bed.host.close().await;
}

/// A memory source where each live machine uses the size of a process, with space for one and a
/// little more.
fn room_for_one(ground: &FakeHostState) -> MemorySource {
    let driver = ground.driver.clone();
    let free = move || ByteSize::mib(60).get().saturating_sub(driver.live().len() as u64 * ByteSize::mib(48).get());
    MemorySource::new(move || (ByteSize::gib(8), ByteSize::new(free())))
}

#[tokio::test]
async fn processes_that_wait_give_way_whatever_their_shape() {
    let ground = Arc::new(FakeHostState::make().await.unwrap());
    let (memory, memory_reserve) = (Some(room_for_one(&ground)), ByteSize::new(0));
    let settings = HostSettings { blanks: 1, memory, memory_reserve, ..FakeBed::settings() };
    let bed = FakeBed::start_over(ground.clone(), settings).await.unwrap();
    let waits = async || (bed.host.status().await.blanks == 1).then_some(());
    wait_for("a process that waits", SOON, waits).await;
    let id = SandboxId::random();
    bed.ensure(id).await.unwrap();
    bed.host.sleep(id).await.unwrap();
    // A sleeping sandbox of another size.
    let sealed = bed.layers.layers().into_iter().map(|layer| bed.folder_of(layer)).find(|folder| *folder != bed.mini());
    let path = sealed.unwrap().join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let [one, two] = [1, 2].map(|mib| format!("\"memory\": {}", mib << 20));
    assert!(text.contains(&one), "{text}");
    std::fs::write(&path, text.replace(&one, &two)).unwrap();
    wait_for("a process that waits", SOON, waits).await;
    bed.host.wake(id).await.unwrap();
    bed.host.close().await;
}

/// Free memory does not show machines that were admitted a moment ago.
#[tokio::test]
async fn the_reserve_holds_when_many_are_asked_for_at_once() {
    let reserve = FakeBed::settings().memory_reserve;
    let memory = MemorySource::new(move || (ByteSize::gib(8), ByteSize::new(reserve.get() + ByteSize::mib(72).get())));
    with_fake_bed(HostSettings { memory: Some(memory), ..FakeBed::settings() }, async |bed| {
        bed.driver.faults().plan(FaultedCalls::Every(DriverCall::Restore), FaultEffect::Hang);
        let others = async {
            let held = async || (bed.driver.faults().calls(DriverCall::Restore) == 1).then_some(());
            wait_for("the first is being started", SOON, held).await;
            for _ in 0..2 {
                let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
                assert_eq!((fault.kind, fault.code), (FaultKind::Busy, "host.full"));
            }
            bed.driver.faults().clear();
        };
        let (first, ()) = tokio::join!(bed.ensure(SandboxId::random()), others);
        first.unwrap();
        // Its process runs and uses its memory. A machine that cannot be started uses none.
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Restore, 1), FaultEffect::Fail);
        assert_eq!(bed.ensure(SandboxId::random()).await.unwrap_err().code, "machine.start");
        bed.ensure(SandboxId::random()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn adopted_machines_count() {
    let bed = three_fit(0).await;
    for _ in 0..3 {
        bed.create().await;
    }
    bed.host.close_as(pandastack_host::ShutdownMode::Running).await;
    let settings = HostSettings { overcommit_percent: 100, ..FakeBed::settings() };
    let bed = FakeBed::start_over(bed.ground.clone(), settings).await.unwrap();
    assert_eq!(bed.ensure(SandboxId::random()).await.unwrap_err().code, "host.full");
    assert_eq!(bed.driver.live().len(), 3);
    bed.host.close().await;
}
