//! Keeps the cache of credentials true: reads what other servers revoked, and removes what has
//! expired.

use crate::{
    Control,
    limits::{ACCESS_PRUNE_EVERY, REVOCATIONS_AGE_MAX, REVOCATIONS_EVERY},
};

/// Reads revocations until shutdown.
pub async fn follow_revocations(control: Control, mut last: u64) {
    let token = control.scope.token();
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(REVOCATIONS_EVERY) => {}
        }
        match control.store.revocations_after(last).await {
            Ok((newest, revoked)) => {
                last = newest;
                control.access.cache.forget(&revoked);
            }
            Err(error) => {
                // Nobody is served from a cache that may be wrong.
                tracing::debug!(%error, "could not read revocations; forgetting all cached callers");
                control.access.cache.clear();
            }
        }
    }
}

/// Removes expired logins and links, and finishes removals of organisations, until shutdown.
pub async fn prune_access(control: Control) {
    let token = control.scope.token();
    loop {
        let now_ns = control.clock.now_ns();
        let before_ns = now_ns.saturating_sub(REVOCATIONS_AGE_MAX.as_nanos() as u64);
        if let Err(error) = control.store.prune_access(now_ns, before_ns).await {
            tracing::warn!(%error, "could not remove expired logins");
        }
        control.finish_removals().await;
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(ACCESS_PRUNE_EVERY) => {}
        }
    }
}
