//! The stub's side of the host port. The work is done in the files beside it.

use async_trait::async_trait;
use pandastack_model::{
    ByteSize, CodeLanguage, CodeSessionId, Egress, ExecDefaults, Fault, GuestPort, LayerId, SandboxId, SandboxOrigin,
    SandboxRequest, VolumeId,
};
use tokio::sync::broadcast;

use super::StubHost;
use crate::{
    AuditReport, BootParams, ByteStream, CellParams, CellStream, CodeSessionView, ConsoleRange, EnsureParams,
    ExecParams, ExecSession, FileBody, FileEntry, ForkOutcome, ForkParams, GuestStream, HostEvent, HostPort,
    HostStatus, IdlePolicy, LayerView, ListeningPort, MachineUsage, Presence, RecordedSandbox, SandboxView, SealParams,
    TemplateView, UsageCursor, UsagePage, UseKind, VolumeView, WriteParams,
};

#[async_trait]
impl HostPort for StubHost {
    async fn ensure(&self, ask: EnsureParams) -> Result<SandboxView, Fault> {
        self.enter("ensure").await?;
        match ask.spec.origin {
            SandboxOrigin::Template => self.start(ask, "standby"),
            SandboxOrigin::Layer(layer) => {
                self.restore_processes(ask.id, layer);
                self.start(ask, "snapshot")
            }
        }
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Fault> {
        self.check("remove")?;
        self.sandboxes.lock().unwrap().remove(&id);
        Ok(())
    }

    async fn pause(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("pause", id, SandboxRequest::Pause)
    }

    async fn resume(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("resume", id, SandboxRequest::Resume)
    }

    async fn sleep(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("sleep", id, SandboxRequest::Sleep)
    }

    async fn wake(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("wake", id, SandboxRequest::Wake)
    }

    async fn seal(&self, id: SandboxId, ask: SealParams) -> Result<LayerView, Fault> {
        self.gate.pass().await;
        self.seal_now(id, ask)
    }

    async fn seal_as(&self, id: SandboxId, ask: SealParams, defaults: ExecDefaults) -> Result<LayerView, Fault> {
        self.layer_defaults.lock().unwrap().insert(ask.layer, defaults);
        self.seal(id, ask).await
    }

    async fn fork(&self, ask: ForkParams) -> Result<ForkOutcome, Fault> {
        self.enter("fork").await?;
        self.fork_now(ask)
    }

    async fn release(&self, layer: LayerId) -> Result<(), Fault> {
        self.check("release")?;
        self.layers.lock().unwrap().remove(&layer);
        Ok(())
    }

    async fn set_egress(&self, id: SandboxId, egress: Egress) -> Result<(), Fault> {
        self.enter("set_egress").await?;
        self.egress.lock().unwrap().insert(id, egress);
        Ok(())
    }

    async fn set_lifecycle(&self, id: SandboxId, lifecycle: IdlePolicy) -> Result<SandboxView, Fault> {
        self.enter("set_lifecycle").await?;
        self.lifecycles.lock().unwrap().insert(id, lifecycle);
        self.observe(id).await.ok_or_else(Fault::no_sandbox)
    }

    async fn make_volume(&self, volume: VolumeId, size: ByteSize) -> Result<VolumeView, Fault> {
        self.check("make_volume")?;
        self.volumes.lock().unwrap().insert(volume, size);
        Ok(self.volume_view(volume))
    }

    async fn grow_volume(&self, volume: VolumeId, size: ByteSize) -> Result<VolumeView, Fault> {
        self.check("grow_volume")?;
        self.volumes.lock().unwrap().insert(volume, size);
        Ok(self.volume_view(volume))
    }

    async fn remove_volume(&self, volume: VolumeId) -> Result<(), Fault> {
        self.check("remove_volume")?;
        self.remove_volume_now(volume)
    }

    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault> {
        let ids: Vec<_> = self.volumes.lock().unwrap().keys().copied().collect();
        Ok(ids.into_iter().map(|id| self.volume_view(id)).collect())
    }

    async fn boot(&self, ask: BootParams) -> Result<LayerView, Fault> {
        self.check("boot")?;
        Ok(self.boot_now(&ask))
    }

    async fn usage_facts(&self, after: &UsageCursor, most: usize) -> Result<UsagePage, Fault> {
        self.check("usage_facts")?;
        Ok(self.usage_page(after, most))
    }

    async fn audit(&self) -> Result<AuditReport, Fault> {
        Ok(self.audit_report.lock().unwrap().clone())
    }

    async fn observe(&self, id: SandboxId) -> Option<SandboxView> {
        self.sandboxes.lock().unwrap().get(&id).cloned()
    }

    async fn observe_all(&self) -> Vec<SandboxView> {
        self.sandboxes.lock().unwrap().values().cloned().collect()
    }

    async fn recorded(&self) -> Result<Vec<RecordedSandbox>, Fault> {
        self.check("recorded")?;
        Ok(self.recorded_now())
    }

    async fn status(&self) -> HostStatus {
        HostStatus {
            tier: *self.tier.lock().unwrap(),
            sandboxes: self.count(),
            standby: 3,
            blanks: 2,
            memory_promised: ByteSize::mib(512),
            disk_free: ByteSize::mib(64),
            disk_total: ByteSize::gib(128),
            resident: ByteSize::mib(32),
        }
    }

    async fn usage(&self, id: SandboxId) -> Result<Option<MachineUsage>, Fault> {
        self.usage_now(id)
    }

    async fn usages(&self) -> Vec<MachineUsage> {
        let ids: Vec<_> = self.sandboxes.lock().unwrap().keys().copied().collect();
        ids.into_iter().filter_map(|id| self.usage_now(id).ok().flatten()).collect()
    }

    async fn console(&self, _: SandboxId, ask: ConsoleRange) -> Result<ByteStream, Fault> {
        self.read_console(ask)
    }

    async fn templates(&self) -> Vec<TemplateView> {
        self.templates.lock().unwrap().clone()
    }

    async fn attend(&self, id: SandboxId) -> Result<Presence, Fault> {
        self.serve("attend", id)?;
        Ok(self.presence())
    }

    async fn exec_as(&self, id: SandboxId, ask: ExecParams, by: UseKind) -> Result<ExecSession, Fault> {
        self.serve_as("exec", id, by)?;
        self.run_command(id, ask).await
    }

    async fn open_code(
        &self,
        id: SandboxId,
        session: &CodeSessionId,
        language: CodeLanguage,
    ) -> Result<CodeSessionView, Fault> {
        self.serve("open_code", id)?;
        Ok(self.open_session(session, language))
    }

    async fn code_sessions(&self, id: SandboxId) -> Result<Vec<CodeSessionView>, Fault> {
        self.serve("code_sessions", id)?;
        Ok(self.sessions.lock().unwrap().clone())
    }

    async fn close_code(&self, id: SandboxId, session: &CodeSessionId) -> Result<(), Fault> {
        self.serve("close_code", id)?;
        self.check_session(session)?;
        self.sessions.lock().unwrap().retain(|other| other.id != *session);
        Ok(())
    }

    async fn run_cell(&self, id: SandboxId, ask: CellParams) -> Result<CellStream, Fault> {
        self.serve("run_cell", id)?;
        self.run_played_cell(ask).await
    }

    async fn read_file(&self, id: SandboxId, path: &str) -> Result<FileBody, Fault> {
        self.serve("read_file", id)?;
        self.open_file(path)
    }

    async fn write_file(&self, id: SandboxId, ask: WriteParams, body: ByteStream) -> Result<u64, Fault> {
        self.serve("write_file", id)?;
        self.keep_file(ask, body).await
    }

    async fn list_dir(&self, id: SandboxId, _: &str) -> Result<Vec<FileEntry>, Fault> {
        self.serve("list_dir", id)?;
        Ok(self.listing.lock().unwrap().clone())
    }

    async fn stat(&self, id: SandboxId, path: &str) -> Result<FileEntry, Fault> {
        self.serve("stat", id)?;
        self.stat_file(path)
    }

    async fn delete_path(&self, id: SandboxId, path: &str) -> Result<(), Fault> {
        self.serve("delete_path", id)?;
        self.files.lock().unwrap().remove(path);
        Ok(())
    }

    async fn listening(&self, id: SandboxId) -> Result<Vec<ListeningPort>, Fault> {
        self.serve("listening", id)?;
        Ok(self.listening.lock().unwrap().clone())
    }

    async fn connect_as(&self, id: SandboxId, port: GuestPort, by: UseKind) -> Result<GuestStream, Fault> {
        self.serve_as("connect", id, by)?;
        self.open_connection(id, port).await
    }

    fn events(&self) -> broadcast::Receiver<HostEvent> {
        self.events.subscribe()
    }
}
