//! Finishes the operations that an earlier run of the server left unfinished. Snapshots and volumes
//! that were being made or deleted are removed. A volume in use stays, because its delete must be
//! refused. Interrupted builds have failed.

use crate::{
    Control,
    store::{ResourceKind, StoreError, UnfinishedOperation},
};

/// The code with which a host refuses to remove a volume that a sandbox uses. The interrupted
/// delete would have been refused, so the volume is shown again. If it stayed hidden, it would be
/// deleted when that sandbox is.
const ATTACHED: &str = "volume.attached";

const CUT_OFF: &str = "the server stopped during the build; start the build again";

/// Status recorded for a lost response. No caller sees it.
const LOST_STATUS: u16 = 409;

/// Releases every layer and disk with an unfinished row. If the host fails, the next start tries
/// again.
pub async fn finish(control: &Control) -> Result<(), StoreError> {
    for layer in control.store.unfinished_snapshots().await? {
        if let Err(fault) = control.give_up(layer).await {
            tracing::warn!(%layer, %fault, "could not release an unfinished snapshot");
        }
    }
    for (volume, unfinished) in control.store.unfinished_volumes().await? {
        match (unfinished, control.remove_volume_disk(volume.id).await) {
            (_, Ok(())) => {}
            // The volume of a deleted sandbox that the host still has goes after that sandbox.
            (UnfinishedOperation::Delete, Err(fault)) if fault.code == ATTACHED && volume.sandbox.is_none() => {
                control.store.show_volume(volume.id, volume.size, control.clock.now_ns()).await?;
            }
            (UnfinishedOperation::Make | UnfinishedOperation::Delete, Err(fault)) => {
                tracing::warn!(volume = %volume.id, %fault, "could not remove an unfinished volume");
            }
        }
    }
    for server in control.store.own_names() {
        take_back(control, server).await?;
    }
    if let Err(fault) = control.finish_databases().await {
        tracing::warn!(%fault, "could not finish interrupted databases");
    }
    end_builds(control).await
}

/// Removes the results of a server's interrupted requests that had an idempotency key. Their
/// callers got no response and will repeat the request. Requests of a running server are left
/// alone.
pub async fn take_back(control: &Control, server: &str) -> Result<(), StoreError> {
    for attempt in control.store.unfinished_attempts(server).await? {
        let here = (control.clock.now_ns(), control.host.is_here());
        let Some(made) = control.store.take_over_attempt(&attempt, server, here).await? else { continue };
        tracing::info!(
            server,
            workspace = attempt.workspace.0,
            "undoing an interrupted request of a server that ended"
        );
        let mut clean = true;
        if made.iter().any(|(kind, _)| *kind == ResourceKind::InGuest) {
            // The result may exist in the guest under a name that only the lost response had. A
            // repeated request is told so, and its caller can check.
            control.store.answer_attempt(&attempt, LOST_STATUS, None).await?;
            continue;
        }
        for (kind, id) in made {
            if let Err(fault) = control.take_back_made(&attempt.workspace, kind, &id).await {
                tracing::warn!(?kind, id, %fault, "could not remove the result of an interrupted request");
                clean = false;
            }
        }
        if clean {
            control.store.drop_attempt(&attempt).await?;
        }
    }
    Ok(())
}

/// Fails interrupted builds and releases their resources.
async fn end_builds(control: &Control) -> Result<(), StoreError> {
    for build in control.store.unfinished_builds().await? {
        control.store.fail_build(build.id, CUT_OFF, control.clock.now_ns()).await?;
        match control.templates.builds.logs.begin(build.id).await {
            Ok(log) => log.say(format!("build failed: {CUT_OFF}")).await,
            Err(error) => tracing::warn!(build = %build.id, %error, "could not write the end of a build's log"),
        }
    }
    for holding in control.store.holdings(None).await? {
        control.give_up_holding(holding).await;
    }
    Ok(())
}
