//! Finishes what an earlier run of the server had begun: snapshots and volumes that were being made or deleted. Nobody was told
//! of the former and everybody of the latter, so both go.

use crate::{Control, store::StoreError};

/// Gives up every layer and disk whose row is not settled. What the host cannot do now is left for the next start.
pub async fn finish(control: &Control) -> Result<(), StoreError> {
    for layer in control.store.unfinished_snapshots().await? {
        if let Err(fault) = control.give_up(layer).await {
            tracing::warn!(%layer, %fault, "an unfinished snapshot could not be given up");
        }
    }
    for volume in control.store.unfinished_volumes().await? {
        if let Err(fault) = control.unmake(volume).await {
            tracing::warn!(%volume, %fault, "an unfinished volume could not be removed");
        }
    }
    Ok(())
}
