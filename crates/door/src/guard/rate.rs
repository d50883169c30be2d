//! Rate limit of workspaces: one token bucket each. Pure except for a lock; the caller passes the
//! time.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{FIRST_WORKSPACE, WorkspaceId};

use crate::limits::{RATE_BUCKETS_MAX, RATE_BURST, RATE_PER_SECOND};

const NS_PER_SECOND: f64 = 1e9;

/// Request rate of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// Sustained requests per second; 0 means no limit.
    pub per_second: u32,
    /// Requests at once after a quiet period.
    pub burst: u32,
    pub operator: OperatorLimit,
}

/// Whether the rate limit also applies to the first workspace, which belongs to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorLimit {
    Limited,
    Free,
}

impl Default for RateSettings {
    fn default() -> Self {
        Self { per_second: RATE_PER_SECOND, burst: RATE_BURST, operator: OperatorLimit::Free }
    }
}

/// The buckets of all workspaces with recent requests.
#[derive(Default)]
pub struct RequestRates {
    buckets: Mutex<HashMap<WorkspaceId, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at_ns: u64,
}

impl RequestRates {
    /// Takes one token, or refuses.
    pub fn take(&self, settings: &RateSettings, workspace: &WorkspaceId, now_ns: u64) -> Result<(), Fault> {
        let spared = settings.operator == OperatorLimit::Free && workspace.0 == FIRST_WORKSPACE;
        if settings.per_second == 0 || spared {
            return Ok(());
        }
        let burst = f64::from(settings.burst.max(1));
        let filled = |bucket: &Bucket| {
            let seconds = now_ns.saturating_sub(bucket.at_ns) as f64 / NS_PER_SECOND;
            (bucket.tokens + seconds * f64::from(settings.per_second)).min(burst)
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= RATE_BUCKETS_MAX && !buckets.contains_key(workspace) {
            // A full bucket is the same as no bucket.
            buckets.retain(|_, bucket| filled(bucket) < burst);
        }
        let bucket = buckets.entry(workspace.clone()).or_insert(Bucket { tokens: burst, at_ns: now_ns });
        let tokens = filled(bucket);
        *bucket = Bucket { tokens: (tokens - 1.0).max(0.0), at_ns: now_ns.max(bucket.at_ns) };
        if tokens >= 1.0 {
            return Ok(());
        }
        bucket.tokens = tokens;
        let RateSettings { per_second, burst, .. } = settings;
        let text = format!("rate limit: this workspace may send {per_second} requests per second, {burst} at once");
        Err(Fault::new(FaultKind::TooFast, "rate.limited", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn settings(operator: OperatorLimit) -> RateSettings {
        RateSettings { per_second: 25, burst: 50, operator }
    }

    fn passed(rates: &RequestRates, settings: &RateSettings, name: &str, asked: usize, now_ns: u64) -> usize {
        (0..asked).filter(|_| rates.take(settings, &WorkspaceId(name.into()), now_ns).is_ok()).count()
    }

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let (rates, limited) = (RequestRates::default(), settings(OperatorLimit::Limited));
        assert_eq!(passed(&rates, &limited, "a", 80, SECOND), 50);
        assert_eq!(passed(&rates, &limited, "a", 80, 2 * SECOND), 25);
        assert_eq!(passed(&rates, &limited, "a", 80, 2 * SECOND + SECOND / 5), 5);
        assert_eq!(passed(&rates, &limited, "b", 80, 2 * SECOND), 50, "others have a bucket of their own");
        assert_eq!(passed(&rates, &limited, "a", 80, 100 * SECOND), 50, "a rest fills it, but not over");
        assert_eq!(passed(&rates, &limited, "a", 5, 0), 0, "a clock that goes back gives nothing");
        let fault = rates.take(&limited, &WorkspaceId("a".into()), 100 * SECOND).unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::TooFast, "rate.limited"));
    }

    #[test]
    fn the_operator_may_be_free_and_everybody_can_be() {
        let rates = RequestRates::default();
        assert_eq!(passed(&rates, &settings(OperatorLimit::Free), FIRST_WORKSPACE, 200, 0), 200);
        assert_eq!(passed(&rates, &settings(OperatorLimit::Free), "a", 200, 0), 50);
        assert_eq!(passed(&rates, &settings(OperatorLimit::Limited), FIRST_WORKSPACE, 200, 0), 50);
        let none = RateSettings { per_second: 0, ..settings(OperatorLimit::Limited) };
        assert_eq!(passed(&rates, &none, "a", 200, 0), 200);
    }

    #[test]
    fn only_so_many_buckets_are_kept() {
        let (rates, limited) = (RequestRates::default(), settings(OperatorLimit::Limited));
        for number in 0..RATE_BUCKETS_MAX as u64 + 10 {
            passed(&rates, &limited, &format!("w{number}"), 1, number * SECOND);
        }
        assert!(rates.buckets.lock().unwrap().len() <= RATE_BUCKETS_MAX);
    }
}
