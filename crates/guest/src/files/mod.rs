//! Files of the guest: read, write, list, stat, delete; and whole folders: make, move, chmod, walk,
//! watch, pack, unpack. Contents are streamed, so no file is held in memory. Disk work runs on the
//! serving thread in small steps; recursive deletes and mode changes run on a blocking thread.

mod change;
mod delete;
mod entry;
mod list;
mod pack;
mod read;
mod tar;
mod unpack;
mod walk;
mod watch;
mod write;

use std::{io, path::Path};

use pandastack_wire_guest::{self as wire, EntryMetadata, ErrorKind, Frame, Message};

pub(crate) use change::{chmod, make_dir, move_path};
pub(crate) use delete::delete;
pub(crate) use list::list;
pub(crate) use pack::pack;
pub(crate) use read::read;
pub(crate) use unpack::{unpack, unpack_whole};
pub(crate) use walk::walk;
pub(crate) use watch::{WatchCount, watch};
pub(crate) use write::write;

use crate::session::{AgentChannel, GuestFault, kind_of};

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("path {path:?} is not absolute")]
    Relative { path: String },
    #[error("path {path:?} contains a NUL byte")]
    ZeroByte { path: String },
    #[error("{path} is not a regular file")]
    NotAFile { path: String },
    #[error("{path} is not a directory")]
    NotAFolder { path: String },
    #[error("{path} cannot be deleted")]
    Protected { path: String },
    #[error("{path} has more than {max} entries", max = crate::limits::DIRECTORY_ENTRIES_MAX)]
    TooMany { path: String },
    #[error("{path} already exists")]
    Exists { path: String },
    #[error("{path} has more than {max} levels of directories", max = crate::limits::DEPTH_MAX)]
    TooDeep { path: String },
    #[error("{act} {path}")]
    System {
        act: &'static str,
        path: String,
        #[source]
        cause: io::Error,
    },
}

impl From<FileError> for GuestFault {
    fn from(error: FileError) -> Self {
        let kind = match &error {
            FileError::Relative { .. } | FileError::ZeroByte { .. } | FileError::Protected { .. } => ErrorKind::Invalid,
            FileError::NotAFile { .. } | FileError::NotAFolder { .. } => ErrorKind::WrongType,
            FileError::TooMany { .. } | FileError::TooDeep { .. } => ErrorKind::Failed,
            FileError::Exists { .. } => ErrorKind::Denied,
            FileError::System { cause, .. } => kind_of(cause),
        };
        GuestFault::describe(kind, &error)
    }
}

/// Adds the operation and the path to an I/O error.
fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |cause| FileError::System { act, path: path.display().to_string(), cause }
}

/// Validates a path from the host.
fn absolute(path: &str) -> Result<&Path, FileError> {
    if path.contains('\0') {
        return Err(FileError::ZeroByte { path: path.to_owned() });
    }
    if !path.starts_with('/') {
        return Err(FileError::Relative { path: path.to_owned() });
    }
    Ok(Path::new(path))
}

/// Describes one path. A symlink is not followed.
pub(crate) fn stat(channel: &AgentChannel, wire::PathMessage { path }: wire::PathMessage) -> Result<Frame, GuestFault> {
    let path = absolute(&path)?;
    let entry = entry::of(path).map_err(failed("stat", path))?;
    Ok(EntryMetadata { entry }.frame(channel.id).end())
}
