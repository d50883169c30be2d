//! A driver task that panics: its sandbox is as the ledger says, without a machine, its resources
//! are released, and other sandboxes are unaffected.

use pandastack_model::{FaultKind, SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, alarms, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{HostEvent, HostPort};

use crate::SOON;

/// Checks that each panic was logged once.
fn told_of_panics(times: usize) {
    let heard = alarms();
    let panics = heard.iter().filter(|line| line.contains("the driver task of a sandbox panicked"));
    assert_eq!((panics.count(), heard.len()), (times, times), "{heard:?}");
}

async fn becomes(bed: &FakeBed, id: SandboxId, state: &str) -> SandboxState {
    wait_for(state, SOON, async || bed.state(id).await.filter(|now| now.as_str() == state)).await
}

#[tokio::test]
async fn a_running_sandbox_fails_and_leaves_nothing() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let mut events = bed.host.events();
        let (other, machine) = bed.create().await;
        let before = bed.host.status().await.memory_promised;
        let (id, _) = bed.create().await;
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Pause, 1), FaultEffect::Panic);
        bed.host.pause(id).await.unwrap_err();
        let SandboxState::Failed { reason } = becomes(bed, id, "failed").await else { panic!("it has failed") };
        assert!(reason.contains("internal error"), "{reason}");
        assert_eq!(events.recv().await.unwrap(), HostEvent::Failed { id, reason });
        assert_eq!((bed.driver.live(), bed.layers.disks().len()), (vec![machine], 1));
        assert_eq!(bed.host.status().await.memory_promised, before);
        assert_eq!(bed.audited().await, (1, 1));
        assert_eq!(bed.exec(id, "true").await.unwrap_err().code, "sandbox.failed");
        assert_eq!(bed.run(other, "echo here").await.unwrap().0, "here\n");
        bed.host.remove(id).await.unwrap();
        bed.host.remove(other).await.unwrap();
        bed.is_idle().await;
        told_of_panics(1);
    })
    .await;
}

#[tokio::test]
async fn a_create_is_refused_and_was_never_there() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        for step in [DriverCall::Restore, DriverCall::Resume, DriverCall::Dial] {
            let id = SandboxId::random();
            bed.driver.faults().plan(FaultedCalls::Nth(step, 1), FaultEffect::Panic);
            let fault = bed.ensure(id).await.unwrap_err();
            assert_eq!((fault.kind, bed.state(id).await), (FaultKind::Bug, None), "{step:?}");
            assert_eq!(bed.audited().await, (1, 0));
            bed.is_idle().await;
            bed.ensure(id).await.unwrap();
            bed.host.remove(id).await.unwrap();
        }
        told_of_panics(3);
    })
    .await;
}

#[tokio::test]
async fn a_sleeper_sleeps_on_and_wakes_the_next_time() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.put(id, "/note", "kept").await.unwrap();
        bed.host.sleep(id).await.unwrap();
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Restore, 1), FaultEffect::Panic);
        bed.host.wake(id).await.unwrap_err();
        becomes(bed, id, "hibernated").await;
        assert_eq!(bed.audited().await, (2, 0));
        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        bed.host.remove(id).await.unwrap();
        bed.is_idle().await;
        told_of_panics(1);
    })
    .await;
}

/// A sandbox's task is not restarted forever.
#[tokio::test]
async fn a_sandbox_that_every_driver_panics_over_is_left_to_a_person() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.sleep(id).await.unwrap();
        bed.driver.faults().plan(FaultedCalls::Every(DriverCall::Restore), FaultEffect::Panic);
        for _ in 0..2 {
            bed.host.wake(id).await.unwrap_err();
            becomes(bed, id, "hibernated").await;
        }
        bed.host.wake(id).await.unwrap_err();
        wait_for("it is given up", SOON, async || bed.state(id).await.is_none().then_some(())).await;
        let report = bed.host.audit().await.unwrap();
        let named = format!("sandbox {id} is recorded but has no driver task; inspect it by hand");
        assert_eq!((report.leaks, report.repaired), (vec![named], Vec::new()));
        told_of_panics(3);
    })
    .await;
}
