//! Gives a restored guest its new life, and holds it still for the seal of the old one.

mod system;

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use pandastack_wire_guest::{ErrorKind, Frame, GENERATION, Kind, Rebirth, Reborn};

pub use system::{Bystander, Machine, System};

use crate::{
    Agent, limits,
    session::{Channel, Fault, kind_of},
};

/// A system that did not do what a new life, a seal or an end needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RebirthError {
    #[error("an empty secret would let everybody in")]
    EmptySecret,
    #[error("{what}")]
    System {
        what: &'static str,
        #[source]
        cause: std::io::Error,
    },
}

impl From<RebirthError> for Fault {
    fn from(error: RebirthError) -> Self {
        let kind = match &error {
            RebirthError::EmptySecret => ErrorKind::Invalid,
            RebirthError::System { cause, .. } => kind_of(cause),
        };
        Fault::describe(kind, &error)
    }
}

/// Takes everything on that makes this guest different from its siblings. Runs in one go: nothing
/// of the guest's agent happens between the old life and the new one. Who knows our secret already
/// is still in the same life: after a pause it renews the clock and the random generator, and
/// nothing ends.
pub(crate) fn perform(agent: &Agent, rebirth: Rebirth) -> Result<Reborn, Fault> {
    let Rebirth { wall_clock_ns, entropy, secret, identity } = rebirth;
    if secret.is_empty() {
        return Err(RebirthError::EmptySecret.into());
    }
    // A seal may have been taken of a frozen guest, and the files below must be written.
    resume_writes(agent)?;
    let system = &agent.system;
    let new_life = !agent.knows(&secret);
    set_clock(&**system, wall_clock_ns).map_err(|cause| RebirthError::System { what: "set the clock", cause })?;
    system.reseed(&entropy).map_err(|cause| RebirthError::System { what: "reseed the random generator", cause })?;
    if let Some(identity) = identity {
        system
            .take_identity(&identity)
            .map_err(|cause| RebirthError::System { what: "take the identity on", cause })?;
        agent.replace_env(identity.env);
    }
    if new_life {
        // Last, so that whoever waits for it finds everything else renewed.
        system.begin_generation().map_err(|cause| RebirthError::System { what: "begin a generation", cause })?;
        agent.replace_secret(secret);
        agent.births.set(agent.births.get() + 1);
    }
    Ok(Reborn { wall_clock_ns: system.clock(), generation: Some(GENERATION) })
}

/// Ends the connections of the old life a little later. Whoever gave us the new one waits for an
/// answer, and may ask something at once; in a restored guest, closing a socket is new code.
/// Nothing that still comes on those connections is heeded meanwhile.
pub(crate) fn end_old_life(agent: &Rc<Agent>) {
    let agent = agent.clone();
    tokio::task::spawn_local(async move {
        tokio::time::sleep(limits::OUTLIVED_PAUSE).await;
        agent.reborn.notify_waiters();
    });
}

/// Sets the clock, unless it is only a little ahead: then the message was late, not we, and
/// nobody's time goes back.
fn set_clock(system: &dyn System, wanted_ns: u64) -> std::io::Result<()> {
    let ahead = Duration::from_nanos(system.clock().saturating_sub(wanted_ns));
    if !ahead.is_zero() && ahead <= limits::CLOCK_AHEAD_MAX {
        return Ok(());
    }
    system.set_clock(wanted_ns)
}

/// Flushes and freezes the file systems.
pub(crate) async fn quiesce(agent: &Rc<Agent>, channel: &Channel) -> Result<Frame, Fault> {
    // Off the thread: flushing takes as long as there is to flush.
    let flushed = tokio::task::spawn_blocking(nix::unistd::sync).await;
    flushed.map_err(|error| Fault::describe(ErrorKind::Failed, &error))?;
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
            // Nobody is left to be told; the next thaw reports what stands in the way.
            let _ = resume_writes(&forgotten);
        }
    });
    Ok(done(channel))
}

/// Lets writes go on.
pub(crate) fn thaw(agent: &Rc<Agent>, channel: &Channel) -> Result<Frame, Fault> {
    resume_writes(agent)?;
    Ok(done(channel))
}

/// Ends the guest. The reply gets a moment to leave.
pub(crate) async fn power_off(agent: &Rc<Agent>, channel: &Channel) -> Result<Frame, Fault> {
    resume_writes(agent)?;
    let agent = agent.clone();
    tokio::task::spawn_local(async move {
        let _ = tokio::task::spawn_blocking(nix::unistd::sync).await;
        tokio::time::sleep(limits::POWER_OFF_AFTER).await;
        agent.system.power_off();
    });
    Ok(done(channel))
}

pub(crate) fn done(channel: &Channel) -> Frame {
    Frame::new(channel.id, Kind::Done, Bytes::new())
}

fn resume_writes(agent: &Agent) -> Result<(), RebirthError> {
    if agent.frozen.get() {
        agent.system.thaw().map_err(|cause| RebirthError::System { what: "thaw the file systems", cause })?;
        agent.frozen.set(false);
        agent.thawed.notify_waiters();
    }
    Ok(())
}
