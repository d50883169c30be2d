//! Keeps a server's files private to its own user. The data folder and the folder of running
//! machines are closed at every start; this file lists paths that were opened since. Deeper paths
//! lie behind a closed folder and are not checked.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use pandastack_sys::private;

/// A file or folder that other users of this computer may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenPath {
    pub path: PathBuf,
    pub mode: u32,
}

impl fmt::Display for OpenPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is accessible to other users (mode {:04o})", self.path.display(), self.mode)
    }
}

/// Lists paths that other users may use: the data folder and its direct entries, the folders in its
/// volume, and the folder of running machines.
pub fn open_paths(data_dir: &Path, run_root: &Path) -> Vec<OpenPath> {
    let tops = [data_dir, run_root].map(Path::to_owned);
    let folders = entries(&data_dir.join("volume")).filter(|path| path.is_dir());
    let paths = tops.into_iter().chain(entries(data_dir)).chain(folders);
    let open = paths.filter_map(|path| Some(OpenPath { mode: private::open_mode(&path)?, path }));
    open.collect()
}

/// Closes all open paths. An older version or a person may have left them open.
pub fn close_paths(data_dir: &Path, run_root: &Path) -> io::Result<()> {
    open_paths(data_dir, run_root).iter().try_for_each(|open| private::close(&open.path).map(drop))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_opened_is_listed_and_closed() {
        let own = tempfile::tempdir().unwrap();
        let (data, run) = (own.path().join("data"), own.path().join("run"));
        let folders = [&data, &data.join("volume"), &data.join("volume/disks"), &run];
        for folder in folders {
            private::make_folder(folder).unwrap();
        }
        let database = data.join("ledger.db");
        private::file().write(true).open(&database).unwrap();
        assert_eq!(open_paths(&data, &run), []);
        for (path, mode) in folders.into_iter().map(|folder| (folder, 0o755)).chain([(&database, 0o604)]) {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open_paths(&data, &run), [OpenPath { path: path.clone(), mode }]);
            close_paths(&data, &run).unwrap();
            assert_eq!(open_paths(&data, &run), []);
        }
    }
}
