//! A virtual clock that moves only when a test advances it.

use std::time::Duration;

use pandastack_kit::Clock;
use tokio::sync::watch;

/// Start of every fake clock: a moment in 2027, so that zero is never mistaken for a time.
const START_NS: u64 = 1_800_000_000 * 1_000_000_000;

/// A virtual clock. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct FakeClock {
    now_ns: watch::Sender<u64>,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self { now_ns: watch::Sender::new(START_NS) }
    }
}

impl FakeClock {
    /// Advances the time and wakes all sleepers whose time has come.
    pub fn advance(&self, by: Duration) {
        self.now_ns.send_modify(|now| *now += by.as_nanos() as u64);
    }

    /// Waits until the clock has advanced by this much.
    pub async fn sleep(&self, duration: Duration) {
        let until = self.now_ns() + duration.as_nanos() as u64;
        // `self` owns the sender, so the channel cannot close meanwhile.
        let _ = self.now_ns.subscribe().wait_for(|now| *now >= until).await;
    }
}

impl Clock for FakeClock {
    fn now_ns(&self) -> u64 {
        *self.now_ns.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_wake_when_time_is_moved() {
        let clock = FakeClock::default();
        let before = clock.now_ns();
        let other = clock.clone();
        let slept = tokio::time::timeout(Duration::ZERO, clock.sleep(Duration::from_secs(60))).await;
        assert!(slept.is_err(), "time stands still by itself");
        let sleeper = async { clock.sleep(Duration::from_secs(60)).await };
        let mover = async {
            tokio::task::yield_now().await;
            other.advance(Duration::from_secs(60));
        };
        tokio::join!(sleeper, mover);
        assert_eq!(clock.now_ns() - before, 60_000_000_000);
    }
}
