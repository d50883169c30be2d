//! Files of the write-ahead log: taking one into the spool, and reading one from the spool or the
//! store.

use std::{
    fs::File,
    io::{self, Seek},
    sync::Arc,
    time::SystemTime,
};

use futures_util::StreamExt;
use tokio_util::io::ReaderStream;

use crate::{
    Archive, ArchiveRead, ArchiveStoreError, NameError,
    archive::{add, chain},
    limits::{HISTORIES_MAX, HISTORY_BYTES_MAX, HISTORY_LINES_MAX, STORED_FILES_MAX, WAL_BYTES_MAX},
    name::WalName,
    packing::{digest, unpack},
    shelf::{Shelf, SpoolRoom, StoredWal, WalDigest},
    spool::{Draft, Share, WaitingWal},
    timeline::TimelineHistory,
};

/// Pieces in which a file is sent.
const PIECE_BYTES: usize = 64 * 1024;

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{name} is not in the archive")]
    Absent { name: String },
    #[error("the store cannot be read: {reason}")]
    Unavailable { reason: String },
    #[error(transparent)]
    Name(#[from] NameError),
}

/// A received file that has no place yet.
pub(crate) struct ReceivedWal {
    pub name: WalName,
    pub draft: Draft,
    pub share: Share,
    pub bytes: u64,
    pub digest: WalDigest,
    pub written: SystemTime,
}

/// What became of a received file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Kept,
    /// It was here already.
    Known,
    Conflict,
    /// It would never be taken.
    Refused(&'static str),
    Removed,
}

impl Archive {
    /// Gives a received file its place in the spool, if its name is free. Needs no store.
    pub(crate) async fn take_wal(&self, shelf: &Arc<Shelf>, received: ReceivedWal) -> io::Result<Taken> {
        let _intake = shelf.intake.lock().await;
        let name = received.name;
        let taken = self.place_wal(shelf, received).await?;
        {
            let mut facts = shelf.facts();
            facts.spool_full = SpoolRoom::Free;
            match taken {
                Taken::Kept | Taken::Known => facts.conflict = None,
                Taken::Conflict => facts.conflict = Some(format!("{name} came again with other content")),
                Taken::Refused(reason) => facts.conflict = Some(format!("{name} was refused: {reason}")),
                Taken::Removed => {}
            }
        }
        self.assess(shelf);
        self.inner.arrived.notify_one();
        Ok(taken)
    }

    async fn place_wal(&self, shelf: &Arc<Shelf>, received: ReceivedWal) -> io::Result<Taken> {
        let ReceivedWal { name, draft, share, bytes, digest, written } = received;
        let (removed, stored, waits) = {
            let facts = shelf.facts();
            (facts.is_removed(), facts.stored.get(&name).copied(), facts.waiting.contains_key(&name))
        };
        if removed {
            return Ok(Taken::Removed);
        }
        let known = match (stored, waits) {
            (Some(stored), _) => Some(stored.digest),
            // Meanwhile it may have left the spool: then the store has it, with the same digest.
            (None, true) => match self.digest_in_spool(&shelf.id, name).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    shelf.facts().stored.get(&name).map(|s| s.digest)
                }
                other => Some(other?),
            },
            (None, false) => None,
        };
        if let Some(known) = known {
            return Ok(if known == digest { Taken::Known } else { Taken::Conflict });
        }
        if shelf.facts().stored.len() >= STORED_FILES_MAX {
            return Ok(Taken::Refused("the archive has too many files; make a new database from it"));
        }
        let history = match name {
            WalName::History(timeline) => {
                let text = tokio::fs::read_to_string(draft.path()).await.unwrap_or_default();
                if text.lines().nth(HISTORY_LINES_MAX).is_some() {
                    return Ok(Taken::Refused("the history has too many lines"));
                }
                if shelf.facts().history_files() >= HISTORIES_MAX {
                    return Ok(Taken::Refused("the archive has too many timelines; make a new database from it"));
                }
                TimelineHistory::parse(&text).map(|history| (timeline, history))
            }
            WalName::Segment(_) | WalName::Partial(_) | WalName::Backup(..) => None,
        };
        let (spool, id) = (self.inner.spool.clone(), shelf.id.clone());
        self.block(move || spool.keep(&id, name, &draft, written)).await?;
        share.settle(bytes);
        add(&self.inner.counts.spooled, 1);
        add(&self.inner.counts.spooled_bytes, bytes);
        let mut facts = shelf.facts();
        facts.histories.extend(history);
        facts.waiting.insert(name, WaitingWal { bytes, written, arrived: SystemTime::now() });
        Ok(Taken::Kept)
    }

    async fn digest_in_spool(&self, id: &str, name: WalName) -> io::Result<WalDigest> {
        let path = self.inner.spool.path(id, name);
        self.block(move || digest(File::open(path)?)).await
    }

    /// Opens a file of the log, wherever it is. It is whole and checked before its first byte is
    /// read.
    pub async fn open_wal(&self, id: &str, name: &str) -> Result<ArchiveRead, ReadError> {
        let (shelf, name) = (self.shelf(id)?, name.parse::<WalName>()?);
        let (file, bytes) = self.find_file(&shelf, name).await?;
        let stream = ReaderStream::with_capacity(tokio::fs::File::from_std(file), PIECE_BYTES);
        Ok(ArchiveRead { bytes, stream: stream.boxed() })
    }

    async fn find_file(&self, shelf: &Arc<Shelf>, name: WalName) -> Result<(File, u64), ReadError> {
        let unavailable = |reason: String| ReadError::Unavailable { reason };
        let path = self.inner.spool.path(&shelf.id, name);
        let opening = move || {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        };
        match self.block(opening).await {
            Ok(found) => return Ok(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unavailable(error.to_string())),
        }
        self.read_list(shelf).await.map_err(unavailable)?;
        let known = shelf.facts().stored.get(&name).copied();
        let stored = match known {
            Some(stored) => stored,
            // Another server may have written it since the list was read.
            None => self.find_wal(shelf, name).await?.ok_or(ReadError::Absent { name: name.to_string() })?,
        };
        self.fetch_wal(&shelf.id, name, stored).await.map_err(|error| unavailable(chain(&error)))
    }

    async fn find_wal(&self, shelf: &Shelf, name: WalName) -> Result<Option<StoredWal>, ReadError> {
        let first = self.inner.objects.starting_with(&shelf.id, "wal", &format!("{name}.")).await;
        let first = first.map_err(|error| ReadError::Unavailable { reason: chain(&error) })?;
        let found = first.and_then(|object| StoredWal::parse(&object)).filter(|(found, _)| *found == name);
        let Some((_, stored)) = found else { return Ok(None) };
        shelf.facts().stored.insert(name, stored);
        Ok(Some(stored))
    }

    /// Brings a file from the store to the disk. One that is not as it was written is an error.
    async fn fetch_wal(&self, id: &str, name: WalName, stored: StoredWal) -> Result<(File, u64), ArchiveStoreError> {
        let spool = self.inner.spool.clone();
        let making = move || match spool.has_room()? {
            true => Ok((spool.unnamed()?, spool.unnamed()?)),
            false => Err(io::ErrorKind::StorageFull.into()),
        };
        let (packed, content) = self.block(making).await.map_err(ArchiveStoreError::Disk)?;
        let key = self.inner.objects.key(id, "wal", &stored.object(name));
        let packed = self.inner.objects.read_file(&key, packed, WAL_BYTES_MAX).await?;
        let unpacking = move || {
            let bytes = unpack(packed, stored.form, stored.digest, &content)?;
            (&content).rewind()?;
            Ok((content, bytes))
        };
        let damaged = |cause| ArchiveStoreError::Damaged { key: key.to_string(), cause };
        self.block(unpacking).await.map_err(damaged)
    }

    /// Reads the history of a timeline from the store.
    pub(crate) async fn fetch_history(
        &self,
        id: &str,
        name: WalName,
        stored: StoredWal,
    ) -> Result<String, ArchiveStoreError> {
        let key = self.inner.objects.key(id, "wal", &stored.object(name));
        let packed = self.inner.objects.read(&key, HISTORY_BYTES_MAX).await?;
        let unpacking = move || {
            let mut text = Vec::new();
            unpack(packed.as_ref(), stored.form, stored.digest, &mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let damaged = |cause| ArchiveStoreError::Damaged { key: key.to_string(), cause };
        self.block(unpacking).await.map_err(damaged)
    }

    /// Runs blocking work that ends even if the caller does not wait.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.inner.scope.block("archive files", work).await.map_err(io::Error::other)?
    }
}
