//! Sleep and wake, pause and resume, and the effect of idleness.

use futures_util::{FutureExt as _, future::join_all};
use pandastack_host::HostSettings;
use pandastack_model::{FaultKind, LayerId, SandboxId, SandboxSpec, SandboxState};
use pandastack_testbed::{FakeBed, HandshakeBehaviour, finish, spec, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{
    EnsureParams, ExecControl, HostEvent, HostPort, IdlePolicy, LayerHold, RemovedBy, SealParams,
};

use crate::{BRIEF, SOON};

async fn create_with(bed: &FakeBed, terms: IdlePolicy) -> SandboxId {
    let IdlePolicy { ttl_seconds, persistent } = terms;
    let (id, spec) = (SandboxId::random(), SandboxSpec { ttl_seconds, persistent, ..spec("mini") });
    bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.unwrap();
    id
}

const SHORT: IdlePolicy = IdlePolicy { ttl_seconds: 1, persistent: true };

async fn is(bed: &FakeBed, id: SandboxId, wanted: SandboxState) {
    wait_for("the state", SOON, async || (bed.state(id).await? == wanted).then_some(())).await;
}

#[tokio::test]
async fn ten_sleeps_in_a_row_lose_nothing_and_leave_one_layer() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        for round in 0..10 {
            bed.put(id, &format!("/{round}"), "here").await.unwrap();
            let view = bed.host.sleep(id).await.unwrap();
            assert_eq!((view.id, view.state), (id, SandboxState::Asleep));
            assert_eq!(bed.audited().await, (2, 0));
            for earlier in 0..=round {
                assert_eq!(bed.text(id, &format!("/{earlier}")).await.unwrap(), "here");
            }
            assert_eq!(bed.audited().await, (2, 1));
        }
        bed.host.remove(id).await.unwrap();
        assert_eq!(bed.audited().await, (1, 0));
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_uses_share_one_wake() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.sleep(id).await.unwrap();
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        let uses = join_all((0..12).map(|_| bed.run(id, "echo up"))).await;
        assert!(uses.iter().all(|used| used.as_ref().is_ok_and(|(out, _)| out == "up\n")), "{uses:?}");
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores + 1);
        assert_eq!(bed.driver.live().len(), 1);
    })
    .await;
}

/// Callers that waited for a failed attempt get its fault. Later callers try again. On one thread,
/// so that all callers wait before the attempt starts.
#[tokio::test]
async fn concurrent_uses_share_one_wake_that_fails() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.put(id, "/note", "kept").await.unwrap();
        bed.host.sleep(id).await.unwrap();
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        bed.driver.faults().plan(FaultedCalls::Every(DriverCall::Restore), FaultEffect::Fail);
        for round in 1..=2 {
            let ask = SealParams { layer: LayerId::random(), hold: LayerHold::Kept };
            let (uses, sealed) = tokio::join!(join_all((0..12).map(|_| bed.run(id, "true"))), bed.host.seal(id, ask));
            let faults = uses.into_iter().map(Result::unwrap_err).chain([sealed.unwrap_err()]);
            assert!(faults.map(|fault| fault.code).all(|code| code == "sandbox.wake_failed"));
            assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores + round);
        }
        bed.driver.faults().clear();
        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
    })
    .await;
}

/// A wake without a waiting caller is not started.
#[tokio::test]
async fn a_wake_whose_caller_left_or_whose_sandbox_is_given_up_starts_nothing() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.sleep(id).await.unwrap();
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        // On one thread the sandbox's task does not run before both requests are made.
        let left = bed.host.wake(id);
        assert!(left.now_or_never().is_none());
        bed.host.set_lifecycle(id, SHORT).await.unwrap();
        assert_eq!(bed.state(id).await, Some(SandboxState::Asleep));
        let (woken, removed) = tokio::join!(bed.host.wake(id), bed.host.remove(id));
        removed.unwrap();
        assert_eq!(woken.unwrap_err().code, "sandbox.not_found");
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores, "a machine was started for nobody");
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_paused_sandbox_serves_nothing_until_it_is_resumed() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let mut events = bed.host.events();
        for _ in 0..2 {
            assert_eq!(bed.host.pause(id).await.unwrap().state, SandboxState::Paused);
        }
        for fault in [bed.run(id, "true").await.unwrap_err(), bed.text(id, "/any").await.unwrap_err()] {
            assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "sandbox.invalid_state"));
        }
        for _ in 0..2 {
            assert_eq!(bed.host.resume(id).await.unwrap().state, SandboxState::Running);
        }
        assert_eq!(bed.run(id, "echo on").await.unwrap().0, "on\n");
        let changes = [events.try_recv().unwrap(), events.try_recv().unwrap()];
        let states = changes.map(|event| match event {
            HostEvent::Changed { view, .. } => view.state,
            other => panic!("{other:?}"),
        });
        assert_eq!(states, [SandboxState::Paused, SandboxState::Running]);
        assert!(events.try_recv().is_err(), "what changes nothing is not told");
        assert_eq!(bed.driver.faults().calls(DriverCall::Pause), 2, "the template's own and one more");
    })
    .await;
}

#[tokio::test]
async fn a_paused_sandbox_sleeps_and_wakes_running() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.put(id, "/note", "x").await.unwrap();
        bed.host.pause(id).await.unwrap();
        bed.host.sleep(id).await.unwrap();
        for fault in [bed.host.pause(id).await.unwrap_err(), bed.host.resume(id).await.unwrap_err()] {
            assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "sandbox.invalid_state"));
        }
        assert_eq!(bed.host.wake(id).await.unwrap().state, SandboxState::Running);
        assert_eq!(bed.text(id, "/note").await.unwrap(), "x");
    })
    .await;
}

/// Open streams of a sandbox that is put to sleep end with a final event.
#[tokio::test]
async fn an_exec_is_cut_off_by_a_sleep_that_was_asked_for() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let running = bed.exec(id, "sleep 1000").await.unwrap();
        bed.host.sleep(id).await.unwrap();
        let (_, last) = tokio::time::timeout(SOON, finish(running)).await.expect("the exec ends");
        assert!(matches!(last, pandastack_wire_fleet::ExecEvent::Failed(_)), "{last:?}");
    })
    .await;
}

#[tokio::test]
async fn an_idle_sandbox_that_persists_sleeps_and_every_use_wakes_it() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let id = create_with(bed, SHORT).await;
        bed.put(id, "/note", "x").await.unwrap();
        let mut events = bed.host.events();
        for _ in 0..2 {
            is(bed, id, SandboxState::Asleep).await;
            assert_eq!(bed.text(id, "/note").await.unwrap(), "x");
        }
        let asleep = events.recv().await.unwrap();
        assert!(matches!(&asleep, HostEvent::Changed { view, .. } if view.state == SandboxState::Asleep), "{asleep:?}");
        let awake = events.recv().await.unwrap();
        assert!(matches!(&awake, HostEvent::Changed { view, .. } if view.state == SandboxState::Running), "{awake:?}");
    })
    .await;
}

#[tokio::test]
async fn another_idle_sandbox_ends() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let mut events = bed.host.events();
        let id = create_with(bed, IdlePolicy { persistent: false, ..SHORT }).await;
        let ended = tokio::time::timeout(SOON, events.recv()).await.expect("it ends by itself").unwrap();
        assert_eq!(ended, HostEvent::Removed { id, why: RemovedBy::Idleness, cause: None });
        assert_eq!(bed.host.observe(id).await, None);
        bed.is_idle().await;
    })
    .await;
}

/// An open exec keeps its sandbox awake while it runs. Its end starts the idle timer.
#[tokio::test]
async fn an_open_exec_is_a_use() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (busy, idle) = (create_with(bed, SHORT).await, create_with(bed, SHORT).await);
        let open = bed.exec(busy, "cat").await.unwrap();
        // The other sandbox's sleep shows that the time has passed.
        is(bed, idle, SandboxState::Asleep).await;
        assert_eq!(bed.state(busy).await, Some(SandboxState::Running));
        open.control.send(ExecControl::CloseStdin).await.unwrap();
        finish(open).await;
        is(bed, busy, SandboxState::Asleep).await;
    })
    .await;
}

/// Attendance wakes a sandbox and keeps it awake, whether anything runs in it or not.
#[tokio::test]
async fn attendance_is_a_use() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (attended, idle) = (create_with(bed, SHORT).await, create_with(bed, SHORT).await);
        bed.host.sleep(attended).await.unwrap();
        let presence = bed.host.attend(attended).await.unwrap();
        assert_eq!(bed.state(attended).await, Some(SandboxState::Running));
        is(bed, idle, SandboxState::Asleep).await;
        assert_eq!(bed.state(attended).await, Some(SandboxState::Running));
        // An explicit sleep overrides it. The next attendance starts again.
        bed.host.sleep(attended).await.unwrap();
        let again = bed.host.attend(attended).await.unwrap();
        drop(presence);
        assert_eq!(bed.state(attended).await, Some(SandboxState::Running));
        drop(again);
        is(bed, attended, SandboxState::Asleep).await;
        bed.host.pause(idle).await.unwrap_err();
        let unknown = bed.host.attend(SandboxId::random()).await.err().map(|fault| fault.kind);
        assert_eq!(unknown, Some(FaultKind::Missing));
    })
    .await;
}

#[tokio::test]
async fn uses_start_the_idle_clock_anew() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (used, idle) = (create_with(bed, SHORT).await, create_with(bed, SHORT).await);
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        let asleep = async || {
            bed.run(used, "true").await.unwrap();
            (bed.state(idle).await? == SandboxState::Asleep).then_some(())
        };
        wait_for("the idle one sleeps", SOON, asleep).await;
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores, "the one in use fell asleep");
        assert_eq!(bed.state(used).await, Some(SandboxState::Running));
    })
    .await;
}

#[tokio::test]
async fn terms_change_at_run_time() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.set_lifecycle(id, SHORT).await.unwrap();
        is(bed, id, SandboxState::Asleep).await;
        // Also for a sleeping sandbox.
        bed.host.set_lifecycle(id, IdlePolicy { ttl_seconds: 1, persistent: false }).await.unwrap();
        assert_eq!(bed.state(id).await, Some(SandboxState::Asleep));
        bed.host.wake(id).await.unwrap();
        wait_for("its end", SOON, async || bed.state(id).await.is_none().then_some(())).await;
        bed.is_idle().await;
        // Long enough for the change to come in time on a busy machine. The other one has as long.
        let limit = IdlePolicy { ttl_seconds: 5, persistent: false };
        let id = create_with(bed, limit).await;
        bed.host.set_lifecycle(id, IdlePolicy { ttl_seconds: 0, ..limit }).await.unwrap();
        let other = create_with(bed, IdlePolicy { persistent: true, ..limit }).await;
        is(bed, other, SandboxState::Asleep).await;
        assert_eq!(bed.state(id).await, Some(SandboxState::Running), "0 is no limit");
    })
    .await;
}

#[tokio::test]
async fn a_paused_one_is_idle_too() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.pause(id).await.unwrap();
        bed.host.set_lifecycle(id, SHORT).await.unwrap();
        is(bed, id, SandboxState::Asleep).await;
    })
    .await;
}

/// A removal from every state.
#[tokio::test]
async fn removal_works_from_every_state() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (paused, _) = bed.create().await;
        bed.host.pause(paused).await.unwrap();
        let (asleep, _) = bed.create().await;
        bed.host.sleep(asleep).await.unwrap();
        let (failed, machine) = bed.create().await;
        let mut events = bed.host.events();
        bed.driver.kill(machine);
        is(bed, failed, SandboxState::Failed { reason: "killed by signal 9".to_owned() }).await;
        // A state is visible a moment before its event.
        while !matches!(events.recv().await.unwrap(), HostEvent::Failed { .. }) {}
        for id in [paused, asleep, failed] {
            bed.host.remove(id).await.unwrap();
            assert_eq!(events.try_recv().unwrap(), HostEvent::Removed { id, why: RemovedBy::Request, cause: None });
        }
        assert_eq!(bed.audited().await, (1, 0));
        bed.is_idle().await;
    })
    .await;
}

/// A removal during a change waits for no timeout, and wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_during_a_change_wins() {
    for step in [
        DriverCall::Pause,
        DriverCall::Save,
        DriverCall::Memory,
        DriverCall::Restore,
        DriverCall::Resume,
        DriverCall::Dial,
    ] {
        with_fake_bed(FakeBed::settings(), async |bed| {
            let (id, _) = bed.create().await;
            let falls_asleep = matches!(step, DriverCall::Pause | DriverCall::Save | DriverCall::Memory);
            if !falls_asleep {
                bed.host.sleep(id).await.unwrap();
            }
            let before = bed.driver.faults().calls(step);
            bed.driver.faults().plan(FaultedCalls::Nth(step, 1), FaultEffect::Hang);
            let changing = async { if falls_asleep { bed.host.sleep(id).await } else { bed.host.wake(id).await } };
            let removal = async {
                let begun = async || (bed.driver.faults().calls(step) > before).then_some(());
                wait_for("the step began", SOON, begun).await;
                let release = async {
                    tokio::task::yield_now().await;
                    bed.driver.faults().clear();
                };
                tokio::join!(bed.host.remove(id), release).0.unwrap();
                assert_eq!(bed.host.observe(id).await, None);
                assert_eq!(bed.audited().await, (1, 0));
                bed.is_idle().await;
            };
            let both = async { tokio::join!(changing, removal) };
            let ended = tokio::time::timeout(SOON, both).await;
            assert!(ended.is_ok(), "{step:?}: the removal waits");
        })
        .await;
    }
}

/// A wake whose guest never answers is cancelled at once by a removal.
#[tokio::test]
async fn a_silent_wake_can_be_removed_at_once() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.sleep(id).await.unwrap();
        bed.script.set_behaviour(HandshakeBehaviour::Silent);
        let dials = bed.driver.faults().calls(DriverCall::Dial);
        let removal = async {
            let dialled = async || (bed.driver.faults().calls(DriverCall::Dial) > dials).then_some(());
            wait_for("the guest is dialled", SOON, dialled).await;
            bed.host.remove(id).await.unwrap();
        };
        let both = async { tokio::join!(bed.host.wake(id), removal) };
        let (woken, ()) = tokio::time::timeout(SOON, both).await.expect("the removal waits for the deadline");
        assert_eq!(woken.unwrap_err().code, "sandbox.not_found");
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_wake_that_fails_leaves_it_asleep_and_a_later_one_works() {
    let settings = HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        let (id, _) = bed.create().await;
        bed.put(id, "/note", "x").await.unwrap();
        bed.host.sleep(id).await.unwrap();
        for step in [DriverCall::Restore, DriverCall::Resume, DriverCall::Dial] {
            bed.driver.faults().plan(FaultedCalls::Every(step), FaultEffect::Fail);
            for fault in [bed.host.wake(id).await.unwrap_err(), bed.run(id, "true").await.unwrap_err()] {
                assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "sandbox.wake_failed"), "{step:?}");
                assert!(fault.text.starts_with("auto-wake: "), "{fault}");
            }
            assert_eq!(bed.state(id).await, Some(SandboxState::Asleep));
            assert_eq!(bed.audited().await, (2, 0));
            bed.driver.faults().clear();
        }
        assert_eq!(bed.text(id, "/note").await.unwrap(), "x");
    })
    .await;
}

/// A woken machine that dies fails its sandbox: it must not look asleep.
#[tokio::test]
async fn a_machine_that_dies_after_its_wake_fails_its_sandbox() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.sleep(id).await.unwrap();
        let mut events = bed.host.events();
        bed.host.wake(id).await.unwrap();
        bed.driver.kill(bed.driver.live()[0]);
        is(bed, id, SandboxState::Failed { reason: "killed by signal 9".to_owned() }).await;
        assert!(matches!(events.recv().await.unwrap(), HostEvent::Changed { .. }));
        assert!(matches!(events.recv().await.unwrap(), HostEvent::Failed { .. }));
        wait_for("its layer is gone", SOON, async || (bed.layers.layers().len() == 1).then_some(())).await;
        bed.host.remove(id).await.unwrap();
        bed.is_idle().await;
    })
    .await;
}
