//! The metering worker. One server at a time does it.

use super::lease::{WorkLease, host_is_somewhere};
use crate::{
    Control,
    limits::{ACCESS_PRUNE_EVERY, METERING_EVERY, METERING_LEASE},
};

/// Meters usage until shutdown.
pub async fn meter(control: Control) {
    let (token, mut lease) = (control.scope.token(), WorkLease::new("metering", METERING_LEASE));
    let mut pruned_ns = 0;
    loop {
        tokio::select! {
            () = token.cancelled() => break,
            () = tokio::time::sleep(METERING_EVERY) => {}
        }
        // Only the server with the host can read usage and put sandboxes to sleep.
        if !control.host.is_here() && host_is_somewhere(&control).await {
            lease.give_up(&control).await;
            continue;
        }
        if !lease.keep(&control).await {
            continue;
        }
        if let Err(fault) = control.meter_turn().await {
            tracing::warn!(%fault, detail = fault.detail, "could not meter usage; trying again");
        }
        let now_ns = control.clock.now_ns();
        if now_ns.saturating_sub(pruned_ns) >= 60 * ACCESS_PRUNE_EVERY.as_nanos() as u64 {
            pruned_ns = now_ns;
            if let Err(fault) = control.prune_usage().await {
                tracing::warn!(%fault, detail = fault.detail, "could not remove old usage");
            }
        }
    }
    lease.give_up(&control).await;
}
