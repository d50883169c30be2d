//! Brings what waits in the spool to the store: in order for each database, several databases at
//! once. A file leaves the spool only after the store has it.

use std::{fs::File, io, sync::Arc, time::SystemTime};

use tokio::time::Instant;

use crate::{
    Archive, ArchiveStoreError,
    archive::{add, chain},
    limits::{RETRY_MAX, RETRY_MIN, SWEEP},
    name::WalName,
    packing::{digest, pack},
    shelf::{Shelf, StoredWal},
    spool::WaitingWal,
};

/// Why an upload did not succeed.
#[derive(Debug, thiserror::Error)]
enum UploadError {
    #[error(transparent)]
    Store(#[from] ArchiveStoreError),
    #[error("read or remove {name} in the spool")]
    Spool {
        name: WalName,
        #[source]
        cause: io::Error,
    },
}

impl Archive {
    /// Uploads in the background until the scope is closed.
    pub fn run(&self) {
        let (archive, token) = (self.clone(), self.inner.scope.token());
        self.inner.scope.start("archive uploads", async move {
            let mut assessed = None;
            loop {
                let is_due = assessed.is_none_or(|at: Instant| at.elapsed() >= SWEEP);
                if is_due {
                    assessed = Some(Instant::now());
                    archive.drop_unused_shelves();
                }
                archive.sweep(is_due);
                tokio::select! {
                    () = token.cancelled() => return,
                    () = archive.inner.arrived.notified() => {}
                    () = tokio::time::sleep(archive.next_sweep()) => {}
                }
            }
        });
    }

    /// The next retry that is due, or the usual pause.
    fn next_sweep(&self) -> std::time::Duration {
        let now = Instant::now();
        let due = self.shelves().iter().filter_map(|shelf| shelf.facts().retry_at).min();
        due.map_or(SWEEP, |due| due.saturating_duration_since(now).clamp(RETRY_MIN / 10, SWEEP))
    }

    /// Begins the uploads that are due. Now and then it also assesses the archives that have none.
    fn sweep(&self, assess: bool) {
        for shelf in self.shelves() {
            let (due, removed) = {
                let mut facts = shelf.facts();
                let due = facts.retry_at.is_none_or(|at| at <= Instant::now());
                if due {
                    facts.retry_at = None;
                }
                (due && (facts.is_removed() || !facts.waiting.is_empty()), facts.is_removed())
            };
            if !due {
                // Time alone can make an archive late.
                if assess {
                    self.assess(&shelf);
                }
                continue;
            }
            let archive = self.clone();
            self.inner.scope.start("archive upload", async move {
                // Another task may be at it: it takes along what has come since.
                let Ok(uploading) = shelf.uploading.try_lock() else { return };
                if removed {
                    let Ok(_permit) = archive.inner.uploads.acquire().await else { return };
                    archive.finish_removal(&shelf).await;
                } else {
                    archive.upload_all(&shelf).await;
                }
                drop(uploading);
                // Something may have come between the last look and now.
                let more = {
                    let facts = shelf.facts();
                    !facts.is_removed() && facts.retry_at.is_none() && !facts.waiting.is_empty()
                };
                if more {
                    archive.inner.arrived.notify_one();
                }
            });
        }
    }

    async fn upload_all(&self, shelf: &Arc<Shelf>) {
        let token = self.inner.scope.token();
        while !token.is_cancelled() {
            // One file per permit: a busy database must not keep the others waiting.
            let Ok(_permit) = self.inner.uploads.acquire().await else { return };
            let next = {
                let facts = shelf.facts();
                let first = facts.waiting.first_key_value().map(|(name, file)| (*name, *file));
                // What waits in a removed archive goes with it.
                first.filter(|_| !facts.is_removed())
            };
            let Some((name, file)) = next else { return };
            match self.upload(shelf, name, file).await {
                Ok(()) => {
                    let mut facts = shelf.facts();
                    (facts.failures, facts.retry_at, facts.error) = (0, None, None);
                }
                Err(error) => {
                    self.note_failure(shelf, &error);
                    return;
                }
            }
            self.assess(shelf);
        }
    }

    fn note_failure(&self, shelf: &Shelf, error: &UploadError) {
        add(&self.inner.counts.failures, 1);
        let text = chain(error);
        {
            let mut facts = shelf.facts();
            facts.failures = facts.failures.saturating_add(1);
            let pause = RETRY_MIN.saturating_mul(1 << facts.failures.saturating_sub(1).min(10)).min(RETRY_MAX);
            facts.retry_at = Some(Instant::now() + pause);
            tracing::info!(database = shelf.id, error = text, retry_in = ?pause, "archive upload");
            facts.error = Some(text);
        }
        self.assess(shelf);
    }

    async fn upload(&self, shelf: &Arc<Shelf>, name: WalName, file: WaitingWal) -> Result<(), UploadError> {
        let in_spool = |cause| UploadError::Spool { name, cause };
        self.list_in_turn(shelf).await?;
        let _turn = shelf.turn.read().await;
        if shelf.facts().is_removed() {
            return Ok(());
        }
        let path = self.inner.spool.path(&shelf.id, name);
        let known = shelf.facts().stored.get(&name).copied();
        let spool = self.inner.spool.clone();
        let packing = move || {
            let mut content = File::open(path)?;
            let digest = digest(&mut content)?;
            // What the store has already is not packed again.
            let packed = if known.is_some() { None } else { Some(pack(content, spool.unnamed()?, digest)?) };
            Ok((digest, packed))
        };
        let (digest, packed) = self.block(packing).await.map_err(in_spool)?;
        let (spool, id) = (self.inner.spool.clone(), shelf.id.clone());
        if known.is_some_and(|known| known.digest != digest) {
            self.block(move || spool.set_aside(&id, name, file.bytes)).await.map_err(in_spool)?;
            let mut facts = shelf.facts();
            facts.waiting.remove(&name);
            facts.conflicts_aside += 1;
            facts.conflict = Some(format!("{name} is in the store with other content"));
            return Ok(());
        }
        if let Some((form, packed)) = packed {
            let stored = StoredWal { written: file.written, digest, form };
            let key = self.inner.objects.key(&shelf.id, "wal", &stored.object(name));
            self.inner.objects.put_file(&key, packed, || shelf.facts().is_removed()).await?;
            shelf.facts().stored.insert(name, stored);
        }
        self.block(move || spool.forget(&id, name, file.bytes)).await.map_err(in_spool)?;
        let mut facts = shelf.facts();
        facts.waiting.remove(&name);
        facts.last_archived_at = Some(SystemTime::now());
        add(&self.inner.counts.segments, 1);
        add(&self.inner.counts.segment_bytes, file.bytes);
        Ok(())
    }
}
