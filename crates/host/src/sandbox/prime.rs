//! Runs a machine briefly before it is needed. An emulated CPU translates code before its first
//! use, so the first exchange and the first process of a restored guest cost ten times the second.
//! A primed machine has done both, is paused again, and is reborn when a sandbox gets it. If its
//! template has a rehearsal of code, it has done that too.

use std::time::Duration;

use pandastack_kit::random_bytes;
use pandastack_wire_fleet::{ExecEvent, ExecParams, UseKind};

use super::{
    identity::GuestIdentity,
    launch::{LaunchError, greet},
    prepare::{HostContext, PreparedMachine},
};
use crate::guest;

/// Longest rehearsal of code. An emulated CPU needs a tenth of that.
const REHEARSAL_MAX: Duration = Duration::from_secs(60);

/// Primes a prepared machine. On failure the caller unwinds it.
pub async fn prime(context: &HostContext, prepared: &mut PreparedMachine) -> Result<(), LaunchError> {
    prepared.machine.resume().await?;
    let secret = random_bytes::<32>();
    let nobody = || GuestIdentity::Nobody.rebirth(&secret);
    let session = greet(context, &*prepared.machine, &prepared.layer, &nobody).await?;
    let rehearsal = ExecParams::shell("true", context.settings.launch_deadline);
    // Only a rehearsal: a template without a shell is valid too.
    if let Ok(mut running) = guest::exec(&session, rehearsal, UseKind::Client, &context.scope).await {
        while let Some(ExecEvent::Stdout(_) | ExecEvent::Stderr(_)) = running.events.recv().await {}
    }
    // Most templates have no rehearsal of code, and the guest answers at once.
    if let Err(error) = guest::rehearse_code(&session, REHEARSAL_MAX).await {
        tracing::debug!(%error, "a standby machine has not rehearsed its code");
    }
    prepared.machine.pause().await?;
    prepared.session = Some(session);
    Ok(())
}
