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
    session::{Channel, Fault, kind_of},
};

/// A volume that cannot be used as requested.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
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

impl From<VolumeError> for Fault {
    fn from(error: VolumeError) -> Self {
        let kind = match &error {
            VolumeError::NoDisk { .. } => ErrorKind::Missing,
            VolumeError::NotADirectory { .. } => ErrorKind::WrongType,
            VolumeError::Small { .. } => ErrorKind::Failed,
            VolumeError::Directory { cause, .. }
            | VolumeError::Mount { cause, .. }
            | VolumeError::Look { cause, .. }
            | VolumeError::Grow { cause, .. } => kind_of(cause),
        };
        Fault::describe(kind, &error)
    }
}

/// Mounts volumes in the given order. Existing mounts stay as they are.
pub(crate) async fn mount(agent: &Rc<Agent>, channel: &Channel, volumes: VolumeDevices) -> Result<Frame, Fault> {
    on_disks(agent, move |disks| disks.mount(&volumes.volumes)).await?;
    Ok(done(channel))
}

/// Grows the file systems of volumes whose disks have grown, wherever they are mounted.
pub(crate) async fn grow(agent: &Rc<Agent>, channel: &Channel, volumes: VolumeDevices) -> Result<Frame, Fault> {
    on_disks(agent, move |disks| disks.grow(&volumes.volumes)).await?;
    Ok(done(channel))
}

/// Runs work on a blocking thread: replaying a journal or growing a large disk takes long.
async fn on_disks(
    agent: &Rc<Agent>,
    work: impl FnOnce(Disks) -> Result<(), VolumeError> + Send + 'static,
) -> Result<(), Fault> {
    agent.writable().await;
    // An agent beside other programs has no disks to act on.
    let Some(disks) = agent.system.disks() else { return Ok(()) };
    let worked = tokio::task::spawn_blocking(move || work(disks)).await;
    worked.map_err(|error| Fault::describe(ErrorKind::Failed, &error))?.map_err(Fault::from)
}
