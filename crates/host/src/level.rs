//! Keeps the data volume from promising more space than the disk under its image has. Other
//! programs write to that disk as well. Why: `docs/decisions/0024-a-full-or-lost-disk.md`.

use std::{sync::Arc, time::Duration};

use crate::sandbox::HostContext;

/// Interval of the checks. The volume's margin covers what others can write in between.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Checks at an interval until the host closes.
pub async fn repeat(context: Arc<HostContext>) {
    let token = context.scope.token();
    let mut is_known = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = token.cancelled() => return,
        }
        let of = context.clone();
        let Ok(levelled) = context.scope.block("level", move || of.volume.level()).await else { return };
        if let Err(error) = &levelled
            && !is_known
        {
            tracing::warn!(%error, "could not limit the data volume to the space of the disk below it");
        }
        is_known = levelled.is_err();
    }
}
