//! Files and folders that only their owner may use. The umask makes new ones private. The rest of
//! this file makes single paths private: those of processes started with another umask, and those
//! that an older version made.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use nix::sys::stat::{Mode, umask};

/// Permissions of the group and all other users.
const OTHERS: u32 = 0o077;
/// Mode of a private folder.
const FOLDER: u32 = 0o700;
/// Mode of a private file.
const FILE: u32 = 0o600;

/// Makes every new file and folder of this process private, and those of the programs it starts.
pub fn close_umask() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// Makes a private folder, with missing parents, and makes it private if it exists already.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    close(path).map(drop)
}

/// Options to open a file, created private if missing. The caller adds the access mode.
pub fn file() -> OpenOptions {
    let mut options = File::options();
    options.create(true).mode(FILE);
    options
}

/// The mode of a file or folder that others may access. `None` if it is private, a link, or gone.
pub fn open_mode(path: &Path) -> Option<u32> {
    let about = fs::symlink_metadata(path).ok().filter(|about| !about.file_type().is_symlink())?;
    let mode = about.permissions().mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Removes the access of the group and all other users. Returns `true` if they had any.
pub fn close(path: &Path) -> io::Result<bool> {
    let Some(mode) = open_mode(path) else { return Ok(false) };
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)).map(|()| true)
}

#[cfg(test)]
mod tests {
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
