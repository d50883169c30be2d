//! Lists a folder by name, in as many frames as needed.

use std::{ffi::OsString, fs, path::Path};

use pandastack_wire_guest::{self as wire, DirEntries, DirEntry, Frame, Message};

use super::{FileError, absolute, entry, failed};
use crate::{
    limits,
    session::{AgentChannel, GuestFault},
};

/// Encoded size of an entry without its texts, rounded up.
const ENTRY_BYTES: usize = 64;

/// Sends all batches but the last, and returns the last one.
pub(crate) async fn list(
    channel: &AgentChannel,
    wire::PathMessage { path }: wire::PathMessage,
) -> Result<Frame, GuestFault> {
    let path = absolute(&path)?;
    let names = names(path).await?;
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for (index, name) in names.iter().enumerate() {
        if index % limits::ENTRIES_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
        // Deleted in the meantime, so it is left out.
        let Ok(entry) = entry::of(&path.join(name)) else { continue };
        if bytes > limits::ENTRIES_BYTES {
            let entries = std::mem::take(&mut batch);
            channel.send(DirEntries { entries }.frame(channel.id)).await;
            bytes = 0;
        }
        bytes += size_of_entry(&entry);
        batch.push(entry);
    }
    Ok(DirEntries { entries: batch }.frame(channel.id).end())
}

/// Estimates the encoded size of an entry.
pub(super) fn size_of_entry(entry: &DirEntry) -> usize {
    ENTRY_BYTES + entry.name.len() + entry.target.as_ref().map_or(0, String::len)
}

/// Returns a folder's names, sorted.
pub(super) async fn names(path: &Path) -> Result<Vec<OsString>, FileError> {
    let folder = fs::read_dir(path).map_err(|cause| match cause.raw_os_error() {
        Some(libc::ENOTDIR) => FileError::NotAFolder { path: path.display().to_string() },
        _ => failed("list", path)(cause),
    })?;
    let mut names = Vec::new();
    for entry in folder {
        if names.len() >= limits::DIRECTORY_ENTRIES_MAX {
            return Err(FileError::TooMany { path: path.display().to_string() });
        }
        if names.len() % limits::ENTRIES_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
        names.push(entry.map_err(failed("list", path))?.file_name());
    }
    names.sort_unstable();
    Ok(names)
}
