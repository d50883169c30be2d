//! What the worker writes before and after it posts a meter event. Pure: the database applies it.
//!
//! Stripe recognises a repeated identifier for a day, perhaps no longer. So an event whose outcome
//! is unknown is sent again for 23 hours only. After that a person decides: an unpaid event is
//! better than one that is charged twice.

use std::fmt;

use crate::{
    limits::{METER_EVENT_AGE_MAX, METER_EVENT_AHEAD_MAX, UNSURE_MAX},
    stripe::{PostOutcome, Recorded, RetryReason, StripeRefusal, retry_delay},
};

/// How long to wait with an event that Stripe calls too new, beyond its own rule.
const TOO_NEW_PAUSE_S: u64 = 60;

/// What the worker needs to know about a row that it has claimed.
///
/// In the transaction that claims the row, and before the event is posted, the worker stores
/// [`claim_mark`](Self::claim_mark) as the row's `unsure_since_s`. If it then crashes, the row
/// looks like one with a lost answer, which it is. `unsure_since_s` here is the value before the
/// claim.
///
/// Stripe takes one request at a time for each customer and meter: post the rows of one org one
/// after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimedRow {
    /// Failed tries so far.
    pub tries: u32,
    /// Which idempotency key is used, counted from 0.
    pub key_turn: u32,
    /// Since when Stripe may have the event without our knowing. Unix time.
    pub unsure_since_s: Option<u64>,
    /// Time of the event.
    pub timestamp_s: u64,
}

/// What to do with a claimed row, before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforePosting {
    Post,
    /// Try again at this time.
    Wait {
        until_s: u64,
    },
    Dead(DeadReason),
}

/// What to write after a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostingPlan {
    /// Set the posted mark. The row is never sent again.
    Posted { at_s: u64 },
    /// Release the claim and store these values.
    Again { next_try_s: u64, tries: u32, key_turn: u32, unsure_since_s: Option<u64>, reason: RetryReason },
    /// The event is in the future for Stripe. Nothing failed; store these values.
    Later { next_try_s: u64, unsure_since_s: Option<u64> },
    /// Keep the row for an operator. It is not sent again by itself.
    Dead { reason: DeadReason, unsure_since_s: Option<u64> },
}

/// Why an event is not sent any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// Stripe refused it for good.
    Refused(StripeRefusal),
    /// It is older than Stripe accepts.
    TooOld,
    /// Stripe may or may not have it, and would no longer notice a repetition.
    OutcomeUnknown,
}

impl DeadReason {
    /// Stable code for tables and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::TooOld => "too_old",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "{refusal}; correct the cause, then queue the event again"),
            Self::TooOld => {
                f.write_str("the usage is more than 35 days old, so Stripe does not take it; invoice it by hand")
            }
            Self::OutcomeUnknown => f.write_str(
                "Stripe may have counted this event; compare the customer's meter in Stripe before it is queued again",
            ),
        }
    }
}

impl ClaimedRow {
    /// Returns what the claim stores as `unsure_since_s`.
    pub fn claim_mark(&self, now_s: u64) -> u64 {
        self.unsure_since_s.unwrap_or(now_s)
    }

    /// Decides whether a claimed row is posted.
    pub fn before(&self, now_s: u64) -> BeforePosting {
        if let Some(since_s) = self.unsure_since_s
            && now_s >= since_s.saturating_add(UNSURE_MAX.as_secs())
        {
            return BeforePosting::Dead(DeadReason::OutcomeUnknown);
        }
        if self.timestamp_s.saturating_add(METER_EVENT_AGE_MAX.as_secs()) < now_s {
            return BeforePosting::Dead(DeadReason::TooOld);
        }
        let until_s = self.timestamp_s.saturating_sub(METER_EVENT_AHEAD_MAX.as_secs());
        if now_s < until_s { BeforePosting::Wait { until_s } } else { BeforePosting::Post }
    }

    /// Decides what is written after a try. `now_s` is the time after the answer; `dice` is a
    /// random number.
    pub fn after(&self, outcome: PostOutcome, now_s: u64, dice: u16) -> PostingPlan {
        let unsure_since_s = self.unsure_since_s;
        match outcome {
            PostOutcome::Posted { .. } | PostOutcome::Duplicate => PostingPlan::Posted { at_s: now_s },
            PostOutcome::Retry(advice) => {
                let unsure_since_s = match advice.recorded {
                    Recorded::No => unsure_since_s,
                    Recorded::Unknown => Some(self.claim_mark(now_s)),
                };
                // Stripe replays a stored server error to the same key for a day. The identifier
                // keeps a new key from counting the event twice.
                let renew = matches!(advice.reason, RetryReason::ServerError(_) | RetryReason::Unexpected(_));
                let pause = retry_delay(&advice, self.tries, dice);
                PostingPlan::Again {
                    next_try_s: now_s.saturating_add(pause.as_secs().max(1)),
                    tries: self.tries.saturating_add(1),
                    key_turn: self.key_turn.saturating_add(u32::from(renew)),
                    unsure_since_s,
                    reason: advice.reason,
                }
            }
            PostOutcome::TooNew => {
                PostingPlan::Later { next_try_s: now_s.saturating_add(TOO_NEW_PAUSE_S), unsure_since_s }
            }
            PostOutcome::TooOld => PostingPlan::Dead { reason: DeadReason::TooOld, unsure_since_s },
            PostOutcome::Refused(refusal) => PostingPlan::Dead { reason: DeadReason::Refused(refusal), unsure_since_s },
        }
    }

    /// Returns the row that an operator queues again, after the cause was corrected and Stripe is
    /// known not to have the event. The new key keeps Stripe from replaying its stored refusal.
    #[must_use]
    pub fn requeued(&self) -> Self {
        Self { tries: 0, key_turn: self.key_turn.saturating_add(1), unsure_since_s: None, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stripe::RetryAdvice;

    const NOW: u64 = 1_772_326_800;

    fn row() -> ClaimedRow {
        ClaimedRow { tries: 2, key_turn: 1, unsure_since_s: None, timestamp_s: NOW - 3600 }
    }

    fn retry(reason: RetryReason, recorded: Recorded) -> PostOutcome {
        PostOutcome::Retry(RetryAdvice { reason, retry_after: None, recorded })
    }

    #[test]
    fn what_stripe_has_is_marked_as_posted() {
        for outcome in [PostOutcome::Posted { request_id: None }, PostOutcome::Duplicate] {
            assert_eq!(row().after(outcome, NOW, 0), PostingPlan::Posted { at_s: NOW });
        }
    }

    #[test]
    fn a_try_that_stripe_did_not_act_on_changes_nothing_but_the_time() {
        let plan = row().after(retry(RetryReason::RateLimited, Recorded::No), NOW, 32_768);
        let expected = PostingPlan::Again {
            next_try_s: NOW + 20,
            tries: 3,
            key_turn: 1,
            unsure_since_s: None,
            reason: RetryReason::RateLimited,
        };
        assert_eq!(plan, expected);
    }

    #[test]
    fn the_first_unknown_outcome_starts_the_clock_and_later_ones_keep_it() {
        let unsure = |row: ClaimedRow, reason, recorded| match row.after(retry(reason, recorded), NOW, 0) {
            PostingPlan::Again { unsure_since_s, key_turn, .. } => (unsure_since_s, key_turn),
            other => panic!("{other:?}"),
        };
        let marked = ClaimedRow { unsure_since_s: Some(NOW - 50), ..row() };
        assert_eq!(unsure(row(), RetryReason::Timeout, Recorded::Unknown), (Some(NOW), 1));
        assert_eq!(unsure(marked, RetryReason::ConnectionLost, Recorded::Unknown), (Some(NOW - 50), 1));
        assert_eq!(unsure(marked, RetryReason::RateLimited, Recorded::No), (Some(NOW - 50), 1));
        assert_eq!(unsure(row(), RetryReason::ServerError(500), Recorded::Unknown), (Some(NOW), 2), "needs a new key");
    }

    #[test]
    fn a_claim_that_was_never_finished_counts_as_unknown() {
        let marked = ClaimedRow { unsure_since_s: Some(row().claim_mark(NOW)), ..row() };
        let day = Duration::from_secs(24 * 3600).as_secs();
        assert_eq!(marked.before(NOW + day - 3601), BeforePosting::Post);
        assert_eq!(marked.before(NOW + day - 3600), BeforePosting::Dead(DeadReason::OutcomeUnknown));
        assert_eq!(row().before(NOW + 30 * day), BeforePosting::Post, "nothing is unknown");
    }

    #[test]
    fn old_events_die_and_new_ones_wait() {
        let at = |timestamp_s| ClaimedRow { timestamp_s, ..row() };
        let days = 35 * 86_400;
        assert_eq!(at(NOW - days).before(NOW), BeforePosting::Post);
        assert_eq!(at(NOW - days - 1).before(NOW), BeforePosting::Dead(DeadReason::TooOld));
        assert_eq!(at(NOW + 300).before(NOW), BeforePosting::Post);
        assert_eq!(at(NOW + 301).before(NOW), BeforePosting::Wait { until_s: NOW + 1 });
        assert_eq!(
            row().after(PostOutcome::TooNew, NOW, 0),
            PostingPlan::Later { next_try_s: NOW + 60, unsure_since_s: None }
        );
    }

    #[test]
    fn a_refused_event_is_kept_with_its_reason_and_can_be_queued_again() {
        let refusal = StripeRefusal { status: 400, message: "No such customer".into(), ..StripeRefusal::default() };
        let PostingPlan::Dead { reason, .. } = row().after(PostOutcome::Refused(refusal), NOW, 0) else { panic!() };
        assert!(reason.to_string().contains("No such customer") && reason.code() == "refused", "{reason}");
        let again = row().requeued();
        assert_eq!((again.tries, again.key_turn, again.timestamp_s), (0, 2, row().timestamp_s));
    }
}
