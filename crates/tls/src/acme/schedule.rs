//! When certificates are renewed, and when a failed attempt is repeated.

use std::time::{Duration, SystemTime};

use pandastack_kit::random_bytes;

use crate::{
    limits::{ACME_RETRY_MAX, ACME_RETRY_MIN, ACME_RETRY_UNREACHABLE_MIN},
    validity::Validity,
};

/// Returns a random number from 0 to 1, so that servers do not all ask in the same moment.
pub fn fraction() -> f64 {
    f64::from(u32::from_be_bytes(random_bytes())) / f64::from(u32::MAX)
}

/// After two thirds of the certificate's life, and up to a 24th later.
pub fn renew_at(validity: Validity, fraction: f64) -> SystemTime {
    let life = validity.life();
    validity.from + life * 2 / 3 + (life / 24).mul_f64(fraction)
}

/// The pause after a failure that followed on this many others.
pub fn back_off(failures: u32, is_unreachable: bool, fraction: f64) -> Duration {
    let first = if is_unreachable { ACME_RETRY_UNREACHABLE_MIN } else { ACME_RETRY_MIN };
    let pause = first.saturating_mul(1 << failures.min(16)).min(ACME_RETRY_MAX);
    pause + (pause / 8).mul_f64(fraction)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_third_of_the_life_is_left_for_failures() {
        let at = |days: u64| UNIX_EPOCH + Duration::from_secs(days * 86_400);
        let validity = Validity { from: at(100), to: at(190) };
        assert_eq!(renew_at(validity, 0.0), at(160));
        assert!((at(160)..at(164)).contains(&renew_at(validity, fraction())));
        let backwards = Validity { from: at(190), to: at(100) };
        assert_eq!(renew_at(backwards, 1.0), at(190));
    }

    #[test]
    fn pauses_grow_and_end_at_the_longest() {
        assert_eq!(back_off(0, false, 0.0), ACME_RETRY_MIN);
        assert_eq!(back_off(2, false, 0.0), ACME_RETRY_MIN * 4);
        assert_eq!(back_off(0, true, 0.0), ACME_RETRY_UNREACHABLE_MIN);
        for failures in [20, u32::MAX] {
            assert!(back_off(failures, true, 1.0) <= ACME_RETRY_MAX + ACME_RETRY_MAX / 8);
            assert!(back_off(failures, false, 0.0) == ACME_RETRY_MAX);
        }
    }
}
