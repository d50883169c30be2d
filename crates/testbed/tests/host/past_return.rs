//! A wake without a way back. When a sandbox that writes a volume resumes, its volume becomes newer
//! than its sealed memory: a second wake from that memory would overwrite newer data. So a failure
//! before the resume leaves it asleep, and a failure from the resume on never does.

use std::sync::Arc;

use pandastack_host::{HostSettings, Ledger};
use pandastack_model::{ByteSize, SandboxId, SandboxState, VolumeAccess, VolumeId, VolumeMount};
use pandastack_testbed::{FakeBed, FakeHostState, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::HostPort;

use crate::{
    BRIEF, SOON,
    crash::{cut_off, host, runtime},
};

/// More calls than a wake makes.
const CALLS_MAX: u64 = 40;

/// Calls before the resume: restore and attach.
const CALLS_BEFORE: u64 = 2;

/// State of the machine after its host was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Lives,
    Dies,
}

/// State of a sandbox before it fell asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Running,
    Paused,
}

/// Makes a sandbox with a volume.
async fn sandbox_with(bed: &FakeBed, access: VolumeAccess) -> (SandboxId, VolumeId) {
    let (id, volume) = (SandboxId::random(), VolumeId::random());
    bed.host.make_volume(volume, ByteSize::mib(16)).await.unwrap();
    bed.ensure_with(id, vec![VolumeMount { volume, path: "/data".to_owned(), access }]).await.unwrap();
    bed.put(id, "/note", "kept").await.unwrap();
    (id, volume)
}

/// Makes a sleeping sandbox with a volume.
async fn sleeper(bed: &FakeBed, access: VolumeAccess, before: Before) -> (SandboxId, VolumeId) {
    let (id, volume) = sandbox_with(bed, access).await;
    if before == Before::Paused {
        bed.host.pause(id).await.unwrap();
    }
    bed.host.sleep(id).await.unwrap();
    (id, volume)
}

/// Checks that a sleeping sandbox has its volume and wakes unchanged.
async fn wakes(bed: &FakeBed, id: SandboxId, volume: VolumeId) {
    assert_eq!(users(bed, volume).await, [id], "somebody else could write under a sleeper");
    assert_eq!(bed.host.wake(id).await.unwrap().state, SandboxState::Running);
    assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
}

/// Checks that a failed sandbox stays failed and has released its volume.
async fn has_failed(bed: &FakeBed, id: SandboxId, volume: VolumeId) {
    assert_eq!(bed.host.wake(id).await.unwrap_err().code, "sandbox.failed");
    assert_eq!(users(bed, volume).await, []);
    let next = VolumeMount { volume, path: "/data".to_owned(), access: VolumeAccess::ReadWrite };
    let heir = SandboxId::random();
    bed.ensure_with(heir, vec![next]).await.expect("the next writer gets the volume");
    bed.host.remove(heir).await.unwrap();
}

async fn users(bed: &FakeBed, volume: VolumeId) -> Vec<SandboxId> {
    let volumes = bed.host.volumes().await.unwrap();
    volumes.into_iter().find(|view| view.volume == volume).expect("the volume is here").users
}

/// Waits until a sandbox is in a stable state.
async fn settled(bed: &FakeBed, id: SandboxId) -> SandboxState {
    wait_for("a state that stays", SOON, async || {
        let state = bed.state(id).await?;
        let dying = state == SandboxState::Running && bed.driver.live().is_empty();
        (!state.is_changing() && !dying).then_some(state)
    })
    .await
}

/// State after a wake that was cut off.
struct Cut {
    id: SandboxId,
    volume: VolumeId,
    resumed: bool,
    finished: bool,
}

/// Wakes a sleeping sandbox and cuts the host off at the nth driver call.
fn cut_wake(ground: &Arc<FakeHostState>, nth: u64, before: Before) -> Cut {
    let first = runtime();
    let cut = first.block_on(async {
        let bed = host(ground).await;
        let (id, volume) = sleeper(&bed, VolumeAccess::ReadWrite, before).await;
        let faults = bed.driver.faults();
        let (struck, resumes) = (faults.faults_applied(), faults.calls(DriverCall::Resume));
        faults.plan(FaultedCalls::Call(nth), FaultEffect::Hang);
        let hangs = async || (faults.faults_applied() > struck).then_some(());
        let finished = tokio::select! {
            biased;
            () = wait_for("the cut", SOON * 2, hangs) => false,
            woke = bed.host.wake(id) => woke.map(|_| true).unwrap(),
        };
        Cut { id, volume, resumed: faults.calls(DriverCall::Resume) > resumes, finished }
    });
    cut_off(first);
    ground.driver.faults().clear();
    cut
}

/// Cuts a wake off at its first, second, … call, until one completes.
fn at_every_call(machine: Machine, before: Before) {
    let ground = runtime().block_on(async { Arc::new(FakeHostState::make().await.unwrap()) });
    for nth in 1..CALLS_MAX {
        let Cut { id, volume, resumed, finished } = cut_wake(&ground, nth, before);
        assert_eq!(resumed, nth > CALLS_BEFORE, "the wake of a writer makes other calls than this test knows");
        if machine == Machine::Dies {
            ground.driver.live().into_iter().for_each(|machine| ground.driver.kill(machine));
        }
        // Twice: the result of the first start must be in the ledger.
        for _ in 0..2 {
            let next = runtime();
            next.block_on(async {
                let bed = host(&ground).await;
                let state = bed.state(id).await.unwrap();
                let context = format!("cut off at call {nth}, {machine:?}: {state}");
                match (resumed, machine) {
                    (false, _) => assert_eq!(state, SandboxState::Asleep, "{context}"),
                    (true, Machine::Lives) => {
                        assert_eq!(state, SandboxState::Running, "{context}");
                        assert_eq!(users(&bed, volume).await, [id], "{context}");
                        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept", "{context}");
                    }
                    (true, Machine::Dies) => {
                        assert_eq!(state.as_str(), "failed", "{context}");
                        has_failed(&bed, id, volume).await;
                    }
                }
            });
            cut_off(next);
        }
        let last = runtime();
        last.block_on(async {
            let bed = host(&ground).await;
            if !resumed {
                wakes(&bed, id, volume).await;
            }
            bed.host.remove(id).await.unwrap();
            bed.host.remove_volume(volume).await.unwrap();
            assert_eq!(bed.audited().await, (1, 0), "call {nth} left something");
            bed.host.close().await;
            assert!(bed.leftovers().await.unwrap().is_empty());
        });
        if finished {
            assert!(nth > CALLS_BEFORE + 2, "no call after the one that resumes was cut off");
            return;
        }
    }
    panic!("a wake makes no end of calls");
}

#[test]
fn a_writers_wake_that_is_cut_off_after_it_ran_is_gone_on_with() {
    at_every_call(Machine::Lives, Before::Running);
}

#[test]
fn a_writers_wake_that_is_cut_off_after_it_ran_and_whose_machine_dies_has_failed() {
    at_every_call(Machine::Dies, Before::Running);
}

#[test]
fn a_writer_that_was_paused_before_it_slept_has_no_way_back_either() {
    at_every_call(Machine::Lives, Before::Paused);
    at_every_call(Machine::Dies, Before::Paused);
}

/// Disturbs one driver call after the other, until a wake completes without a fault.
async fn any_call_may(trouble: FaultEffect, access: VolumeAccess) {
    let settings = HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        let faults = bed.driver.faults();
        let (mut slept, mut failed) = (0, 0);
        for nth in 1..CALLS_MAX {
            let (id, volume) = sleeper(bed, access, Before::Running).await;
            let (struck, resumes) = (faults.faults_applied(), faults.calls(DriverCall::Resume));
            faults.plan(FaultedCalls::Call(nth), trouble);
            let outcome = bed.host.wake(id).await;
            let no_way_back = access == VolumeAccess::ReadWrite && faults.calls(DriverCall::Resume) > resumes;
            let disturbed = faults.faults_applied() > struck;
            faults.clear();
            match (settled(bed, id).await, no_way_back) {
                (SandboxState::Asleep, false) => {
                    assert!(outcome.is_err(), "call {nth}");
                    wakes(bed, id, volume).await;
                    slept += 1;
                }
                (SandboxState::Running, _) => {
                    outcome.unwrap();
                    assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
                }
                (SandboxState::Failed { reason }, _) if disturbed => {
                    if let Err(fault) = outcome {
                        assert!(no_way_back, "call {nth}: {fault}");
                        assert!(reason.contains("may already have written"), "call {nth}: {reason}");
                        assert_eq!(fault.code, "sandbox.failed", "call {nth}: {fault}");
                    }
                    has_failed(bed, id, volume).await;
                    failed += 1;
                }
                (state, _) => panic!("{trouble:?} at call {nth} left it {state}: {outcome:?}"),
            }
            bed.host.remove(id).await.unwrap();
            bed.host.remove_volume(volume).await.unwrap();
            assert_eq!(bed.audited().await, (1, 0), "call {nth} left something");
            bed.is_idle().await;
            if !disturbed {
                assert!(slept >= CALLS_BEFORE, "only {slept} troubles left it asleep");
                assert!(
                    (failed > 0) == (access == VolumeAccess::ReadWrite || trouble == FaultEffect::Die),
                    "{failed} failed"
                );
                return;
            }
        }
        panic!("a wake makes no end of calls");
    })
    .await;
}

#[tokio::test]
async fn a_writers_wake_that_fails_after_it_ran_has_failed() {
    any_call_may(FaultEffect::Fail, VolumeAccess::ReadWrite).await;
}

#[tokio::test]
async fn a_writers_wake_that_is_late_after_it_ran_has_failed() {
    any_call_may(FaultEffect::Late, VolumeAccess::ReadWrite).await;
}

#[tokio::test]
async fn a_writers_wake_that_dies_after_it_ran_has_failed() {
    any_call_may(FaultEffect::Die, VolumeAccess::ReadWrite).await;
}

#[tokio::test]
async fn a_readers_wake_that_fails_leaves_it_asleep() {
    any_call_may(FaultEffect::Fail, VolumeAccess::ReadOnly).await;
}

/// A lost answer is no reason to fail a live guest: its rebirth may have happened.
#[tokio::test]
async fn a_writer_whose_first_answers_are_lost_is_greeted_again() {
    let settings = HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        for lost in [1, 3, 6] {
            let (id, volume) = sleeper(bed, VolumeAccess::ReadWrite, Before::Running).await;
            bed.script.lose_rebirth_answers(lost);
            assert_eq!(bed.host.wake(id).await.unwrap().state, SandboxState::Running, "{lost} lost");
            assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
            bed.host.remove(id).await.unwrap();
            bed.host.remove_volume(volume).await.unwrap();
        }
    })
    .await;
}

/// The ledger entry of the resume still names the layer: if the host sees a write error although it
/// was written, the sandbox stays asleep on that layer, and the layer must not be collected.
#[tokio::test]
async fn the_line_of_a_writer_that_wakes_names_its_layer() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = sleeper(bed, VolumeAccess::ReadWrite, Before::Running).await;
        let ledger = Ledger::open(&bed.ledger()).await.unwrap();
        let record = async || ledger.sandboxes().await.unwrap().remove(0).record;
        let asleep = record().await;
        assert!(asleep.layer.is_some());
        let faults = bed.driver.faults();
        let struck = faults.faults_applied();
        faults.plan(FaultedCalls::Nth(DriverCall::Resume, 1), FaultEffect::Hang);
        let look = async {
            wait_for("the wake", SOON, async || (faults.faults_applied() > struck).then_some(())).await;
            let now = record().await;
            assert_eq!((now.state, now.layer), (SandboxState::Waking, asleep.layer));
            faults.clear();
        };
        tokio::join!(bed.host.wake(id), look).0.unwrap();
        assert_eq!(record().await.layer, None, "its machine names it now");
        ledger.close().await;
    })
    .await;
}

/// A paused writer whose resume is cut off is paused or running, and keeps its volume.
#[test]
fn a_paused_writer_that_is_cut_off_while_it_goes_on_is_never_asleep() {
    let ground = runtime().block_on(async { Arc::new(FakeHostState::make().await.unwrap()) });
    let first = runtime();
    let (id, volume) = first.block_on(async {
        let bed = host(&ground).await;
        let (id, volume) = sandbox_with(&bed, VolumeAccess::ReadWrite).await;
        bed.host.pause(id).await.unwrap();
        let faults = bed.driver.faults();
        let struck = faults.faults_applied();
        faults.plan(FaultedCalls::Nth(DriverCall::Resume, 1), FaultEffect::Hang);
        let hangs = async || (faults.faults_applied() > struck).then_some(());
        tokio::select! {
            biased;
            () = wait_for("the cut", SOON * 2, hangs) => {}
            went_on = bed.host.resume(id) => panic!("it was not cut off: {went_on:?}"),
        }
        (id, volume)
    });
    cut_off(first);
    ground.driver.faults().clear();
    runtime().block_on(async {
        let bed = host(&ground).await;
        let state = bed.state(id).await.unwrap();
        assert!([SandboxState::Paused, SandboxState::Running].contains(&state), "{state}");
        assert_eq!(users(&bed, volume).await, [id]);
        bed.host.resume(id).await.unwrap();
        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        bed.host.close().await;
        assert!(bed.leftovers().await.unwrap().is_empty());
    });
}
