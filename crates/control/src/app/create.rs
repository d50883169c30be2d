//! Creates a sandbox: view, plan, commit, ensure. A failure after the commit is undone before the
//! caller gets the response, so that nothing is left of a refused create. If the host cannot undo
//! it, the row stays and is marked as failed.

use std::time::Duration;

use pandastack_billing::PlanLimits;
use pandastack_door::SANDBOX_ATTRIBUTE;
use pandastack_kit::trace;
use pandastack_model::{Fault, FaultKind, Owner, SandboxId, SandboxState, VolumeId};
use pandastack_wire_fleet::{Caller, EnsureParams, SandboxView, WorkspaceId};
use pandastack_wire_public::{CreateSandboxSpec, SandboxSource};
use tokio::time::{Instant, timeout_at};

use super::{
    quotas::{check_ttl, refused},
    volumes::fresh_volume_ids,
};
use crate::{
    Control,
    boots::BootRecord,
    limits::{CREATE_MAX, START_WAIT_MAX},
    plan,
    store::{Intent, MachineSize, PlannedSandbox, ResourceKind, SandboxesAdded, StartReport},
};

/// Delay between two tries to forget a failed create.
const FORGET_PAUSE: Duration = Duration::from_secs(2);

impl Control {
    /// Creates a sandbox and returns when it is usable. Runs to its end even if the caller
    /// disconnects.
    pub(crate) async fn create(&self, caller: Caller, wanted: CreateSandboxSpec) -> Result<Intent, Fault> {
        self.need_host()?;
        let control = self.clone();
        let work = async move { control.create_to_the_end(caller, wanted).await };
        self.scope.run("create sandbox", work).await.map_err(Fault::bug)?
    }

    async fn create_to_the_end(&self, caller: Caller, wanted: CreateSandboxSpec) -> Result<Intent, Fault> {
        let limits = self.admitted_limits(&caller.workspace).await?;
        check_ttl(&limits, wanted.ttl_seconds)?;
        let view = self.view(&caller, &wanted).await?;
        let sealed = view.snapshot.as_ref().map_or(0, |snapshot| snapshot.volumes.len());
        let ask = plan::PlacementRequest {
            id: SandboxId::random(),
            volume_ids: fresh_volume_ids(sealed),
            workspace: caller.workspace.clone(),
            created_at_ns: self.clock.now_ns(),
            wanted,
        };
        let mut planned = plan::place(&view, ask)?;
        planned.intent.spec.owner = self.owner(&caller.workspace).await?;
        trace::note(SANDBOX_ATTRIBUTE, planned.intent.id);
        self.note_made(&caller, ResourceKind::Sandbox, &[planned.intent.id.to_string()]).await?;
        self.commit(&caller, std::slice::from_ref(&planned), &limits).await?;
        self.bring_up_planned(planned).await
    }

    /// Makes a sandbox that was committed, or undoes the commit.
    pub(super) async fn bring_up_planned(&self, planned: PlannedSandbox) -> Result<Intent, Fault> {
        let PlannedSandbox { mut intent, copies, database: _ } = planned;
        match self.bring_up(&intent).await {
            Ok(seen) => {
                (intent.size, intent.observed, intent.state) =
                    (MachineSize::of(&seen), StartReport::of(&seen), SandboxState::Running);
                self.usage.meters.created(Some(&intent.observed.boot_mode));
                self.usage.series.add_create(&intent.workspace, self.clock.now_ns());
                self.record_running(&intent, &seen);
                self.measure_copies(copies);
                tracing::info!(sandbox = %intent.id, boot_ms = intent.observed.boot_ms, "sandbox created");
                Ok(intent)
            }
            Err(fault) => {
                self.usage.meters.created(None);
                self.undo_create(intent.id, copies.iter().map(|copy| copy.id)).await;
                Err(fault)
            }
        }
    }

    /// Records sandboxes that are about to be made, with the volumes that are copied for them.
    pub(super) async fn commit(
        &self,
        caller: &Caller,
        planned: &[PlannedSandbox],
        limits: &PlanLimits,
    ) -> Result<(), Fault> {
        let copies: Vec<_> = planned.iter().flat_map(|planned| &planned.copies).collect();
        let _gate = self.admit_copies(&caller.workspace, &copies).await?;
        match self.store.commit(caller, planned, limits).await? {
            SandboxesAdded::Yes => Ok(()),
            SandboxesAdded::Full => Err(plan::full()),
            SandboxesAdded::Refused(refusal) => Err(refused(refusal)),
            SandboxesAdded::NameTaken(name) => {
                let text = format!("a copy of a volume would be called {name}, which exists already; try again");
                Err(Fault::new(FaultKind::Conflict, "volume.exists", text))
            }
        }
    }

    /// Returns the owner whose share the host counts. A workspace that is alone on the server has
    /// no owner and so no share: no other workspace needs the rest.
    pub(crate) async fn owner(&self, workspace: &WorkspaceId) -> Result<Option<Owner>, Fault> {
        Ok(self.store.has_several_workspaces().await?.then(|| workspace.owner()))
    }

    async fn view(&self, caller: &Caller, wanted: &CreateSandboxSpec) -> Result<plan::PlacementState, Fault> {
        let (mut templates, mut own, mut snapshot) = (Vec::new(), None, None);
        let (mut pending, mut own_names) = (Vec::new(), Vec::new());
        match &wanted.start {
            SandboxSource::Template(name) => {
                own = self.store.find_template(&caller.workspace, name.as_str()).await?;
                if own.is_none() {
                    // Before the host's: a template leaves this list after it has entered that one.
                    pending = self.templates.bakes.pending();
                    templates = self.host.templates().await;
                    if !templates.iter().any(|template| template.name == name.as_str()) {
                        let all = self.store.list_templates(&caller.workspace).await?;
                        own_names = all.into_iter().map(|template| template.name).collect();
                    }
                }
            }
            SandboxSource::Snapshot(id) => snapshot = self.store.find_snapshot(&caller.workspace, id).await?,
        }
        let mut volumes = Vec::new();
        for mount in &wanted.volumes {
            let volume = self.store.find_volume(&caller.workspace, mount.name.as_str()).await?;
            // The machine of a database that has failed holds its volume no longer.
            if let Some(owner) = volume.as_ref().and_then(|volume| volume.sandbox) {
                self.refuse_database(caller, owner).await?;
            }
            volumes.extend(volume);
        }
        let sandboxes = self.store.count(&caller.workspace).await?;
        Ok(plan::PlacementState {
            templates,
            pending,
            own_names,
            own,
            snapshot,
            volumes,
            sandboxes,
            sandboxes_max: self.settings.sandboxes_max,
        })
    }

    /// Records that a sandbox is running. Refreshes its row, because its state may have changed
    /// since the host responded.
    pub(super) fn record_running(&self, intent: &Intent, seen: &SandboxView) {
        self.booted(&intent.workspace, intent.spec.template.as_str(), seen);
        self.reconcile_soon(seen.id);
    }

    /// Records a boot in the metrics and the boot statistics.
    pub(crate) fn booted(&self, workspace: &WorkspaceId, template: &str, seen: &SandboxView) {
        let StartReport { boot_ms, boot_mode: mode, .. } = StartReport::of(seen);
        self.usage.meters.booted(&mode, boot_ms);
        let (at_ns, template) = (self.clock.now_ns(), template.to_owned());
        self.usage.series.add_boot(workspace, &mode, Duration::from_millis(boot_ms), at_ns);
        self.usage.boots.add(workspace, BootRecord { at_ns, sandbox: seen.id, template, mode, boot_ms });
    }

    /// Asks the host for the sandbox and records the result.
    async fn bring_up(&self, intent: &Intent) -> Result<SandboxView, Fault> {
        let deadline = Instant::now() + CREATE_MAX;
        let turn = self.locks.starts.take_within(&intent.workspace, START_WAIT_MAX).await?;
        let host = self.host.clone();
        let ask = EnsureParams { id: intent.id, generation: intent.generation, spec: intent.spec.clone() };
        // In its own task: after the timeout it must still run to its end.
        let asked = self.scope.run("ensure sandbox", async move {
            let _turn = turn;
            host.ensure(ask).await
        });
        let seen = timeout_at(deadline, asked).await.map_err(|_| too_slow())?.map_err(Fault::bug)??;
        if self.store.mark_running(&seen, self.clock.now_ns()).await? {
            return Ok(seen);
        }
        Err(Fault::new(FaultKind::Conflict, "sandbox.deleted", "the sandbox was deleted while it was being created"))
    }

    /// Removes the remains of a failed create with the volumes that were to be copied for it, the
    /// row last. While the row exists, a DELETE can still clean up.
    pub(super) async fn undo_create(&self, id: SandboxId, copies: impl Iterator<Item = VolumeId>) {
        if let Err(fault) = self.host.remove(id).await {
            tracing::warn!(sandbox = %id, %fault, "could not remove a failed sandbox from the host");
            let reason = "the creation failed and could not be undone; delete the sandbox";
            let kept = self.store.mark_failed(id, reason, self.clock.now_ns()).await;
            if let Err(error) = kept {
                tracing::error!(sandbox = %id, %error, "could not record that a create failed");
            }
            return;
        }
        // A delete may have removed their rows before the host made them.
        for copy in copies {
            if let Err(fault) = self.host.remove_volume(copy).await {
                tracing::warn!(volume = %copy, %fault, "could not remove the volume of a failed create");
            }
        }
        if let Err(error) = self.store.forget(id).await {
            tracing::error!(sandbox = %id, %error, "could not delete the row of a failed create; trying again");
            self.forget_later(id);
        }
        self.remove_abandoned_volumes().await;
    }

    /// Forgets a failed create as soon as the database is writable again. Otherwise the sandbox
    /// would be shown as `creating` until the next start.
    fn forget_later(&self, id: SandboxId) {
        let (control, token) = (self.clone(), self.scope.token());
        self.scope.start("forget a create", async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(FORGET_PAUSE) => {}
                    () = token.cancelled() => return,
                }
                if control.store.forget(id).await.is_ok() {
                    control.remove_abandoned_volumes().await;
                    return;
                }
            }
        });
    }
}

fn too_slow() -> Fault {
    let text = format!("create timeout after {}s; nothing was created, try again", CREATE_MAX.as_secs());
    Fault::new(FaultKind::Timeout, "sandbox.create_timeout", text)
}

/// Returns the API's name of a boot mode. Standby, warm and cold boots all restore the template:
/// `snapshot-natid`.
pub(crate) fn public_boot_mode(mode: &str) -> &str {
    if matches!(mode, "standby" | "warm" | "cold") { "snapshot-natid" } else { mode }
}
