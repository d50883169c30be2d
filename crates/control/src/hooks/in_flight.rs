//! Deliveries in progress, and their limits. They are kept in memory only; after a crash every
//! pending delivery is tried again.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use pandastack_model::{DeliveryId, WebhookId};
use pandastack_wire_fleet::WorkspaceId;
use tokio::sync::Notify;

use crate::limits::{
    WEBHOOK_ALL_AT_ONCE_MAX, WEBHOOK_AT_ONCE_MAX, WEBHOOK_FAILING_AT_ONCE_MAX, WEBHOOK_WORKSPACE_AT_ONCE_MAX,
};

/// All deliveries in progress.
#[derive(Default)]
pub struct DeliveriesInFlight {
    now: Mutex<InFlightCounts>,
}

#[derive(Default)]
struct InFlightCounts {
    all: usize,
    workspaces: HashMap<WorkspaceId, usize>,
    webhooks: HashMap<WebhookId, HashSet<DeliveryId>>,
}

/// One delivery in progress. Dropping it frees its place and wakes the delivery loop.
pub struct DeliveryInFlight {
    flights: Arc<DeliveriesInFlight>,
    bell: Arc<Notify>,
    workspace: WorkspaceId,
    webhook: WebhookId,
    delivery: DeliveryId,
}

impl DeliveriesInFlight {
    /// Returns how many more deliveries of a webhook may start now.
    pub fn room(&self, workspace: &WorkspaceId, webhook: WebhookId, failing: bool) -> usize {
        let now = self.lock();
        let most = if failing { WEBHOOK_FAILING_AT_ONCE_MAX } else { WEBHOOK_AT_ONCE_MAX };
        let of_webhook = now.webhooks.get(&webhook).map_or(0, HashSet::len);
        let of_workspace = now.workspaces.get(workspace).copied().unwrap_or_default();
        let left = [
            most.saturating_sub(of_webhook),
            WEBHOOK_WORKSPACE_AT_ONCE_MAX.saturating_sub(of_workspace),
            WEBHOOK_ALL_AT_ONCE_MAX.saturating_sub(now.all),
        ];
        left.into_iter().min().unwrap_or_default()
    }

    /// Returns the number of deliveries in progress to a webhook.
    pub fn count(&self, webhook: WebhookId) -> usize {
        self.lock().webhooks.get(&webhook).map_or(0, HashSet::len)
    }

    /// Starts a delivery, unless it is already in progress or a limit is reached.
    pub fn start(
        self: &Arc<Self>,
        bell: Arc<Notify>,
        workspace: &WorkspaceId,
        (webhook, delivery): (WebhookId, DeliveryId),
    ) -> Option<DeliveryInFlight> {
        if self.room(workspace, webhook, false) == 0 {
            return None;
        }
        let mut now = self.lock();
        if !now.webhooks.entry(webhook).or_default().insert(delivery) {
            return None;
        }
        now.all += 1;
        *now.workspaces.entry(workspace.clone()).or_default() += 1;
        drop(now);
        Some(DeliveryInFlight { flights: self.clone(), bell, workspace: workspace.clone(), webhook, delivery })
    }

    fn lock(&self) -> MutexGuard<'_, InFlightCounts> {
        self.now.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for DeliveryInFlight {
    fn drop(&mut self) {
        let mut now = self.flights.lock();
        now.all = now.all.saturating_sub(1);
        if let Some(count) = now.workspaces.get_mut(&self.workspace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                now.workspaces.remove(&self.workspace);
            }
        }
        if let Some(deliveries) = now.webhooks.get_mut(&self.webhook) {
            deliveries.remove(&self.delivery);
            if deliveries.is_empty() {
                now.webhooks.remove(&self.webhook);
            }
        }
        drop(now);
        self.bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_limited_by_webhook_and_by_workspace_and_comes_back() {
        let (flights, bell) = (Arc::new(DeliveriesInFlight::default()), Arc::new(Notify::new()));
        let workspace = WorkspaceId("w".into());
        let hooks = [WebhookId::random(), WebhookId::random(), WebhookId::random()];
        let start = |webhook, delivery| flights.start(bell.clone(), &workspace, (webhook, delivery));
        let delivery = DeliveryId::random();
        let mut flying = vec![start(hooks[0], delivery).unwrap()];
        assert!(start(hooks[0], delivery).is_none(), "it is on its way already");
        assert_eq!((flights.room(&workspace, hooks[0], false), flights.room(&workspace, hooks[0], true)), (3, 0));
        for hook in [hooks[0], hooks[0], hooks[0], hooks[1], hooks[1], hooks[1], hooks[1]] {
            flying.push(start(hook, DeliveryId::random()).unwrap());
        }
        assert_eq!(flights.room(&workspace, hooks[2], false), 0, "the workspace has its share");
        assert!(start(hooks[2], DeliveryId::random()).is_none());
        assert_eq!(flights.room(&WorkspaceId("other".into()), WebhookId::random(), false), 4);
        flying.clear();
        assert_eq!((flights.count(hooks[0]), flights.room(&workspace, hooks[0], false)), (0, 4));
    }
}
