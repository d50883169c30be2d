//! The first start after the restore of a backup. What was in progress at the time of the backup
//! ended long ago, so nothing of it is taken back, and databases have the volumes that they have.

use std::collections::HashMap;

use pandastack_model::{Fault, SandboxId, VolumeId};
use pandastack_wire_fleet::{RecordedSandbox, VolumeView};

use crate::{
    Control,
    plan::NewOwner,
    store::{IdleLimit, MachineSize, ManagedDatabaseRow, OrphanFacts, OrphanId, RestoreMark},
};

impl Control {
    /// Settles a restore, if there was one, before anything is compared or finished. May be
    /// repeated from the start after a crash.
    pub(crate) async fn settle_restore(&self) -> Result<Option<RestoreMark>, Fault> {
        let Some(mark) = self.store.pending_restore().await? else { return Ok(None) };
        let volumes = self.seen_volumes().await?;
        let recorded: HashMap<SandboxId, RecordedSandbox> =
            self.host.recorded().await?.into_iter().map(|one| (one.ask.id, one)).collect();
        let mut databases = self.store.all_databases().await?;
        databases.retain(|row| row.broker_token.is_some());
        for row in &databases {
            if let Some(asked) = recorded.get(&row.id) {
                self.correct_database(row, asked, (&volumes, &mark)).await?;
            }
        }
        for volume in self.store.all_volumes().await? {
            let is_alone = volume
                .sandbox
                .is_some_and(|of| !recorded.contains_key(&of) && databases.iter().all(|database| database.id != of));
            // It would be deleted with the row of that sandbox.
            if is_alone && volumes.contains_key(&volume.id) {
                self.store.disown_volume(volume.id).await?;
            }
        }
        let present: Vec<VolumeId> = volumes.keys().copied().collect();
        self.store.settle_restore(&mark, &present, self.clock.now_ns()).await?;
        tracing::info!(backup = mark.backup, "the database was restored from a backup");
        Ok(Some(mark))
    }

    /// Records the volume that a database has now. It may have got another one since the backup.
    async fn correct_database(
        &self,
        row: &ManagedDatabaseRow,
        asked: &RecordedSandbox,
        (volumes, mark): (&HashMap<VolumeId, VolumeView>, &RestoreMark),
    ) -> Result<(), Fault> {
        let Some(mut intent) = self.store.find(&row.workspace, row.id).await? else { return Ok(()) };
        let mounts = &asked.ask.spec.volumes;
        let copies = self.store.copies_of(row.id).await?;
        if intent.spec.volumes != *mounts {
            let owner = NewOwner { workspace: row.workspace.clone(), name: None };
            let (mut new, mut names) = (Vec::new(), Vec::new());
            for mount in mounts {
                match (copies.iter().find(|copy| copy.id == mount.volume), volumes.get(&mount.volume)) {
                    (Some(copy), _) => names.push(copy.name.clone()),
                    (None, Some(view)) => {
                        let volume = self.adopted_volume(&owner, view, Some(row.id));
                        names.push(volume.name.clone());
                        new.push(volume);
                    }
                    (None, None) => {
                        tracing::warn!(database = %row.id, "the volume of a database is not on the host");
                        return Ok(());
                    }
                }
            }
            (intent.spec.volumes, intent.volume_names) = (mounts.clone(), names);
            intent.generation = intent.generation.max(asked.ask.generation);
            self.store.correct_mounts(&intent, &new, self.clock.now_ns()).await?;
            tracing::info!(database = %row.id, "recorded the volume that a database got after the backup");
        }
        for copy in copies.iter().filter(|copy| mounts.iter().all(|mount| mount.volume != copy.id)) {
            // Its data is older than that of the database, or a repair left it.
            match volumes.get(&copy.id) {
                Some(view) => {
                    let facts = OrphanFacts {
                        host_state: if view.users.is_empty() { "unused" } else { "used" }.to_owned(),
                        template: None,
                        workspace: Some(row.workspace.clone()),
                        of_sandbox: None,
                        since_ns: view.created_ns,
                        size: MachineSize { cpus: 0, memory_mib: 0, disk_mib: view.size.as_mib() },
                        idle: IdleLimit { ttl_seconds: 0, persistent: true },
                    };
                    let orphan = self.as_orphan(OrphanId::Volume(copy.id), Some(mark), facts);
                    self.store.put_volume_aside(&orphan).await?;
                }
                None => self.store.forget_volume(copy.id, self.clock.now_ns()).await?,
            }
        }
        Ok(())
    }
}
