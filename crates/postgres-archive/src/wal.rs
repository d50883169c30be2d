//! Files of the write-ahead log: taking one into the spool, reading one from the spool or the
//! store, and the form that they have in the store.

use std::{io, sync::Arc, time::SystemTime};

use bytes::Bytes;
use futures_util::StreamExt;
use ruzstd::{
    decoding::StreamingDecoder,
    encoding::{CompressionLevel, compress_to_vec},
};

use crate::{
    Archive, ArchiveRead, ArchiveStoreError, NameError,
    archive::{add, chain},
    limits::{HISTORIES_MAX, HISTORY_LINES_MAX, WAL_BYTES_MAX},
    name::WalName,
    shelf::{Shelf, SpoolRoom, StoredForm, StoredWal, WalDigest},
    spool::{Draft, Share, WaitingWal},
    timeline::TimelineHistory,
};

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
        self.block(move || Ok(WalDigest::of(&blake3::hash(&std::fs::read(path)?)))).await
    }

    /// Opens a file of the log, wherever it is.
    pub async fn open_wal(&self, id: &str, name: &str) -> Result<ArchiveRead, ReadError> {
        let (shelf, name) = (self.shelf(id)?, name.parse::<WalName>()?);
        let content = self.read_wal(&shelf, name).await?;
        let bytes = content.len() as u64;
        // In small pieces: each is copied for the connection, and the whole goes with the last one.
        let pieces = futures_util::stream::unfold(content, |mut rest| async {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            (!piece.is_empty()).then_some((Ok(piece), rest))
        });
        Ok(ArchiveRead { bytes, stream: pieces.boxed() })
    }

    pub(crate) async fn read_wal(&self, shelf: &Arc<Shelf>, name: WalName) -> Result<Bytes, ReadError> {
        let unavailable = |reason: String| ReadError::Unavailable { reason };
        match tokio::fs::read(self.inner.spool.path(&shelf.id, name)).await {
            Ok(content) => return Ok(content.into()),
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

    /// Reads a file from the store. One that is not as it was written counts as unreadable.
    pub(crate) async fn fetch_wal(
        &self,
        id: &str,
        name: WalName,
        stored: StoredWal,
    ) -> Result<Bytes, ArchiveStoreError> {
        let key = self.inner.objects.key(id, "wal", &stored.object(name));
        let packed = self.inner.objects.read(&key, WAL_BYTES_MAX + WAL_BYTES_MAX / 8).await?;
        let damaged = |_| ArchiveStoreError::Damaged { key: key.to_string() };
        self.block(move || unpack(&packed, stored)).await.map_err(damaged)
    }

    /// Runs blocking work that ends even if the caller does not wait.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.inner.scope.block("archive files", work).await.map_err(io::Error::other)?
    }
}

/// Makes the form for the store. What does not unpack to the same bytes is stored as it is.
pub(crate) fn pack(content: &[u8], digest: WalDigest, written: SystemTime) -> (StoredWal, Vec<u8>) {
    let stored = StoredWal { written, digest, form: StoredForm::Zstd };
    let packed = std::panic::catch_unwind(|| compress_to_vec(content, CompressionLevel::Fastest));
    match packed {
        Ok(packed) if packed.len() < content.len() && unpack(&packed, stored).is_ok() => (stored, packed),
        _ => (StoredWal { form: StoredForm::Raw, ..stored }, content.to_vec()),
    }
}

fn unpack(packed: &[u8], stored: StoredWal) -> io::Result<Bytes> {
    let content = match stored.form {
        StoredForm::Raw => packed.to_vec(),
        StoredForm::Zstd => {
            let mut content = Vec::new();
            let decoder = StreamingDecoder::new(packed).map_err(|error| io::Error::other(error.to_string()))?;
            io::copy(&mut io::Read::take(decoder, WAL_BYTES_MAX + 1), &mut content)?;
            content
        }
    };
    if WalDigest::of(&blake3::hash(&content)) != stored.digest {
        return Err(io::Error::other("the content has another digest"));
    }
    Ok(content.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_undone_exactly() {
        let noise: Vec<u8> =
            (0..300_000u32).flat_map(|i| blake3::hash(&i.to_le_bytes()).as_bytes()[..8].to_vec()).collect();
        for content in [Vec::new(), vec![0; 16 << 20], noise, b"1\t0/2000000\tx\n".to_vec()] {
            let digest = WalDigest::of(&blake3::hash(&content));
            let (stored, packed) = pack(&content, digest, SystemTime::UNIX_EPOCH);
            assert_eq!(unpack(&packed, stored).unwrap(), content);
            assert!(packed.len() <= content.len());
        }
    }
}
