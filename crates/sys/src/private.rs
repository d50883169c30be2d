//! Files and folders that nobody but their owner may use. The umask closes what a process makes from now on; the rest of this file
//! closes single paths, for processes that were started with another umask and for what an older version made.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use nix::sys::stat::{Mode, umask};

/// What the group and all other users may do.
const OTHERS: u32 = 0o077;
/// A private folder.
const FOLDER: u32 = 0o700;
/// A private file.
const FILE: u32 = 0o600;

/// Makes every file and folder of this process private from now on, and those of the programs it starts.
pub fn close_umask() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// Makes a folder, with those above it if they are missing, and closes it if it was there already.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    close(path).map(drop)
}

/// Says how a file is opened that is made private if it is missing. The caller adds how it is used.
pub fn file() -> OpenOptions {
    let mut options = File::options();
    options.create(true).mode(FILE);
    options
}

/// The mode of a file or folder that others may use; none if it is private, a link, or gone.
pub fn open_mode(path: &Path) -> Option<u32> {
    let about = fs::symlink_metadata(path).ok().filter(|about| !about.file_type().is_symlink())?;
    let mode = about.permissions().mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Takes a file or folder away from the group and all other users. `true` if they had access.
pub fn close(path: &Path) -> io::Result<bool> {
    let Some(mode) = open_mode(path) else { return Ok(false) };
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)).map(|()| true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_made_or_closed_is_nobody_elses() {
        let root = std::env::temp_dir().join(format!("pandastack-private-{}", std::process::id()));
        let folder = root.join("one/two");
        make_folder(&folder).unwrap();
        assert_eq!([open_mode(&root), open_mode(&folder)], [None, None]);
        let path = folder.join("file");
        file().write(true).open(&path).unwrap();
        assert_eq!(open_mode(&path), None);
        for (path, mode) in [(&folder, 0o755), (&path, 0o640)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_mode(path), Some(mode));
            assert!(close(path).unwrap() && !close(path).unwrap());
        }
        let link = folder.join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert_eq!((open_mode(&link), close(&link).unwrap()), (None, false), "a link is not followed");
        fs::remove_dir_all(&root).unwrap();
    }
}
