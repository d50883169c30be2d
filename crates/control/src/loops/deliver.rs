//! Starts the due deliveries of the outbox within the limits of webhook, workspace and server.
//! Never waits for a delivery. One server at a time does it, so that no event is sent by two.

use super::lease::WorkLease;
use crate::{
    Control,
    limits::{WEBHOOK_LEASE, WEBHOOK_LOOK_EVERY},
    store::StoreError,
};

/// Starts deliveries until shutdown.
pub async fn deliver(control: Control) {
    let (token, bell) = (control.scope.token(), control.store.outbox());
    let mut lease = WorkLease::new("webhooks", WEBHOOK_LEASE);
    loop {
        if lease.keep(&control).await
            && let Err(error) = start_due(&control).await
        {
            tracing::error!(%error, cause = ?std::error::Error::source(&error), "could not read the outbox");
        }
        tokio::select! {
            biased;
            () = token.cancelled() => break,
            () = bell.notified() => {}
            () = tokio::time::sleep(WEBHOOK_LOOK_EVERY) => {}
        }
    }
    lease.give_up(&control).await;
}

async fn start_due(control: &Control) -> Result<(), StoreError> {
    let now_ns = control.clock.now_ns();
    for webhook in control.store.due_webhooks(now_ns).await? {
        let room = control.webhooks.flights.room(&webhook.workspace, webhook.id, webhook.failing);
        if room == 0 {
            continue;
        }
        // Deliveries in progress are still due, so the list contains them too.
        let count = room + control.webhooks.flights.count(webhook.id);
        let mut started = 0;
        for delivery in control.store.due_deliveries(webhook.id, now_ns, count).await? {
            if started == room {
                break;
            }
            let place = (webhook.id, delivery);
            let Some(flight) = control.webhooks.flights.start(control.store.outbox(), &webhook.workspace, place) else {
                continue;
            };
            started += 1;
            let courier = control.clone();
            control.scope.start("deliver event", async move { courier.deliver(delivery, flight).await });
        }
    }
    Ok(())
}
