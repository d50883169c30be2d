//! Mounts the sandbox's volumes where their owner wants them, and lets their file systems fill
//! disks that have grown. The disks are there from the first boot, empty; the host exchanges what
//! is in them while we stand still.

mod disks;
mod ext4;
mod mounts;

use std::{io, rc::Rc};

use pandastack_wire_guest::{ErrorKind, Frame, Volumes};

pub use disks::Disks;

use crate::{
    Agent,
    rebirth::done,
    session::{Channel, Fault, kind_of},
};

/// A volume that cannot be used as asked.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("this guest has no disk {serial}")]
    NoDisk { serial: String },
    #[error("disk {serial} did not show its {size} bytes")]
    Small { serial: String, size: u64 },
    #[error("{path} is not a directory")]
    NotADirectory { path: String },
    #[error("make the directory {path}")]
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

/// Mounts volumes, in the order given. What is mounted already stays as it is.
pub(crate) async fn mount(agent: &Rc<Agent>, channel: &Channel, volumes: Volumes) -> Result<Frame, Fault> {
    on_disks(agent, move |disks| disks.mount(&volumes.volumes)).await?;
    Ok(done(channel))
}

/// Grows the file systems of volumes whose disks have grown, wherever they are mounted now.
pub(crate) async fn grow(agent: &Rc<Agent>, channel: &Channel, volumes: Volumes) -> Result<Frame, Fault> {
    on_disks(agent, move |disks| disks.grow(&volumes.volumes)).await?;
    Ok(done(channel))
}

/// Off the agent's thread: a journal that must be replayed, or a large disk that grows, takes its
/// time.
async fn on_disks(
    agent: &Rc<Agent>,
    work: impl FnOnce(Disks) -> Result<(), VolumeError> + Send + 'static,
) -> Result<(), Fault> {
    agent.writable().await;
    // Beside other programs there are no disks of ours to act on.
    let Some(disks) = agent.system.disks() else { return Ok(()) };
    let worked = tokio::task::spawn_blocking(move || work(disks)).await;
    worked.map_err(|error| Fault::describe(ErrorKind::Failed, &error))?.map_err(Fault::from)
}
