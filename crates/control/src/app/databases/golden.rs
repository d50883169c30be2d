//! Makes golden layers: a machine with a blank volume, whose server was started on an empty cluster
//! and then sealed with its volume. It is made once for each layer of a template; every database
//! starts from it.

use pandastack_kit::Secret;
use pandastack_model::{
    ByteSize, Fault, FaultKind, LayerId, SandboxId, SandboxSpec, TemplateName, VolumeAccess, VolumeId, VolumeMount,
};
use pandastack_postgres_broker::password_verifier;
use pandastack_wire_fleet::{EnsureParams, LayerHold, SealParams, TemplateView};
use pandastack_wire_public::DatabaseSize;

use super::{backups::base_name, credentials::random_text};
use crate::{
    Control,
    limits::{DATABASE_INIT_MAX, DATABASE_VOLUME},
    store::{GoldenRow, MachineSize, SealedMount, SnapshotRow},
};

/// Where the image expects its volume.
pub(in crate::app) const VOLUME_PATH: &str = "/var/lib/pandastack/pg";
/// The code of an attempt that a stop of the server ended.
const STOPPED: &str = "database.stopped";
/// First part of the names of the volumes.
pub(in crate::app) const VOLUME_NAME: &str = "pgdata";

/// What a database starts from, as a sandbox starts from a snapshot.
#[derive(Clone)]
pub struct GoldenLayer {
    pub snapshot: SnapshotRow,
    /// The password of the tenant's role in the sealed machine.
    pub password: Secret<String>,
    /// The layer of the template that it was made from.
    pub template_layer: String,
}

impl Control {
    /// Finds the template of a size on the host.
    pub(super) async fn database_template(&self, size: DatabaseSize) -> Result<TemplateView, Fault> {
        let pending = self.templates.bakes.pending();
        let templates = self.host.templates().await;
        let named = |size: DatabaseSize| templates.iter().find(|template| template.name == size.template());
        named(size).cloned().ok_or_else(|| {
            if let Some(pending) = pending.iter().find(|pending| pending.is_named(size.template())) {
                return pending.fault();
            }
            let (size, name) = (size.as_str(), size.template());
            let baked = DatabaseSize::ALL.into_iter().filter(|size| named(*size).is_some());
            let baked: Vec<&str> = baked.map(DatabaseSize::as_str).collect();
            let others = if baked.is_empty() { String::new() } else { format!(" (it has {})", baked.join(", ")) };
            let text = format!(
                "this server has no databases of size {size}{others}; its operator runs: pandastack template bake {name}"
            );
            Fault::new(FaultKind::Unavailable, "database.no_template", text)
        })
    }

    /// Returns the golden layer of a template if it exists already.
    pub(super) async fn known_golden(&self, template: &TemplateView) -> Result<Option<GoldenLayer>, Fault> {
        let golden = self.store.find_golden(&template.layer).await?;
        Ok(golden.map(|golden| GoldenLayer::of(golden, template)))
    }

    /// Returns the golden layer for a size. The first caller makes it; others wait.
    pub(super) async fn golden(&self, size: DatabaseSize) -> Result<GoldenLayer, Fault> {
        let _turn = self.locks.golden.lock().await;
        // Read now: the template may have been baked again while this waited.
        let template = &self.database_template(size).await?;
        if let Some(known) = self.known_golden(template).await? {
            return Ok(known);
        }
        if self.scope.token().is_cancelled() {
            return Err(stopped());
        }
        // What an earlier attempt could not remove would be in the way.
        self.remove_stale_goldens().await?;
        let golden = GoldenRow {
            template_layer: template.layer.clone(),
            template: template.name.parse::<TemplateName>().map_err(Fault::bug)?,
            layer: LayerId::random(),
            sandbox: SandboxId::random(),
            volume: VolumeId::random(),
            password: Secret::new(random_text()),
            created_at_ns: self.clock.now_ns(),
        };
        self.golden_attempts.begin(&template.layer, golden.created_at_ns);
        let made = self.make_or_stop(&golden).await;
        let now_ns = self.clock.now_ns();
        self.golden_attempts.end(&template.layer, made.as_ref().copied(), now_ns);
        made?;
        let took_ms = now_ns.saturating_sub(golden.created_at_ns) / 1_000_000;
        tracing::info!(template = template.name, layer = %golden.layer, took_ms, "sealed a machine for databases");
        self.remove_stale_goldens().await?;
        Ok(GoldenLayer::of(golden, template))
    }

    /// Makes a golden layer. A failure, or a stop of the server, leaves nothing of it.
    async fn make_or_stop(&self, golden: &GoldenRow) -> Result<(), Fault> {
        // Recorded first: after a crash the next start removes what is left.
        self.store.begin_golden(golden).await?;
        let made = async {
            self.make_golden(golden).await?;
            self.clear_maker(golden).await?;
            Ok::<(), Fault>(self.store.finish_golden(golden).await?)
        };
        let token = self.scope.token();
        let made = tokio::select! {
            made = made => made,
            () = token.cancelled() => Err(stopped()),
        };
        if let Err(fault) = &made {
            if fault.code != STOPPED {
                tracing::warn!(template = %golden.template, %fault, "could not make a machine for databases");
            }
            self.give_up_golden(golden).await;
        }
        made
    }

    /// Removes golden layers that are unfinished, or not needed any more. Call it while none is
    /// being made.
    pub(super) async fn remove_stale_goldens(&self) -> Result<(), Fault> {
        for stale in self.store.stale_goldens().await? {
            self.give_up_golden(&stale).await;
        }
        Ok(())
    }

    async fn make_golden(&self, golden: &GoldenRow) -> Result<(), Fault> {
        self.host.make_volume(golden.volume, DATABASE_VOLUME).await?;
        let mount =
            VolumeMount { volume: golden.volume, path: VOLUME_PATH.to_owned(), access: VolumeAccess::ReadWrite };
        let spec = SandboxSpec { volumes: vec![mount], ttl_seconds: 0, ..SandboxSpec::of(golden.template.clone()) };
        self.host.ensure(EnsureParams { id: golden.sandbox, generation: 1, spec }).await?;
        let verifier = format!("{}\n", password_verifier(golden.password.reveal()));
        self.run_in_database(golden.sandbox, &["init"], Some(verifier), DATABASE_INIT_MAX).await?;
        // Every database that starts from it gets this backup. Without it each takes its own.
        if self.archive().is_some() {
            let name = base_name(self.clock.now_ns());
            let verb = ["base-backup", &name];
            if let Err(fault) = self.run_in_database(golden.sandbox, &verb, None, DATABASE_INIT_MAX).await {
                tracing::warn!(%fault, "a machine for databases has no base backup");
            }
        }
        self.open_superuser_session(golden.sandbox).await;
        if let Err(fault) = self.rehearse_login(golden.sandbox, &golden.password).await {
            tracing::warn!(%fault, "a machine for databases is sealed without a rehearsal");
        }
        self.host.seal(golden.sandbox, SealParams { layer: golden.layer, hold: LayerHold::Kept }).await?;
        Ok(())
    }

    /// Removes what a golden layer was made with.
    async fn clear_maker(&self, golden: &GoldenRow) -> Result<(), Fault> {
        self.host.remove(golden.sandbox).await?;
        self.host.remove_volume(golden.volume).await
    }

    /// Removes a golden layer. Databases that run on it keep the data they need. If this fails, the
    /// next start tries again.
    async fn give_up_golden(&self, golden: &GoldenRow) {
        let given_up = async {
            self.clear_maker(golden).await?;
            self.host.release(golden.layer).await?;
            self.drop_archive(golden.sandbox).await?;
            self.store.forget_golden(&golden.template_layer).await?;
            Ok::<(), Fault>(())
        };
        if let Err(fault) = given_up.await {
            tracing::warn!(layer = %golden.layer, %fault, "could not remove a machine for databases yet");
        }
    }
}

fn stopped() -> Fault {
    let text = "the server stopped while it made the machine that databases start from";
    Fault::new(FaultKind::Unavailable, STOPPED, text)
}

impl GoldenLayer {
    fn of(golden: GoldenRow, template: &TemplateView) -> Self {
        let volume = SealedMount {
            name: VOLUME_NAME.to_owned(),
            path: VOLUME_PATH.to_owned(),
            read_only: false,
            size: DATABASE_VOLUME,
        };
        let TemplateView { cpus, memory_mib, disk_mib, .. } = *template;
        let snapshot = SnapshotRow {
            layer: golden.layer,
            workspace: pandastack_wire_fleet::WorkspaceId(String::new()),
            sandbox: golden.sandbox,
            template: golden.template,
            size: MachineSize { cpus: cpus.into(), memory_mib, disk_mib },
            own: ByteSize::new(0),
            created_at_ns: golden.created_at_ns,
            volumes: vec![volume],
        };
        Self { snapshot, password: golden.password, template_layer: golden.template_layer }
    }
}
