//! The host when its ledger fails: one write after the other, in every operation, until an
//! operation completes without a fault. The reported state must be true, also for the next host on
//! the same data, and the operation can be repeated. A separate program, because each failure logs
//! an error.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod scene;

use std::{sync::Arc, time::Duration};

use pandastack_host::{HostSettings, Ledger, LedgerFaults, ShutdownMode, WriteLoss};
use pandastack_model::{SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, FakeHostState, HandshakeBehaviour, InstanceLeftovers, wait_for};
use pandastack_vmm_fake::DriverCall;
use pandastack_wire_fleet::HostPort;

use scene::{Operation, Said, Scene};

/// More writes than any operation makes.
const WRITES_MAX: u32 = 60;

/// An operation that takes longer hangs.
const SOON: Duration = Duration::from_secs(60);

/// Whether the same host or the next one repeats the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Same,
    Next,
}

async fn host(ground: &Arc<FakeHostState>) -> FakeBed {
    FakeBed::start_over(ground.clone(), FakeBed::settings()).await.unwrap()
}

/// Ends a host as an update does: its machines keep running.
async fn next_host(bed: FakeBed) -> FakeBed {
    bed.host.close_as(ShutdownMode::Running).await;
    host(&bed.ground).await
}

/// Runs two audits: the first may find and remove what the fault left, the second finds nothing.
async fn comes_clean(bed: &FakeBed) {
    let first = bed.host.audit().await.unwrap();
    assert_eq!(first.leaks, first.repaired, "a leak that nobody repairs");
    let second = bed.host.audit().await.unwrap();
    assert_eq!(second.leaks, [""; 0]);
    assert_eq!((second.layers, second.disks, second.slots), (1, 0, 0));
    assert_eq!(bed.driver.live(), []);
}

/// State with a ledger that fails.
struct Stage {
    ground: Arc<FakeHostState>,
    ledger: Ledger,
    faults: LedgerFaults,
}

impl Stage {
    async fn make(lost: WriteLoss) -> Self {
        let ground = Arc::new(FakeHostState::make().await.unwrap());
        // A host creates the ledger.
        host(&ground).await.host.close().await;
        let ledger = Ledger::open(&ground.ledger()).await.unwrap();
        let faults = LedgerFaults::install(ledger.clone(), lost).await.unwrap();
        Self { ground, ledger, faults }
    }
}

/// Runs one operation with its nth write failing. Returns whether there was an nth write.
async fn attempt(stage: &Stage, operation: Operation, nth: u32, then: Host) -> bool {
    let Stage { ground, ledger, faults } = stage;
    let mut bed = host(ground).await;
    let scene = Scene::set(&bed, operation).await;
    faults.arm(nth).await.unwrap();
    let outcome = scene.act(&bed).await;
    let mut struck = faults.disarm().await.unwrap();
    if matches!(operation, Operation::CreateWithVolume | Operation::RemoveVolume) {
        // If one of several entries in a transaction fails, the count is rolled back with it.
        struck |= outcome.is_err();
    }
    assert!(struck || outcome.is_ok(), "{outcome:?}");
    let mut children = Vec::new();
    for child in &scene.children {
        children.push(bed.state(*child).await);
    }
    let layer = operation == Operation::Seal && bed.layers.contains(scene.layer);
    assert!(layer || operation != Operation::Seal || outcome.is_err());
    let mut said = Said { sandbox: scene.expected(outcome.is_ok()), children, layer };
    let has_failed =
        operation == Operation::WakeWriter && matches!(bed.state(scene.id).await, Some(SandboxState::Failed { .. }));
    if has_failed {
        // Its guest may have written to the volume: there is no way back.
        assert!(outcome.is_err());
        said.sandbox = bed.state(scene.id).await;
    }
    scene.check(&bed, &said).await;
    if operation.respecifies() {
        scene.is_on_terms(&bed, ledger, outcome.is_ok()).await;
    }
    if operation == Operation::RemoveSleeper && outcome.is_err() {
        // It is unchanged: it can be woken.
        assert_eq!(bed.text(scene.id, "/note").await.unwrap(), "kept");
        said.sandbox = Some(SandboxState::Running);
    }
    if then == Host::Next {
        bed = next_host(bed).await;
        scene.check(&bed, &said).await;
        if operation.respecifies() {
            scene.is_on_terms(&bed, ledger, outcome.is_ok()).await;
        }
    }
    if !has_failed {
        acts_again(&bed, ledger, &scene).await;
    }
    scene.strike(&bed).await;
    comes_clean(&bed).await;
    bed.host.close().await;
    assert_eq!(bed.leftovers().await.unwrap(), InstanceLeftovers::default());
    struck
}

/// Repeats an operation, which must succeed now.
async fn acts_again(bed: &FakeBed, ledger: &Ledger, scene: &Scene) {
    scene.act(bed).await.unwrap();
    assert_eq!(bed.state(scene.id).await, scene.expected(true));
    if scene.operation.respecifies() {
        scene.is_on_terms(bed, ledger, true).await;
    }
    if let Some(SandboxState::Asleep) = scene.expected(true) {
        assert_eq!(bed.text(scene.id, "/note").await.unwrap(), "kept");
    }
}

async fn check(operation: Operation, writes_min: u32) {
    for lost in [WriteLoss::Yes, WriteLoss::No] {
        let stage = Stage::make(lost).await;
        let mut nth = 1;
        loop {
            assert!(nth < WRITES_MAX, "the operation makes no end of writes");
            println!("{operation:?}: write {nth}, lost: {lost:?}");
            let same = attempt(&stage, operation, nth, Host::Same).await;
            let next = attempt(&stage, operation, nth, Host::Next).await;
            assert_eq!(same, next);
            if !same {
                break;
            }
            nth += 1;
        }
        assert!(nth > writes_min, "the operation makes only {} writes", nth - 1);
    }
}

#[tokio::test]
async fn any_write_of_a_create_may_fail() {
    check(Operation::Create, 4).await;
}

#[tokio::test]
async fn any_write_of_a_seal_may_fail() {
    check(Operation::Seal, 2).await;
}

#[tokio::test]
async fn any_write_of_a_sleep_may_fail() {
    check(Operation::Sleep, 3).await;
}

#[tokio::test]
async fn any_write_of_a_wake_may_fail() {
    check(Operation::Wake, 4).await;
}

#[tokio::test]
async fn any_write_of_a_pause_may_fail() {
    check(Operation::Pause, 1).await;
}

#[tokio::test]
async fn any_write_of_a_resume_may_fail() {
    check(Operation::Resume, 1).await;
}

#[tokio::test]
async fn any_write_of_a_removal_may_fail() {
    check(Operation::Remove, 3).await;
}

#[tokio::test]
async fn any_write_of_new_rules_may_fail() {
    check(Operation::SetEgress, 1).await;
}

#[tokio::test]
async fn any_write_of_new_terms_may_fail() {
    check(Operation::SetLifecycle, 1).await;
}

#[tokio::test]
async fn any_write_of_the_removal_of_a_volume_may_fail() {
    check(Operation::RemoveVolume, 2).await;
}

/// The ledger refused a requested removal. The next removal must not wait for a wake either.
#[tokio::test]
async fn a_removal_after_a_refused_one_waits_for_no_wake() {
    let Stage { ground, faults, .. } = Stage::make(WriteLoss::Yes).await;
    let patient = HostSettings { launch_deadline: SOON * 10, ..FakeBed::settings() };
    let bed = FakeBed::start_over(ground, patient).await.unwrap();
    let id = SandboxId::random();
    bed.ensure(id).await.unwrap();
    bed.host.sleep(id).await.unwrap();
    faults.arm(1).await.unwrap();
    assert_eq!(bed.host.remove(id).await.unwrap_err().code, "host.storage");
    assert!(faults.disarm().await.unwrap());
    bed.script.set_behaviour(HandshakeBehaviour::Silent);
    let dials = bed.driver.faults().calls(DriverCall::Dial);
    let removal = async {
        let dialled = async || (bed.driver.faults().calls(DriverCall::Dial) > dials).then_some(());
        wait_for("the guest is dialled", SOON, dialled).await;
        bed.host.remove(id).await.unwrap();
    };
    let both = async { tokio::join!(bed.host.wake(id), removal) };
    let (woken, ()) = tokio::time::timeout(SOON, both).await.expect("the removal waits for the wake");
    assert_eq!(woken.unwrap_err().code, "sandbox.not_found");
    comes_clean(&bed).await;
    bed.host.close().await;
}

/// The same for operations with more writes.
mod deep {
    use super::*;

    #[tokio::test]
    async fn any_write_of_a_fork_may_fail() {
        check(Operation::Fork, 9).await;
    }

    #[tokio::test]
    async fn any_write_of_a_create_with_a_volume_may_fail() {
        check(Operation::CreateWithVolume, 5).await;
    }

    #[tokio::test]
    async fn any_write_of_a_writers_wake_may_fail() {
        check(Operation::WakeWriter, 5).await;
    }

    #[tokio::test]
    async fn any_write_of_a_writers_removal_may_fail() {
        check(Operation::RemoveWithVolume, 4).await;
    }

    #[tokio::test]
    async fn any_write_of_a_paused_ones_sleep_may_fail() {
        check(Operation::SleepPaused, 3).await;
    }

    #[tokio::test]
    async fn any_write_of_the_removal_of_a_sleeper_may_fail() {
        check(Operation::RemoveSleeper, 2).await;
    }
}
