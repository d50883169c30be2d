//! The fault plan: which call fails, and how. Counts every call, so that tests can query the calls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// A call that the plan can disturb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
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
    /// Cannot fail, and does not count for [`When::Call`]. Only [`Trouble::Hang`] disturbs it.
    Stop,
}

/// The calls that a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The nth call of any kind from now on, counted from 1.
    Call(u64),
    /// The nth call of this step from now on, counted from 1.
    Nth(Step, u64),
    /// Each call of this step.
    Every(Step),
}

/// The effect on the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
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
    books: Arc<Mutex<Books>>,
    /// Number of times the plan was cleared. Each clear releases the calls that hang.
    cleared: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Books {
    plan: Vec<(When, Trouble)>,
    calls: HashMap<Step, u64>,
    struck: u64,
}

impl Faults {
    /// Adds a fault to the plan.
    pub fn plan(&self, when: When, trouble: Trouble) {
        let mut books = self.books();
        let when = match when {
            When::Call(nth) => When::Call(books.count_all() + nth),
            When::Nth(step, nth) => When::Nth(step, books.count(step) + nth),
            When::Every(step) => When::Every(step),
        };
        books.plan.push((when, trouble));
    }

    /// Clears the plan and releases all calls that hang.
    pub fn clear(&self) {
        self.books().plan.clear();
        self.cleared.send_modify(|times| *times += 1);
    }

    /// Counts the calls of a step so far.
    pub fn calls(&self, step: Step) -> u64 {
        self.books().count(step)
    }

    /// Counts the calls that the plan has disturbed so far.
    pub fn struck(&self) -> u64 {
        self.books().struck
    }

    /// Counts a call and returns its fault. Waits first if the plan says so.
    pub(crate) async fn strike(&self, step: Step) -> Option<Trouble> {
        let mut cleared = self.cleared.subscribe();
        let trouble = self.books().note(step)?;
        assert!(trouble != Trouble::Panic, "the plan says so");
        if trouble != Trouble::Hang {
            return Some(trouble);
        }
        let _ = cleared.changed().await;
        None
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn count(&self, step: Step) -> u64 {
        self.calls.get(&step).copied().unwrap_or_default()
    }

    fn count_all(&self) -> u64 {
        self.calls.values().sum::<u64>() - self.count(Step::Stop)
    }

    fn note(&mut self, step: Step) -> Option<Trouble> {
        *self.calls.entry(step).or_default() += 1;
        let (all, of_step) = (self.count_all(), self.count(step));
        let meant = |when: &When| match *when {
            When::Call(nth) => nth == all && step != Step::Stop,
            When::Nth(planned, nth) => planned == step && nth == of_step,
            When::Every(planned) => planned == step,
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
        faults.strike(Step::Dial).await;
        faults.plan(When::Nth(Step::Dial, 2), Trouble::Fail);
        faults.plan(When::Call(3), Trouble::Die);
        assert_eq!(faults.strike(Step::Dial).await, None);
        assert_eq!(faults.strike(Step::Dial).await, Some(Trouble::Fail));
        assert_eq!(faults.strike(Step::Resume).await, Some(Trouble::Die));
        assert_eq!((faults.calls(Step::Dial), faults.struck()), (3, 2));
    }

    #[tokio::test]
    async fn what_hangs_goes_on_when_the_plan_is_cleared() {
        let faults = Faults::default();
        faults.plan(When::Every(Step::Restore), Trouble::Hang);
        let clear = async {
            tokio::task::yield_now().await;
            faults.clear();
        };
        let (trouble, ()) = tokio::join!(faults.strike(Step::Restore), clear);
        assert_eq!(trouble, None);
    }
}
