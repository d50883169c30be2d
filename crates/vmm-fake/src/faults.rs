//! The fault plan: which call fails, and how. Counts every call, so that tests can query the calls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// A call that the plan can disturb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverCall {
    Boot,
    Blank,
    Restore,
    Resume,
    Pause,
    Dial,
    Save,
    Memory,
    Adopt,
    Attach,
    /// Cannot fail, and does not count for [`FaultedCalls::Call`]. Only [`FaultEffect::Hang`]
    /// disturbs it.
    Stop,
}

/// The calls that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultedCalls {
    /// The nth call of any kind from now on, counted from 1.
    Call(u64),
    /// The nth call of this step from now on, counted from 1.
    Nth(DriverCall, u64),
    /// Each call of this step.
    Every(DriverCall),
}

/// The effect on the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The call fails.
    Fail,
    /// The call does not return until [`Faults::clear`].
    Hang,
    /// The machine dies during the call.
    Die,
    /// The call takes effect, but reports a failure, as a monitor that answers too late. A late
    /// start has failed.
    Late,
    /// The caller panics at this point, as from a defect of its own.
    Panic,
}

/// A driver's fault plan and its counters. Clones share the plan.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    books: Arc<Mutex<FaultPlan>>,
    /// Number of times the plan was cleared. Each clear releases the calls that hang.
    cleared: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct FaultPlan {
    plan: Vec<(FaultedCalls, FaultEffect)>,
    calls: HashMap<DriverCall, u64>,
    struck: u64,
}

impl Faults {
    /// Adds a fault to the plan.
    pub fn plan(&self, when: FaultedCalls, trouble: FaultEffect) {
        let mut books = self.books();
        let when = match when {
            FaultedCalls::Call(nth) => FaultedCalls::Call(books.count_all() + nth),
            FaultedCalls::Nth(step, nth) => FaultedCalls::Nth(step, books.count(step) + nth),
            FaultedCalls::Every(step) => FaultedCalls::Every(step),
        };
        books.plan.push((when, trouble));
    }

    /// Clears the plan and releases all calls that hang.
    pub fn clear(&self) {
        self.books().plan.clear();
        self.cleared.send_modify(|times| *times += 1);
    }

    /// Counts the calls of a step so far.
    pub fn calls(&self, step: DriverCall) -> u64 {
        self.books().count(step)
    }

    /// Counts the calls that the plan has disturbed so far.
    pub fn faults_applied(&self) -> u64 {
        self.books().struck
    }

    /// Counts a call and returns its fault. Waits first if the plan says so.
    pub(crate) async fn next_fault(&self, step: DriverCall) -> Option<FaultEffect> {
        let mut cleared = self.cleared.subscribe();
        let trouble = self.books().note(step)?;
        assert!(trouble != FaultEffect::Panic, "the plan says so");
        if trouble != FaultEffect::Hang {
            return Some(trouble);
        }
        let _ = cleared.changed().await;
        None
    }

    fn books(&self) -> MutexGuard<'_, FaultPlan> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultPlan {
    fn count(&self, step: DriverCall) -> u64 {
        self.calls.get(&step).copied().unwrap_or_default()
    }

    fn count_all(&self) -> u64 {
        self.calls.values().sum::<u64>() - self.count(DriverCall::Stop)
    }

    fn note(&mut self, step: DriverCall) -> Option<FaultEffect> {
        *self.calls.entry(step).or_default() += 1;
        let (all, of_step) = (self.count_all(), self.count(step));
        let meant = |when: &FaultedCalls| match *when {
            FaultedCalls::Call(nth) => nth == all && step != DriverCall::Stop,
            FaultedCalls::Nth(planned, nth) => planned == step && nth == of_step,
            FaultedCalls::Every(planned) => planned == step,
        };
        let (_, trouble) = self.plan.iter().find(|(when, _)| meant(when))?;
        self.struck += 1;
        Some(*trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_plan_strikes_the_calls_it_names() {
        let faults = Faults::default();
        faults.next_fault(DriverCall::Dial).await;
        faults.plan(FaultedCalls::Nth(DriverCall::Dial, 2), FaultEffect::Fail);
        faults.plan(FaultedCalls::Call(3), FaultEffect::Die);
        assert_eq!(faults.next_fault(DriverCall::Dial).await, None);
        assert_eq!(faults.next_fault(DriverCall::Dial).await, Some(FaultEffect::Fail));
        assert_eq!(faults.next_fault(DriverCall::Resume).await, Some(FaultEffect::Die));
        assert_eq!((faults.calls(DriverCall::Dial), faults.faults_applied()), (3, 2));
    }

    #[tokio::test]
    async fn what_hangs_goes_on_when_the_plan_is_cleared() {
        let faults = Faults::default();
        faults.plan(FaultedCalls::Every(DriverCall::Restore), FaultEffect::Hang);
        let clear = async {
            tokio::task::yield_now().await;
            faults.clear();
        };
        let (trouble, ()) = tokio::join!(faults.next_fault(DriverCall::Restore), clear);
        assert_eq!(trouble, None);
    }
}
