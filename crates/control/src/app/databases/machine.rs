//! Gives a database another machine under the same id: after a crash, for a newer template, or to
//! restore its data. The row of the sandbox says `failed` meanwhile, because one that says
//! `creating` is forgotten with its volume after a crash.

use pandastack_model::{
    ByteSize, Fault, FaultKind, LayerId, SandboxId, SandboxOrigin, VolumeAccess, VolumeId, VolumeMount,
};
use pandastack_wire_fleet::{Caller, EnsureParams, ForkParams, SandboxView};

use super::{
    golden::{VOLUME_NAME, VOLUME_PATH},
    no_database,
};
use crate::{
    Control,
    limits::{DATABASE_VOLUME, START_WAIT_MAX},
    plan::CopiedMount,
    store::{Intent, ManagedDatabaseRow, VolumeRow},
};

/// The data that a new machine of a database starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineData {
    /// The volume that it had.
    Kept,
    /// A blank volume of the same size.
    Blank,
}

impl Control {
    /// Replaces the machine of a database by a fresh one of its template.
    pub(super) async fn rebuild_machine(&self, row: &ManagedDatabaseRow, data: MachineData) -> Result<(), Fault> {
        let template = self.database_template(row.size).await?;
        let mut intent = self.machine_with_data(row).await?;
        // Before the old machine is gone: others may be starting, and then the old one stays.
        let _turn = self.locks.starts.take_within(&intent.workspace, START_WAIT_MAX).await?;
        intent.spec.origin = SandboxOrigin::Template;
        let blank = match data {
            MachineData::Kept => None,
            MachineData::Blank => {
                let size = self.data_size(row.id).await?;
                Some(self.replace_volume(&mut intent, size))
            }
        };
        self.begin_rebuild(&mut intent, blank.as_ref()).await?;
        self.host.remove(row.id).await?;
        if let Some(volume) = &blank {
            self.host.make_volume(volume.id, volume.size).await?;
        }
        let seen = self.host.ensure(as_ensure(&intent)).await?;
        self.finish_rebuild(&intent, &seen).await?;
        Ok(self.store.set_database_layer(row.id, &template.layer).await?)
    }

    /// Replaces the machine of a branch by a fork of its parent's.
    pub(super) async fn refork_machine(
        &self,
        row: &ManagedDatabaseRow,
        parent: &ManagedDatabaseRow,
    ) -> Result<(), Fault> {
        let mut intent = self.machine_of(row).await?;
        let _turn = self.locks.starts.take_within(&intent.workspace, START_WAIT_MAX).await?;
        let size = self.data_size(parent.id).await?;
        let volume = self.replace_volume(&mut intent, size);
        self.begin_rebuild(&mut intent, Some(&volume)).await?;
        self.host.remove(row.id).await?;
        let layer = LayerId::random();
        let ask = ForkParams { parent: parent.id, layer, children: vec![as_ensure(&intent)] };
        let forked = self.host.fork(ask).await?;
        self.reconcile_soon(parent.id);
        let none = || Err(Fault::bug("a fork returned no child"));
        let seen = forked.children.into_iter().next().unwrap_or_else(none)?;
        self.finish_rebuild(&intent, &seen).await?;
        if let Some(layer) = &parent.template_layer {
            self.store.set_database_layer(row.id, layer).await?;
        }
        Ok(())
    }

    pub(super) async fn machine_of(&self, row: &ManagedDatabaseRow) -> Result<Intent, Fault> {
        self.store.find(&row.workspace, row.id).await?.ok_or_else(no_database)
    }

    /// Returns the sandbox of a database with the volume that has its data. An attempt that was cut
    /// off may have given it another one.
    pub(super) async fn machine_with_data(&self, row: &ManagedDatabaseRow) -> Result<Intent, Fault> {
        let mut intent = self.machine_of(row).await?;
        if let Some(id) = row.kept_volume {
            let copies = self.store.copies_of(row.id).await?;
            let kept = copies.into_iter().find(|volume| volume.id == id);
            let gone = || Fault::new(FaultKind::Conflict, "database.no_volume", "the volume with the data is gone");
            intent.volume_names = vec![kept.ok_or_else(gone)?.name];
            intent.spec.volumes = vec![data_mount(id)];
        }
        Ok(intent)
    }

    /// Returns the size of a database's volume.
    async fn data_size(&self, id: SandboxId) -> Result<ByteSize, Fault> {
        let volumes = self.store.ready_copies_of(id).await?;
        Ok(volumes.iter().map(|volume| volume.size).max().unwrap_or(DATABASE_VOLUME))
    }

    /// Puts a new volume in the place of the old one.
    fn replace_volume(&self, intent: &mut Intent, size: ByteSize) -> VolumeRow {
        let CopiedMount { mount, row } = self.data_volume(intent, size);
        (intent.spec.volumes, intent.volume_names) = (vec![mount], vec![row.name.clone()]);
        row
    }

    /// Plans a data volume for a machine. Its name is not that of the volume it had.
    pub(super) fn data_volume(&self, intent: &Intent, size: ByteSize) -> CopiedMount {
        let id = VolumeId::random();
        let row = VolumeRow {
            id,
            workspace: intent.workspace.clone(),
            name: format!("{VOLUME_NAME}-{}", &id.uuid().simple().to_string()[..12]),
            size,
            created_at_ns: self.clock.now_ns(),
            sandbox: Some(intent.id),
        };
        CopiedMount { mount: data_mount(id), row }
    }

    async fn begin_rebuild(&self, intent: &mut Intent, volume: Option<&VolumeRow>) -> Result<(), Fault> {
        intent.generation += 1;
        let caller = Caller::of(intent.workspace.clone());
        let _gate = self.admit_copies(&intent.workspace, volume.as_slice()).await?;
        if self.store.begin_rebuild(&caller, intent, volume).await? { Ok(()) } else { Err(no_database()) }
    }

    async fn finish_rebuild(&self, intent: &Intent, seen: &SandboxView) -> Result<(), Fault> {
        if !self.store.mark_running(seen, self.clock.now_ns()).await? {
            // It was deleted meanwhile, and that did not see this machine.
            self.host.remove(intent.id).await?;
            for mount in &intent.spec.volumes {
                self.host.remove_volume(mount.volume).await?;
            }
            return Err(Fault::new(FaultKind::Conflict, "database.deleted", "the database was deleted meanwhile"));
        }
        self.record_running(intent, seen);
        Ok(())
    }

    /// Deletes the volumes that a database had before. Call it when its data is safe.
    pub(super) async fn drop_old_volumes(&self, row: &ManagedDatabaseRow) -> Result<(), Fault> {
        self.drop_unused_volumes(&self.machine_of(row).await?).await
    }

    async fn drop_unused_volumes(&self, intent: &Intent) -> Result<(), Fault> {
        for volume in self.store.copies_of(intent.id).await? {
            if intent.spec.volumes.iter().all(|mount| mount.volume != volume.id) {
                self.store.hide_volume(volume.id).await?;
                self.remove_volume_disk(volume.id).await?;
            }
        }
        Ok(())
    }

    /// Gives a database the volume with its data back after a new machine did not get the data.
    pub(super) async fn give_volume_back(&self, mut before: Intent) -> Result<(), Fault> {
        self.host.remove(before.id).await?;
        before.generation += 2;
        let caller = Caller::of(before.workspace.clone());
        self.store.begin_rebuild(&caller, &before, None).await?;
        self.drop_unused_volumes(&before).await
    }
}

fn data_mount(volume: VolumeId) -> VolumeMount {
    VolumeMount { volume, path: VOLUME_PATH.to_owned(), access: VolumeAccess::ReadWrite }
}

fn as_ensure(intent: &Intent) -> EnsureParams {
    EnsureParams { id: intent.id, generation: intent.generation, spec: intent.spec.clone() }
}
