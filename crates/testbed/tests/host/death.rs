//! Machines that die: the sandbox fails, waiting callers get an error, and a removal cleans up.

use pandastack_model::{FaultKind, SandboxState};
use pandastack_testbed::{FakeBed, finish, wait_for, with_fake_bed};
use pandastack_wire_fleet::{ExecEvent, HostEvent, HostPort, RemovedBy};

use crate::SOON;

#[tokio::test]
async fn a_dead_machine_fails_its_sandbox_and_its_execs() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let mut events = bed.host.events();
        let (id, machine) = bed.create().await;
        let running = bed.exec(id, "sleep 1000").await.unwrap();
        bed.driver.kill(machine);
        let (_, last) = tokio::time::timeout(SOON, finish(running)).await.unwrap();
        let ExecEvent::Failed(fault) = last else { panic!("{last:?}") };
        assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "guest.lost"));
        let failed = wait_for("the sandbox failed", SOON, async || {
            let view = bed.host.observe(id).await?;
            matches!(view.state, SandboxState::Failed { .. }).then_some(view.state)
        });
        assert_eq!(failed.await, SandboxState::Failed { reason: "killed by signal 9".to_owned() });
        let reason = "killed by signal 9".to_owned();
        assert_eq!(events.recv().await.unwrap(), HostEvent::Failed { id, reason });
        for fault in [bed.exec(id, "true").await.unwrap_err(), bed.ensure(id).await.unwrap_err()] {
            assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "sandbox.failed"));
        }
        wait_for("its resources are released", SOON, async || bed.layers.disks().is_empty().then_some(())).await;
        bed.host.remove(id).await.unwrap();
        assert_eq!(events.recv().await.unwrap(), HostEvent::Removed { id, why: RemovedBy::Request, cause: None });
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_file_being_read_breaks_off_when_the_machine_dies() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, machine) = bed.create().await;
        bed.driver.kill(machine);
        let asked = tokio::time::timeout(SOON, bed.host.stat(id, "/any")).await.unwrap();
        assert!(matches!(asked.unwrap_err().code, "guest.lost" | "sandbox.failed"));
    })
    .await;
}

#[tokio::test]
async fn one_death_leaves_the_others_alone() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (_, machine) = bed.create().await;
        let (other, _) = bed.create().await;
        bed.driver.kill(machine);
        assert_eq!(bed.run(other, "echo alive").await.unwrap(), ("alive\n".to_owned(), ExecEvent::Exit { code: 0 }));
    })
    .await;
}

#[tokio::test]
async fn a_host_with_running_and_failed_sandboxes_closes_cleanly() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, machine) = bed.create().await;
        let (other, _) = bed.create().await;
        let sleeping = bed.exec(other, "sleep 1000").await.unwrap();
        bed.driver.kill(machine);
        wait_for("the sandbox failed", SOON, async || {
            (bed.host.observe(id).await?.state.as_str() == "failed").then_some(())
        })
        .await;
        bed.host.close().await;
        assert!(matches!(finish(sleeping).await.1, ExecEvent::Failed(_)));
    })
    .await;
}

/// The output of a program is not read while the host closes. The close does not wait for the
/// reader.
#[tokio::test]
async fn an_unread_exec_does_not_hold_the_close_up() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let unread = bed.exec(id, "yes").await.unwrap();
        let piled_up = async || (unread.events.len() == unread.events.max_capacity()).then_some(());
        wait_for("the output piles up", SOON, piled_up).await;
        tokio::time::timeout(SOON, bed.host.close()).await.expect("close waits for a reader");
        drop(unread);
    })
    .await;
}
