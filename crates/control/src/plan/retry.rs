//! Decides what follows one delivery try: delivered, another try, or dead. Also decides whether
//! its webhook is disabled.

use crate::{
    limits::{WEBHOOK_BACKOFF, WEBHOOK_FAILING_MAX},
    store::{DeliveryStage, TryEffect},
};

/// The status with which a receiver asks for no more deliveries.
const GONE: u16 = 410;

/// One try and the history of its delivery.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryTry {
    pub delivered: bool,
    pub status: Option<u16>,
    /// Failed tries before this one.
    pub tries: u32,
    pub failing_since_ns: Option<u64>,
    pub now_ns: u64,
    /// A random number. It varies the delay, so that deliveries that failed together are not
    /// retried together.
    pub dice: u16,
}

/// Decides what follows a try.
pub fn after(one: DeliveryTry) -> TryEffect {
    let DeliveryTry { delivered, status, tries, failing_since_ns, now_ns, dice } = one;
    if delivered {
        return TryEffect {
            stage: DeliveryStage::Delivered,
            tries,
            next_at_ns: now_ns,
            failing_since_ns: None,
            disable: None,
        };
    }
    let since_ns = failing_since_ns.unwrap_or(now_ns);
    let long = u128::from(now_ns.saturating_sub(since_ns)) >= WEBHOOK_FAILING_MAX.as_nanos();
    let disable = match status {
        Some(GONE) => Some("the receiver answered 410 (Gone)".to_owned()),
        _ if long => {
            let days = WEBHOOK_FAILING_MAX.as_secs() / 86_400;
            Some(format!("no delivery has succeeded for {days} days"))
        }
        _ => None,
    };
    let pause = WEBHOOK_BACKOFF.get(tries as usize).filter(|_| disable.is_none());
    let (stage, next_at_ns) = match pause {
        Some(pause) => (DeliveryStage::Pending, now_ns.saturating_add(jittered(pause.as_nanos() as u64, dice))),
        None => (DeliveryStage::Dead, now_ns),
    };
    TryEffect { stage, tries: tries.saturating_add(1), next_at_ns, failing_since_ns: Some(since_ns), disable }
}

/// Varies a delay by up to a fifth in both directions.
fn jittered(pause_ns: u64, dice: u16) -> u64 {
    let fifth = pause_ns / 5;
    let share = u128::from(fifth) * 2 * u128::from(dice) / u128::from(u16::MAX);
    (pause_ns - fifth).saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn failure(tries: u32) -> DeliveryTry {
        DeliveryTry {
            delivered: false,
            status: Some(500),
            tries,
            failing_since_ns: None,
            now_ns: 100 * SECOND,
            dice: 32_768,
        }
    }

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<_> = (0..7)
            .map(|tries| {
                let verdict = after(failure(tries));
                (verdict.stage, (verdict.next_at_ns - 100 * SECOND + SECOND / 2) / SECOND)
            })
            .collect();
        let pending = |seconds| (DeliveryStage::Pending, seconds);
        let expected = [
            pending(5),
            pending(30),
            pending(120),
            pending(600),
            pending(3600),
            pending(21_600),
            (DeliveryStage::Dead, 0),
        ];
        assert_eq!(pauses, expected);
    }

    #[test]
    fn the_dice_move_a_pause_by_a_fifth_at_most() {
        assert_eq!(jittered(100 * SECOND, 0), 80 * SECOND);
        assert_eq!(jittered(100 * SECOND, u16::MAX), 120 * SECOND);
        assert_eq!(jittered(0, u16::MAX), 0);
    }

    #[test]
    fn success_heals_and_long_failure_disables() {
        let fine = after(DeliveryTry { delivered: true, failing_since_ns: Some(1), ..failure(3) });
        assert_eq!((fine.stage, fine.failing_since_ns, fine.disable), (DeliveryStage::Delivered, None, None));
        let first = after(failure(0));
        assert_eq!((first.failing_since_ns, &first.disable), (Some(100 * SECOND), &None));
        let days = |days: u64| {
            let now_ns = days * 86_400 * SECOND;
            after(DeliveryTry { failing_since_ns: Some(0), now_ns, ..failure(0) })
        };
        assert!(days(2).disable.is_none());
        assert_eq!(
            (days(3).stage, days(3).disable.is_some(), days(3).failing_since_ns),
            (DeliveryStage::Dead, true, Some(0))
        );
        let gone = after(DeliveryTry { status: Some(410), ..failure(0) });
        assert_eq!((gone.stage, gone.disable.is_some()), (DeliveryStage::Dead, true));
    }
}
