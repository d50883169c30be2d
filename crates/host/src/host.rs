//! The host as others see it: finds the sandbox, asks `step`, passes the request on. Starts and stops the whole room.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use pandastack_kit::Scope;
use pandastack_layers::{LayerStore, Volume};
use pandastack_model::{
    Ask, Bytes, Egress, Fault, FaultKind, LayerId, Next, SandboxId, SandboxState, VolumeId, state::step,
};
use pandastack_vmm::Driver;
use pandastack_wire_fleet::{
    AuditReport, ByteStream, Ensure, ExecAsk, ExecSession, FileBody, FileEntry, ForkAsk, Forked, HostEvent, HostPort,
    HostStatus, LayerView, Lifecycle, SandboxView, SealAsk, TemplateView, VolumeView, WriteAsk,
};
use pandastack_wire_guest::{Figures, Port};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    guest::{self, Session},
    ledger::{Ledger, LedgerError},
    net::{NetError, NetPool, NetSettings},
    recover::{RecoverError, Recovered, recover},
    sandbox::{Charge, Condition, Parts, Request, Standby, drive, refusal_fault},
    settings::HostSettings,
};

/// How long a shutdown waits for sandboxes to be taken down.
const CLOSE_DEADLINE: Duration = Duration::from_secs(30);

/// What a host is made from.
pub struct HostParts {
    pub driver: Arc<dyn Driver>,
    pub layers: LayerStore,
    pub volume: Arc<Volume>,
    pub net: NetSettings,
    /// The ledger's file.
    pub ledger: PathBuf,
    /// Where the machines' own folders go. Short: the length of a unix socket's path is limited.
    pub run_root: PathBuf,
    pub settings: HostSettings,
}

/// The host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartUpError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("clean up after the last run")]
    Recover(#[from] RecoverError),
    #[error("set up the network")]
    Net(#[from] NetError),
    #[error("make the machines' folder")]
    Io(#[from] std::io::Error),
}

/// A running host.
pub struct Host {
    parts: Arc<Parts>,
    standby: Arc<Standby>,
    sandboxes: Arc<Mutex<HashMap<SandboxId, Entry>>>,
    events: broadcast::Sender<HostEvent>,
    recovered: Recovered,
}

#[derive(Clone)]
struct Entry {
    condition: watch::Receiver<Condition>,
    requests: mpsc::Sender<Request>,
    given_up: CancellationToken,
}

impl Host {
    /// Cleans up after an earlier run and starts.
    pub async fn start(parts: HostParts) -> Result<Self, StartUpError> {
        let HostParts { driver, layers, volume, net, ledger, run_root, settings } = parts;
        std::fs::create_dir_all(&run_root)?;
        let ledger = Ledger::open(&ledger).await?;
        let recovered = recover(&run_root, &layers, &ledger, &net.instance).await?;
        let scope = Scope::new();
        let net = NetPool::start(net, &Scope::new()).await?;
        let parts = Arc::new(Parts { driver, layers, volume, net, ledger, run_root, settings, scope });
        let standby = Arc::new(Standby::new(parts.settings.standby));
        if parts.settings.standby > 0 {
            for (_, layer) in parts.layers.templates() {
                standby.expect(layer);
            }
            parts.scope.start("standby", standby.clone().keep_filled(parts.clone()));
        }
        let (events, _) = broadcast::channel(256);
        Ok(Self { parts, standby, sandboxes: Arc::default(), events, recovered })
    }

    /// What the start found of an earlier run.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Measures one round trip to a sandbox's agent.
    pub async fn ping(&self, id: SandboxId) -> Result<Duration, Fault> {
        let session = self.session(id).await?;
        let started = std::time::Instant::now();
        session.ping().await?;
        Ok(started.elapsed())
    }

    /// Asks a sandbox's guest what it uses.
    pub async fn figures(&self, id: SandboxId) -> Result<Figures, Fault> {
        Ok(self.session(id).await?.measure().await?)
    }

    /// Asks a sandbox's guest which ports somebody listens on.
    pub async fn ports(&self, id: SandboxId) -> Result<Vec<Port>, Fault> {
        Ok(self.session(id).await?.ports().await?.ports)
    }

    /// Gives the process of a sandbox's machine, for measuring.
    pub async fn machine_pid(&self, id: SandboxId) -> Option<u32> {
        let rows = self.parts.ledger.machines().await.ok()?;
        rows.into_iter().find(|row| row.sandbox.as_deref() == Some(&id.to_string()))?.pid
    }

    /// Takes everything down and releases it.
    pub async fn close(&self) {
        let left = self.parts.scope.close(CLOSE_DEADLINE).await;
        if left > 0 {
            tracing::warn!(left, "tasks did not end in time; the next start cleans up");
        }
        if let Err(error) = self.parts.net.close().await {
            tracing::warn!(%error, "network not released; the next start cleans up");
        }
        self.parts.ledger.close().await;
        let _ = std::fs::remove_dir(&self.parts.run_root);
    }

    fn entry(&self, id: SandboxId) -> Option<Entry> {
        self.sandboxes.lock().expect("no holder panics").get(&id).cloned()
    }

    /// Finds or makes the entry, starting its driver if it is new.
    fn entry_or_launch(&self, ask: Ensure) -> Entry {
        let mut sandboxes = self.sandboxes.lock().expect("no holder panics");
        if let Some(entry) = sandboxes.get(&ask.id) {
            return entry.clone();
        }
        let id = ask.id;
        let (tell, condition) = watch::channel(Condition::creating(id, self.parts.driver.tier()));
        let (requests, rx) = mpsc::channel(8);
        let given_up = self.parts.scope.child().token();
        let entry = Entry { condition, requests, given_up: given_up.clone() };
        sandboxes.insert(id, entry.clone());
        let charge = Charge { ask, requests: rx, given_up };
        let (parts, standby, events) = (self.parts.clone(), self.standby.clone(), self.events.clone());
        let table = self.sandboxes.clone();
        self.parts.scope.start("sandbox", async move {
            let ended = drive(parts, standby, charge, &tell, events).await;
            // Off the table first: who hears of the end must not find the sandbox any more.
            table.lock().expect("no holder panics").remove(&id);
            if let Err(fault) = ended {
                tell.send_modify(|now| now.refused = Some(fault));
            }
        });
        entry
    }

    /// The link to a sandbox that may serve, waiting for one that is being made.
    async fn session(&self, id: SandboxId) -> Result<Session, Fault> {
        let entry = self.entry(id).ok_or_else(Fault::no_sandbox)?;
        let now = settled(&entry).await?;
        match step(&now.view.state, Ask::Use) {
            Ok(Next::Serve) => now.session.ok_or_else(Fault::no_sandbox),
            Ok(_) => Err(Fault::bug("a settled sandbox neither serves nor refuses")),
            Err(refusal) => Err(refusal_fault(refusal, &now.view.state)),
        }
    }
}

/// Waits until a sandbox is no longer being created.
async fn settled(entry: &Entry) -> Result<Condition, Fault> {
    let mut condition = entry.condition.clone();
    let is_settled = |now: &Condition| now.refused.is_some() || now.view.state != SandboxState::Creating;
    let now = match condition.wait_for(is_settled).await {
        Ok(now) => now.clone(),
        Err(_) => return Err(Fault::bug("a sandbox's driver ended without a word")),
    };
    match now.refused {
        Some(fault) => Err(fault),
        None => Ok(now),
    }
}

#[async_trait]
impl HostPort for Host {
    async fn ensure(&self, ask: Ensure) -> Result<SandboxView, Fault> {
        if self.parts.scope.token().is_cancelled() {
            return Err(Fault::new(FaultKind::Unavailable, "host.closing", "the host is shutting down"));
        }
        let entry = self.entry_or_launch(ask);
        let now = settled(&entry).await?;
        match step(&now.view.state, Ask::Run) {
            Ok(_) => Ok(now.view),
            Err(refusal) => Err(refusal_fault(refusal, &now.view.state)),
        }
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Fault> {
        let Some(entry) = self.entry(id) else { return Ok(()) };
        entry.given_up.cancel();
        let (done, wait) = oneshot::channel();
        if entry.requests.send(Request::Remove(done)).await.is_ok() {
            let _ = wait.await;
        }
        // A driver that was already leaving drops the request; wait until it has left.
        let mut condition = entry.condition.clone();
        while condition.changed().await.is_ok() {}
        Ok(())
    }

    async fn pause(&self, _id: SandboxId) -> Result<SandboxView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn resume(&self, _id: SandboxId) -> Result<SandboxView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn sleep(&self, _id: SandboxId) -> Result<SandboxView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn wake(&self, _id: SandboxId) -> Result<SandboxView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn seal(&self, _id: SandboxId, _ask: SealAsk) -> Result<LayerView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn fork(&self, _ask: ForkAsk) -> Result<Forked, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn release(&self, _layer: LayerId) -> Result<(), Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn set_egress(&self, _id: SandboxId, _egress: Egress) -> Result<(), Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn set_lifecycle(&self, _id: SandboxId, _lifecycle: Lifecycle) -> Result<SandboxView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn make_volume(&self, _volume: VolumeId, _size: Bytes) -> Result<VolumeView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn grow_volume(&self, _volume: VolumeId, _size: Bytes) -> Result<VolumeView, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn remove_volume(&self, _volume: VolumeId) -> Result<(), Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn audit(&self) -> Result<AuditReport, Fault> {
        Err(Fault::bug("unbuilt"))
    }

    async fn observe(&self, id: SandboxId) -> Option<SandboxView> {
        Some(self.entry(id)?.condition.borrow().view.clone())
    }

    async fn observe_all(&self) -> Vec<SandboxView> {
        let sandboxes = self.sandboxes.lock().expect("no holder panics");
        sandboxes.values().map(|entry| entry.condition.borrow().view.clone()).collect()
    }

    async fn status(&self) -> HostStatus {
        let sandboxes = self.sandboxes.lock().expect("no holder panics").len();
        HostStatus { tier: self.parts.driver.tier(), sandboxes, standby: self.standby.count() }
    }

    async fn templates(&self) -> Vec<TemplateView> {
        let layers = self.parts.layers.clone();
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
        self.parts.scope.block("templates", describe).await.unwrap_or_default()
    }

    async fn exec(&self, id: SandboxId, ask: ExecAsk) -> Result<ExecSession, Fault> {
        let session = self.session(id).await?;
        guest::exec(&session, ask, &self.parts.scope).await
    }

    async fn read_file(&self, id: SandboxId, path: &str) -> Result<FileBody, Fault> {
        guest::read_file(&self.session(id).await?, path).await
    }

    async fn write_file(&self, id: SandboxId, ask: WriteAsk, body: ByteStream) -> Result<u64, Fault> {
        if !ask.path.starts_with('/') {
            return Err(Fault::new(FaultKind::Caller, "path.relative", "path must be absolute"));
        }
        guest::write_file(&self.session(id).await?, ask, body).await
    }

    async fn list_dir(&self, id: SandboxId, path: &str) -> Result<Vec<FileEntry>, Fault> {
        guest::list_dir(&self.session(id).await?, path).await
    }

    async fn stat(&self, id: SandboxId, path: &str) -> Result<FileEntry, Fault> {
        guest::stat(&self.session(id).await?, path).await
    }

    async fn delete_path(&self, id: SandboxId, path: &str) -> Result<(), Fault> {
        guest::delete_path(&self.session(id).await?, path).await
    }

    fn events(&self) -> broadcast::Receiver<HostEvent> {
        self.events.subscribe()
    }
}
