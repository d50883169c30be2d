//! What the host has and the database never knew, for example after the restore of an older backup:
//! put aside, kept for a while, given to a workspace or removed. Nothing here is in a workspace.

mod adopt;
mod find;
mod offline;
mod remove;
mod settle;

use std::collections::HashMap;

pub use offline::{OrphanFault, OrphanView, Orphans, mark_restored};
use pandastack_door::AuditRow;
use pandastack_model::{Fault, SandboxId, SandboxState};
use pandastack_wire_fleet::{FIRST_WORKSPACE, IdlePolicy, WorkspaceId};

use crate::{
    Control,
    limits::ORPHAN_RETRY,
    plan::{OrphanRequest, OrphanState, RemovalCause},
    store::{OrphanId, OrphanRow},
};

/// Idle limit of what was put aside: it neither ends nor wakes by itself.
const NO_LIMIT: IdlePolicy = IdlePolicy { ttl_seconds: 0, persistent: true };

/// When each of them is tried again that could not be dealt with.
#[derive(Default)]
pub struct OrphanRetries(HashMap<OrphanId, u64>);

/// What was put aside and waits for the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphanCounts {
    pub sandboxes: usize,
    pub databases: usize,
    pub volumes: usize,
}

impl Control {
    /// Counts what was put aside.
    pub async fn count_orphans(&self) -> Result<OrphanCounts, Fault> {
        let mut counts = OrphanCounts::default();
        for orphan in self.store.orphans().await? {
            match orphan.id {
                OrphanId::Sandbox(_) => counts.sandboxes += 1,
                OrphanId::Database(_) => counts.databases += 1,
                OrphanId::Volume(_) => counts.volumes += 1,
            }
        }
        Ok(counts)
    }

    /// Looks once at everything that was put aside, and does the next step of each. Call it at
    /// intervals.
    pub async fn look_after_orphans(&self) -> Result<(), Fault> {
        let mut retries = self.locks.orphans.lock().await;
        let orphans = self.store.orphans().await?;
        let now_ns = self.clock.now_ns();
        retries.0.retain(|id, at_ns| *at_ns > now_ns && orphans.iter().any(|orphan| orphan.id == *id));
        for orphan in orphans {
            // One adoption may have taken another along.
            let Some(orphan) = self.store.find_orphan(&orphan.id.to_string()).await? else { continue };
            // What an operator has just asked for is tried at once.
            let is_asked = matches!(orphan.state, OrphanState::Adopting(_) | OrphanState::Removing(_));
            if retries.0.contains_key(&orphan.id) && !(is_asked && orphan.error.is_none()) {
                continue;
            }
            let id = orphan.id;
            if let Err(fault) = self.look_after_orphan(orphan).await {
                let kind = id.kind();
                tracing::warn!(%id, kind, %fault, detail = fault.detail, "could not deal with what was put aside yet");
                retries.0.insert(id, now_ns.saturating_add(ORPHAN_RETRY.as_nanos() as u64));
                self.store.note_orphan_error(id, &fault.text).await?;
            }
        }
        Ok(())
    }

    async fn look_after_orphan(&self, orphan: OrphanRow) -> Result<(), Fault> {
        let is_over = orphan.expires_at_ns <= self.clock.now_ns();
        match &orphan.state {
            OrphanState::Found | OrphanState::Kept if is_over => self.expire_orphan(&orphan).await,
            OrphanState::Found => self.bring_to_rest(&orphan).await,
            OrphanState::Kept => Ok(()),
            OrphanState::Adopting(owner) => self.adopt_orphan(&orphan, owner).await,
            OrphanState::Adopted(owner) => self.finish_adoption(&orphan, owner).await,
            OrphanState::Removing(cause) => self.remove_orphan(&orphan, *cause).await,
        }
    }

    /// Puts a machine to sleep: its memory and disk are then on the disk, and it takes no CPU. If
    /// it cannot sleep, for example because the disk is full, it is paused until it can.
    async fn bring_to_rest(&self, orphan: &OrphanRow) -> Result<(), Fault> {
        if let Some(id) = orphan.id.sandbox() {
            match self.host.observe(id).await.map(|seen| seen.state) {
                Some(SandboxState::Running | SandboxState::Paused) => self.put_to_sleep_or_pause(id).await?,
                Some(SandboxState::Asleep | SandboxState::Failed { .. }) => {}
                Some(
                    SandboxState::Creating
                    | SandboxState::FallingAsleep
                    | SandboxState::Waking
                    | SandboxState::Stopping,
                ) => return Ok(()),
                None => {
                    tracing::info!(sandbox = %id, "the host removed a sandbox that was put aside");
                    return Ok(self.store.forget_orphan(orphan.id).await?);
                }
            }
        }
        self.store.ask_orphan(&orphan.id.to_string(), OrphanRequest::Rest, None).await?;
        Ok(())
    }

    async fn put_to_sleep_or_pause(&self, id: SandboxId) -> Result<(), Fault> {
        // First: an idle limit could end it.
        self.host.set_lifecycle(id, NO_LIMIT).await?;
        let Err(fault) = self.host.sleep(id).await else { return Ok(()) };
        if let Err(fault) = self.host.pause(id).await {
            tracing::warn!(sandbox = %id, %fault, "could not pause a sandbox that was put aside");
        }
        Err(fault)
    }

    async fn expire_orphan(&self, orphan: &OrphanRow) -> Result<(), Fault> {
        if let OrphanId::Volume(id) = orphan.id {
            let volumes = self.host.volumes().await?;
            if volumes.iter().any(|seen| seen.volume == id && !seen.users.is_empty()) {
                // It goes after the sandbox that uses it.
                return Ok(());
            }
        }
        match self.store.ask_orphan(&orphan.id.to_string(), OrphanRequest::Expire, None).await? {
            Some(Ok(OrphanRow { state: OrphanState::Removing(cause), .. })) => self.remove_orphan(orphan, cause).await,
            // An operator was faster.
            Some(_) | None => Ok(()),
        }
    }

    /// Adds an entry to the audit trail, once. It is there before the row is forgotten.
    async fn note_orphan(&self, orphan: &OrphanRow, verb: OrphanVerb<'_>) -> Result<(), Fault> {
        let (method, actor, word) = match verb {
            OrphanVerb::Adopted(_) => ("POST", "operator", "adopt"),
            OrphanVerb::Removed(RemovalCause::Request) => ("DELETE", "operator", "delete"),
            OrphanVerb::Removed(RemovalCause::Expiry) => ("DELETE", "server", "expire"),
        };
        let workspace = match verb {
            OrphanVerb::Adopted(workspace) => workspace.clone(),
            OrphanVerb::Removed(_) => match &orphan.facts.workspace {
                Some(workspace) if self.store.has_workspace(workspace).await? => workspace.clone(),
                _ => WorkspaceId(FIRST_WORKSPACE.to_owned()),
            },
        };
        let id = format!("orphan-{word}-{}-{}", orphan.id, orphan.put_aside_at_ns);
        let path = format!("orphans/{}/{}", orphan.id.kind(), orphan.id);
        let entry = AuditRow {
            workspace,
            at_ns: self.clock.now_ns(),
            request_id: String::new(),
            method: method.to_owned(),
            route: format!("orphans/{{kind}}/{{id}} {word}"),
            path,
            status: 200,
            duration_ms: 0,
            key_prefix: String::new(),
            actor: actor.to_owned(),
            actor_email: String::new(),
            address: String::new(),
        };
        Ok(self.store.add_audit_entries(&[(id, entry)]).await?)
    }
}

/// What happened to something that was put aside.
#[derive(Clone, Copy)]
enum OrphanVerb<'a> {
    Adopted(&'a WorkspaceId),
    Removed(RemovalCause),
}
