//! Mounts the sandbox's volumes at their paths, and grows their file systems with their disks. The
//! disks exist from the first boot, empty; the host replaces their contents while the guest is
//! stopped.

mod disks;
mod ext4;
mod mounts;

use std::{io, rc::Rc};

use pandastack_wire_guest::{ErrorKind, Frame, VolumeDevices};

pub use disks::Disks;

use crate::{
    Agent,
    rebirth::done,
    session::{AgentChannel, GuestFault, kind_of},
};

/// A volume that cannot be used as requested.
#[derive(Debug, thiserror::Error)]
pub enum GuestVolumeError {
    #[error("this guest has no disk {serial}")]
    NoDisk { serial: String },
    #[error("disk {serial} did not reach its size of {size} bytes")]
    Small { serial: String, size: u64 },
    #[error("{path} is not a directory")]
    NotADirectory { path: String },
    #[error("create the directory {path}")]
    Directory {
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("mount {device} at {path}")]
    Mount {
        device: String,
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("{what}")]
    Look {
        what: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error("grow the file system at {path}")]
    Grow {
        path: String,
        #[source]
        cause: io::Error,
    },
}

impl From<GuestVolumeError> for GuestFault {
    fn from(error: GuestVolumeError) -> Self {
        let kind = match &error {
            GuestVolumeError::NoDisk { .. } => ErrorKind::Missing,
            GuestVolumeError::NotADirectory { .. } => ErrorKind::WrongType,
            GuestVolumeError::Small { .. } => ErrorKind::Failed,
            GuestVolumeError::Directory { cause, .. }
            | GuestVolumeError::Mount { cause, .. }
            | GuestVolumeError::Look { cause, .. }
            | GuestVolumeError::Grow { cause, .. } => kind_of(cause),
        };
        GuestFault::describe(kind, &error)
    }
}

/// Mounts volumes in the given order. Existing mounts stay as they are.
pub(crate) async fn mount(
    agent: &Rc<Agent>,
    channel: &AgentChannel,
    volumes: VolumeDevices,
) -> Result<Frame, GuestFault> {
    on_disks(agent, move |disks| disks.mount(&volumes.volumes)).await?;
    Ok(done(channel))
}

/// Grows the file systems of volumes whose disks have grown, wherever they are mounted.
pub(crate) async fn grow(
    agent: &Rc<Agent>,
    channel: &AgentChannel,
    volumes: VolumeDevices,
) -> Result<Frame, GuestFault> {
    on_disks(agent, move |disks| disks.grow(&volumes.volumes)).await?;
    Ok(done(channel))
}

/// Runs work on a blocking thread: replaying a journal or growing a large disk takes long.
async fn on_disks(
    agent: &Rc<Agent>,
    work: impl FnOnce(Disks) -> Result<(), GuestVolumeError> + Send + 'static,
) -> Result<(), GuestFault> {
    agent.writable().await;
    // An agent beside other programs has no disks to act on.
    let Some(disks) = agent.system.disks() else { return Ok(()) };
    let worked = tokio::task::spawn_blocking(move || work(disks)).await;
    worked.map_err(|error| GuestFault::describe(ErrorKind::Failed, &error))?.map_err(GuestFault::from)
}
