//! Owns the rate at which one slot may write addresses of names. Pure: the caller passes the time
//! and does the waiting.

use std::time::{Duration, Instant};

use super::limits::{NAMED_WRITES_AT_ONCE, NAMED_WRITES_PER_SECOND};

/// The time that one write uses up.
const STEP: Duration = Duration::from_millis(1000 / NAMED_WRITES_PER_SECOND as u64);
/// The burst that an idle slot may use at once.
const SAVED: Duration = Duration::from_millis(STEP.as_millis() as u64 * (NAMED_WRITES_AT_ONCE as u64 - 1));

/// A token bucket, stored as the time at which it is full again.
#[derive(Debug, Default)]
pub struct TokenBucket {
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// Takes a token. Returns how long to wait before it is valid.
    pub fn next(&mut self, now: Instant) -> Duration {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        self.full_at = Some(full_at + STEP);
        full_at.duration_since(now).saturating_sub(SAVED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_slot_has_a_burst_and_then_a_rate() {
        let (start, mut pace) = (Instant::now(), TokenBucket::default());
        for number in 0..NAMED_WRITES_AT_ONCE {
            assert_eq!(pace.next(start), Duration::ZERO, "write {number}");
        }
        let mut now = start;
        for _ in 0..NAMED_WRITES_PER_SECOND {
            let pause = pace.next(now);
            assert_eq!(pause, STEP);
            now += pause;
        }
        now += STEP * NAMED_WRITES_AT_ONCE;
        assert_eq!(pace.next(now), Duration::ZERO, "tokens come back");
        now += Duration::from_secs(3600);
        for _ in 0..NAMED_WRITES_AT_ONCE {
            assert_eq!(pace.next(now), Duration::ZERO);
        }
        assert_eq!(pace.next(now), STEP, "but no more than a bucket full");
    }
}
