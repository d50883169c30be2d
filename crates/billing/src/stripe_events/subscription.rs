//! The state of an org's subscription. Applying events is a pure step that takes them twice and in
//! any order.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{StripeEvent, StripeEventKind, SubscriptionChange, SubscriptionReport, SubscriptionStatus};
use crate::{limits::UNPAID_MARKS_MAX, plans::PlanName, stripe::StripePrices};

/// What is stored about an org's subscription. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subscription {
    pub customer: Option<String>,
    /// Stripe's id.
    pub id: Option<String>,
    pub status: SubscriptionStatus,
    /// The plan of its prices. `None` if no price is known.
    pub plan: Option<PlanName>,
    pub period_end_s: Option<u64>,
    pub cancel_at_period_end: bool,
    /// When the subscription was made.
    pub started_s: u64,
    /// Time of the event that set the status, and which event it was.
    pub status_at_s: u64,
    pub status_by: Option<SubscriptionChange>,
    /// The latest time at which everything was paid.
    pub paid_at_s: u64,
    /// Times after that at which a payment was overdue, the earliest first.
    pub unpaid_at_s: Vec<u64>,
}

/// What an org may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No subscription: the free plan.
    Free,
    Paid {
        plan: PlanName,
    },
    /// A payment is overdue. The plan stays until this time.
    Grace {
        plan: PlanName,
        until_s: u64,
    },
    /// The grace period is over. What exists can be read, listed and deleted; nothing new starts.
    ReadOnly {
        plan: PlanName,
        since_s: u64,
    },
}

impl Standing {
    /// Returns the plan whose limits apply.
    pub const fn plan(self) -> PlanName {
        match self {
            Self::Free => PlanName::Free,
            Self::Paid { plan } | Self::Grace { plan, .. } | Self::ReadOnly { plan, .. } => plan,
        }
    }
}

impl Subscription {
    /// Returns the state after an event. An event that is old, repeated or about another
    /// subscription changes nothing. The caller compares both states to see whether to write.
    #[must_use]
    pub fn after(&self, event: &StripeEvent, prices: &StripePrices) -> Self {
        let at_s = event.created_s;
        match &event.kind {
            StripeEventKind::Subscription(report) => self.reported(report, at_s, prices),
            StripeEventKind::CheckoutCompleted { customer, subscription, .. } => {
                let next = self.named(subscription.as_deref());
                Self { customer: customer.clone().or(next.customer), ..next }
            }
            StripeEventKind::InvoicePaid { subscription, .. } => {
                self.invoiced(subscription.as_deref(), at_s, PaymentState::Paid)
            }
            StripeEventKind::InvoicePaymentFailed { subscription, .. } => {
                self.invoiced(subscription.as_deref(), at_s, PaymentState::Overdue)
            }
            StripeEventKind::Ignored => self.clone(),
        }
    }

    /// Returns what the org may do now. A grace period ends by time alone, without an event.
    pub fn standing(&self, now_s: u64, grace: Duration) -> Standing {
        let plan = match self.plan {
            Some(plan) if self.status.is_live() => plan,
            _ => return Standing::Free,
        };
        // A paid invoice counts at once, even if the subscription's own event is late.
        if self.status.is_paid() || (self.status.is_overdue() && self.paid_at_s > self.status_at_s) {
            return Standing::Paid { plan };
        }
        if self.status == SubscriptionStatus::Paused {
            return Standing::ReadOnly { plan, since_s: self.status_at_s };
        }
        let since_s = self.unpaid_at_s.first().copied().unwrap_or(self.status_at_s);
        let until_s = since_s.saturating_add(grace.as_secs());
        if now_s < until_s { Standing::Grace { plan, until_s } } else { Standing::ReadOnly { plan, since_s: until_s } }
    }

    /// Takes the id of a subscription from an event that arrived before the subscription's own one,
    /// which will bring the status.
    fn named(&self, id: Option<&str>) -> Self {
        let id = self.id.clone().or_else(|| id.map(str::to_owned));
        Self { id, ..self.clone() }
    }

    /// Notes an invoice. One without a subscription, or of another one, says nothing.
    fn invoiced(&self, id: Option<&str>, at_s: u64, state: PaymentState) -> Self {
        let next = self.named(id);
        if id.is_some() && next.id.as_deref() == id { next.observed(at_s, state) } else { self.clone() }
    }

    fn reported(&self, report: &SubscriptionReport, at_s: u64, prices: &StripePrices) -> Self {
        if report.status == SubscriptionStatus::None || !self.concerns(report, at_s) {
            return self.clone();
        }
        let same = self.id.as_deref() == Some(&report.id);
        // Payments of another subscription say nothing about this one.
        let mut next = if same { self.clone() } else { Self { customer: self.customer.clone(), ..Self::default() } };
        let plan = report.named_plan.or_else(|| report.prices.iter().find_map(|price| prices.plan_of(price)));
        // A deletion is final. Otherwise the later event wins. Within a second there is no order,
        // so that any rule will do that does not depend on the order of arrival.
        let new = (
            report.change == SubscriptionChange::Deleted,
            (at_s, Some(report.change), report.status, plan),
            (report.period_end_s, report.cancel_at_period_end),
        );
        let present = (
            next.status_by == Some(SubscriptionChange::Deleted),
            (next.status_at_s, next.status_by, next.status, next.plan),
            (next.period_end_s, next.cancel_at_period_end),
        );
        if new > present {
            next.customer = Some(report.customer.clone());
            next.id = Some(report.id.clone());
            next.status = report.status;
            next.plan = plan;
            next.period_end_s = report.period_end_s;
            next.cancel_at_period_end = report.cancel_at_period_end;
            next.started_s = report.started_s;
            next.status_at_s = at_s;
            next.status_by = Some(report.change);
        }
        // Also an old report tells when something was paid or overdue.
        match report.status {
            status if status.is_paid() => next.observed(at_s, PaymentState::Paid),
            status if status.is_overdue() => next.observed(at_s, PaymentState::Overdue),
            _ => next,
        }
    }

    /// Tells whether a report is about the subscription that counts. Another one counts if it was
    /// bought later, or if the present one has ended.
    fn concerns(&self, report: &SubscriptionReport, at_s: u64) -> bool {
        let same = self.id.as_deref() == Some(&report.id);
        let newer = report.started_s > self.started_s;
        let takes_over = report.status.is_live() && (newer || !self.status.is_live()) && at_s >= self.status_at_s;
        same || self.id.is_none() || takes_over
    }

    /// Notes a payment, or that one is missing.
    fn observed(mut self, at_s: u64, state: PaymentState) -> Self {
        match state {
            PaymentState::Paid => self.paid_at_s = self.paid_at_s.max(at_s),
            PaymentState::Overdue => {
                self.unpaid_at_s.push(at_s);
                self.unpaid_at_s.sort_unstable();
                self.unpaid_at_s.dedup();
            }
        }
        let paid_at_s = self.paid_at_s;
        self.unpaid_at_s.retain(|at_s| *at_s > paid_at_s);
        self.unpaid_at_s.truncate(UNPAID_MARKS_MAX);
        self
    }
}

/// What an event says about payments.
#[derive(Clone, Copy)]
enum PaymentState {
    Paid,
    Overdue,
}
