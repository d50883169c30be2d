//! Looks after what the host has and the database never knew.

use crate::{
    Control,
    limits::{ORPHAN_RETRY, ORPHANS_EVERY},
};

/// Does the next step of everything that was put aside, until shutdown.
pub async fn look_after_orphans(control: Control) {
    let token = control.scope.token();
    loop {
        let pause = match control.look_after_orphans().await {
            Ok(()) => ORPHANS_EVERY,
            Err(fault) => {
                tracing::warn!(%fault, detail = fault.detail, "could not look after what was put aside");
                ORPHAN_RETRY
            }
        };
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
