//! What leaves an archive: backups past their retention, the log that none of the others needs, and
//! whole archives.

use std::{sync::Arc, time::SystemTime};

use crate::{
    Archive, ArchiveStoreError, NameError, Retention, WalName,
    archive::chain,
    limits::{REMOVAL_WAIT_MAX, RETRY_MAX},
    shelf::Shelf,
    spool::Removal,
};

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub bases: Vec<String>,
    pub wal_files: usize,
}

impl Archive {
    /// Removes what the retention no longer asks for, unless something is being restored from the
    /// archive. The newest backup always stays.
    pub async fn prune(&self, id: &str, keep: Retention) -> Result<Pruned, ArchiveStoreError> {
        let shelf = self.shelf(id).map_err(|error| ArchiveStoreError::Settings(error.to_string()))?;
        self.list_in_turn(&shelf).await?;
        let _turn = shelf.turn.write().await;
        // Asked only now: whoever begins to restore from here on chooses from what is left.
        match self.inner.directory.is_read(id).await {
            Ok(false) => {}
            Ok(true) => return Ok(Pruned::default()),
            Err(error) => return Err(ArchiveStoreError::Settings(error.to_string())),
        }
        let outdated = shelf.facts().holdings().outdated(&keep, SystemTime::now());
        let objects = &self.inner.objects;
        for name in &outdated.bases {
            // The backup goes before its note: one without a note would count as damaged.
            objects.delete(&objects.key(&shelf.id, "base", name.as_str())).await?;
            objects.delete(&objects.key(&shelf.id, "base", &format!("{name}.json"))).await?;
            shelf.facts().bases.remove(name);
        }
        let old: Vec<_> = {
            let facts = shelf.facts();
            let is_old = |name: &WalName| match *name {
                WalName::History(timeline) => timeline < outdated.first_timeline,
                WalName::Segment(segment) | WalName::Partial(segment) | WalName::Backup(segment, _) => {
                    segment.number < outdated.first_number
                }
            };
            facts.stored.iter().filter(|(name, _)| is_old(name)).map(|(name, stored)| (*name, *stored)).collect()
        };
        let keys = old.iter().map(|(name, stored)| objects.key(&shelf.id, "wal", &stored.object(*name)));
        objects.delete_all(keys.collect()).await?;
        let mut facts = shelf.facts();
        for (name, _) in &old {
            facts.stored.remove(name);
            if let WalName::History(timeline) = name {
                facts.histories.remove(timeline);
            }
        }
        Ok(Pruned { bases: outdated.bases.iter().map(ToString::to_string).collect(), wal_files: old.len() })
    }

    /// Removes all of an archive. If the store is slow or does not answer, the rest goes in the
    /// background, also after a restart. What still arrives is refused.
    pub async fn remove(&self, id: &str) -> Result<(), NameError> {
        let shelf = self.shelf(id)?;
        let (archive, marked) = (self.clone(), shelf.clone());
        // A panic in it was logged; the sweep tries again.
        let _ = self.inner.scope.run("archive removal mark", async move { archive.begin_removal(&marked).await }).await;
        let archive = self.clone();
        let removing = self.inner.scope.run("archive removal", async move {
            let _uploading = shelf.uploading.lock().await;
            archive.finish_removal(&shelf).await;
        });
        let _ = tokio::time::timeout(REMOVAL_WAIT_MAX, removing).await;
        Ok(())
    }

    async fn begin_removal(&self, shelf: &Arc<Shelf>) {
        // A file that gets its place now is there before the removal, or refused.
        let intake = shelf.intake.lock().await;
        let before = std::mem::replace(&mut shelf.facts().removal, Removal::Begun);
        let (spool, id) = (self.inner.spool.clone(), shelf.id.clone());
        // A second note could outlive the first removal and take a new archive along.
        if before == Removal::No
            && let Err(error) = self.block(move || spool.mark_removed(&id)).await
        {
            tracing::warn!(database = shelf.id, %error, "note the removal of an archive");
        }
        drop(intake);
        shelf.changed.send_replace(());
    }

    /// Removes the objects and then the spool. Tried again later if the store fails. The caller
    /// holds the shelf's `uploading`.
    pub(crate) async fn finish_removal(&self, shelf: &Arc<Shelf>) {
        // An earlier call may have done it, and the objects may be a new archive's of this name.
        if !self.is_current(shelf) {
            return;
        }
        let _turn = shelf.turn.write().await;
        let emptied = async {
            let found = self.inner.objects.list(&shelf.id, None).await?;
            self.inner.objects.delete_all(found.into_iter().map(|object| object.location).collect()).await
        };
        if let Err(error) = emptied.await {
            let mut facts = shelf.facts();
            facts.error = Some(chain(&error));
            facts.retry_at = Some(tokio::time::Instant::now() + RETRY_MAX / 4);
            return;
        }
        let waiting: u64 = {
            let mut facts = shelf.facts();
            std::mem::take(&mut facts.waiting).values().map(|file| file.bytes).sum()
        };
        let (spool, id) = (self.inner.spool.clone(), shelf.id.clone());
        if let Err(error) = self.block(move || spool.remove(&id, waiting)).await {
            tracing::warn!(database = shelf.id, %error, "remove an archive's folder");
            shelf.facts().retry_at = Some(tokio::time::Instant::now() + RETRY_MAX);
            return;
        }
        self.forget_shelf(&shelf.id);
        tracing::info!(database = shelf.id, "archive removed");
    }
}
