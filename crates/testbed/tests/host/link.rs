//! The link to a live guest: lost and restored, misused, or full.

use pandastack_host::HostSettings;
use pandastack_model::{SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, HandshakeBehaviour, finish, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{ExecEvent, HostPort};

use crate::{BRIEF, SOON, output_rests};

/// Waits until the guest answers over a link again.
async fn answers(bed: &FakeBed, id: SandboxId) {
    wait_for("the guest answers again", SOON, async || bed.run(id, "true").await.ok()).await;
}

async fn loses_only_its_link(command: &str, fault_code: &str) {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, machine) = bed.create().await;
        let (other, _) = bed.create().await;
        assert_eq!(bed.script.welcomes(), 2);
        let (_, last) = bed.run(id, command).await.unwrap();
        let ExecEvent::Failed(fault) = last else { panic!("{last:?}") };
        assert_eq!(fault.code, fault_code);
        answers(bed, id).await;
        assert_eq!(bed.script.welcomes(), 3, "the link was dialled once more, with the secret of the rebirth");
        assert!(bed.driver.live().contains(&machine));
        assert_eq!(bed.run(other, "echo fine").await.unwrap().0, "fine\n");
        bed.host.remove(id).await.unwrap();
        bed.host.remove(other).await.unwrap();
        bed.is_idle().await;
    })
    .await;
}

/// A paused guest cannot answer a new link. It is not failed for that: it is dialled after the
/// resume.
#[tokio::test]
async fn a_link_lost_while_paused_is_found_after_the_resume() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, machine) = bed.create().await;
        bed.put(id, "/note", "kept").await.unwrap();
        bed.host.pause(id).await.unwrap();
        let dials = bed.driver.faults().calls(DriverCall::Dial);
        bed.driver.hang_up(machine);
        wait_for("the guest hung up", SOON, async || (bed.driver.links() == 0).then_some(())).await;
        let (other, _) = bed.create().await;
        assert_eq!(bed.run(other, "echo on").await.unwrap().0, "on\n");
        assert_eq!(bed.driver.faults().calls(DriverCall::Dial), dials + 1, "a paused guest was dialled");
        assert_eq!(bed.state(id).await, Some(SandboxState::Paused));
        bed.host.resume(id).await.unwrap();
        let kept = async || (bed.text(id, "/note").await.ok()? == "kept").then_some(());
        wait_for("the guest answers", SOON, kept).await;
        assert_eq!(bed.driver.live().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_lost_link_is_dialled_again_with_the_new_secret() {
    loses_only_its_link("hang-up", "request.cancelled").await;
}

#[tokio::test]
async fn a_guest_that_overruns_its_window_loses_its_link_only() {
    loses_only_its_link("overrun", "guest.lost").await;
}

#[tokio::test]
async fn a_guest_that_sends_unknown_kinds_loses_its_link_only() {
    loses_only_its_link("nonsense", "guest.lost").await;
}

#[tokio::test]
async fn a_guest_that_does_not_take_the_link_back_is_given_up() {
    let settings = HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() };
    for manner in [HandshakeBehaviour::OtherSecret, HandshakeBehaviour::Garbage, HandshakeBehaviour::HangsUp] {
        with_fake_bed(settings.clone(), async |bed| {
            let (id, _) = bed.create().await;
            bed.script.set_behaviour(manner);
            bed.run(id, "hang-up").await.unwrap();
            wait_for("the sandbox failed", SOON, async || {
                (bed.host.observe(id).await?.state.as_str() == "failed").then_some(())
            })
            .await;
            assert_eq!(bed.driver.live(), [], "{manner:?}");
            bed.host.remove(id).await.unwrap();
            bed.is_idle().await;
        })
        .await;
    }
}

/// While a lost link is being dialled, the sandbox can be removed and the host closed.
#[tokio::test]
async fn a_silent_guest_does_not_hold_its_removal_up() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let (other, _) = bed.create().await;
        bed.script.set_behaviour(HandshakeBehaviour::Silent);
        let dials = bed.driver.faults().calls(DriverCall::Dial);
        bed.run(id, "hang-up").await.unwrap();
        bed.run(other, "hang-up").await.unwrap();
        wait_for("both are dialled", SOON, async || {
            (bed.driver.faults().calls(DriverCall::Dial) >= dials + 2).then_some(())
        })
        .await;
        tokio::time::timeout(SOON, bed.host.remove(id)).await.expect("the removal waits for a silent guest").unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_dial_that_fails_once_is_repeated() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Dial, 1), FaultEffect::Fail);
        let (id, _) = bed.create().await;
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Dial, 1), FaultEffect::Fail);
        bed.run(id, "hang-up").await.unwrap();
        answers(bed, id).await;
    })
    .await;
}

/// A program whose output is not read stops when its window is full. Everything else on the same
/// link continues.
#[tokio::test]
async fn a_slow_reader_stops_the_program_and_nothing_else() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let mut slow = bed.exec(id, "yes").await.unwrap();
        wait_for("the program writes", SOON, async || (bed.script.sent() > 0).then_some(())).await;
        let stopped_at = output_rests(bed).await;
        // The window on the link, and the events that the caller has not taken yet.
        assert!(stopped_at <= 2 << 20, "{stopped_at} bytes are held for a reader who does not read");
        for _ in 0..20 {
            tokio::time::timeout(SOON, bed.host.ping(id)).await.expect("a ping is answered").unwrap();
        }
        assert_eq!(bed.run(id, "echo aside").await.unwrap().0, "aside\n");
        for _ in 0..200 {
            assert!(matches!(slow.events.recv().await, Some(ExecEvent::Stdout(_))));
        }
        assert!(bed.script.sent() > stopped_at, "who reads gets more");
        drop(slow);
        answers(bed, id).await;
    })
    .await;
}

/// A guest that is paused without the host leaves its requests unanswered. They end with the
/// machine.
#[tokio::test]
async fn an_exec_in_a_stopped_machine_ends_with_its_removal() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let sleeping = bed.exec(id, "sleep 1000").await.unwrap();
        let (removed, (_, last)) = tokio::join!(bed.host.remove(id), finish(sleeping));
        removed.unwrap();
        assert!(matches!(last, ExecEvent::Failed(_)), "{last:?}");
        bed.is_idle().await;
    })
    .await;
}
