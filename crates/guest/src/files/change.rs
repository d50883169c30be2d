//! Makes folders, moves paths, sets permission bits.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    rc::Rc,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
};
use pandastack_wire_guest::{CreateDir, ErrorKind, Frame, RenamePath, SetMode};

use super::{FileError, absolute, entry::PERMISSIONS, failed};
use crate::{
    Agent, limits,
    rebirth::done,
    session::{AgentChannel, GuestFault},
};

/// Makes a folder.
pub(crate) async fn make_dir(agent: &Rc<Agent>, channel: &AgentChannel, ask: CreateDir) -> Result<Frame, GuestFault> {
    let path = absolute(&ask.path)?;
    agent.writable().await;
    let made = if ask.parents { fs::create_dir_all(path) } else { fs::create_dir(path) };
    match made {
        Ok(()) => Ok(done(channel)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path).into()),
        Err(cause) => Err(failed("create the directory", path)(cause).into()),
    }
}

/// Moves a path. Missing parents of the target are not created. A folder is replaced only if it is
/// empty.
pub(crate) async fn move_path(agent: &Rc<Agent>, channel: &AgentChannel, ask: RenamePath) -> Result<Frame, GuestFault> {
    let (from, to) = (absolute(&ask.from)?, absolute(&ask.to)?);
    agent.writable().await;
    let flags = if ask.overwrite { RenameFlags::empty() } else { RenameFlags::RENAME_NOREPLACE };
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) {
        Ok(()) => Ok(done(channel)),
        Err(Errno::EEXIST | Errno::ENOTEMPTY) => Err(exists(to).into()),
        Err(cause) => Err(failed("move", from)(cause.into()).into()),
    }
}

/// Sets permission bits. A named link is followed; links found below a folder are left alone.
pub(crate) async fn chmod(agent: &Rc<Agent>, channel: &AgentChannel, ask: SetMode) -> Result<Frame, GuestFault> {
    let path = absolute(&ask.path)?;
    let mode = ask.mode & PERMISSIONS;
    agent.writable().await;
    set(path, mode)?;
    if ask.recursive && path.is_dir() {
        let root = path.to_owned();
        // On a blocking thread: a folder may hold a million files.
        let below = tokio::task::spawn_blocking(move || set_below(&root, mode)).await;
        below.map_err(|error| GuestFault::describe(ErrorKind::Failed, &error))??;
    }
    Ok(done(channel))
}

fn set_below(root: &Path, mode: u32) -> Result<(), FileError> {
    let mut folders: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        if depth >= limits::DEPTH_MAX {
            return Err(FileError::TooDeep { path: root.display().to_string() });
        }
        for entry in fs::read_dir(&folder).map_err(failed("list", &folder))? {
            let entry = entry.map_err(failed("list", &folder))?;
            let kind = entry.file_type().map_err(failed("stat", &folder))?;
            if kind.is_symlink() {
                continue;
            }
            let path = entry.path();
            set(&path, mode)?;
            if kind.is_dir() {
                folders.push((path, depth + 1));
            }
        }
    }
    Ok(())
}

fn set(path: &Path, mode: u32) -> Result<(), FileError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("set the mode of", path))
}

fn exists(path: &Path) -> FileError {
    FileError::Exists { path: path.display().to_string() }
}
