//! Implements the host's port for control and edge. Every verb finds the sandbox, asks its driver
//! or its guest, and returns the answer.

use async_trait::async_trait;
use pandastack_kit::trace;
use pandastack_model::{
    ByteSize, CodeLanguage, CodeSessionId, Egress, ExecDefaults, Fault, FaultKind, GuestPort, LayerId, SandboxId,
    SandboxRequest, VolumeId, state::step,
};
use pandastack_sys::usage;
use pandastack_wire_fleet::{
    AuditReport, BootParams, ByteStream, CellParams, CellStream, CodeSessionView, ConsoleRange, EnsureParams,
    ExecParams, ExecSession, FileBody, FileEntry, ForkOutcome, ForkParams, GuestStream, HostEvent, HostPort,
    HostStatus, IdlePolicy, LayerView, ListeningPort, MachineUsage, Presence, RecordedSandbox, SandboxView, SealParams,
    TemplateView, UsageCursor, UsagePage, UseKind, VolumeView, WriteParams,
};
use tokio::sync::{broadcast, oneshot};

use crate::{
    Host, audit, bake, consoles, fork, guest,
    host::{ServingSandbox, about, settled},
    sandbox::{DriverRequest, DriverStart, PublishedState, refusal_fault},
};

#[async_trait]
impl HostPort for Host {
    async fn ensure(&self, ask: EnsureParams) -> Result<SandboxView, Fault> {
        self.check_open()?;
        let EnsureParams { id, generation, spec } = ask;
        let launched = async {
            let entry = self.begin(id, generation, spec, DriverStart::Create);
            settled(&entry).await
        };
        let now = trace::span("host.create", about(id), launched).await?;
        match step(&now.view.state, SandboxRequest::Run) {
            Ok(pandastack_model::HostAction::Restore) => self.wake(id).await,
            Ok(_) => Ok(now.seen()),
            Err(refusal) => Err(refusal_fault(refusal, &now.view.state)),
        }
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Fault> {
        let (mut work, place) = trace::begin("host.remove");
        about(id)(&mut work);
        trace::within(place, self.take_down(id)).await?;
        Ok(())
    }

    async fn pause(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        trace::span("host.pause", about(id), self.request(id, DriverRequest::Pause)).await
    }

    async fn resume(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        trace::span("host.resume", about(id), self.request(id, DriverRequest::Resume)).await
    }

    async fn sleep(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        trace::span("host.hibernate", about(id), self.request(id, DriverRequest::Sleep)).await
    }

    async fn wake(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.check_open()?;
        trace::span("host.wake", about(id), self.request(id, DriverRequest::Wake)).await
    }

    async fn seal(&self, id: SandboxId, ask: SealParams) -> Result<LayerView, Fault> {
        self.check_open()?;
        trace::span("host.seal", about(id), self.request(id, |reply| DriverRequest::Seal(ask, None, reply))).await
    }

    async fn seal_as(&self, id: SandboxId, ask: SealParams, defaults: ExecDefaults) -> Result<LayerView, Fault> {
        self.check_open()?;
        self.request(id, |reply| DriverRequest::Seal(ask, Some(defaults), reply)).await
    }

    async fn fork(&self, ask: ForkParams) -> Result<ForkOutcome, Fault> {
        self.check_open()?;
        trace::span("host.fork", about(ask.parent), fork::fork(self, ask)).await
    }

    async fn release(&self, layer: LayerId) -> Result<(), Fault> {
        self.context.ledger.unkeep(layer).await?;
        self.context.release_layer(layer).await;
        Ok(())
    }

    async fn set_egress(&self, id: SandboxId, egress: Egress) -> Result<(), Fault> {
        self.request(id, |reply| DriverRequest::SetEgress(egress, reply)).await
    }

    async fn set_lifecycle(&self, id: SandboxId, lifecycle: IdlePolicy) -> Result<SandboxView, Fault> {
        self.request(id, |reply| DriverRequest::SetLifecycle(lifecycle, reply)).await
    }

    async fn make_volume(&self, volume: VolumeId, size: ByteSize) -> Result<VolumeView, Fault> {
        let room = self.context.admit_volume(volume, size).await?;
        self.context.volumes.make(volume, size, room).await
    }

    async fn grow_volume(&self, volume: VolumeId, size: ByteSize) -> Result<VolumeView, Fault> {
        let room = self.context.admit_volume(volume, size).await?;
        let (view, growth) = self.context.volumes.grow(volume, size, room).await?;
        if let Some(growth) = growth {
            match self.request(growth.sandbox, |reply| DriverRequest::VolumeGrown(growth, reply)).await {
                // A sandbox that is being removed need not be told: the next machine sees the
                // current size.
                Err(fault) if fault.kind == FaultKind::Missing => {}
                told => told?,
            }
        }
        Ok(view)
    }

    async fn remove_volume(&self, volume: VolumeId) -> Result<(), Fault> {
        self.context.volumes.remove(volume).await
    }

    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault> {
        self.context.volumes.list().await
    }

    async fn boot(&self, ask: BootParams) -> Result<LayerView, Fault> {
        self.check_open()?;
        bake::boot_root(&self.context, ask).await
    }

    async fn audit(&self) -> Result<AuditReport, Fault> {
        audit::audit(&self.context, &self.sandboxes).await.map_err(Fault::bug)
    }

    async fn observe(&self, id: SandboxId) -> Option<SandboxView> {
        Some(self.entry(id)?.condition.borrow().seen())
    }

    async fn observe_all(&self) -> Vec<SandboxView> {
        let sandboxes = self.sandboxes.lock().expect("no holder panics");
        sandboxes.values().map(|entry| entry.condition.borrow().seen()).collect()
    }

    async fn recorded(&self) -> Result<Vec<RecordedSandbox>, Fault> {
        Ok(self.context.ledger.recorded().await?)
    }

    async fn status(&self) -> HostStatus {
        let sandboxes = self.sandboxes.lock().expect("no holder panics").len();
        HostStatus {
            tier: self.context.driver.tier(),
            sandboxes,
            standby: self.standby.count(),
            blanks: self.standby.blanks.count(),
            memory_promised: ByteSize::new(*self.context.promised.lock().expect("no holder panics")),
            disk_free: ByteSize::new(self.context.volume.free_bytes()),
            disk_total: ByteSize::new(self.context.volume.total_bytes()),
            resident: ByteSize::new(usage::of_myself().map_or(0, |usage| usage.resident_bytes)),
        }
    }

    async fn usage(&self, id: SandboxId) -> Result<Option<MachineUsage>, Fault> {
        let entry = self.entry(id).ok_or_else(Fault::no_sandbox)?;
        let now = entry.condition.borrow().clone();
        Ok(measure(id, &now))
    }

    async fn usages(&self) -> Vec<MachineUsage> {
        let entries: Vec<_> = {
            let sandboxes = self.sandboxes.lock().expect("no holder panics");
            sandboxes.iter().map(|(id, entry)| (*id, entry.condition.borrow().clone())).collect()
        };
        let measured = move || entries.iter().filter_map(|(id, now)| measure(*id, now)).collect();
        self.context.scope.block("measure", measured).await.unwrap_or_default()
    }

    async fn console(&self, id: SandboxId, ask: ConsoleRange) -> Result<ByteStream, Fault> {
        let entry = self.entry(id).ok_or_else(Fault::no_sandbox)?;
        Ok(consoles::read(&self.context, id, entry.condition, ask))
    }

    async fn templates(&self) -> Vec<TemplateView> {
        let layers = self.context.layers.clone();
        let describe = move || {
            let templates = layers.templates().into_iter();
            let views = templates.filter_map(|(name, layer)| {
                let manifest = layers.manifest(layer).ok()?;
                Some(TemplateView {
                    name: name.to_string(),
                    layer: layer.to_string(),
                    memory_mib: manifest.memory.as_mib(),
                    cpus: manifest.cpus,
                    disk_mib: manifest.disk.as_mib(),
                })
            });
            views.collect()
        };
        self.context.scope.block("templates", describe).await.unwrap_or_default()
    }

    async fn attend(&self, id: SandboxId) -> Result<Presence, Fault> {
        let (_session, using) = self.session(id).await?;
        Ok(Presence::new(using))
    }

    async fn exec_as(&self, id: SandboxId, ask: ExecParams, by: UseKind) -> Result<ExecSession, Fault> {
        let ServingSandbox { session, using: _using, defaults, .. } = self.serving(id, by).await?;
        // The guest has had the environment of the defaults since its launch.
        let (cwd, user) = (ask.cwd.or(defaults.cwd), ask.user.or(defaults.user));
        guest::exec(&session, ExecParams { cwd, user, ..ask }, by, &self.context.scope).await
    }

    async fn open_code(
        &self,
        id: SandboxId,
        session: &CodeSessionId,
        language: CodeLanguage,
    ) -> Result<CodeSessionView, Fault> {
        let (link, _using) = self.session(id).await?;
        guest::open_code(&link, session, language).await
    }

    async fn code_sessions(&self, id: SandboxId) -> Result<Vec<CodeSessionView>, Fault> {
        let (link, _using) = self.session(id).await?;
        guest::code_sessions(&link).await
    }

    async fn close_code(&self, id: SandboxId, session: &CodeSessionId) -> Result<(), Fault> {
        let (link, _using) = self.session(id).await?;
        guest::close_code(&link, session).await
    }

    async fn run_cell(&self, id: SandboxId, ask: CellParams) -> Result<CellStream, Fault> {
        let (link, _using) = self.session(id).await?;
        guest::run_cell(&link, ask).await
    }

    async fn read_file(&self, id: SandboxId, path: &str) -> Result<FileBody, Fault> {
        let (session, _using) = self.session(id).await?;
        guest::read_file(&session, path).await
    }

    async fn write_file(&self, id: SandboxId, ask: WriteParams, body: ByteStream) -> Result<u64, Fault> {
        if !ask.path.starts_with('/') {
            return Err(Fault::new(FaultKind::Caller, "path.relative", "path must be absolute"));
        }
        let (session, _using) = self.session(id).await?;
        guest::write_file(&session, ask, body).await
    }

    async fn list_dir(&self, id: SandboxId, path: &str) -> Result<Vec<FileEntry>, Fault> {
        let (session, _using) = self.session(id).await?;
        guest::list_dir(&session, path).await
    }

    async fn stat(&self, id: SandboxId, path: &str) -> Result<FileEntry, Fault> {
        let (session, _using) = self.session(id).await?;
        guest::stat(&session, path).await
    }

    async fn delete_path(&self, id: SandboxId, path: &str) -> Result<(), Fault> {
        let (session, _using) = self.session(id).await?;
        guest::delete_path(&session, path).await
    }

    async fn listening(&self, id: SandboxId) -> Result<Vec<ListeningPort>, Fault> {
        let (session, _using) = self.session(id).await?;
        guest::listening(&session).await
    }

    async fn connect_as(&self, id: SandboxId, port: GuestPort, by: UseKind) -> Result<GuestStream, Fault> {
        self.check_open()?;
        let ServingSandbox { session, using, slot, .. } = self.serving(id, by).await?;
        let netns = slot.lock().await.as_ref().map(|slot| slot.netns().clone()).ok_or_else(Fault::no_sandbox)?;
        guest::connect(&session, using, &netns, port).await
    }

    async fn usage_facts(&self, after: &UsageCursor, most: usize) -> Result<UsagePage, Fault> {
        Ok(self.context.ledger.usage_facts(after, most).await?)
    }

    fn events(&self) -> broadcast::Receiver<HostEvent> {
        self.events.subscribe()
    }
}

impl Host {
    /// Asks a sandbox's driver to remove it, and waits until it has.
    async fn take_down(&self, id: SandboxId) -> Result<(), Fault> {
        let Some(entry) = self.entry(id) else { return Ok(()) };
        let removal = entry.given_up.ask();
        let (done, wait) = oneshot::channel();
        if entry.requests.send(DriverRequest::Remove(done, removal).into()).await.is_ok()
            && let Ok(removed) = wait.await
        {
            removed?;
        }
        // A driver that was already ending drops the request. Wait until it has ended.
        let mut condition = entry.condition.clone();
        while condition.changed().await.is_ok() {}
        Ok(())
    }
}

/// Measures the process of a sandbox's machine, if there is one.
fn measure(id: SandboxId, now: &PublishedState) -> Option<MachineUsage> {
    let pid = now.pid?;
    // The process may have just died.
    let used = usage::of_process(pid).ok()?;
    Some(MachineUsage {
        id,
        pid,
        up: now.since.map_or(used.age, |since| since.elapsed()),
        cpu: used.cpu,
        resident: ByteSize::new(used.resident_bytes),
        mapped: ByteSize::new(used.virtual_bytes),
        threads: used.threads,
    })
}
