//! Gives something that was put aside to a workspace: one transaction writes its rows, everything
//! after it can be repeated.

use std::collections::HashMap;

use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState, VolumeId, VolumeMount};
use pandastack_wire_fleet::{RecordedSandbox, SandboxView, VolumeView};
use pandastack_wire_public::DatabaseSleep;
use serde_json::json;

use super::{OrphanVerb, find::database_size};
use crate::{
    Control,
    app::databases::{LABEL_KEY, VOLUME_NAME},
    plan::{NewOwner, OrphanRequest},
    store::{
        AdoptedRows, Intent, Lineage, MachineSize, ManagedDatabaseRow, OrphanEntered, OrphanId, OrphanRow, StartReport,
        VolumeRow,
    },
};

/// Digits of its id in the name of an adopted volume.
const NAME_DIGITS: usize = 12;

impl Control {
    /// Writes the rows, then does the rest. A refusal is shown to the operator.
    pub(super) async fn adopt_orphan(&self, orphan: &OrphanRow, owner: &NewOwner) -> Result<(), Fault> {
        match self.enter_workspace(orphan, owner).await {
            Ok(()) => {}
            // The database or the host is not there now; nobody refused.
            Err(fault) if matches!(fault.kind, FaultKind::Unavailable | FaultKind::Storage) => return Err(fault),
            Err(fault) => {
                let id = orphan.id.to_string();
                self.store.ask_orphan(&id, OrphanRequest::GiveUp, Some(&fault.text)).await?;
                tracing::info!(%id, %fault, detail = fault.detail, "could not adopt what was put aside");
                return Ok(());
            }
        }
        self.finish_adoption(orphan, owner).await
    }

    async fn enter_workspace(&self, orphan: &OrphanRow, owner: &NewOwner) -> Result<(), Fault> {
        if !self.store.has_workspace(&owner.workspace).await? {
            let text = format!("there is no workspace {:?}; see \"pandastack admin quota list\"", owner.workspace.0);
            return Err(Fault::new(FaultKind::Missing, "orphan.no_workspace", text));
        }
        let rows = match orphan.id {
            OrphanId::Sandbox(id) | OrphanId::Database(id) => self.rows_of_sandbox(orphan, owner, id).await?,
            OrphanId::Volume(id) => self.rows_of_volume(orphan, owner, id).await?,
        };
        match self.store.enter_orphan(&rows, self.clock.now_ns()).await? {
            OrphanEntered::Yes => Ok(()),
            OrphanEntered::Changed => Err(Fault::bug("it changed during its adoption")),
            OrphanEntered::NameTaken(name) => {
                let text =
                    format!("workspace {} has a volume {name} already; choose another --name", owner.workspace.0);
                Err(Fault::new(FaultKind::Conflict, "volume.exists", text))
            }
        }
    }

    async fn rows_of_sandbox(&self, orphan: &OrphanRow, owner: &NewOwner, id: SandboxId) -> Result<AdoptedRows, Fault> {
        let view = self.host.observe(id).await.ok_or_else(Fault::no_sandbox)?;
        let asked =
            self.host.recorded().await?.into_iter().find(|one| one.ask.id == id).ok_or_else(Fault::no_sandbox)?;
        let (mounts, names, volumes) = self.mounts_of(owner, &asked, orphan).await?;
        let intent = adopted_intent(orphan, owner, (&view, &asked), (mounts, names));
        let size = matches!(orphan.id, OrphanId::Database(_)).then(|| database_size(&asked)).flatten();
        let database = size.map(|size| ManagedDatabaseRow {
            id,
            workspace: owner.workspace.clone(),
            label: asked.ask.spec.metadata.get(LABEL_KEY).cloned(),
            size,
            sleep: DatabaseSleep::of_always_on(orphan.facts.idle.ttl_seconds == 0),
            branched_from: None,
            cloned_from: None,
            template_layer: None,
            password: None,
            next_password: None,
            broker_token: None,
            repair: None,
            kept_volume: None,
            error: None,
            drill: None,
            created_at_ns: intent.created_at_ns,
        });
        let owner = owner.clone();
        Ok(AdoptedRows { orphan: orphan.id, owner, sandbox: Some(intent), volumes, database })
    }

    /// Returns the mounts of a sandbox, their names, and rows for the volumes that have none.
    async fn mounts_of(
        &self,
        owner: &NewOwner,
        asked: &RecordedSandbox,
        orphan: &OrphanRow,
    ) -> Result<(Vec<VolumeMount>, Vec<String>, Vec<VolumeRow>), Fault> {
        let seen = self.seen_volumes().await?;
        let rows: HashMap<VolumeId, VolumeRow> =
            self.store.all_volumes().await?.into_iter().map(|row| (row.id, row)).collect();
        let (mut mounts, mut names, mut new) = (Vec::new(), Vec::new(), Vec::new());
        for mount in &asked.ask.spec.volumes {
            let row = match (rows.get(&mount.volume), seen.get(&mount.volume)) {
                (Some(row), _) if row.workspace == owner.workspace => row.clone(),
                (Some(row), _) => {
                    let text = format!(
                        "it uses volume {} of workspace {}; adopt it there, or delete it",
                        row.name, row.workspace.0
                    );
                    return Err(Fault::new(FaultKind::Conflict, "orphan.other_workspace", text));
                }
                (None, Some(view)) => {
                    let of = matches!(orphan.id, OrphanId::Database(_)).then_some(asked.ask.id);
                    let row = self.adopted_volume(owner, view, of);
                    new.push(row.clone());
                    row
                }
                // A dead sandbox holds its volumes no longer.
                (None, None) => continue,
            };
            mounts.push(mount.clone());
            names.push(row.name);
        }
        Ok((mounts, names, new))
    }

    async fn rows_of_volume(&self, orphan: &OrphanRow, owner: &NewOwner, id: VolumeId) -> Result<AdoptedRows, Fault> {
        let missing =
            || Fault::new(FaultKind::Missing, "volume.not_found", "the host does not have the volume any more");
        let view = self.seen_volumes().await?.remove(&id).ok_or_else(missing)?;
        let others = self.store.orphans().await?;
        let user = view.users.iter().copied().chain(orphan.facts.of_sandbox);
        for user in user {
            if others.iter().any(|other| other.id.sandbox() == Some(user)) {
                let text = format!("it belongs to {user}, which was put aside too; adopt or delete that first");
                return Err(Fault::new(FaultKind::Conflict, "orphan.volume_used", text));
            }
            if let Some((workspace, _)) = self.store.owner(user).await?
                && workspace != owner.workspace
            {
                let text = format!("sandbox {user} of workspace {} uses it; adopt it there", workspace.0);
                return Err(Fault::new(FaultKind::Conflict, "orphan.other_workspace", text));
            }
        }
        let mut volume = self.adopted_volume(owner, &view, None);
        if let Some(name) = &owner.name {
            volume.name.clone_from(name);
        }
        let owner = owner.clone();
        Ok(AdoptedRows { orphan: orphan.id, owner, sandbox: None, volumes: vec![volume], database: None })
    }

    pub(super) fn adopted_volume(&self, owner: &NewOwner, view: &VolumeView, of: Option<SandboxId>) -> VolumeRow {
        let digits = &view.volume.uuid().simple().to_string()[..NAME_DIGITS];
        let first = if of.is_some() { VOLUME_NAME } else { "restored" };
        VolumeRow {
            id: view.volume,
            workspace: owner.workspace.clone(),
            name: format!("{first}-{digits}"),
            size: view.size,
            created_at_ns: view.created_ns.unwrap_or_else(|| self.clock.now_ns()),
            sandbox: of,
        }
    }

    /// Gives a sandbox its idle limit back, and a database a password. May be repeated.
    pub(super) async fn finish_adoption(&self, orphan: &OrphanRow, owner: &NewOwner) -> Result<(), Fault> {
        match orphan.id {
            OrphanId::Sandbox(id) => self.settle_in(orphan, id).await?,
            OrphanId::Database(id) => self.settle_database_in(orphan, id).await?,
            OrphanId::Volume(_) => self.tell_change(&owner.workspace, "volume.changed", json!({})),
        }
        self.note_orphan(orphan, OrphanVerb::Adopted(&owner.workspace)).await?;
        self.store.forget_orphan(orphan.id).await?;
        tracing::info!(id = %orphan.id, kind = orphan.id.kind(), workspace = owner.workspace.0, "adopted");
        Ok(())
    }

    async fn settle_in(&self, orphan: &OrphanRow, id: SandboxId) -> Result<(), Fault> {
        let Some(state) = self.store.any_state(id).await? else {
            // Its new owner deleted it already.
            return Ok(());
        };
        let is_live = !matches!(state, SandboxState::Failed { .. });
        self.keep_idle_limit(id, orphan.facts.idle, is_live).await?;
        self.reconcile_soon(id);
        Ok(())
    }

    /// Its password is in no database any more, so it gets another one. Its role and its data stay.
    async fn settle_database_in(&self, orphan: &OrphanRow, id: SandboxId) -> Result<(), Fault> {
        self.settle_in(orphan, id).await?;
        match self.store.any_database(id).await? {
            None => Ok(()),
            Some(row) if row.broker_token.is_some() => Ok(()),
            Some(row) => self.give_login(&row).await,
        }
    }
}

fn adopted_intent(
    orphan: &OrphanRow,
    owner: &NewOwner,
    (view, asked): (&SandboxView, &RecordedSandbox),
    (volumes, volume_names): (Vec<VolumeMount>, Vec<String>),
) -> Intent {
    let mut spec = asked.ask.spec.clone();
    (spec.ttl_seconds, spec.persistent) = (orphan.facts.idle.ttl_seconds, orphan.facts.idle.persistent);
    (spec.owner, spec.volumes) = (Some(owner.workspace.owner()), volumes);
    Intent {
        id: view.id,
        workspace: owner.workspace.clone(),
        generation: asked.ask.generation,
        created_at_ns: orphan.facts.since_ns.unwrap_or(orphan.put_aside_at_ns),
        spec,
        volume_names,
        from_snapshot: None,
        lineage: Lineage::default(),
        size: MachineSize::of(view),
        state: view.state.clone(),
        observed: StartReport::of(view),
    }
}
