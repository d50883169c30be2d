//! The archive of all databases of this server: how it is opened, what it says about a database,
//! and the parts that its other files share.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use pandastack_kit::Scope;
use tokio::{
    sync::{Notify, Semaphore, broadcast},
    time::Instant,
};

use crate::{
    health::{ArchiveHealth, HealthChange},
    limits::{BASES_AT_ONCE_MAX, DIRECTORY_MAX, HEALTH_CHANGES_KEPT, SPOOL_BYTES_MAX, UPLOADS_AT_ONCE_MAX},
    name::{BaseName, NameError, WalName, checked_id},
    shelf::{BaseNote, Listing, Shelf, StoredWal},
    spool::{Leftovers, Spool},
    store::{ArchiveStore, ArchiveStoreError, Objects},
    timeline::{RestorePlan, RestoreRefusal, TimelineHistory},
};

/// Where the archive keeps its files.
#[derive(Clone, Debug)]
pub struct ArchiveSettings {
    /// A folder of this server in which files wait for the store.
    pub spool: PathBuf,
    /// How many bytes of the log may wait, for all databases.
    pub spool_bytes_max: u64,
    pub store: ArchiveStore,
}

impl ArchiveSettings {
    /// Settings with the usual size of the spool.
    pub fn new(spool: PathBuf, store: ArchiveStore) -> Self {
        Self { spool, spool_bytes_max: SPOOL_BYTES_MAX, store }
    }
}

/// Who a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A database with an archive of its own.
    Database,
    /// A database that is made from the source's archive, and has none of its own yet.
    Restoring {
        source: String,
    },
    Other,
}

/// The directory could not answer.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct DirectoryError {
    pub reason: String,
}

/// Knows which machine is which database.
#[async_trait]
pub trait ArchiveDirectory: Send + Sync + 'static {
    /// Says who a machine is. After an error the machine keeps its log and tries again.
    async fn who(&self, id: &str) -> Result<Who, DirectoryError>;

    /// Whether anything is being restored from an archive. Nothing is removed from it meanwhile.
    async fn is_read(&self, id: &str) -> Result<bool, DirectoryError>;
}

/// Why an archive cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveOpenError {
    #[error("open the folder {folder:?} of waiting files")]
    Spool {
        folder: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    Store(#[from] ArchiveStoreError),
}

/// A base backup in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseBackup {
    pub name: String,
    /// From when on it can be used.
    pub taken_at: SystemTime,
    pub bytes: u64,
}

impl BaseBackup {
    pub(crate) fn new(name: &BaseName, note: &BaseNote) -> Self {
        Self { name: name.to_string(), taken_at: note.ended_at(), bytes: note.bytes }
    }
}

/// What the archive has of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveState {
    /// Oldest first.
    pub bases: Vec<BaseBackup>,
    /// First and last time that can be restored.
    pub window: Option<(SystemTime, SystemTime)>,
    pub health: ArchiveHealth,
    /// When this process last brought a file to the store.
    pub last_archived_at: Option<SystemTime>,
    /// The last segment in the store.
    pub last_segment: Option<String>,
    pub pending_segments: usize,
    pub pending_bytes: u64,
    /// Whether the store's list was read. Until then the bases and the window may be missing.
    pub listed: bool,
    /// What is wrong, for people.
    pub error: Option<String>,
}

/// Counts since the start, and the bytes that wait now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveFigures {
    /// Files of the log that came from machines and were kept, and their bytes.
    pub spooled: u64,
    pub spooled_bytes: u64,
    /// Files of the log that reached the store, and their bytes.
    pub segments: u64,
    pub segment_bytes: u64,
    /// Attempts to bring one there that failed.
    pub failures: u64,
    pub bases: u64,
    pub base_bytes: u64,
    /// Base backups that were damaged, cut off, or did not reach the store.
    pub base_failures: u64,
    pub spool_bytes: u64,
    /// How long the oldest file of any database has waited for the store, in seconds.
    pub behind_seconds: u64,
}

/// An object that is being read.
pub struct ArchiveRead {
    pub bytes: u64,
    pub stream: BoxStream<'static, io::Result<Bytes>>,
}

/// Why waiting for a segment ended.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("{name} was not archived in time")]
    Late { name: String },
    #[error("the archive was removed")]
    Removed,
    #[error(transparent)]
    Name(#[from] NameError),
}

/// The archive of this server. Clones share it.
#[derive(Clone)]
pub struct Archive {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub spool: Spool,
    pub objects: Objects,
    pub directory: Arc<dyn ArchiveDirectory>,
    pub scope: Scope,
    pub uploads: Semaphore,
    pub bases: Semaphore,
    /// Wakes the uploader.
    pub arrived: Notify,
    pub counts: ArchiveCounts,
    shelves: Mutex<HashMap<String, Arc<Shelf>>>,
    changes: broadcast::Sender<HealthChange>,
}

#[derive(Default)]
pub(crate) struct ArchiveCounts {
    pub spooled: AtomicU64,
    pub spooled_bytes: AtomicU64,
    pub base_failures: AtomicU64,
    pub segments: AtomicU64,
    pub segment_bytes: AtomicU64,
    pub bases: AtomicU64,
    pub base_bytes: AtomicU64,
    pub failures: AtomicU64,
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, amount: u64) {
    count.fetch_add(amount, Ordering::Relaxed);
}

impl Archive {
    /// Opens the archive and finds what an earlier process left to upload. The work that must end
    /// once begun runs in the scope.
    pub fn open(
        settings: ArchiveSettings,
        directory: Arc<dyn ArchiveDirectory>,
        scope: Scope,
    ) -> Result<Self, ArchiveOpenError> {
        let folder = settings.spool.clone();
        let in_spool = |cause| ArchiveOpenError::Spool { folder: folder.clone(), cause };
        let spool = Spool::open(settings.spool, settings.spool_bytes_max).map_err(in_spool)?;
        let found = spool.recover().map_err(in_spool)?;
        let shelves = found.into_iter().map(|left| (left.id.clone(), Arc::new(Shelf::new(left)))).collect();
        let inner = Inner {
            spool,
            objects: Objects::open(settings.store)?,
            directory,
            scope,
            uploads: Semaphore::new(UPLOADS_AT_ONCE_MAX),
            bases: Semaphore::new(BASES_AT_ONCE_MAX),
            arrived: Notify::new(),
            counts: ArchiveCounts::default(),
            shelves: Mutex::new(shelves),
            changes: broadcast::channel(HEALTH_CHANGES_KEPT).0,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Says what the archive has of one database. A store that does not answer is an error in it.
    pub async fn state(&self, id: &str) -> Result<ArchiveState, NameError> {
        let shelf = self.shelf(id)?;
        let unread = self.read_list(&shelf).await.err();
        self.assess(&shelf);
        let facts = shelf.facts();
        let found = facts.holdings().restorable();
        let last = facts.stored.keys().rfind(|name| matches!(name, WalName::Segment(_)));
        let gap = found.gap.map(|segment| format!("segment {segment} is missing; a new base backup is needed"));
        let error = facts.conflict.clone().or_else(|| facts.error.clone()).or(unread).or(gap);
        Ok(ArchiveState {
            bases: facts.bases.iter().map(|(name, note)| BaseBackup::new(name, note)).collect(),
            window: found.window(),
            health: facts.health,
            last_archived_at: facts.last_archived_at,
            last_segment: last.map(ToString::to_string),
            pending_segments: facts.waiting.len(),
            pending_bytes: facts.waiting.values().map(|file| file.bytes).sum(),
            listed: facts.listing == Listing::Read,
            error,
        })
    }

    /// Chooses the base for a restore. A rule about how recent a time may be is the caller's.
    pub async fn plan_restore(&self, id: &str, target: Option<SystemTime>) -> Result<RestorePlan, RestoreRefusal> {
        let shelf = self.shelf(id).map_err(|_| RestoreRefusal::NoBackup)?;
        let unavailable = |reason| RestoreRefusal::Unavailable { reason };
        self.read_list(&shelf).await.map_err(unavailable)?;
        // A removal that has begun may take the backup that would be chosen.
        let turn = tokio::time::timeout(DIRECTORY_MAX, shelf.turn.read()).await;
        let _turn = turn.map_err(|_| unavailable("old backups are being removed".into()))?;
        let found = shelf.facts().holdings().restorable();
        found.plan(target)
    }

    /// Waits until a file of the log, or a later one, and all before it are in the store.
    pub async fn wait_for(&self, id: &str, name: &str, deadline: Instant) -> Result<(), WaitError> {
        let (shelf, wanted) = (self.shelf(id)?, name.parse::<WalName>()?);
        let mut changed = shelf.changed.subscribe();
        let stored = async {
            // A list that cannot be read yet is tried again by the uploader.
            let _ = self.read_list(&shelf).await;
            loop {
                {
                    let facts = shelf.facts();
                    if facts.is_removed() {
                        return Err(WaitError::Removed);
                    }
                    let waits = facts.waiting.keys().next().is_some_and(|first| *first <= wanted);
                    if !waits && facts.stored.range(wanted..).any(|(name, _)| is_alike(*name, wanted)) {
                        return Ok(());
                    }
                }
                if changed.changed().await.is_err() {
                    return Err(WaitError::Removed);
                }
            }
        };
        tokio::time::timeout_at(deadline, stored).await.unwrap_or_else(|_| Err(WaitError::Late { name: name.into() }))
    }

    /// Tells the changes of health from now on. A slow listener misses the oldest.
    pub fn health_changes(&self) -> broadcast::Receiver<HealthChange> {
        self.inner.changes.subscribe()
    }

    /// Counts for the metrics page.
    pub fn figures(&self) -> ArchiveFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.inner.counts;
        let oldest = self.shelves().iter().filter_map(|shelf| shelf.facts().oldest_arrival()).min();
        let behind = oldest.and_then(|oldest| SystemTime::now().duration_since(oldest).ok());
        ArchiveFigures {
            spooled: read(&counts.spooled),
            spooled_bytes: read(&counts.spooled_bytes),
            base_failures: read(&counts.base_failures),
            behind_seconds: behind.map_or(0, |behind| behind.as_secs()),
            segments: read(&counts.segments),
            segment_bytes: read(&counts.segment_bytes),
            bases: read(&counts.bases),
            base_bytes: read(&counts.base_bytes),
            failures: read(&counts.failures),
            spool_bytes: self.inner.spool.bytes(),
        }
    }

    /// Finds or makes the shelf of an archive.
    pub(crate) fn shelf(&self, id: &str) -> Result<Arc<Shelf>, NameError> {
        let id = checked_id(id)?;
        let mut shelves = self.inner.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Shelf::new(Leftovers { id: id.into(), ..Leftovers::default() }));
        Ok(shelves.entry(id.to_owned()).or_insert_with(new).clone())
    }

    pub(crate) fn shelves(&self) -> Vec<Arc<Shelf>> {
        self.inner.shelves.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Reports whether this shelf, and not a later one of the same name, is the archive's.
    pub(crate) fn is_current(&self, shelf: &Arc<Shelf>) -> bool {
        let shelves = self.inner.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.get(&shelf.id).is_some_and(|current| Arc::ptr_eq(current, shelf))
    }

    pub(crate) fn forget_shelf(&self, id: &str) {
        self.inner.shelves.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Drops the shelves that tell nothing and that nobody uses, such as those of scratch machines.
    pub(crate) fn drop_unused_shelves(&self) {
        let mut shelves = self.inner.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        // Others find a shelf only while they hold the lock.
        shelves.retain(|_, shelf| Arc::strong_count(shelf) > 1 || !shelf.facts().is_unused());
    }

    /// Asks the directory, for a limited time.
    pub(crate) async fn who(&self, id: &str) -> Result<Who, DirectoryError> {
        let late = |_| DirectoryError { reason: "the directory does not answer".into() };
        tokio::time::timeout(DIRECTORY_MAX, self.inner.directory.who(id)).await.map_err(late)?
    }

    /// Reads the store's list unless it was read. The reading goes on if the caller gives up.
    pub(crate) async fn read_list(&self, shelf: &Arc<Shelf>) -> Result<(), String> {
        if shelf.facts().listing == Listing::Read {
            return Ok(());
        }
        let (archive, shelf) = (self.clone(), shelf.clone());
        let reading = self.inner.scope.run("archive list", async move { archive.list_in_turn(&shelf).await });
        match tokio::time::timeout(DIRECTORY_MAX, reading).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(chain(&error)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the store does not answer".into()),
        }
    }

    pub(crate) async fn list_in_turn(&self, shelf: &Shelf) -> Result<(), ArchiveStoreError> {
        let _turn = shelf.listing_turn.lock().await;
        if shelf.facts().listing == Listing::Read {
            return Ok(());
        }
        let objects = self.inner.objects.list(&shelf.id, None).await?;
        let names = |folder: &str| -> Vec<String> {
            let inside =
                |key: &object_store::path::Path| key.parts().rev().nth(1).is_some_and(|part| part.as_ref() == folder);
            let keys = objects.iter().map(|object| &object.location).filter(|key| inside(key));
            keys.filter_map(|key| key.filename().map(str::to_owned)).collect()
        };
        let wal: Vec<_> = names("wal").iter().filter_map(|name| StoredWal::parse(name)).collect();
        let mut histories = Vec::new();
        for (name, stored) in &wal {
            if let WalName::History(timeline) = name {
                let text = match self.fetch_history(&shelf.id, *name, *stored).await {
                    Err(ArchiveStoreError::Damaged { key, cause }) => {
                        tracing::warn!(key, %cause, "the history of a timeline is damaged");
                        continue;
                    }
                    other => other?,
                };
                histories.extend(TimelineHistory::parse(&text).map(|h| (*timeline, h)));
            }
        }
        let mut bases = Vec::new();
        for name in names("base").iter().filter_map(|name| name.parse::<BaseName>().ok()) {
            // Without its note a backup was never whole.
            if let Some(note) = self.fetch_note(&shelf.id, &name).await? {
                bases.push((name, note));
            }
        }
        let mut facts = shelf.facts();
        facts.stored.extend(wal);
        facts.histories.extend(histories);
        facts.bases.extend(bases);
        facts.listing = Listing::Read;
        drop(facts);
        self.assess(shelf);
        Ok(())
    }

    /// Finds the archive's health, and tells a change.
    pub(crate) fn assess(&self, shelf: &Shelf) {
        let (old, new) = {
            let mut facts = shelf.facts();
            let new = facts.assess(SystemTime::now());
            (std::mem::replace(&mut facts.health, new), new)
        };
        shelf.changed.send_replace(());
        if old != new {
            tracing::info!(database = shelf.id, ?old, ?new, "archive health");
            // Nobody may be listening.
            let _ = self.inner.changes.send(HealthChange { database: shelf.id.clone(), old, new });
        }
    }
}

/// Whether a later file says that an earlier one of its kind must be there.
fn is_alike(found: WalName, wanted: WalName) -> bool {
    found == wanted || matches!((found, wanted), (WalName::Segment(_), WalName::Segment(_)))
}

/// An error with its causes, for people.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text.chars().take(500).collect()
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
