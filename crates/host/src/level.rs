//! Keeps what the data volume promises level with what the disk under its image has, which others
//! write to as well. Why: `docs/decisions/0024-a-full-or-lost-disk.md`.

use std::{sync::Arc, time::Duration};

use crate::sandbox::HostContext;

/// Between two looks. What others can write meanwhile is what the volume's margin is for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks every so often, as long as the host lives.
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
            tracing::warn!(%error, "the data volume may promise more than is there");
        }
        is_known = levelled.is_err();
    }
}
