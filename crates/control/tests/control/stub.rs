//! A host that runs nothing. It records requests, steps through the states like a real host, and
//! fails or waits at a gate on demand.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt;
use pandastack_kit::trace;
use pandastack_model::{
    Access, Ask, Bytes, CodeLanguage, CodeSessionId, Egress, ExecDefaults, Fault, FaultKind, GuestPort, LayerId, Next,
    Origin, SandboxId, SandboxState, Tier, VolumeId, state::step,
};
use pandastack_wire_fleet::{
    AuditReport, BootAsk, ByteStream, CellAsk, CellStream, CodeSessionView, ConsoleAsk, Ensure, ExecAsk, ExecEvent,
    ExecSession, FileBody, FileEntry, FileKind, ForkAsk, Forked, GuestStream, Hold, HostEvent, HostPort, HostStatus,
    LayerView, Lifecycle, ListeningPort, MachineUsage, Presence, Program, SandboxView, SealAsk, TemplateView, TreePort,
    VolumeView, WriteAsk,
};
use tokio::sync::{Semaphore, broadcast, mpsc};

use crate::stub_processes::Background;

/// The mode and contents of a file.
pub type WrittenFile = (Option<u32>, Vec<u8>);

pub struct StubHost {
    pub here: Mutex<BTreeMap<SandboxId, SandboxView>>,
    /// The request for each sandbox, kept after its end.
    pub asked: Mutex<BTreeMap<SandboxId, Ensure>>,
    /// The fault of the next call of a verb.
    pub fail: Mutex<BTreeMap<&'static str, Fault>>,
    /// Faults of children of the next fork, by index.
    pub fail_children: Mutex<BTreeMap<usize, Fault>>,
    pub layers: Mutex<BTreeMap<LayerId, Hold>>,
    /// Command defaults of sandboxes made from a layer.
    pub defaults: Mutex<BTreeMap<LayerId, ExecDefaults>>,
    pub disks: Mutex<BTreeMap<VolumeId, Bytes>>,
    pub egress: Mutex<BTreeMap<SandboxId, Egress>>,
    pub lifecycles: Mutex<BTreeMap<SandboxId, Lifecycle>>,
    pub report: Mutex<AuditReport>,
    pub tier: Mutex<Tier>,
    pub listening: Mutex<Vec<ListeningPort>>,
    /// Whether verbs that change a sandbox wait for a permit of the gate.
    pub gated: AtomicBool,
    pub gate: Semaphore,
    /// Commands that never end.
    pub hung: Mutex<Vec<mpsc::Sender<ExecEvent>>>,
    /// Every command that was run, and its sandbox.
    pub ran: Mutex<Vec<(SandboxId, ExecAsk)>>,
    /// Every file that was written, by path.
    pub written: Mutex<BTreeMap<String, WrittenFile>>,
    /// Background processes, in sandboxes and in layers.
    pub background: Background,
    pub events: broadcast::Sender<HostEvent>,
}

impl Default for StubHost {
    fn default() -> Self {
        Self {
            here: Mutex::default(),
            asked: Mutex::default(),
            fail: Mutex::default(),
            fail_children: Mutex::default(),
            layers: Mutex::default(),
            defaults: Mutex::default(),
            disks: Mutex::default(),
            egress: Mutex::default(),
            lifecycles: Mutex::default(),
            report: Mutex::default(),
            tier: Mutex::new(Tier::Fake),
            listening: Mutex::default(),
            gated: AtomicBool::new(false),
            gate: Semaphore::new(0),
            hung: Mutex::default(),
            ran: Mutex::default(),
            written: Mutex::default(),
            background: Background::default(),
            events: broadcast::channel(64).0,
        }
    }
}

impl StubHost {
    pub fn count(&self) -> usize {
        self.here.lock().unwrap().len()
    }

    /// Makes the next call of a verb fail.
    pub fn fail_next(&self, verb: &'static str, fault: Fault) {
        self.fail.lock().unwrap().insert(verb, fault);
    }

    pub fn state(&self, id: &str) -> SandboxState {
        self.here.lock().unwrap()[&id.parse().unwrap()].state.clone()
    }

    /// Changes a sandbox as the host does on its own, and sends the event.
    pub fn change(&self, id: SandboxId, change: impl FnOnce(&mut SandboxView)) -> SandboxView {
        let view = {
            let mut here = self.here.lock().unwrap();
            let view = here.get_mut(&id).unwrap();
            change(view);
            view.clone()
        };
        let cause = trace::here().map(|here| here.trace().to_string());
        let _ = self.events.send(HostEvent::Changed { view: view.clone(), cause });
        view
    }

    fn check(&self, verb: &'static str) -> Result<(), Fault> {
        self.fail.lock().unwrap().remove(verb).map_or(Ok(()), Err)
    }

    fn step(&self, verb: &'static str, id: SandboxId, ask: Ask) -> Result<SandboxView, Fault> {
        self.check(verb)?;
        let now = self.here.lock().unwrap().get(&id).cloned().ok_or_else(Fault::no_sandbox)?;
        let wrong =
            || Fault::new(FaultKind::Conflict, "sandbox.invalid_state", format!("the sandbox is {}", now.state));
        match step(&now.state, ask).map_err(|_| wrong())? {
            Next::Halt => Ok(self.change(id, |view| view.state = SandboxState::Paused)),
            Next::Continue => Ok(self.change(id, |view| view.state = SandboxState::Running)),
            Next::PutToSleep => Ok(self.change(id, |view| view.state = SandboxState::Asleep)),
            Next::Restore => Ok(self.change(id, |view| {
                (view.state, view.boot_mode, view.boot) = (SandboxState::Running, "wake", Duration::from_millis(34));
            })),
            _ => Ok(now),
        }
    }

    fn users(&self, volume: VolumeId) -> Vec<(SandboxId, Access)> {
        let (here, asked) = (self.here.lock().unwrap(), self.asked.lock().unwrap());
        let known = here.keys().filter_map(|id| asked.get(id));
        let mounts = known.flat_map(|ask| ask.spec.volumes.iter().map(move |mount| (ask.id, mount)));
        mounts.filter(|(_, mount)| mount.volume == volume).map(|(id, mount)| (id, mount.access)).collect()
    }

    fn volume(&self, volume: VolumeId) -> VolumeView {
        let users = self.users(volume).into_iter().map(|(id, _)| id).collect::<BTreeSet<_>>();
        VolumeView { volume, size: self.disks.lock().unwrap()[&volume], users: users.into_iter().collect() }
    }

    fn start(&self, ask: Ensure, mode: &'static str) -> Result<SandboxView, Fault> {
        for mount in &ask.spec.volumes {
            let users = self.users(mount.volume);
            let alone = mount.access == Access::ReadWrite;
            if users.iter().any(|(_, access)| alone || *access == Access::ReadWrite) {
                return Err(Fault::new(FaultKind::Conflict, "volume.in_use", "the volume has a writer"));
            }
        }
        let view = SandboxView { boot_mode: mode, isolation: *self.tier.lock().unwrap(), ..view(ask.id) };
        self.here.lock().unwrap().insert(ask.id, view.clone());
        self.asked.lock().unwrap().insert(ask.id, ask);
        Ok(view)
    }

    async fn wait_at_the_gate(&self) {
        if self.gated.load(Ordering::SeqCst) {
            self.gate.acquire().await.unwrap().forget();
        }
    }
}

pub fn view(id: SandboxId) -> SandboxView {
    SandboxView {
        id,
        state: SandboxState::Running,
        isolation: Tier::Fake,
        cpus: 2,
        memory_mib: 512,
        disk_mib: 1024,
        guest_ip: "10.0.0.2".into(),
        boot: Duration::from_millis(12),
        prepared: Duration::from_millis(7),
        boot_mode: "standby",
        idle: Duration::from_secs(7),
    }
}

fn not_ours<T>() -> Result<T, Fault> {
    Err(Fault::bug("not control's business"))
}

impl TreePort for StubHost {}

#[async_trait]
impl HostPort for StubHost {
    async fn ensure(&self, ask: Ensure) -> Result<SandboxView, Fault> {
        self.wait_at_the_gate().await;
        self.check("ensure")?;
        let mode = match ask.spec.origin {
            Origin::Template => "standby",
            Origin::Layer(layer) => {
                self.background.start(ask.id, layer);
                "snapshot"
            }
        };
        self.start(ask, mode)
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Fault> {
        self.check("remove")?;
        self.here.lock().unwrap().remove(&id);
        Ok(())
    }

    async fn pause(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("pause", id, Ask::Pause)
    }

    async fn resume(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("resume", id, Ask::Resume)
    }

    async fn sleep(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("sleep", id, Ask::Sleep)
    }

    async fn wake(&self, id: SandboxId) -> Result<SandboxView, Fault> {
        self.step("wake", id, Ask::Wake)
    }

    async fn seal(&self, id: SandboxId, ask: SealAsk) -> Result<LayerView, Fault> {
        self.wait_at_the_gate().await;
        self.step("seal", id, Ask::Seal)?;
        self.layers.lock().unwrap().insert(ask.layer, ask.hold);
        self.background.seal(id, ask.layer);
        Ok(LayerView { layer: ask.layer, own: Bytes::mib(24), pause: Duration::from_millis(5) })
    }

    async fn seal_as(&self, id: SandboxId, ask: SealAsk, defaults: ExecDefaults) -> Result<LayerView, Fault> {
        self.defaults.lock().unwrap().insert(ask.layer, defaults);
        self.seal(id, ask).await
    }

    async fn fork(&self, ask: ForkAsk) -> Result<Forked, Fault> {
        self.wait_at_the_gate().await;
        self.check("fork")?;
        let layer = self.seal(ask.parent, SealAsk { layer: ask.layer, hold: Hold::Passing }).await?;
        let mut fails = std::mem::take(&mut *self.fail_children.lock().unwrap());
        let start = |(index, child)| fails.remove(&index).map_or_else(|| self.start(child, "fork"), Err);
        Ok(Forked { layer, children: ask.children.into_iter().enumerate().map(start).collect() })
    }

    async fn release(&self, layer: LayerId) -> Result<(), Fault> {
        self.check("release")?;
        self.layers.lock().unwrap().remove(&layer);
        Ok(())
    }

    async fn set_egress(&self, id: SandboxId, egress: Egress) -> Result<(), Fault> {
        self.check("set_egress")?;
        self.wait_at_the_gate().await;
        self.egress.lock().unwrap().insert(id, egress);
        Ok(())
    }

    async fn set_lifecycle(&self, id: SandboxId, lifecycle: Lifecycle) -> Result<SandboxView, Fault> {
        self.check("set_lifecycle")?;
        self.wait_at_the_gate().await;
        self.lifecycles.lock().unwrap().insert(id, lifecycle);
        self.observe(id).await.ok_or_else(Fault::no_sandbox)
    }

    async fn make_volume(&self, volume: VolumeId, size: Bytes) -> Result<VolumeView, Fault> {
        self.check("make_volume")?;
        self.disks.lock().unwrap().insert(volume, size);
        Ok(self.volume(volume))
    }

    async fn grow_volume(&self, volume: VolumeId, size: Bytes) -> Result<VolumeView, Fault> {
        self.make_volume(volume, size).await
    }

    async fn remove_volume(&self, volume: VolumeId) -> Result<(), Fault> {
        self.check("remove_volume")?;
        if !self.users(volume).is_empty() {
            return Err(Fault::new(FaultKind::Conflict, "volume.attached", "the volume is attached"));
        }
        self.disks.lock().unwrap().remove(&volume);
        Ok(())
    }

    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault> {
        let ids: Vec<_> = self.disks.lock().unwrap().keys().copied().collect();
        Ok(ids.into_iter().map(|id| self.volume(id)).collect())
    }

    async fn boot(&self, ask: BootAsk) -> Result<LayerView, Fault> {
        self.check("boot")?;
        assert!(self.users(ask.volume).is_empty() && self.disks.lock().unwrap().contains_key(&ask.volume));
        self.layers.lock().unwrap().insert(ask.layer, Hold::Kept);
        Ok(LayerView { layer: ask.layer, own: Bytes::mib(24), pause: Duration::ZERO })
    }

    async fn audit(&self) -> Result<AuditReport, Fault> {
        Ok(self.report.lock().unwrap().clone())
    }

    async fn observe(&self, id: SandboxId) -> Option<SandboxView> {
        self.here.lock().unwrap().get(&id).cloned()
    }

    async fn observe_all(&self) -> Vec<SandboxView> {
        self.here.lock().unwrap().values().cloned().collect()
    }

    async fn status(&self) -> HostStatus {
        HostStatus {
            tier: *self.tier.lock().unwrap(),
            sandboxes: self.count(),
            standby: 3,
            blanks: 2,
            memory_promised: Bytes::mib(512),
            disk_free: Bytes::mib(64),
            disk_total: Bytes::gib(128),
            resident: Bytes::mib(32),
        }
    }

    async fn usage(&self, id: SandboxId) -> Result<Option<MachineUsage>, Fault> {
        let state = self.here.lock().unwrap().get(&id).map(|view| view.state.clone()).ok_or_else(Fault::no_sandbox)?;
        let usage = MachineUsage {
            id,
            pid: 77,
            up: Duration::from_secs(9),
            cpu: Duration::from_secs(1),
            resident: Bytes::mib(10),
            mapped: Bytes::mib(20),
            threads: 4,
        };
        Ok((state == SandboxState::Running).then_some(usage))
    }

    async fn usages(&self) -> Vec<MachineUsage> {
        let ids: Vec<_> = self.here.lock().unwrap().keys().copied().collect();
        let mut usages = Vec::new();
        for id in ids {
            usages.extend(self.usage(id).await.ok().flatten());
        }
        usages
    }

    async fn console(&self, _: SandboxId, _: ConsoleAsk) -> Result<ByteStream, Fault> {
        not_ours()
    }

    async fn templates(&self) -> Vec<TemplateView> {
        let template = |name: &str| TemplateView {
            name: name.into(),
            layer: "lyr_x".into(),
            memory_mib: 512,
            cpus: 2,
            disk_mib: 1024,
        };
        vec![template("mini"), template("base")]
    }

    async fn attend(&self, _: SandboxId) -> Result<Presence, Fault> {
        not_ours()
    }

    /// Understands the shell commands `say WORDS`, `exit CODE` and `hang`. Anything else succeeds.
    async fn exec(&self, id: SandboxId, ask: ExecAsk) -> Result<ExecSession, Fault> {
        self.check("exec")?;
        self.observe(id).await.ok_or_else(Fault::no_sandbox)?;
        let text = match &ask.program {
            Program::Shell(text) => text.clone(),
            Program::Argv(argv) => argv.last().cloned().unwrap_or_default(),
        };
        self.ran.lock().unwrap().push((id, ask));
        let (tell, events) = mpsc::channel(8);
        let (control, _) = mpsc::channel(1);
        let mut code = 0;
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("say", words)) => {
                    tell.send(ExecEvent::Stdout(format!("{words}\n").into_bytes().into())).await.unwrap();
                }
                Some(("exit", number)) => code = number.parse().unwrap(),
                _ if line == "hang" => self.hung.lock().unwrap().push(tell.clone()),
                _ => {}
            }
        }
        if text != "hang" {
            tell.send(ExecEvent::Exit { code }).await.unwrap();
        }
        Ok(ExecSession { events, control })
    }

    async fn open_code(&self, _: SandboxId, _: &CodeSessionId, _: CodeLanguage) -> Result<CodeSessionView, Fault> {
        not_ours()
    }

    async fn code_sessions(&self, _: SandboxId) -> Result<Vec<CodeSessionView>, Fault> {
        not_ours()
    }

    async fn close_code(&self, _: SandboxId, _: &CodeSessionId) -> Result<(), Fault> {
        not_ours()
    }

    async fn run_cell(&self, _: SandboxId, _: CellAsk) -> Result<CellStream, Fault> {
        not_ours()
    }

    async fn read_file(&self, _: SandboxId, _: &str) -> Result<FileBody, Fault> {
        not_ours()
    }

    async fn write_file(&self, _: SandboxId, ask: WriteAsk, mut body: ByteStream) -> Result<u64, Fault> {
        self.check("write_file")?;
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece?);
        }
        let count = bytes.len() as u64;
        self.written.lock().unwrap().insert(ask.path, (ask.mode, bytes));
        Ok(count)
    }

    async fn list_dir(&self, _: SandboxId, _: &str) -> Result<Vec<FileEntry>, Fault> {
        not_ours()
    }

    async fn stat(&self, _: SandboxId, path: &str) -> Result<FileEntry, Fault> {
        let missing = Fault::new(FaultKind::Missing, "file.not_found", "no such file");
        let folder = FileEntry {
            name: "folder".into(),
            kind: FileKind::Directory,
            size: 0,
            mode: 0o755,
            modified: 0,
            target: None,
        };
        if path.ends_with("folder") { Ok(folder) } else { Err(missing) }
    }

    async fn delete_path(&self, _: SandboxId, path: &str) -> Result<(), Fault> {
        self.written.lock().unwrap().remove(path);
        Ok(())
    }

    async fn listening(&self, id: SandboxId) -> Result<Vec<ListeningPort>, Fault> {
        self.check("listening")?;
        self.step("use", id, Ask::Wake)?;
        Ok(self.listening.lock().unwrap().clone())
    }

    async fn connect(&self, _: SandboxId, _: GuestPort) -> Result<GuestStream, Fault> {
        not_ours()
    }

    fn events(&self) -> broadcast::Receiver<HostEvent> {
        self.events.subscribe()
    }
}
