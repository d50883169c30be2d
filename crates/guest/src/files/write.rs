//! Receives a file's new contents. They go to a temporary file beside the target, which then
//! replaces the target in one step: readers see the old file or the new one, never a part.

use std::{
    cell::Cell,
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    rc::Rc,
};

use pandastack_wire_guest::{BytesWritten, Frame, Message, WriteFile};

use super::{FileError, absolute, entry::PERMISSIONS, failed};
use crate::{
    Agent,
    session::{AgentChannel, GuestFault},
};

/// Mode of a new file.
const NEW_FILE_MODE: u32 = 0o644;

/// Most names tried for the temporary file.
const NAMES_TRIED_MAX: u32 = 64;

/// Mode and owner of the replaced file.
struct ReplacedFile {
    mode: u32,
    owner: Option<(u32, u32)>,
}

/// Receives contents and puts them in place; returns the last frame.
pub(crate) async fn write(
    agent: &Rc<Agent>,
    channel: &AgentChannel,
    WriteFile { path, mode }: WriteFile,
) -> Result<Frame, GuestFault> {
    let path = absolute(&path)?;
    agent.writable().await;
    let (target, before) = inspect(path)?;
    let mut draft = TemporaryFile::create(&target)?;
    let mut written = 0;
    while let Some(bytes) = channel.take_input().await {
        agent.writable().await;
        draft.file.write_all(&bytes).map_err(failed("write", path))?;
        written += bytes.len() as u64;
        channel.credit_back(bytes.len()).await;
        tokio::task::yield_now().await;
    }
    agent.writable().await;
    draft.publish(&target, mode, &before)?;
    Ok(BytesWritten { bytes: written }.frame(channel.id))
}

/// Resolves symlinks to the target file, and reads its mode and owner. Creates missing parent
/// folders.
fn inspect(path: &Path) -> Result<(PathBuf, ReplacedFile), FileError> {
    if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(FileError::NotAFile { path: path.display().to_string() });
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(meta) if meta.is_file() => {
            Ok((target, ReplacedFile { mode: meta.mode() & PERMISSIONS, owner: Some((meta.uid(), meta.gid())) }))
        }
        Ok(_) => Err(FileError::NotAFile { path: path.display().to_string() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder).map_err(failed("create the directory of", path))?;
            }
            Ok((target, ReplacedFile { mode: NEW_FILE_MODE, owner: None }))
        }
        Err(cause) => Err(failed("stat", path)(cause)),
    }
}

/// A temporary file that is deleted when this value is dropped, unless it was published.
struct TemporaryFile {
    path: PathBuf,
    file: File,
    published: bool,
}

impl TemporaryFile {
    fn create(target: &Path) -> Result<Self, FileError> {
        thread_local! { static COUNTER: Cell<u32> = const { Cell::new(0) }; }
        let folder = target.parent().unwrap_or(Path::new("/"));
        for _ in 0..NAMES_TRIED_MAX {
            let number = COUNTER.replace(COUNTER.get().wrapping_add(1));
            let path = folder.join(format!(".pandastack-{}-{number}.part", std::process::id()));
            match File::options().write(true).create_new(true).mode(0o600).open(&path) {
                // Left over after a crash of the machine.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(failed("create a temporary file next to", target)(cause)),
                Ok(file) => return Ok(Self { path, file, published: false }),
            }
        }
        Err(failed("create a temporary file next to", target)(io::ErrorKind::AlreadyExists.into()))
    }

    fn publish(mut self, target: &Path, mode: Option<u32>, before: &ReplacedFile) -> Result<(), FileError> {
        if let Some((user, group)) = before.owner {
            // Without the right to change owners, the file stays ours like any other new one.
            let _ = fchown(&self.file, Some(user), Some(group));
        }
        let mode = mode.map_or(before.mode, |mode| mode & PERMISSIONS);
        self.file.set_permissions(Permissions::from_mode(mode)).map_err(failed("set the mode of", target))?;
        fs::rename(&self.path, target).map_err(failed("rename into place", target))?;
        self.published = true;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_file(&self.path);
        }
    }
}
