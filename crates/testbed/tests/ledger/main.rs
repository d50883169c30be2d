//! The host when its ledger fails: one write after the other, in every operation, until an operation is through before its turn
//! comes. What the host says afterwards must be true, also for the next host on the same data, and the operation can be
//! repeated. A program of its own: each failure is logged as an error, which other tests take for a failure of theirs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{sync::Arc, time::Duration};

use pandastack_host::{Leave, Ledger, LedgerFaults, Lost};
use pandastack_model::{Fault, LayerId, SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, FakeGround, Leftovers, spec};
use pandastack_wire_fleet::{Ensure, ForkAsk, Hold, HostPort, SealAsk};

/// More writes than any operation makes.
const WRITES_MAX: u32 = 60;

/// An operation that takes longer hangs.
const SOON: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Fork,
    Seal,
    Sleep,
    Wake,
    Pause,
    Resume,
    Remove,
    RemoveSleeper,
}

/// Whether the next host has to bear the fault out before the operation is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Same,
    Next,
}

/// What an operation is about.
struct Scene {
    operation: Operation,
    id: SandboxId,
    children: Vec<SandboxId>,
    layer: LayerId,
}

impl Scene {
    /// Makes what there has to be before the operation.
    async fn set(bed: &FakeBed, operation: Operation) -> Self {
        let scene = Self {
            operation,
            id: SandboxId::random(),
            children: vec![SandboxId::random(), SandboxId::random()],
            layer: LayerId::random(),
        };
        if operation != Operation::Create {
            bed.ensure(scene.id).await.unwrap();
            bed.put(scene.id, "/note", "kept").await.unwrap();
        }
        match operation {
            Operation::Wake | Operation::RemoveSleeper => drop(bed.host.sleep(scene.id).await.unwrap()),
            Operation::Resume => drop(bed.host.pause(scene.id).await.unwrap()),
            _ => {}
        }
        scene
    }

    /// Carries the operation out. A fork is done when all of its children are there.
    async fn act(&self, bed: &FakeBed) -> Result<(), Fault> {
        let acting = async {
            match self.operation {
                Operation::Create => bed.ensure(self.id).await.map(drop),
                Operation::Fork => {
                    let ensure = |id: &SandboxId| Ensure { id: *id, generation: 1, spec: spec("mini") };
                    let children = self.children.iter().map(ensure).collect();
                    let forked = bed.host.fork(ForkAsk { parent: self.id, layer: self.layer, children }).await?;
                    forked.children.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
                }
                Operation::Seal => {
                    bed.host.seal(self.id, SealAsk { layer: self.layer, hold: Hold::Kept }).await.map(drop)
                }
                Operation::Sleep => bed.host.sleep(self.id).await.map(drop),
                Operation::Wake => bed.host.wake(self.id).await.map(drop),
                Operation::Pause => bed.host.pause(self.id).await.map(drop),
                Operation::Resume => bed.host.resume(self.id).await.map(drop),
                Operation::Remove | Operation::RemoveSleeper => bed.host.remove(self.id).await,
            }
        };
        tokio::time::timeout(SOON, acting).await.expect("the operation hangs")
    }

    /// The state that the sandbox may be in after the operation.
    fn expected(&self, done: bool) -> Option<SandboxState> {
        match (self.operation, done) {
            (Operation::Create, false) | (Operation::Remove | Operation::RemoveSleeper, true) => None,
            (Operation::Create | Operation::Wake | Operation::Resume, true)
            | (Operation::Sleep | Operation::Pause | Operation::Remove, false)
            | (Operation::Fork | Operation::Seal, _) => Some(SandboxState::Running),
            (Operation::Sleep, true) | (Operation::Wake | Operation::RemoveSleeper, false) => {
                Some(SandboxState::Asleep)
            }
            (Operation::Pause, true) | (Operation::Resume, false) => Some(SandboxState::Paused),
        }
    }

    /// Looks whether everything is as it was said to be. Wakes nobody.
    async fn check(&self, bed: &FakeBed, said: &Said) {
        assert_eq!(bed.state(self.id).await, said.sandbox);
        for (child, state) in self.children.iter().zip(&said.children) {
            assert_eq!(bed.state(*child).await, *state);
            if *state == Some(SandboxState::Running) {
                assert_eq!(bed.text(*child, "/note").await.unwrap(), "kept");
            }
        }
        if said.sandbox == Some(SandboxState::Running) && self.operation != Operation::Create {
            assert_eq!(bed.text(self.id, "/note").await.unwrap(), "kept");
        }
        let machines = said.children.iter().chain([&said.sandbox]).flatten();
        let machines = machines.filter(|state| **state != SandboxState::Asleep).count();
        assert_eq!(bed.driver.live().len(), machines, "a machine for each that has one, and no other");
        assert_eq!(bed.layers.contains(self.layer), said.layer || said.children.iter().any(Option::is_some));
    }

    /// Removes all that is left of it.
    async fn strike(&self, bed: &FakeBed) {
        for id in self.children.iter().chain([&self.id]) {
            bed.host.remove(*id).await.unwrap();
            assert_eq!(bed.state(*id).await, None);
        }
        bed.host.release(self.layer).await.unwrap();
    }
}

/// What a host says there is.
struct Said {
    sandbox: Option<SandboxState>,
    children: Vec<Option<SandboxState>>,
    /// Whether the layer that was asked for is kept.
    layer: bool,
}

async fn host(ground: &Arc<FakeGround>) -> FakeBed {
    FakeBed::start_over(ground.clone(), FakeBed::settings()).await.unwrap()
}

/// Ends a host as an update does: its machines go on.
async fn next_host(bed: FakeBed) -> FakeBed {
    bed.host.close_as(Leave::Running).await;
    host(&bed.ground).await
}

/// What two audits say: the first may find what the fault left, and removes it; the second finds nothing.
async fn comes_clean(bed: &FakeBed) {
    let first = bed.host.audit().await.unwrap();
    assert_eq!(first.leaks, first.repaired, "a leak that nobody repairs");
    let second = bed.host.audit().await.unwrap();
    assert_eq!(second.leaks, [""; 0]);
    assert_eq!((second.layers, second.disks, second.slots), (1, 0, 0));
    assert_eq!(bed.driver.live(), []);
}

/// One operation with its nth write failing. Tells whether there was an nth.
async fn attempt(ground: &Arc<FakeGround>, faults: &LedgerFaults, operation: Operation, nth: u32, then: Host) -> bool {
    let mut bed = host(ground).await;
    let scene = Scene::set(&bed, operation).await;
    faults.arm(nth).await.unwrap();
    let outcome = scene.act(&bed).await;
    let struck = faults.disarm().await.unwrap();
    assert!(struck || outcome.is_ok(), "{outcome:?}");
    let mut children = Vec::new();
    for child in &scene.children {
        children.push(bed.state(*child).await);
    }
    let layer = operation == Operation::Seal && bed.layers.contains(scene.layer);
    assert!(layer || operation != Operation::Seal || outcome.is_err());
    let mut said = Said { sandbox: scene.expected(outcome.is_ok()), children, layer };
    scene.check(&bed, &said).await;
    if operation == Operation::RemoveSleeper && outcome.is_err() {
        // It is as it was: it can be woken.
        assert_eq!(bed.text(scene.id, "/note").await.unwrap(), "kept");
        said.sandbox = Some(SandboxState::Running);
    }
    if then == Host::Next {
        bed = next_host(bed).await;
        scene.check(&bed, &said).await;
    }
    scene.act(&bed).await.unwrap();
    assert_eq!(bed.state(scene.id).await, scene.expected(true));
    if let Some(SandboxState::Asleep) = scene.expected(true) {
        assert_eq!(bed.text(scene.id, "/note").await.unwrap(), "kept");
    }
    scene.strike(&bed).await;
    comes_clean(&bed).await;
    bed.host.close().await;
    assert_eq!(bed.leftovers().await.unwrap(), Leftovers::default());
    struck
}

async fn check(operation: Operation, writes_min: u32) {
    check_all(operation, writes_min, &[Lost::Yes, Lost::No]).await;
}

async fn check_all(operation: Operation, writes_min: u32, losses: &[Lost]) {
    for lost in losses.iter().copied() {
        let ground = Arc::new(FakeGround::make().await.unwrap());
        // A host makes the ledger.
        host(&ground).await.host.close().await;
        let ledger = Ledger::open(&ground.ledger()).await.unwrap();
        let faults = LedgerFaults::install(ledger, lost).await.unwrap();
        let mut nth = 1;
        loop {
            assert!(nth < WRITES_MAX, "the operation makes no end of writes");
            println!("{operation:?}: write {nth}, lost: {lost:?}");
            let same = attempt(&ground, &faults, operation, nth, Host::Same).await;
            let next = attempt(&ground, &faults, operation, nth, Host::Next).await;
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
async fn any_write_of_a_fork_may_fail() {
    check(Operation::Fork, 9).await;
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
    check_all(Operation::Wake, 4, &[Lost::Yes, Lost::No]).await;
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
async fn any_write_of_the_removal_of_a_sleeper_may_fail() {
    check(Operation::RemoveSleeper, 2).await;
}
