//! Meter events that are not posted any more, as the operator manages them: directly in the
//! database, whether or not a server uses it.

use pandastack_billing::{BeforePosting, DeadReason};
use pandastack_database::DatabaseAddress;

use crate::store::{DeadFilter, DeadMeterEvent, Store, StoreError};

/// The dead meter events of a server.
pub struct DeadMeterEvents {
    store: Store,
}

/// What became of dead events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequeueReport {
    /// Queued again.
    pub queued: Vec<DeadMeterEvent>,
    /// Still dead, each with the reason.
    pub left: Vec<(DeadMeterEvent, String)>,
}

impl DeadMeterEvents {
    /// Opens the database of a server.
    pub async fn open(database: &DatabaseAddress, now_ns: u64) -> Result<Self, StoreError> {
        Ok(Self { store: Store::open(database, now_ns).await? })
    }

    /// Lists dead events, the oldest first.
    pub async fn list(&self, filter: &DeadFilter) -> Result<Vec<DeadMeterEvent>, StoreError> {
        self.store.dead_meter_events(filter).await
    }

    /// Queues dead events again. Those that Stripe would refuse, or may have counted, are left.
    pub async fn requeue(&self, filter: &DeadFilter, now_s: u64) -> Result<RequeueReport, StoreError> {
        let mut report = RequeueReport::default();
        for dead in self.store.dead_meter_events(filter).await? {
            if let Some(why) = kept_dead(&dead, filter, now_s) {
                report.left.push((dead, why));
            } else if self.store.requeue_meter_event(&dead).await? {
                report.queued.push(dead);
            } else {
                report.left.push((dead, "it was changed meanwhile".to_owned()));
            }
        }
        Ok(report)
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }
}

/// Tells why an event is not queued again.
fn kept_dead(dead: &DeadMeterEvent, filter: &DeadFilter, now_s: u64) -> Option<String> {
    let is_named = matches!(filter, DeadFilter::Identifier(_));
    if dead.row.requeued().before(now_s) == BeforePosting::Dead(DeadReason::TooOld) {
        return Some(DeadReason::TooOld.to_string());
    }
    // Only a person can find out whether it would be charged twice.
    let is_unsure = dead.reason == DeadReason::OutcomeUnknown.code() && !is_named;
    is_unsure.then(|| {
        let text = "Stripe may have counted it; look for its identifier in Stripe, and if it is missing there, queue \
                    it with \"pandastack admin billing requeue IDENTIFIER\"";
        text.to_owned()
    })
}
