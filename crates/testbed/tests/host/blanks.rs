//! Blanks: used by forks, wakes and creates, replaced, skipped when dead, and released at the end.

use std::sync::Arc;

use pandastack_host::HostSettings;
use pandastack_model::{MachineId, SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, FakeHostState, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::HostPort;

use crate::{SOON, fork_of};

const BLANKS: usize = 2;

fn with_blanks() -> HostSettings {
    HostSettings { blanks: BLANKS, ..FakeBed::settings() }
}

/// Waits until all blanks exist beside so many used machines, and returns all machines.
async fn filled(bed: &FakeBed, used: usize) -> Vec<MachineId> {
    let all = async || {
        // A process exists a moment before it is counted as a blank.
        let shelved = bed.host.status().await.blanks;
        Some(bed.driver.live()).filter(|live| live.len() == used + BLANKS && shelved == BLANKS)
    };
    wait_for("the processes that wait", SOON, all).await
}

#[tokio::test]
async fn creates_forks_and_wakes_take_processes_that_wait_and_others_take_their_place() {
    with_fake_bed(with_blanks(), async |bed| {
        let waiting = filled(bed, 0).await;
        let view = bed.ensure(SandboxId::random()).await.unwrap();
        assert_eq!(view.boot_mode, "cold", "it was nobody's standby machine");
        let live = filled(bed, 1).await;
        assert_eq!(live.iter().filter(|machine| waiting.contains(machine)).count(), 2, "one is used, one waits still");
        bed.put(view.id, "/note", "kept").await.unwrap();
        let (ask, children) = fork_of(view.id, 3);
        let forked = bed.host.fork(ask).await.unwrap();
        assert!(forked.children.iter().all(Result::is_ok), "more children than processes that wait");
        filled(bed, 4).await;
        bed.host.sleep(children[0]).await.unwrap();
        filled(bed, 3).await;
        assert_eq!(bed.text(children[0], "/note").await.unwrap(), "kept");
        filled(bed, 4).await;
        for id in children.into_iter().chain([view.id]) {
            bed.host.remove(id).await.unwrap();
        }
        filled(bed, 0).await;
        assert_eq!(bed.audited().await.0, 1, "only the template's layer is left");
    })
    .await;
}

#[tokio::test]
async fn a_process_that_died_or_fails_while_it_waits_costs_nobody_anything() {
    with_fake_bed(with_blanks(), async |bed| {
        let dead = filled(bed, 0).await;
        for machine in &dead {
            bed.driver.kill(*machine);
        }
        let first = bed.ensure(SandboxId::random()).await.unwrap();
        filled(bed, 1).await;
        let disks = bed.layers.disks();
        assert!(dead.iter().all(|machine| !disks.contains(&machine.to_string())), "a dead one kept its disk");
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Restore, 1), FaultEffect::Fail);
        let second = bed.ensure(SandboxId::random()).await.unwrap();
        assert_eq!(bed.driver.faults().faults_applied(), 1);
        filled(bed, 2).await;
        for view in [first, second] {
            assert_eq!(bed.state(view.id).await, Some(SandboxState::Running));
            bed.host.remove(view.id).await.unwrap();
        }
        filled(bed, 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_create_leaves_nothing_of_a_process_that_waited() {
    let settings = HostSettings { overcommit_percent: 0, ..with_blanks() };
    with_fake_bed(settings, async |bed| {
        filled(bed, 0).await;
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!(fault.code, "host.full");
        filled(bed, 0).await;
        assert_eq!(bed.layers.disks().len(), BLANKS);
    })
    .await;
}

#[test]
fn processes_that_waited_for_a_host_that_was_cut_off_are_ended() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ground = runtime().block_on(async { Arc::new(FakeHostState::make().await.unwrap()) });
    let first = runtime();
    let before = first.block_on(async {
        let bed = FakeBed::start_over(ground.clone(), with_blanks()).await.unwrap();
        let waiting = filled(&bed, 0).await;
        std::mem::forget(bed);
        waiting
    });
    first.shutdown_timeout(SOON);
    runtime().block_on(async {
        let bed = FakeBed::start_over(ground.clone(), with_blanks()).await.unwrap();
        let now = filled(&bed, 0).await;
        assert!(now.iter().all(|machine| !before.contains(machine)), "one of the old was kept");
        bed.host.close().await;
        assert!(bed.leftovers().await.unwrap().is_empty());
    });
}
