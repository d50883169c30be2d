//! What is known about one archive: files that wait, files and bases in the store, failures.
//! Answers from memory; the store's list is read once, before the first answer that needs it.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

use crate::{
    health::ArchiveHealth,
    limits::{BEHIND_AFTER, CONNECTIONS_PER_DATABASE_MAX, FAILURES_MAX, GAP_LOOK, GAP_LOOK_FILES},
    name::{BaseName, Lsn, Segment, WalName},
    spool::{Leftovers, Removal, WaitingWal},
    timeline::{BasePoint, Holdings, TimelineHistory},
};

/// A file of the log in the store. Its object's name has all of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredWal {
    pub written: SystemTime,
    pub digest: WalDigest,
    pub form: StoredForm,
}

/// How the object's bytes relate to the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredForm {
    Zstd,
    Raw,
}

/// The first half of a file's BLAKE3 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalDigest(pub u128);

impl WalDigest {
    pub fn of(hash: &blake3::Hash) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        Self(u128::from_be_bytes(half))
    }
}

impl StoredWal {
    /// The object's name: `<file>.<seconds>.<digest>.zst`.
    pub fn object(&self, name: WalName) -> String {
        let seconds = self.written.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let form = match self.form {
            StoredForm::Zstd => "zst",
            StoredForm::Raw => "raw",
        };
        format!("{name}.{seconds}.{:032x}.{form}", self.digest.0)
    }

    /// Reads an object's name. Nothing if it is not one of ours.
    pub fn parse(object: &str) -> Option<(WalName, Self)> {
        let mut words = object.rsplitn(4, '.');
        let form = match words.next()? {
            "zst" => StoredForm::Zstd,
            "raw" => StoredForm::Raw,
            _ => return None,
        };
        let digest = WalDigest(u128::from_str_radix(words.next()?, 16).ok()?);
        let written = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(words.next()?.parse().ok()?))?;
        Some((words.next()?.parse().ok()?, Self { written, digest, form }))
    }
}

/// The note beside a base backup in the store, `<base>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseNote {
    pub version: u32,
    pub bytes: u64,
    pub digest: String,
    pub timeline: u32,
    pub start: u64,
    pub end: u64,
    /// Seconds since 1970.
    pub ended_at: u64,
}

impl BaseNote {
    pub fn ended_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.ended_at)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn point(&self, name: &BaseName) -> BasePoint {
        let (start, end, ended_at) = (Lsn(self.start), Lsn(self.end), self.ended_at());
        BasePoint { name: name.clone(), timeline: self.timeline, start, end, ended_at }
    }
}

/// Whether the store's list was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    Unread,
    Read,
}

/// One archive. No lock on its facts is held while anything is awaited.
pub struct Shelf {
    pub id: String,
    facts: Mutex<Facts>,
    /// Shared by whoever writes to the store; alone for whoever removes from it.
    pub turn: tokio::sync::RwLock<()>,
    /// Taken while the log is uploaded, in order.
    pub uploading: tokio::sync::Mutex<()>,
    /// Taken while the store's list is read.
    pub listing_turn: tokio::sync::Mutex<()>,
    /// Taken while a finished file gets its place in the spool.
    pub intake: tokio::sync::Mutex<()>,
    /// Taken while a base backup is received.
    pub base_turn: Arc<tokio::sync::Mutex<()>>,
    pub connections: Arc<Semaphore>,
    pub changed: watch::Sender<()>,
}

/// The facts of one archive.
pub struct Facts {
    pub listing: Listing,
    pub removal: Removal,
    pub waiting: BTreeMap<WalName, WaitingWal>,
    pub stored: BTreeMap<WalName, StoredWal>,
    pub bases: BTreeMap<BaseName, BaseNote>,
    pub histories: BTreeMap<u32, TimelineHistory>,
    pub failures: u32,
    pub retry_at: Option<Instant>,
    pub error: Option<String>,
    /// A file that cannot be taken: most often the one that is here has other content.
    pub conflict: Option<String>,
    pub conflicts_aside: usize,
    pub spool_full: SpoolRoom,
    pub last_archived_at: Option<SystemTime>,
    pub health: ArchiveHealth,
    /// When the log was last looked through for gaps, and whether it has one.
    gap_looked: Option<(Instant, bool)>,
}

/// Whether the last file of this database found room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpoolRoom {
    Free,
    Full,
}

impl Shelf {
    pub fn new(found: Leftovers) -> Self {
        let facts = Facts {
            listing: Listing::Unread,
            removal: found.removal,
            waiting: found.waiting.into_iter().collect(),
            stored: BTreeMap::new(),
            bases: BTreeMap::new(),
            histories: BTreeMap::new(),
            failures: 0,
            retry_at: None,
            error: None,
            conflict: None,
            conflicts_aside: found.conflicts,
            spool_full: SpoolRoom::Free,
            last_archived_at: None,
            health: ArchiveHealth::Ok,
            gap_looked: None,
        };
        Self {
            id: found.id,
            facts: Mutex::new(facts),
            turn: tokio::sync::RwLock::default(),
            uploading: tokio::sync::Mutex::default(),
            listing_turn: tokio::sync::Mutex::default(),
            intake: tokio::sync::Mutex::default(),
            base_turn: Arc::default(),
            connections: Arc::new(Semaphore::new(CONNECTIONS_PER_DATABASE_MAX)),
            changed: watch::channel(()).0,
        }
    }

    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    pub fn is_removed(&self) -> bool {
        self.removal == Removal::Begun
    }

    /// Whether a new shelf would be the same.
    pub fn is_unused(&self) -> bool {
        self.removal == Removal::No
            && self.listing == Listing::Unread
            && self.waiting.is_empty()
            && self.conflicts_aside == 0
            && self.health == ArchiveHealth::Ok
    }

    /// All that a restore through this server can use: the store and the spool.
    pub fn holdings(&self) -> Holdings {
        let stored = self.stored.iter().map(|(name, file)| (*name, file.written));
        let waiting = self.waiting.iter().map(|(name, file)| (*name, file.written));
        let segments = stored.chain(waiting).filter_map(|(name, written)| match name {
            WalName::Segment(segment) => Some((segment, written)),
            WalName::Partial(_) | WalName::Backup(..) | WalName::History(_) => None,
        });
        // The last history names all parents of its timeline, and no other timeline is followed.
        let history = self.histories.last_key_value().map(|(timeline, history)| (*timeline, history.clone()));
        Holdings {
            segments: segments.collect(),
            histories: history.into_iter().collect(),
            bases: self.bases.iter().map(|(name, note)| note.point(name)).collect(),
        }
    }

    /// Reports whether a missing segment is a hole in the log: a later one of the same timeline is
    /// in the store or waits for it. What the oldest base contains need not be anywhere else.
    pub fn is_hole(&self, wanted: WalName) -> bool {
        let Some(segment) = wanted.segment() else { return false };
        if let Some((_, oldest)) = self.bases.first_key_value()
            && oldest.timeline == segment.timeline
            && segment.number <= Lsn(oldest.end).last_segment_number()
        {
            return false;
        }
        let last = WalName::Segment(Segment { number: u64::MAX, ..segment });
        let later = (Bound::Excluded(WalName::Segment(segment)), Bound::Included(last));
        self.stored.range(later).next().is_some() || self.waiting.range(later).next().is_some()
    }

    /// Counts the histories of timelines that are in the store or wait for it.
    pub fn history_files(&self) -> usize {
        // Histories come after all other names.
        let (stored, waiting) = (self.stored.range(WalName::History(0)..), self.waiting.range(WalName::History(0)..));
        stored.count() + waiting.filter(|(name, _)| !self.stored.contains_key(*name)).count()
    }

    /// When the file arrived that has waited longest for the store.
    pub fn oldest_arrival(&self) -> Option<SystemTime> {
        self.waiting.values().map(|file| file.arrived).min()
    }

    /// Whether a segment is missing. Looks through the log of a large archive only now and then.
    fn has_gap(&mut self) -> bool {
        let is_large = self.stored.len() > GAP_LOOK_FILES;
        if let Some((at, has_gap)) = self.gap_looked
            && is_large
            && at.elapsed() < GAP_LOOK
        {
            return has_gap;
        }
        let has_gap = self.holdings().restorable().gap.is_some();
        self.gap_looked = Some((Instant::now(), has_gap));
        has_gap
    }

    pub fn assess(&mut self, now: SystemTime) -> ArchiveHealth {
        let waits = |file: &WaitingWal| now.duration_since(file.arrived).is_ok_and(|age| age > BEHIND_AFTER);
        if self.conflict.is_some() || self.conflicts_aside > 0 || self.failures >= FAILURES_MAX {
            ArchiveHealth::Failing
        } else if self.listing == Listing::Read && self.has_gap() {
            ArchiveHealth::Gap
        } else if self.spool_full == SpoolRoom::Full || self.waiting.values().any(waits) {
            ArchiveHealth::Behind
        } else {
            ArchiveHealth::Ok
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_read_and_print() {
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(77);
        for name in ["000000010000000000000002", "00000002.history", "000000010000000000000002.00000028.backup"] {
            let name: WalName = name.parse().unwrap();
            for form in [StoredForm::Zstd, StoredForm::Raw] {
                let stored = StoredWal { written, digest: WalDigest(5), form };
                assert_eq!(StoredWal::parse(&stored.object(name)), Some((name, stored)));
            }
        }
        for object in ["", "000000010000000000000002", "000000010000000000000002.x.0.zst", "a.1.0.zst"] {
            assert_eq!(StoredWal::parse(object), None);
        }
    }
}
