//! Forks a sandbox: view, plan, commit, one call to the host, one record for each child. A child
//! that failed is forgotten before the caller gets the response. A fork that exceeds its timeout is
//! undone as a whole, by the task that runs it.

use pandastack_kit::{random_hex, trace};
use pandastack_model::{EventKind, Fault, FaultKind, LayerId, SandboxId, SandboxState, VolumeAccess, VolumeId};
use pandastack_wire_fleet::{Caller, EnsureParams, ForkParams, SandboxView};
use pandastack_wire_public::ForkSpec;
use serde_json::json;
use tokio::sync::oneshot;

use super::{databases::branch_row, volumes::fresh_volume_ids};
use crate::{
    Control,
    events::SandboxEvent,
    limits::{FORK_MAX, START_WAIT_MAX},
    plan,
    store::{Intent, MachineSize, ManagedDatabaseRow, ResourceKind, StartReport},
    workspace_events::WorkspaceChange,
};

/// Whether the children of a fork form a tree.
#[derive(Clone)]
pub enum ForkGrouping {
    /// The children are independent.
    Loose,
    /// The children share a tree id, by which one of them can be promoted.
    Tree,
    /// The only child is a branch of a database. Its row is written with that of the sandbox.
    Branch(Box<ManagedDatabaseRow>),
}

/// The result of a fork: at least one child runs.
pub struct ForkResult {
    pub parent: SandboxId,
    pub layer: LayerId,
    pub tree: Option<String>,
    pub at_ns: u64,
    /// Ordered by index.
    pub children: Vec<Intent>,
    /// Index and reason of each child that failed.
    pub failures: Vec<(usize, Fault)>,
}

impl Control {
    /// Makes running copies of a sandbox. Runs to its end even if the caller disconnects.
    pub(crate) async fn fork(
        &self,
        caller: &Caller,
        id: SandboxId,
        wish: ForkSpec,
        family: ForkGrouping,
    ) -> Result<ForkResult, Fault> {
        self.need_host()?;
        self.reachable(caller, id).await?;
        let (control, caller) = (self.clone(), caller.clone());
        let work = async move { control.fork_in_time(caller, id, wish, family).await };
        self.scope.run("fork", work).await.map_err(Fault::bug)?
    }

    /// Waits for the fork, with a timeout. The wait runs in a task of its own, so that a
    /// disconnected caller does not undo the fork.
    async fn fork_in_time(
        &self,
        caller: Caller,
        id: SandboxId,
        wish: ForkSpec,
        family: ForkGrouping,
    ) -> Result<ForkResult, Fault> {
        let control = self.clone();
        let (answer, mut wait) = oneshot::channel();
        let work = async move {
            let forked = control.fork_to_the_end(&caller, id, wish, family).await;
            // The wait timed out. A caller that got a timeout must have no children.
            if let Err(Ok(forks)) = answer.send(forked) {
                control.take_back(forks).await;
            }
        };
        self.scope.start("carry out fork", trace::within(trace::here(), work));
        match tokio::time::timeout(FORK_MAX, &mut wait).await {
            Ok(forked) => forked.map_err(Fault::bug)?,
            Err(_) => {
                wait.close();
                // The result may have arrived just before the close.
                wait.try_recv().unwrap_or_else(|_| {
                    let text = format!("fork timeout after {}s; nothing was created, try again", FORK_MAX.as_secs());
                    Err(Fault::new(FaultKind::Timeout, "sandbox.fork_timeout", text))
                })
            }
        }
    }

    async fn fork_to_the_end(
        &self,
        caller: &Caller,
        id: SandboxId,
        wish: ForkSpec,
        family: ForkGrouping,
    ) -> Result<ForkResult, Fault> {
        let parent = self.store.find(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        let volume_count = parent.spec.volumes.len();
        let view = plan::ForkState {
            volumes: self.volumes_named(&caller.workspace, &parent.volume_names).await?,
            parent,
            sandboxes: self.store.count(&caller.workspace).await?,
            sandboxes_max: self.settings.sandboxes_max,
        };
        let ask = plan::ForkPlanRequest {
            ids: (0..wish.count).map(|_| SandboxId::random()).collect(),
            volume_ids: (0..wish.count).map(|_| fresh_volume_ids(volume_count)).collect(),
            wish,
            layer: LayerId::random(),
            tree: matches!(family, ForkGrouping::Tree).then(|| format!("tree_{}", random_hex::<16>())),
            created_at_ns: self.clock.now_ns(),
        };
        let mut children = plan::fork(&view, &ask)?;
        let limits = self.admitted_limits(&caller.workspace).await?;
        let owner = self.owner(&caller.workspace).await?;
        children.iter_mut().for_each(|child| child.intent.spec.owner = owner.clone());
        if let ForkGrouping::Branch(branch) = &family {
            children.iter_mut().for_each(|child| child.database = Some(branch_row(branch, &child.intent)));
        }
        let ids: Vec<_> = children.iter().map(|child| child.intent.id.to_string()).collect();
        self.note_made(caller, ResourceKind::Sandbox, &ids).await?;
        self.commit(caller, &children, &limits).await?;
        let copies = children.iter().flat_map(|child| child.copies.clone()).collect();
        let children = children.into_iter().map(|child| child.intent).collect();
        let forks = ForkResult {
            parent: id,
            layer: ask.layer,
            tree: ask.tree,
            at_ns: ask.created_at_ns,
            children,
            failures: vec![],
        };
        let forked = self.carry_out(forks).await;
        self.measure_copies(copies);
        forked
    }

    /// Calls the host once and records the result of every child.
    async fn carry_out(&self, mut forks: ForkResult) -> Result<ForkResult, Fault> {
        let planned = std::mem::take(&mut forks.children);
        let Some(workspace) = planned.first().map(|child| child.workspace.clone()) else { return Ok(forks) };
        let ensure =
            |child: &Intent| EnsureParams { id: child.id, generation: child.generation, spec: child.spec.clone() };
        let children = planned.iter().map(ensure).collect();
        let turn = match self.locks.starts.take_within(&workspace, START_WAIT_MAX).await {
            Ok(turn) => turn,
            Err(fault) => {
                self.undo_all(&planned).await;
                return Err(fault);
            }
        };
        let asked = self.host.fork(ForkParams { parent: forks.parent, layer: forks.layer, children }).await;
        drop(turn);
        // A sleeping parent was woken by the fork.
        self.reconcile_soon(forks.parent);
        let outcomes = match asked {
            Ok(forked) => {
                let payload = json!({
                    "snapshot": forks.layer.uuid().to_string(),
                    "tree_id": forks.tree,
                    "requested": planned.len(),
                    "pause_ms": u64::try_from(forked.layer.pause.as_millis()).unwrap_or(u64::MAX),
                });
                self.tell_or_log(forks.parent, EventKind::ForkStaged, payload).await;
                forked.children
            }
            Err(fault) => {
                self.undo_all(&planned).await;
                return Err(fault);
            }
        };
        let mut outcomes = outcomes.into_iter();
        for (index, child) in planned.into_iter().enumerate() {
            let outcome = outcomes.next().unwrap_or_else(|| Err(Fault::bug("the host returned no result for a child")));
            match self.record(child, outcome).await {
                Ok(child) => forks.children.push(child),
                Err(fault) => {
                    let payload = json!({"index": index, "error": fault.text, "code": fault.code});
                    self.tell_or_log(forks.parent, EventKind::ForkChildFailed, payload).await;
                    forks.failures.push((index, fault));
                }
            }
        }
        if forks.children.is_empty() {
            let first = forks.failures.into_iter().next();
            return Err(first.map_or_else(|| Fault::bug("a fork returned no children"), |(_, fault)| fault));
        }
        self.note(&forks).await;
        Ok(forks)
    }

    /// Records the result of one child. A failed child is forgotten.
    async fn record(&self, mut child: Intent, outcome: Result<SandboxView, Fault>) -> Result<Intent, Fault> {
        let written = match &outcome {
            Ok(seen) => {
                let now_ns = self.clock.now_ns();
                self.store.mark_running(seen, now_ns).await.map_err(Fault::from)
            }
            Err(fault) => Err(fault.clone()),
        };
        match (outcome, written) {
            (Ok(seen), Ok(true)) => {
                (child.size, child.observed, child.state) =
                    (MachineSize::of(&seen), StartReport::of(&seen), SandboxState::Running);
                self.record_running(&child, &seen);
                Ok(child)
            }
            (_, Ok(_)) => {
                self.undo_create(child.id, copied(&child)).await;
                let text = "the sandbox was deleted while it was being created";
                Err(Fault::new(FaultKind::Conflict, "sandbox.deleted", text))
            }
            (_, Err(fault)) => {
                self.undo_create(child.id, copied(&child)).await;
                Err(fault)
            }
        }
    }

    async fn take_back(&self, forks: ForkResult) {
        tracing::warn!(parent = %forks.parent, "a fork finished after its time limit; deleting its children");
        self.undo_all(&forks.children).await;
    }

    async fn undo_all(&self, children: &[Intent]) {
        for child in children {
            // First: the undo forgets the database of a branch too.
            let machine = self.store.machine_kind(child.id).await.unwrap_or_default();
            self.undo_create(child.id, copied(child)).await;
            let undone = SandboxEvent::new(EventKind::Deleted, self.clock.now_ns(), json!({"reason": "undone"}));
            self.store.workspace_events().record(&child.workspace, WorkspaceChange::of((child.id, machine), &undone));
            self.store.events().end(child.id, undone);
        }
    }

    async fn note(&self, forks: &ForkResult) {
        let children: Vec<_> = forks.children.iter().map(|child| child.id.to_string()).collect();
        let payload = json!({
            "snapshot": forks.layer.uuid().to_string(),
            "tree_id": forks.tree,
            "children": children,
            "failed": forks.failures.len(),
        });
        self.tell_or_log(forks.parent, EventKind::Forked, payload).await;
        let (succeeded, failed) = (forks.children.len(), forks.failures.len());
        let payload = json!({
            "tree_id": forks.tree,
            "snapshot": forks.layer.uuid().to_string(),
            "requested": succeeded + failed,
            "succeeded": succeeded,
            "failed": failed,
        });
        let kind = if forks.tree.is_some() { EventKind::TreeCompleted } else { EventKind::ForkCompleted };
        self.tell_or_log(forks.parent, kind, payload).await;
        tracing::info!(
            parent = %forks.parent,
            children = forks.children.len(),
            failed = forks.failures.len(),
            "sandbox forked"
        );
    }
}

/// Returns the volumes that are copied for a child: those that it writes. It shares the others.
fn copied(child: &Intent) -> impl Iterator<Item = VolumeId> {
    let written = child.spec.volumes.iter().filter(|mount| mount.access == VolumeAccess::ReadWrite);
    written.map(|mount| mount.volume)
}
