//! Rebirth of a restored guest, and the freeze of its file systems for a seal.

mod system;

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use pandastack_wire_guest::{ErrorKind, Frame, FrameKind, GENERATION, Rebirth, Reborn};

pub use system::{MachineSystem, RecordingSystem, System};

use crate::{
    Agent, limits,
    session::{AgentChannel, GuestFault, kind_of},
};

/// A failed step of a rebirth, a seal or a power-off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RebirthError {
    #[error("the secret must not be empty")]
    EmptySecret,
    #[error("{what}")]
    System {
        what: &'static str,
        #[source]
        cause: std::io::Error,
    },
}

impl From<RebirthError> for GuestFault {
    fn from(error: RebirthError) -> Self {
        let kind = match &error {
            RebirthError::EmptySecret => ErrorKind::Invalid,
            RebirthError::System { cause, .. } => kind_of(cause),
        };
        GuestFault::describe(kind, &error)
    }
}

/// Performs a rebirth: sets everything that makes this guest different from its siblings. Runs
/// without an await, so the agent does nothing else in between. A rebirth with the current secret
/// follows a pause: it renews clock and random generator, and ends nothing.
pub(crate) fn perform(agent: &Agent, rebirth: Rebirth) -> Result<Reborn, GuestFault> {
    let Rebirth { wall_clock_ns, entropy, secret, identity } = rebirth;
    if secret.is_empty() {
        return Err(RebirthError::EmptySecret.into());
    }
    // The guest may have been sealed while frozen, and the files below must be written.
    resume_writes(agent)?;
    let system = &agent.system;
    let new_life = !agent.knows(&secret);
    set_clock(&**system, wall_clock_ns).map_err(|cause| RebirthError::System { what: "set the clock", cause })?;
    system.reseed(&entropy).map_err(|cause| RebirthError::System { what: "reseed the random generator", cause })?;
    if let Some(identity) = identity {
        system.take_identity(&identity).map_err(|cause| RebirthError::System { what: "apply the identity", cause })?;
        agent.replace_env(identity.env);
    }
    if new_life {
        // Last, so that programs that wait for it find everything else renewed.
        system.begin_generation().map_err(|cause| RebirthError::System { what: "begin a generation", cause })?;
        agent.replace_secret(secret);
        agent.births.set(agent.births.get() + 1);
    }
    Ok(Reborn { wall_clock_ns: system.clock(), generation: Some(GENERATION) })
}

/// Closes the connections from before the rebirth a little later. The host waits for the answer and
/// may send a request at once, and closing a socket is slow new code in a restored guest. Frames
/// that still arrive on those connections are ignored.
pub(crate) fn close_old_connections(agent: &Rc<Agent>) {
    let agent = agent.clone();
    tokio::task::spawn_local(async move {
        tokio::time::sleep(limits::OUTLIVED_PAUSE).await;
        agent.reborn.notify_waiters();
    });
}

/// Sets the clock, unless it is only a little ahead: then the message was delayed, and the time
/// must not go back.
fn set_clock(system: &dyn System, wanted_ns: u64) -> std::io::Result<()> {
    let ahead = Duration::from_nanos(system.clock().saturating_sub(wanted_ns));
    if !ahead.is_zero() && ahead <= limits::CLOCK_AHEAD_MAX {
        return Ok(());
    }
    system.set_clock(wanted_ns)
}

/// Flushes and freezes the file systems.
pub(crate) async fn quiesce(agent: &Rc<Agent>, channel: &AgentChannel) -> Result<Frame, GuestFault> {
    // On a blocking thread: a flush may take long.
    let flushed = tokio::task::spawn_blocking(nix::unistd::sync).await;
    flushed.map_err(|error| GuestFault::describe(ErrorKind::Failed, &error))?;
    agent.frozen.set(true);
    if let Err(cause) = agent.system.freeze() {
        resume_writes(agent)?;
        return Err(RebirthError::System { what: "freeze the file systems", cause }.into());
    }
    let forgotten = agent.clone();
    let generation = agent.freezes.get() + 1;
    agent.freezes.set(generation);
    tokio::task::spawn_local(async move {
        tokio::time::sleep(limits::FROZEN_MAX).await;
        if forgotten.freezes.get() == generation {
            // There is no caller to inform; the next thaw reports the error.
            let _ = resume_writes(&forgotten);
        }
    });
    Ok(done(channel))
}

/// Allows writes again.
pub(crate) fn thaw(agent: &Rc<Agent>, channel: &AgentChannel) -> Result<Frame, GuestFault> {
    resume_writes(agent)?;
    Ok(done(channel))
}

/// Ends the guest, after a short delay for the reply.
pub(crate) async fn power_off(agent: &Rc<Agent>, channel: &AgentChannel) -> Result<Frame, GuestFault> {
    resume_writes(agent)?;
    let agent = agent.clone();
    tokio::task::spawn_local(async move {
        let _ = tokio::task::spawn_blocking(nix::unistd::sync).await;
        tokio::time::sleep(limits::POWER_OFF_AFTER).await;
        agent.system.power_off();
    });
    Ok(done(channel))
}

pub(crate) fn done(channel: &AgentChannel) -> Frame {
    Frame::new(channel.id, FrameKind::Done, Bytes::new())
}

fn resume_writes(agent: &Agent) -> Result<(), RebirthError> {
    if agent.frozen.get() {
        agent.system.thaw().map_err(|cause| RebirthError::System { what: "thaw the file systems", cause })?;
        agent.frozen.set(false);
        agent.thawed.notify_waiters();
    }
    Ok(())
}
