//! Finds what the host has and the database never knew, at the server's start. A leftover of our
//! own, whose delete or whose maker is recorded, is removed as ever; everything else is put aside.

use std::collections::{HashMap, HashSet};

use pandastack_model::{Egress, SandboxId, SandboxState, VolumeId};
use pandastack_wire_fleet::{RecordedSandbox, SandboxView, VolumeView, WorkspaceId};
use pandastack_wire_public::DatabaseSize;

use super::NO_LIMIT;
use crate::{
    Control,
    app::databases::VOLUME_PATH,
    limits::ORPHAN_KEPT,
    plan::OrphanState,
    store::{BuildResource, IdleLimit, MachineSize, OrphanFacts, OrphanId, OrphanRow, RestoreMark, StoreError},
};

/// What the database knows besides the sandboxes and volumes of workspaces.
struct OwnThings {
    sandboxes: HashSet<SandboxId>,
    volumes: HashSet<VolumeId>,
}

impl Control {
    /// Puts aside what the database never knew. `unknown` are the sandboxes of the host without a
    /// row. `mark` is the restore that led here, if one did.
    pub(crate) async fn put_unknown_aside(
        &self,
        unknown: Vec<SandboxView>,
        mark: Option<&RestoreMark>,
    ) -> Result<(), StoreError> {
        let own = self.own_things().await?;
        let recorded = self.recorded_sandboxes().await;
        let volumes = self.volumes_of_host().await;
        self.forget_missing_orphans(&unknown, volumes.as_deref()).await?;
        let mut found = Vec::new();
        for view in unknown {
            let asked = recorded.get(&view.id);
            if self.is_leftover(&own, &view, asked).await? {
                match self.host.remove(view.id).await {
                    Ok(()) => tracing::info!(sandbox = %view.id, "removed the rest of an interrupted operation"),
                    Err(fault) => {
                        tracing::warn!(sandbox = %view.id, %fault, "could not remove a sandbox without a row")
                    }
                }
                continue;
            }
            found.push(self.as_orphan(OrphanId::of(view.id, asked), mark, facts_of(&view, asked)));
        }
        let known: HashSet<VolumeId> = self.store.all_volumes().await?.into_iter().map(|volume| volume.id).collect();
        for view in volumes.unwrap_or_default() {
            if !known.contains(&view.volume) && !own.volumes.contains(&view.volume) {
                let facts = facts_of_volume(&view, &recorded);
                found.push(self.as_orphan(OrphanId::Volume(view.volume), mark, facts));
            }
        }
        self.store.put_aside(&found).await?;
        for orphan in &found {
            self.hold_still(orphan).await;
        }
        Ok(())
    }

    pub(super) fn as_orphan(&self, id: OrphanId, mark: Option<&RestoreMark>, facts: OrphanFacts) -> OrphanRow {
        let now_ns = self.clock.now_ns();
        OrphanRow {
            id,
            state: OrphanState::Found,
            error: None,
            backup: mark.map(|mark| mark.backup.clone()),
            put_aside_at_ns: now_ns,
            expires_at_ns: now_ns.saturating_add(ORPHAN_KEPT.as_nanos() as u64),
            facts,
        }
    }

    /// Makes sure that the host does not end a machine because it is idle. It sleeps later, because
    /// many of them would delay the start.
    async fn hold_still(&self, orphan: &OrphanRow) {
        let Some(id) = orphan.id.sandbox() else { return };
        let is_dead = orphan.facts.host_state == SandboxState::Failed { reason: String::new() }.as_str();
        if !is_dead && let Err(fault) = self.host.set_lifecycle(id, NO_LIMIT).await {
            tracing::warn!(sandbox = %id, %fault, "could not take the idle limit of a sandbox that was put aside");
        }
    }

    /// Whether a sandbox is the rest of an operation that the database has a record of.
    async fn is_leftover(
        &self,
        own: &OwnThings,
        view: &SandboxView,
        asked: Option<&RecordedSandbox>,
    ) -> Result<bool, StoreError> {
        let mounts = asked.map(|asked| asked.ask.spec.volumes.as_slice()).unwrap_or_default();
        let is_own = own.sandboxes.contains(&view.id) || mounts.iter().any(|mount| own.volumes.contains(&mount.volume));
        Ok(is_own || self.store.is_deleted(view.id).await?)
    }

    /// Forgets what was put aside and is not on the host any more. Adoptions and removals that have
    /// begun go on.
    async fn forget_missing_orphans(
        &self,
        unknown: &[SandboxView],
        volumes: Option<&[VolumeView]>,
    ) -> Result<(), StoreError> {
        for orphan in self.store.orphans().await? {
            let is_here = match orphan.id {
                OrphanId::Sandbox(id) | OrphanId::Database(id) => unknown.iter().any(|view| view.id == id),
                OrphanId::Volume(id) => volumes.is_none_or(|volumes| volumes.iter().any(|view| view.volume == id)),
            };
            if !is_here && matches!(orphan.state, OrphanState::Found | OrphanState::Kept) {
                tracing::info!(id = %orphan.id, kind = orphan.id.kind(), "what was put aside is no longer on the host");
                self.store.forget_orphan(orphan.id).await?;
            }
        }
        Ok(())
    }

    async fn own_things(&self) -> Result<OwnThings, StoreError> {
        let (mut sandboxes, mut volumes) = (HashSet::new(), HashSet::new());
        for (sandbox, volume) in self.store.golden_makers().await? {
            sandboxes.insert(sandbox);
            volumes.insert(volume);
        }
        for holding in self.store.holdings(None).await? {
            match holding {
                BuildResource::Sandbox(id) => drop(sandboxes.insert(id)),
                BuildResource::Volume(id) => drop(volumes.insert(id)),
                BuildResource::Layer(_) => {}
            }
        }
        volumes.extend(self.store.all_databases().await?.iter().filter_map(|row| row.scratch_volume()));
        Ok(OwnThings { sandboxes, volumes })
    }

    async fn recorded_sandboxes(&self) -> HashMap<SandboxId, RecordedSandbox> {
        match self.host.recorded().await {
            Ok(recorded) => recorded.into_iter().map(|one| (one.ask.id, one)).collect(),
            // It is kept all the same, and read again when it is adopted.
            Err(fault) => {
                tracing::warn!(%fault, detail = fault.detail, "could not read what was asked for the sandboxes");
                HashMap::new()
            }
        }
    }

    async fn volumes_of_host(&self) -> Option<Vec<VolumeView>> {
        match self.host.volumes().await {
            Ok(volumes) => Some(volumes),
            Err(fault) => {
                tracing::warn!(%fault, detail = fault.detail, "could not list the volumes of the host");
                None
            }
        }
    }
}

impl OrphanId {
    /// Tells the machine of a database from another sandbox.
    fn of(id: SandboxId, asked: Option<&RecordedSandbox>) -> Self {
        let is_database = asked.is_some_and(|asked| database_size(asked).is_some());
        if is_database { OrphanId::Database(id) } else { OrphanId::Sandbox(id) }
    }
}

/// Returns the size of the database that a machine was made for: it has the template and the volume
/// of one, and no way out of its network.
pub(super) fn database_size(asked: &RecordedSandbox) -> Option<DatabaseSize> {
    let spec = &asked.ask.spec;
    let size = DatabaseSize::ALL.into_iter().find(|size| size.template() == spec.template.as_str());
    let has_data = spec.volumes.iter().any(|mount| mount.path == VOLUME_PATH);
    size.filter(|_| has_data && spec.egress == Egress::Only(Vec::new()))
}

fn facts_of(view: &SandboxView, asked: Option<&RecordedSandbox>) -> OrphanFacts {
    let spec = asked.map(|asked| &asked.ask.spec);
    let (ttl_seconds, persistent) = spec.map_or((0, true), |spec| (spec.ttl_seconds, spec.persistent));
    OrphanFacts {
        host_state: view.state.as_str().to_owned(),
        template: spec.map(|spec| spec.template.to_string()),
        workspace: workspace_of(asked),
        of_sandbox: None,
        since_ns: asked.and_then(|asked| asked.since_ns),
        size: MachineSize::of(view),
        idle: IdleLimit { ttl_seconds, persistent },
    }
}

/// A volume belongs to whoever uses it; nothing else of the host tells.
fn facts_of_volume(view: &VolumeView, recorded: &HashMap<SandboxId, RecordedSandbox>) -> OrphanFacts {
    let uses = |asked: &&RecordedSandbox| asked.ask.spec.volumes.iter().any(|mount| mount.volume == view.volume);
    let user = recorded.values().filter(uses).min_by_key(|asked| asked.ask.id);
    let host_state = if view.users.is_empty() { "unused" } else { "used" };
    OrphanFacts {
        host_state: host_state.to_owned(),
        template: None,
        workspace: workspace_of(user),
        of_sandbox: user.filter(|asked| database_size(asked).is_some()).map(|asked| asked.ask.id),
        since_ns: view.created_ns,
        size: MachineSize { cpus: 0, memory_mib: 0, disk_mib: view.size.as_mib() },
        idle: IdleLimit { ttl_seconds: 0, persistent: true },
    }
}

/// A host knows the owner only if the server has several workspaces.
fn workspace_of(asked: Option<&RecordedSandbox>) -> Option<WorkspaceId> {
    asked.and_then(|asked| asked.ask.spec.owner.as_ref()).map(|owner| WorkspaceId(owner.0.clone()))
}
