//! Clones a database as it was at a time, from its archive. The source is not touched.

use std::time::Duration;

use pandastack_model::{Egress, Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{CloneSpec, CreateSandboxSpec, SandboxSource};
use tokio::time::Instant;

use super::{DatabaseView, being_reset, create::LABEL_KEY, credentials::LoginCheck, idle_policy};
use crate::{
    Control,
    limits::{
        DATABASE_ARCHIVE_WAIT, DATABASE_CLONE_DELAY, DATABASE_ERRAND_MAX, DATABASE_SLEEP_ARCHIVE_WAIT, DATABASE_VOLUME,
    },
    plan::{self, CopiedMount},
    store::{DatabaseRepair, ManagedDatabaseRow, PlannedSandbox, ResourceKind},
};

impl Control {
    /// Clones a database. Returns as soon as its machine is planned.
    pub(crate) async fn clone_database(
        &self,
        caller: &Caller,
        source: SandboxId,
        spec: CloneSpec,
    ) -> Result<DatabaseView, Fault> {
        self.need_host()?;
        let view = self.database(caller, source).await?;
        if view.row.repair == Some(DatabaseRepair::Reset) {
            return Err(being_reset());
        }
        let CloneSpec { label, target_ns, size } = spec;
        let now_ns = self.clock.now_ns();
        if target_ns.is_some_and(|target| target + DATABASE_CLONE_DELAY.as_nanos() as u64 > now_ns) {
            let text = format!(
                "target_time must be at least {} minutes ago; without one the latest state is cloned",
                DATABASE_CLONE_DELAY.as_secs() / 60
            );
            return Err(Fault::new(FaultKind::Caller, "database.bad_target_time", text));
        }
        if target_ns.is_none() && view.state == Some(SandboxState::Running) && !view.has_failed() {
            self.hand_over_log(source, DATABASE_ARCHIVE_WAIT).await;
        }
        self.plan_restore(source, target_ns).await?;
        let named = |row: &ManagedDatabaseRow| row.label.as_ref().map(|label| format!("{label} (clone)"));
        let row = ManagedDatabaseRow {
            id: SandboxId::random(),
            label: label.or_else(|| named(&view.row)),
            size: size.unwrap_or(view.row.size),
            branched_from: None,
            cloned_from: Some(source),
            template_layer: None,
            password: None,
            next_password: None,
            broker_token: None,
            repair: Some(DatabaseRepair::Restore { until_ns: target_ns }),
            kept_volume: None,
            error: None,
            drill: None,
            created_at_ns: now_ns,
            ..view.row
        };
        self.note_made(caller, ResourceKind::Sandbox, &[row.id.to_string()]).await?;
        let (control, caller, made) = (self.clone(), caller.clone(), row.clone());
        // In a task of its own: a caller that hangs up must not leave half of a database.
        let begin = async move { control.begin_clone(caller, made, target_ns).await };
        self.scope.run("clone a database", begin).await.map_err(Fault::bug)??;
        Ok(DatabaseView::new(row, Some(SandboxState::Creating)))
    }

    async fn begin_clone(&self, caller: Caller, row: ManagedDatabaseRow, until_ns: Option<u64>) -> Result<(), Fault> {
        self.check_database_room(&caller, row.sleep).await?;
        let template = self.database_template(row.size).await?;
        let planned = self.plan_clone(&caller, &row).await?;
        let (control, id, source) = (self.clone(), row.id, row.cloned_source());
        self.provision(caller, id, async move {
            for volume in &planned.copies {
                control.host.make_volume(volume.id, volume.size).await?;
            }
            control.bring_up_planned(planned).await?;
            control.store.set_database_layer(id, &template.layer).await?;
            control.restore_machine(id, source, until_ns).await?;
            control.renew_login(id, LoginCheck::None).await?;
            control.store.set_database_repair(id, None).await?;
            Ok(())
        });
        Ok(())
    }

    /// Plans and records the machine of a clone, with a blank volume as large as the source's.
    async fn plan_clone(&self, caller: &Caller, row: &ManagedDatabaseRow) -> Result<PlannedSandbox, Fault> {
        let limits = self.admitted_limits(&caller.workspace).await?;
        let idle = idle_policy(row.sleep);
        let wanted = CreateSandboxSpec {
            start: SandboxSource::Template(row.size.template().parse().map_err(Fault::bug)?),
            ttl_seconds: idle.ttl_seconds,
            persistent: idle.persistent,
            metadata: row.label.iter().map(|label| (LABEL_KEY.to_owned(), label.clone())).collect(),
            env: Default::default(),
            egress: Egress::Only(Vec::new()),
            bandwidth_mbps: None,
            volumes: Vec::new(),
        };
        let view = plan::PlacementState {
            templates: self.host.templates().await,
            pending: Vec::new(),
            own_names: Vec::new(),
            own: None,
            volumes: Vec::new(),
            sandboxes: self.store.count(&caller.workspace).await?,
            sandboxes_max: self.settings.sandboxes_max,
            snapshot: None,
        };
        let ask = plan::PlacementRequest {
            id: row.id,
            volume_ids: Vec::new(),
            workspace: caller.workspace.clone(),
            created_at_ns: row.created_at_ns,
            wanted,
        };
        let mut planned = plan::place(&view, ask)?;
        let source = self.store.copies_of(row.cloned_source()).await?;
        let size = source.iter().map(|volume| volume.size).max().unwrap_or(DATABASE_VOLUME);
        let CopiedMount { mount, row: volume } = self.data_volume(&planned.intent, size);
        planned.intent.spec.volumes = vec![mount];
        planned.intent.volume_names = vec![volume.name.clone()];
        planned.intent.spec.owner = self.owner(&caller.workspace).await?;
        planned.copies = vec![volume];
        planned.database = Some(Box::new(row.clone()));
        self.commit(caller, std::slice::from_ref(&planned), &limits).await?;
        Ok(planned)
    }

    /// A database that is put to sleep right after a commit archives it first, because a sleeping
    /// one archives nothing. One that sleeps by itself has done so in its idle time.
    pub(crate) async fn archive_before_sleep(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        let Some(row) = self.store.find_database(&caller.workspace, id).await? else { return Ok(()) };
        if self.archive().is_some() && self.with_state(row).await?.state == Some(SandboxState::Running) {
            self.hand_over_log(id, DATABASE_SLEEP_ARCHIVE_WAIT).await;
        }
        Ok(())
    }

    /// Lets a running database archive the last of its log. Without it, a clone is up to a minute
    /// older.
    async fn hand_over_log(&self, id: SandboxId, wait: Duration) {
        let handed_over = async {
            let Some(archive) = self.archive() else { return Ok(()) };
            let printed = self.look_in_database(id, &["switch-wal"], DATABASE_ERRAND_MAX).await?;
            archive.wait_for(&id.to_string(), printed.trim(), Instant::now() + wait).await.map_err(Fault::bug)
        };
        if let Err(fault) = handed_over.await {
            tracing::warn!(database = %id, %fault, "the last of a database's log is not archived yet");
        }
    }
}
