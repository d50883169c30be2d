//! Finishes what an earlier run of the server had begun: snapshots and volumes that were being made
//! or deleted. Nobody was told of the former and everybody of the latter, so both go; but a volume
//! in use stays, whose delete had to be refused. Builds that were under way have failed.

use crate::{
    Control,
    store::{Made, StoreError, Unfinished},
};

/// How a host refuses to remove a volume that a sandbox uses. Its delete was to be refused, and
/// nobody lives to say so: the volume is its owner's as before. Were it left hidden, it would go
/// with the sandbox that uses it.
const ATTACHED: &str = "volume.attached";

const CUT_OFF: &str = "the server was stopped during the build; build again";

/// What an answer that was lost is remembered with; nobody sees it.
const LOST_STATUS: u16 = 409;

/// Gives up every layer and disk whose row is not settled. What the host cannot do now is left for
/// the next start.
pub async fn finish(control: &Control) -> Result<(), StoreError> {
    for layer in control.store.unfinished_snapshots().await? {
        if let Err(fault) = control.give_up(layer).await {
            tracing::warn!(%layer, %fault, "an unfinished snapshot could not be given up");
        }
    }
    for (volume, unfinished) in control.store.unfinished_volumes().await? {
        match (unfinished, control.unmake(volume.id).await) {
            (_, Ok(())) => {}
            (Unfinished::Delete, Err(fault)) if fault.code == ATTACHED => {
                control.store.show_volume(volume.id, volume.size).await?;
            }
            (Unfinished::Make | Unfinished::Delete, Err(fault)) => {
                tracing::warn!(volume = %volume.id, %fault, "an unfinished volume could not be removed");
            }
        }
    }
    take_back(control).await
}

/// Takes back what requests with an idempotency key had made when they were cut off. Their callers
/// were told nothing, and will ask again.
async fn take_back(control: &Control) -> Result<(), StoreError> {
    for (attempt, made) in control.store.unfinished_attempts().await? {
        let mut clean = true;
        if made.iter().any(|(kind, _)| *kind == Made::InGuest) {
            // It may be there, under a name that only its answer told. Whoever asks again hears
            // that, and can look.
            control.store.answer_attempt(&attempt, LOST_STATUS, None).await?;
            continue;
        }
        for (kind, id) in made {
            if let Err(fault) = control.take_back_made(&attempt.workspace, kind, &id).await {
                tracing::warn!(?kind, id, %fault, "what an unfinished request made could not be taken back");
                clean = false;
            }
        }
        if clean {
            control.store.drop_attempt(&attempt).await?;
        }
    }
    for build in control.store.unfinished_builds().await? {
        control.store.fail_build(build.id, CUT_OFF, control.clock.now_ns()).await?;
        match control.builds.logs.begin(build.id).await {
            Ok(log) => log.say(format!("build failed: {CUT_OFF}")).await,
            Err(error) => tracing::warn!(build = %build.id, %error, "a build's log could not be ended"),
        }
    }
    for holding in control.store.holdings(None).await? {
        control.give_up_holding(holding).await;
    }
    Ok(())
}
