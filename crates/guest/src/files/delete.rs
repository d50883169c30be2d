//! Deletes a file or a whole folder. Symlinks are deleted, never followed.

use std::{
    fs, io,
    path::{Component, Path},
    rc::Rc,
};

use pandastack_wire_guest::{self as wire, ErrorKind, Frame};

use super::{FileError, absolute, failed};
use crate::{
    Agent,
    rebirth::done,
    session::{AgentChannel, GuestFault},
};

/// Deletes a path. A missing path succeeds.
pub(crate) async fn delete(
    agent: &Rc<Agent>,
    channel: &AgentChannel,
    wire::PathMessage { path }: wire::PathMessage,
) -> Result<Frame, GuestFault> {
    let path = absolute(&path)?;
    if !path.components().any(|part| matches!(part, Component::Normal(_))) || leads_to_root(path) {
        return Err(FileError::Protected { path: path.display().to_string() }.into());
    }
    agent.writable().await;
    let outcome = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {
            let folder = path.to_owned();
            // On a blocking thread: a folder may hold a million files.
            let deleted = tokio::task::spawn_blocking(move || fs::remove_dir_all(folder)).await;
            deleted.map_err(|error| GuestFault::describe(ErrorKind::Failed, &error))?
        }
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("delete", path)(error).into()),
        _ => Ok(done(channel)),
    }
}

/// Detects other spellings of the root, such as `/tmp/..`.
fn leads_to_root(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
        && fs::canonicalize(path).is_ok_and(|real| real == Path::new("/"))
}
