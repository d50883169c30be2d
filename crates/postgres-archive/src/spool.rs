//! Files that wait on this server's disk. A file is there as a whole or not at all: it is written
//! beside its place, flushed, renamed, and then its folder is flushed. Its time is the guest's.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use pandastack_kit::random_hex;

use crate::{
    limits::{BASE_FREE_BYTES_MIN, SPOOL_BYTES_PER_DATABASE_MAX},
    name::{WalName, checked_id},
};

const TEMPORARY: &str = ".new-";
const WAL: &str = "wal";
const CONFLICTS: &str = "conflicts";
/// A file in an archive's folder that says that all of it must go.
const REMOVED: &str = "removed";

/// The folder with one folder per archive.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
    used: Arc<Mutex<SpoolUse>>,
    bytes_max: u64,
}

/// The bytes that wait or are being received, of all databases and of each.
#[derive(Debug, Default)]
struct SpoolUse {
    total: u64,
    each: HashMap<String, u64>,
}

impl SpoolUse {
    fn of(&self, id: &str) -> u64 {
        self.each.get(id).copied().unwrap_or(0)
    }

    fn take(&mut self, id: &str, bytes: u64) {
        self.total += bytes;
        *self.each.entry(id.to_owned()).or_default() += bytes;
    }

    fn give_back(&mut self, id: &str, bytes: u64) {
        let left = self.of(id).saturating_sub(bytes);
        self.total = self.total.saturating_sub(bytes);
        match left {
            0 => drop(self.each.remove(id)),
            left => drop(self.each.insert(id.to_owned(), left)),
        }
    }
}

/// A file of the log that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingWal {
    pub bytes: u64,
    pub written: SystemTime,
    pub arrived: SystemTime,
}

/// What a start finds of one archive.
#[derive(Debug, Default)]
pub struct Leftovers {
    pub id: String,
    pub waiting: Vec<(WalName, WaitingWal)>,
    pub conflicts: usize,
    pub removal: Removal,
}

/// Whether an archive must be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removal {
    #[default]
    No,
    Begun,
}

/// A share of the spool's bytes, given back when dropped.
#[derive(Debug)]
pub struct Share {
    used: Arc<Mutex<SpoolUse>>,
    id: String,
    bytes: u64,
}

impl Share {
    /// Keeps only so many bytes, for good: the file counts from now on.
    pub fn settle(mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        lock(&self.used).give_back(&self.id, self.bytes);
    }
}

/// A file beside its place. Dropping it removes it.
#[derive(Debug)]
pub struct Draft(PathBuf);

impl Draft {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is no longer there once it has been renamed.
        let _ = fs::remove_file(&self.0);
    }
}

impl Spool {
    pub fn open(folder: PathBuf, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, used: Arc::default(), bytes_max })
    }

    /// Finds what an earlier process left, and removes its unfinished files.
    pub fn recover(&self) -> io::Result<Vec<Leftovers>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let Some(id) = name.to_str().filter(|id| checked_id(id).is_ok()) else { continue };
            let found = self.recover_one(id)?;
            lock(&self.used).take(id, found.waiting.iter().map(|(_, file)| file.bytes).sum());
            all.push(found);
        }
        Ok(all)
    }

    fn recover_one(&self, id: &str) -> io::Result<Leftovers> {
        let home = self.folder.join(id);
        let removal = if home.join(REMOVED).exists() { Removal::Begun } else { Removal::No };
        let mut found = Leftovers { id: id.into(), removal, ..Leftovers::default() };
        for entry in files(&home)?.into_iter().chain(files(&home.join(WAL))?) {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(TEMPORARY) {
                fs::remove_file(entry.path())?;
            } else if let Ok(wal) = name.parse::<WalName>() {
                found.waiting.push((wal, waiting(&entry.metadata()?)?));
            }
        }
        found.conflicts = files(&home.join(CONFLICTS))?.len();
        Ok(found)
    }

    /// Takes a share of the bytes. Nothing if the spool, or the database's part of it, is full.
    pub fn reserve(&self, id: &str, bytes: u64) -> Option<Share> {
        let mut used = lock(&self.used);
        let fits = |used: u64, max: u64| used.checked_add(bytes).is_some_and(|sum| sum <= max);
        if !fits(used.total, self.bytes_max) || !fits(used.of(id), SPOOL_BYTES_PER_DATABASE_MAX) {
            return None;
        }
        used.take(id, bytes);
        Some(Share { used: self.used.clone(), id: id.to_owned(), bytes })
    }

    pub fn bytes(&self) -> u64 {
        lock(&self.used).total
    }

    /// Reports whether the disk has room for a base backup. Blocks for a moment.
    pub fn has_room(&self) -> io::Result<bool> {
        let disk = nix::sys::statvfs::statvfs(&self.folder)?;
        let free = disk.blocks_available().saturating_mul(disk.fragment_size());
        Ok(free >= BASE_FREE_BYTES_MIN)
    }

    /// Makes a new file in the archive's folder. Blocks.
    pub fn draft(&self, id: &str) -> io::Result<(Draft, File)> {
        let home = self.folder.join(id);
        if !home.join(WAL).exists() {
            fs::create_dir_all(home.join(WAL))?;
            sync_folder(&home)?;
            sync_folder(&self.folder)?;
        }
        let path = home.join(format!("{TEMPORARY}{}", random_hex::<8>()));
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok((Draft(path), file))
    }

    /// Makes a file without a name, which is gone when it is closed. Blocks for a moment.
    pub fn unnamed(&self) -> io::Result<File> {
        tempfile::tempfile_in(&self.folder)
    }

    /// Gives a finished file its place. When this returns, it survives a crash. Blocks.
    pub fn keep(&self, id: &str, name: WalName, draft: &Draft, written: SystemTime) -> io::Result<()> {
        let file = File::options().write(true).open(draft.path())?;
        file.set_modified(written)?;
        file.sync_all()?;
        fs::rename(draft.path(), self.path(id, name))?;
        sync_folder(&self.folder.join(id).join(WAL))
    }

    pub fn path(&self, id: &str, name: WalName) -> PathBuf {
        self.folder.join(id).join(WAL).join(name.to_string())
    }

    /// Removes a file that the store has. Blocks.
    pub fn forget(&self, id: &str, name: WalName, bytes: u64) -> io::Result<()> {
        fs::remove_file(self.path(id, name))?;
        lock(&self.used).give_back(id, bytes);
        Ok(())
    }

    /// Puts a file aside whose name the store has with other content. Blocks.
    pub fn set_aside(&self, id: &str, name: WalName, bytes: u64) -> io::Result<()> {
        let folder = self.folder.join(id).join(CONFLICTS);
        fs::create_dir_all(&folder)?;
        fs::rename(self.path(id, name), folder.join(name.to_string()))?;
        sync_folder(&folder)?;
        lock(&self.used).give_back(id, bytes);
        Ok(())
    }

    /// Notes that the archive must go, so that a crash does not bring it back. Blocks.
    pub fn mark_removed(&self, id: &str) -> io::Result<()> {
        let home = self.folder.join(id);
        fs::create_dir_all(&home)?;
        File::create(home.join(REMOVED))?.sync_all()?;
        sync_folder(&home)?;
        sync_folder(&self.folder)
    }

    /// Removes the archive's folder, the note that it must go last. Blocks.
    pub fn remove(&self, id: &str, waiting_bytes: u64) -> io::Result<()> {
        let home = self.folder.join(id);
        lock(&self.used).give_back(id, waiting_bytes);
        for folder in [WAL, CONFLICTS] {
            match fs::remove_dir_all(home.join(folder)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        sync_folder(&home)?;
        fs::remove_dir_all(&home)
    }
}

fn lock(used: &Mutex<SpoolUse>) -> MutexGuard<'_, SpoolUse> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

fn waiting(meta: &fs::Metadata) -> io::Result<WaitingWal> {
    let written = meta.modified()?;
    Ok(WaitingWal { bytes: meta.len(), written, arrived: meta.created().unwrap_or(written) })
}

fn files(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
