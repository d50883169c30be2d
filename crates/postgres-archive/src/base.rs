//! Base backups: received, checked and stored in one go; read, and copied from one archive to
//! another. A backup that is not whole is never in the store.

use std::{
    fs::File,
    io::{self, Read, Write},
    pin::pin,
    sync::Arc,
    time::SystemTime,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use object_store::GetResultPayload;
use tokio::sync::mpsc;
use tokio_util::io::ReaderStream;

use crate::{
    Archive, ArchiveRead, ArchiveStoreError, BaseBackup, NameError, ReadError,
    archive::{add, chain, seconds},
    limits::{BASE_BYTES_MAX, BASE_RECEIVE_MAX, BASE_TRIES, BASES_MAX, PART_BYTES, RETRY_MIN},
    name::BaseName,
    shelf::{BaseNote, Shelf},
    spool::Draft,
    verify::{BackupRange, VerifyError, verify},
};

const NOTE_VERSION: u32 = 1;
const NOTE_BYTES_MAX: u64 = 64 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// Why a base backup is not taken.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the backup is damaged")]
    Damaged(#[source] VerifyError),
    #[error("the disk has no room for the backup")]
    NoRoom,
    #[error("other backups are being received; try again later")]
    Busy,
    #[error("{name} is in the archive with other content")]
    Conflict { name: String },
    #[error("there is no backup to copy")]
    Absent,
    #[error("the archive was removed")]
    Removed,
    #[error("write the backup to the disk")]
    Spool(#[source] io::Error),
    #[error("the store does not take the backup: {reason}")]
    Unavailable { reason: String },
}

/// Copies the newest base of one archive to another one.
#[derive(Clone, Debug)]
pub struct BaseCopy {
    pub from: String,
    pub to: String,
    /// From when on the copy can be used, if that is later than for the original: the time at which
    /// the new database began to be one of its own.
    pub since: SystemTime,
}

/// A backup on this server's disk that was checked.
struct CheckedBase {
    name: BaseName,
    draft: Draft,
    note: BaseNote,
}

impl Archive {
    /// Receives a base backup: answers once it is whole, checked and in the store.
    pub async fn put_base(
        &self,
        id: &str,
        name: &str,
        stream: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<BaseBackup, BaseError> {
        let received = self.receive_base(id, name, stream).await;
        // What may not be tried is no failed backup.
        let is_refused = |error: &BaseError| matches!(error, BaseError::Name(_) | BaseError::Busy | BaseError::Removed);
        if received.as_ref().is_err_and(|error| !is_refused(error)) {
            add(&self.inner.counts.base_failures, 1);
        }
        received
    }

    async fn receive_base(
        &self,
        id: &str,
        name: &str,
        stream: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<BaseBackup, BaseError> {
        let (shelf, name) = (self.shelf(id)?, name.parse::<BaseName>()?);
        let _turn = shelf.base_turn.clone().try_lock_owned().map_err(|_| BaseError::Busy)?;
        let _permit = self.inner.bases.try_acquire().map_err(|_| BaseError::Busy)?;
        let is_full = shelf.facts().bases.len() >= BASES_MAX;
        if is_full || !self.inner.spool.has_room().map_err(BaseError::Spool)? {
            return Err(BaseError::NoRoom);
        }
        let (tx, rx) = mpsc::channel(4);
        let checking = self.check_base(&shelf, name, rx);
        let feeding = async {
            let mut stream = pin!(stream);
            let sending = async {
                while let Some(piece) = stream.next().await {
                    if tx.send(piece).await.is_err() {
                        break;
                    }
                }
            };
            // A backup that takes too long is cut off, and the check finds that.
            let _ = tokio::time::timeout(BASE_RECEIVE_MAX, sending).await;
            drop(tx);
        };
        let ((), checked) = tokio::join!(feeding, checking);
        let (archive, base) = (self.clone(), checked?);
        let storing = self.inner.scope.run("archive base", async move { archive.store_base(&shelf, base).await });
        storing.await.map_err(|error| BaseError::Unavailable { reason: error.to_string() })?
    }

    async fn check_base(
        &self,
        shelf: &Shelf,
        name: BaseName,
        rx: mpsc::Receiver<io::Result<Bytes>>,
    ) -> Result<CheckedBase, BaseError> {
        let (spool, id) = (self.inner.spool.clone(), shelf.id.clone());
        let check = move || {
            let (draft, file) = spool.draft(&id).map_err(BaseError::Spool)?;
            let has_room = move || spool.has_room().unwrap_or(false);
            let mut copy = Copying {
                rx,
                piece: Bytes::new(),
                file,
                hash: blake3::Hasher::new(),
                bytes: 0,
                refusal: None,
                has_room,
            };
            match verify(&mut copy) {
                Ok(range) => {
                    copy.file.sync_all().map_err(BaseError::Spool)?;
                    Ok(CheckedBase { name, draft, note: note(&range, copy.bytes, &copy.hash) })
                }
                Err(error) => Err(copy.refusal.unwrap_or(BaseError::Damaged(error))),
            }
        };
        let checked = self.inner.scope.block("archive base check", check).await;
        checked.map_err(|error| BaseError::Spool(io::Error::other(error)))?
    }

    async fn store_base(&self, shelf: &Arc<Shelf>, base: CheckedBase) -> Result<BaseBackup, BaseError> {
        let CheckedBase { name, draft, note } = base;
        self.read_list(shelf).await.map_err(|reason| BaseError::Unavailable { reason })?;
        let _turn = shelf.turn.read().await;
        let known = shelf.facts().bases.get(&name).cloned();
        match known {
            Some(known) if known.digest == note.digest => return Ok(BaseBackup::new(&name, &known)),
            Some(_) => return Err(BaseError::Conflict { name: name.to_string() }),
            None => {}
        }
        let mut pause = RETRY_MIN;
        for attempt in 1.. {
            if shelf.facts().is_removed() {
                return Err(BaseError::Removed);
            }
            match self.upload_base(shelf, &name, &draft, &note).await {
                Ok(()) => break,
                Err(error) if attempt >= BASE_TRIES => {
                    return Err(BaseError::Unavailable { reason: chain(&error) });
                }
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        add(&self.inner.counts.bases, 1);
        add(&self.inner.counts.base_bytes, note.bytes);
        let backup = BaseBackup::new(&name, &note);
        shelf.facts().bases.insert(name, note);
        self.assess(shelf);
        Ok(backup)
    }

    /// The note goes first: a backup in the store always has one.
    async fn upload_base(
        &self,
        shelf: &Shelf,
        name: &BaseName,
        draft: &Draft,
        note: &BaseNote,
    ) -> Result<(), ArchiveStoreError> {
        self.put_note(&shelf.id, name, note).await?;
        let key = self.inner.objects.key(&shelf.id, "base", name.as_str());
        let file = File::open(draft.path()).map_err(ArchiveStoreError::Disk)?;
        self.inner.objects.put_file(&key, file, || shelf.facts().is_removed()).await
    }

    async fn put_note(&self, id: &str, name: &BaseName, note: &BaseNote) -> Result<(), ArchiveStoreError> {
        let text = serde_json::to_vec(note).expect("a note has only texts and numbers");
        self.inner.objects.put(&self.inner.objects.key(id, "base", &format!("{name}.json")), text.into()).await
    }

    pub(crate) async fn fetch_note(&self, id: &str, name: &BaseName) -> Result<Option<BaseNote>, ArchiveStoreError> {
        let key = self.inner.objects.key(id, "base", &format!("{name}.json"));
        match self.inner.objects.read(&key, NOTE_BYTES_MAX).await {
            Ok(text) => {
                let note = serde_json::from_slice(&text).ok().filter(|note: &BaseNote| note.version == NOTE_VERSION);
                if note.is_none() {
                    tracing::warn!(%key, "the note of a base backup cannot be read; the backup is not used");
                }
                Ok(note)
            }
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a base backup for reading.
    pub async fn open_base(&self, id: &str, name: &str) -> Result<ArchiveRead, ReadError> {
        let (shelf, name) = (self.shelf(id)?, name.parse::<BaseName>()?);
        let key = self.inner.objects.key(&shelf.id, "base", name.as_str());
        let found = match self.inner.objects.get(&key).await {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Err(ReadError::Absent { name: name.to_string() }),
            Err(error) => return Err(ReadError::Unavailable { reason: chain(&error) }),
        };
        let bytes = found.meta.size;
        let stream = match found.payload {
            // The library reads files in pieces of a few kilobytes.
            GetResultPayload::File(file, _) => {
                ReaderStream::with_capacity(tokio::fs::File::from_std(file), READ_BYTES).boxed()
            }
            GetResultPayload::Stream(stream) => stream.map(|piece| piece.map_err(io::Error::from)).boxed(),
        };
        Ok(ArchiveRead { bytes, stream })
    }

    /// Copies the newest base of an archive to another one. In a folder both share the file.
    pub async fn copy_base(&self, copy: &BaseCopy) -> Result<BaseBackup, BaseError> {
        let (from, to) = (self.shelf(&copy.from)?, self.shelf(&copy.to)?);
        for shelf in [&from, &to] {
            self.read_list(shelf).await.map_err(|reason| BaseError::Unavailable { reason })?;
        }
        let newest = from.facts().bases.last_key_value().map(|(name, note)| (name.clone(), note.clone()));
        let (name, mut note) = newest.ok_or(BaseError::Absent)?;
        note.ended_at = note.ended_at.max(seconds(copy.since));
        let _turn = to.turn.read().await;
        if to.facts().is_removed() {
            return Err(BaseError::Removed);
        }
        let objects = &self.inner.objects;
        let key = |shelf: &Shelf| objects.key(&shelf.id, "base", name.as_str());
        let copied = async {
            self.put_note(&to.id, &name, &note).await?;
            objects.copy(&key(&from), &key(&to)).await
        };
        copied.await.map_err(|error: ArchiveStoreError| BaseError::Unavailable { reason: chain(&error) })?;
        let backup = BaseBackup::new(&name, &note);
        to.facts().bases.insert(name, note);
        self.assess(&to);
        Ok(backup)
    }
}

fn note(range: &BackupRange, bytes: u64, hash: &blake3::Hasher) -> BaseNote {
    BaseNote {
        version: NOTE_VERSION,
        bytes,
        digest: hash.finalize().to_hex().to_string(),
        timeline: range.timeline,
        start: range.start.0,
        end: range.end.0,
        ended_at: seconds(range.ended_at),
    }
}

/// Hands received pieces to the check, and writes each to the file on its way.
struct Copying<F> {
    rx: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    file: File,
    hash: blake3::Hasher,
    bytes: u64,
    /// Set if not the backup is at fault.
    refusal: Option<BaseError>,
    has_room: F,
}

impl<F: Fn() -> bool> Copying<F> {
    fn next(&mut self) -> io::Result<()> {
        let Some(piece) = self.rx.blocking_recv() else { return Ok(()) };
        self.piece = piece?;
        let before = self.bytes;
        self.bytes += self.piece.len() as u64;
        if self.bytes > BASE_BYTES_MAX {
            return Err(io::Error::other("the backup is larger than allowed"));
        }
        // Asked once per part, because it is a call to the kernel.
        if before / PART_BYTES as u64 != self.bytes / PART_BYTES as u64 && !(self.has_room)() {
            self.refusal = Some(BaseError::NoRoom);
            return Err(io::Error::other("no room"));
        }
        self.hash.update(&self.piece);
        if let Err(error) = self.file.write_all(&self.piece) {
            self.refusal = Some(BaseError::Spool(error));
            return Err(io::Error::other("write to the disk"));
        }
        Ok(())
    }
}

impl<F: Fn() -> bool> Read for Copying<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.next()?;
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}
