//! Counts the uses of a guest and measures how long it is idle. Every channel on the link is a use
//! while it is open, so that a long exec or a slow download never looks idle.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_wire_fleet::UseKind;
use tokio::{sync::Notify, time::Instant};

/// The use counter of one guest. Clones share the counter.
#[derive(Clone, Debug)]
pub struct Activity {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    books: Mutex<UseCounts>,
    /// Notified when the last use ends.
    quiet: Notify,
}

#[derive(Debug)]
struct UseCounts {
    uses: usize,
    last: Instant,
    retired: bool,
}

/// One use. It ends when this is dropped. Only a client's is counted.
#[derive(Debug)]
pub struct UseGuard {
    activity: Activity,
    by: UseKind,
}

impl UseGuard {
    /// Returns who uses the guest.
    pub fn by(&self) -> UseKind {
        self.by
    }
}

impl Default for Activity {
    fn default() -> Self {
        let books = Mutex::new(UseCounts { uses: 0, last: Instant::now(), retired: false });
        Self { shared: Arc::new(Shared { books, quiet: Notify::new() }) }
    }
}

impl Activity {
    /// Begins a use. Returns `None` if the guest is retired.
    pub fn begin(&self, by: UseKind) -> Option<UseGuard> {
        let mut books = self.books();
        if books.retired {
            return None;
        }
        books.uses += usize::from(by == UseKind::Client);
        Some(UseGuard { activity: self.clone(), by })
    }

    /// Refuses further uses if there are none now. Returns whether uses are refused.
    pub fn retire_if_unused(&self) -> bool {
        let mut books = self.books();
        books.retired |= books.uses == 0;
        books.retired
    }

    /// Refuses further uses, even if some are in progress.
    pub fn retire(&self) {
        self.books().retired = true;
    }

    /// Accepts uses again.
    pub fn unretire(&self) {
        self.books().retired = false;
    }

    /// Restarts the idle clock.
    pub fn touch(&self) {
        self.books().last = Instant::now();
    }

    /// Returns how long the guest has been unused.
    pub fn idle(&self) -> Duration {
        let books = self.books();
        if books.uses > 0 { Duration::ZERO } else { books.last.elapsed() }
    }

    /// Waits until the guest has been unused for this time.
    pub async fn idle_for(&self, wanted: Duration) {
        loop {
            let quiet = self.shared.quiet.notified();
            let due = {
                let books = self.books();
                (books.uses == 0).then(|| books.last + wanted)
            };
            match due {
                None => quiet.await,
                Some(due) if due <= Instant::now() => return,
                Some(due) => tokio::time::sleep_until(due).await,
            }
        }
    }

    fn books(&self) -> MutexGuard<'_, UseCounts> {
        // Each change under this lock is one step, so a panic elsewhere cannot leave it half done.
        self.shared.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UseGuard {
    fn drop(&mut self) {
        if self.by == UseKind::Platform {
            return;
        }
        let mut books = self.activity.books();
        books.uses -= 1;
        books.last = Instant::now();
        if books.uses == 0 {
            self.activity.shared.quiet.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_use_holds_the_clock_and_its_end_starts_it() {
        let activity = Activity::default();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(activity.idle(), Duration::from_secs(5));
        let first = activity.begin(UseKind::Client).unwrap();
        assert_eq!(activity.idle(), Duration::ZERO);
        let started = Instant::now();
        let end = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(first);
        };
        tokio::join!(activity.idle_for(Duration::from_secs(10)), end);
        assert_eq!(started.elapsed(), Duration::from_secs(70));
    }

    #[tokio::test(start_paused = true)]
    async fn the_platform_is_not_counted() {
        let activity = Activity::default();
        let measuring = activity.begin(UseKind::Platform).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(activity.idle(), Duration::from_secs(5));
        drop(measuring);
        assert_eq!(activity.idle(), Duration::from_secs(5), "its end does not start the clock anew");
        let _measuring = activity.begin(UseKind::Platform).unwrap();
        assert!(activity.retire_if_unused());
        assert!(activity.begin(UseKind::Platform).is_none(), "it is about to fall asleep");
    }

    #[test]
    fn a_retired_guest_takes_no_uses() {
        let activity = Activity::default();
        let first = activity.begin(UseKind::Client).unwrap();
        assert!(!activity.retire_if_unused(), "somebody uses it");
        drop(first);
        assert!(activity.retire_if_unused());
        assert!(activity.begin(UseKind::Client).is_none());
        activity.unretire();
        assert!(activity.begin(UseKind::Client).is_some());
    }
}
