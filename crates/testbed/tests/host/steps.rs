//! Fails every step: one driver call after the other fails, takes effect but reports a failure, or
//! kills its machine, until an operation completes without a fault. After each, nothing leaks, the
//! sandbox is in a valid state, and the operation can be repeated.

use pandastack_host::HostSettings;
use pandastack_model::{Fault, LayerId, SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, FakeHostState, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{ForkParams, HostPort, LayerHold, SealParams};

use crate::{BRIEF, SOON, fork_of};

/// More calls than any operation makes.
const CALLS_MAX: u64 = 40;

fn hasty() -> HostSettings {
    HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() }
}

/// A sandbox with data.
async fn witness(bed: &FakeBed) -> SandboxId {
    let id = bed.create().await.0;
    bed.put(id, "/note", "kept").await.unwrap();
    id
}

/// Whether a sandbox still runs with its data. If the fault killed its machine, it has failed
/// instead.
async fn lives(bed: &FakeBed, id: SandboxId, trouble: FaultEffect, disturbed: bool) -> bool {
    let state = wait_for("a state that stays", SOON, async || {
        let state = bed.state(id).await?;
        // The sandbox's task notices a death a moment after the call that caused it.
        let dying =
            disturbed && trouble == FaultEffect::Die && state == SandboxState::Running && bed.driver.live().is_empty();
        (!state.is_changing() && !dying).then_some(state)
    })
    .await;
    match state {
        SandboxState::Failed { .. } => {
            assert!(disturbed && trouble == FaultEffect::Die, "it failed without a death");
            false
        }
        _ => {
            let text = tokio::time::timeout(SOON, bed.text(id, "/note")).await;
            assert_eq!(text.expect("it stands still and is called running").unwrap(), "kept");
            true
        }
    }
}

/// Runs the body with the nth call disturbed, for n from 1 until no call is disturbed.
async fn each_call(trouble: FaultEffect, calls_min: u64, body: impl AsyncFn(&FakeBed, &dyn Fn() -> bool, &dyn Fn())) {
    with_fake_bed(hasty(), async |bed| {
        for nth in 1..CALLS_MAX {
            let struck = bed.driver.faults().faults_applied();
            let disturbed = || bed.driver.faults().faults_applied() > struck;
            let arm = || bed.driver.faults().plan(FaultedCalls::Call(nth), trouble);
            body(bed, &disturbed, &arm).await;
            assert_eq!(bed.audited().await, (1, 0), "call {nth} left something");
            bed.is_idle().await;
            if !disturbed() {
                assert!(nth > calls_min, "the operation makes only {} calls", nth - 1);
                return;
            }
            bed.driver.faults().clear();
        }
        panic!("the operation makes no end of calls");
    })
    .await;
}

async fn check_fork(trouble: FaultEffect) {
    each_call(trouble, 9, async |bed, disturbed, arm| {
        let parent = witness(bed).await;
        let (ask, children) = fork_of(parent, 2);
        arm();
        let outcome = bed.host.fork(ask.clone()).await;
        bed.driver.faults().clear();
        let parent_lives = lives(bed, parent, trouble, disturbed()).await;
        let refused =
            outcome.as_ref().map_or(2, |forked| forked.children.iter().filter(|child| child.is_err()).count());
        assert!(disturbed() || refused == 0, "{outcome:?}");
        assert!(outcome.is_err() || refused <= 1, "one call spoilt two children: {outcome:?}");
        if parent_lives {
            // Again with the same ids: existing children stay, missing ones are made.
            let again = bed.host.fork(ask).await.unwrap();
            assert!(again.children.iter().all(Result::is_ok), "{again:?}");
            assert_eq!(bed.driver.live().len(), 3);
        }
        for child in &children {
            if bed.state(*child).await.is_some() && lives(bed, *child, trouble, disturbed()).await {
                bed.host.remove(*child).await.unwrap();
            }
            bed.host.remove(*child).await.unwrap();
        }
        bed.host.remove(parent).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn any_call_of_a_fork_may_fail() {
    check_fork(FaultEffect::Fail).await;
}

#[tokio::test]
async fn any_call_of_a_fork_may_be_late() {
    check_fork(FaultEffect::Late).await;
}

#[tokio::test]
async fn any_call_of_a_fork_may_kill() {
    check_fork(FaultEffect::Die).await;
}

async fn check_seal(trouble: FaultEffect) {
    each_call(trouble, 4, async |bed, disturbed, arm| {
        let id = witness(bed).await;
        let ask = SealParams { layer: LayerId::random(), hold: LayerHold::Kept };
        arm();
        let outcome = bed.host.seal(id, ask).await;
        bed.driver.faults().clear();
        assert!(disturbed() || outcome.is_ok(), "{outcome:?}");
        if lives(bed, id, trouble, disturbed()).await {
            bed.host.seal(id, ask).await.unwrap();
            assert_eq!(bed.audited().await, (2, 1));
        }
        bed.host.release(ask.layer).await.unwrap();
        bed.host.remove(id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn any_call_of_a_seal_may_fail() {
    check_seal(FaultEffect::Fail).await;
}

#[tokio::test]
async fn any_call_of_a_seal_may_be_late() {
    check_seal(FaultEffect::Late).await;
}

#[tokio::test]
async fn any_call_of_a_seal_may_kill() {
    check_seal(FaultEffect::Die).await;
}

async fn check_sleep(trouble: FaultEffect) {
    each_call(trouble, 3, async |bed, disturbed, arm| {
        let id = witness(bed).await;
        arm();
        let outcome = bed.host.sleep(id).await;
        bed.driver.faults().clear();
        assert_eq!(outcome.is_err(), disturbed(), "{outcome:?}");
        let now = bed.state(id).await.unwrap();
        assert!(outcome.is_ok() == (now == SandboxState::Asleep), "{now}");
        if outcome.is_err() {
            assert_eq!(bed.layers.layers().len(), 1, "a sleep that failed left a layer");
        }
        if lives(bed, id, trouble, disturbed()).await {
            bed.host.sleep(id).await.unwrap();
            assert_eq!(bed.audited().await, (2, 0));
            assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        }
        bed.host.remove(id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn any_call_of_a_sleep_may_fail() {
    check_sleep(FaultEffect::Fail).await;
}

#[tokio::test]
async fn any_call_of_a_sleep_may_be_late() {
    check_sleep(FaultEffect::Late).await;
}

#[tokio::test]
async fn any_call_of_a_sleep_may_kill() {
    check_sleep(FaultEffect::Die).await;
}

async fn check_wake(trouble: FaultEffect) {
    each_call(trouble, 3, async |bed, disturbed, arm| {
        let id = witness(bed).await;
        bed.host.sleep(id).await.unwrap();
        arm();
        let outcome = bed.host.wake(id).await;
        bed.driver.faults().clear();
        let now = bed.state(id).await.unwrap();
        match &outcome {
            Ok(_) => assert_eq!(now, SandboxState::Running),
            Err(_) => assert_eq!((now, bed.driver.live().len(), disturbed()), (SandboxState::Asleep, 0, true)),
        }
        assert_eq!(bed.audited().await.0, 2, "the layer it came from or sleeps in");
        assert_eq!(bed.host.wake(id).await.unwrap().state, SandboxState::Running);
        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        bed.host.remove(id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn any_call_of_a_wake_may_fail() {
    check_wake(FaultEffect::Fail).await;
}

#[tokio::test]
async fn any_call_of_a_wake_may_be_late() {
    check_wake(FaultEffect::Late).await;
}

#[tokio::test]
async fn any_call_of_a_wake_may_kill() {
    check_wake(FaultEffect::Die).await;
}

async fn check_create(trouble: FaultEffect) {
    each_call(trouble, 2, async |bed, disturbed, arm| {
        let id = SandboxId::random();
        arm();
        let outcome = bed.ensure(id).await;
        bed.driver.faults().clear();
        assert!(disturbed() || outcome.is_ok(), "{outcome:?}");
        if outcome.is_err() {
            assert_eq!(bed.state(id).await, None);
            bed.is_idle().await;
        }
        bed.ensure(id).await.unwrap();
        bed.host.remove(id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn any_call_of_a_create_may_be_late() {
    check_create(FaultEffect::Late).await;
}

#[tokio::test]
async fn any_call_of_a_create_may_kill() {
    check_create(FaultEffect::Die).await;
}

async fn check_pause(trouble: FaultEffect) {
    each_call(trouble, 2, async |bed, disturbed, arm| {
        let id = witness(bed).await;
        arm();
        let outcome: Result<(), Fault> = async {
            bed.host.pause(id).await?;
            bed.host.resume(id).await.map(drop)
        }
        .await;
        bed.driver.faults().clear();
        assert_eq!(outcome.is_err(), disturbed());
        let runs = usize::from(bed.state(id).await.unwrap() == SandboxState::Running);
        assert_eq!(bed.driver.running().len(), runs, "its guest does not do what is said of it");
        assert_eq!(bed.host.resume(id).await.unwrap().state, SandboxState::Running);
        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        bed.host.remove(id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn any_call_of_a_pause_or_resume_may_fail() {
    check_pause(FaultEffect::Fail).await;
}

#[tokio::test]
async fn any_call_of_a_pause_or_resume_may_be_late() {
    check_pause(FaultEffect::Late).await;
}

/// A machine that cannot be resumed after its seal has failed: it must not look as if it ran.
#[tokio::test]
async fn a_machine_that_never_goes_on_after_its_seal_has_failed() {
    with_fake_bed(hasty(), async |bed| {
        let id = witness(bed).await;
        bed.driver.faults().plan(FaultedCalls::Every(DriverCall::Resume), FaultEffect::Fail);
        bed.host.seal(id, SealParams { layer: LayerId::random(), hold: LayerHold::Kept }).await.unwrap_err();
        wait_for("the failure", SOON, async || (bed.state(id).await?.as_str() == "failed").then_some(())).await;
        bed.host.remove(id).await.unwrap();
        assert_eq!(bed.audited().await, (1, 0));
        bed.is_idle().await;
    })
    .await;
}

/// A paused sandbox whose sleep fails stays paused: its owner has not resumed it.
#[tokio::test]
async fn a_paused_sandbox_stays_paused_when_its_sleep_fails() {
    let steps = [DriverCall::Pause, DriverCall::Save, DriverCall::Memory];
    for (step, trouble) in steps.into_iter().flat_map(|step| [(step, FaultEffect::Fail), (step, FaultEffect::Late)]) {
        with_fake_bed(hasty(), async |bed| {
            let id = witness(bed).await;
            bed.host.pause(id).await.unwrap();
            bed.driver.faults().plan(FaultedCalls::Nth(step, 1), trouble);
            // The call that pauses it again may fail too.
            bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Pause, 2), trouble);
            bed.host.sleep(id).await.unwrap_err();
            assert_eq!(bed.state(id).await, Some(SandboxState::Paused), "{step:?}, {trouble:?}");
            assert_eq!(bed.driver.running(), [], "{step:?}, {trouble:?}");
            assert_eq!(bed.run(id, "true").await.unwrap_err().code, "sandbox.invalid_state");
            bed.host.resume(id).await.unwrap();
            assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        })
        .await;
    }
}

/// The data volume is completely full: a sandbox that cannot sleep continues, and sleeps when there
/// is space.
#[tokio::test]
async fn nobody_falls_asleep_on_a_full_disk() {
    let settings = HostSettings { disk_reserve: pandastack_model::ByteSize::new(0), ..hasty() };
    let ground = std::sync::Arc::new(FakeHostState::with_small_volume(16 << 20).await.unwrap());
    let bed = FakeBed::start_over(ground.clone(), settings).await.unwrap();
    let id = witness(&bed).await;
    bed.put(id, "/large", &"x".repeat(1 << 20)).await.unwrap();
    let filler = ground.fill().unwrap();
    for outcome in
        [bed.host.sleep(id).await.map(drop), bed.host.fork(ForkParams { ..fork_of(id, 2).0 }).await.map(drop)]
    {
        let fault = outcome.unwrap_err();
        assert!(matches!(fault.code, "host.storage" | "machine.refused"), "{fault:?}");
        assert_eq!(bed.state(id).await, Some(SandboxState::Running));
        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
    }
    assert_eq!(bed.audited().await, (1, 1));
    std::fs::remove_file(filler).unwrap();
    bed.host.sleep(id).await.unwrap();
    assert_eq!(bed.audited().await, (2, 0));
    assert_eq!(bed.text(id, "/large").await.unwrap().len(), 1 << 20);
    bed.host.close().await;
}
