//! The host as a whole: starts and stops the room, keeps the table of sandboxes, and passes each
//! request to the driver of its sandbox. `port` is its interface to other rooms.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use pandastack_kit::{
    Scope,
    trace::{self, OpenSpan},
};
use pandastack_layers::{DataVolume, DataVolumeKind, LayerStore};
use pandastack_model::{
    ExecDefaults, Fault, FaultKind, HostAction, SandboxId, SandboxRequest, SandboxState, state::step,
};
use pandastack_sys::private;
use pandastack_vmm::Driver;
use pandastack_wire_fleet::{HostEvent, UseKind};
use pandastack_wire_guest::{GuestUsage, PortReport};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::{
    audit,
    consoles::{self, Consoles},
    denials,
    guest::{GuestSession, UseGuard},
    ledger::{Ledger, LedgerError},
    level, modes,
    net::{NetError, NetPool, NetSettings},
    recover::{self, RecoverError, RecoveryReport},
    sandbox::{
        Assignment, DriverRequest, DriverStart, HeldMemory, HostContext, OwnerShares, PublishedState, RemovalRequests,
        ReplySender, ShutdownDecision, ShutdownMode, SlotHandle, StandbyPool, StartingMachines, TracedRequest,
        refusal_fault,
    },
    settings::HostSettings,
    succession::Supervisor,
    trim, usage,
    volumes::{HostVolumes, VolumesError},
};

/// Time limit of a shutdown for removing sandboxes or putting them to sleep.
const CLOSE_DEADLINE: Duration = Duration::from_secs(30);

/// Length of a driver's request queue. Further callers wait for a place.
pub(crate) const REQUESTS_MAX: usize = 8;

/// Events that a slow listener may lag behind before it misses some.
const EVENTS_MAX: usize = 1024;

/// The parts and settings of a host.
pub struct HostSetup {
    pub driver: Arc<dyn Driver>,
    pub layers: LayerStore,
    pub volume: Arc<DataVolume>,
    pub net: NetSettings,
    /// The ledger's file.
    pub ledger: PathBuf,
    /// Parent of the machines' own folders. Short: the path of a unix socket has a limited length.
    pub run_root: PathBuf,
    pub settings: HostSettings,
}

/// The host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartUpError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("recover from the last run")]
    Recover(#[from] RecoverError),
    #[error("set up the network")]
    Net(#[from] NetError),
    #[error("open the volumes")]
    Volumes(#[from] VolumesError),
    #[error("create the folder of machines")]
    Io(#[from] std::io::Error),
}

/// A running host.
pub struct Host {
    pub(crate) context: Arc<HostContext>,
    pub(crate) standby: Arc<StandbyPool>,
    pub(crate) sandboxes: Arc<Mutex<HashMap<SandboxId, SandboxEntry>>>,
    pub(crate) events: broadcast::Sender<HostEvent>,
    recovered: RecoveryReport,
}

#[derive(Clone)]
pub(crate) struct SandboxEntry {
    pub condition: watch::Receiver<PublishedState>,
    pub requests: mpsc::Sender<TracedRequest>,
    pub given_up: RemovalRequests,
}

/// A sandbox that serves requests. `using` keeps it awake if a client uses it.
pub(crate) struct ServingSandbox {
    pub session: GuestSession,
    pub using: UseGuard,
    pub slot: SlotHandle,
    pub defaults: ExecDefaults,
}

impl Host {
    /// Starts the host, and recovers what an earlier process of the same data folder left.
    pub async fn start(context: HostSetup) -> Result<Self, StartUpError> {
        let HostSetup { driver, layers, volume, net, ledger, run_root, settings } = context;
        private::make_folder(&run_root)?;
        modes::close_paths(volume.data_dir(), &run_root)?;
        let ledger = Ledger::open_with(&ledger, settings.clocks.clone()).await?;
        let plan = recover::plan(&ledger).await?;
        let cleared = recover::clear(&plan, &run_root, &layers, &ledger, &net.instance).await?;
        let net = NetPool::start(net, &Scope::new()).await?;
        let scope = Scope::new();
        let volumes = HostVolumes::open(volume.root(), ledger.clone(), scope.clone()).await?;
        volumes.retain(&plan.kept_sandboxes()).await?;
        let consoles = Consoles::open(&run_root, volume.root(), &plan.all_sandboxes())?;
        let context = Arc::new(HostContext {
            driver,
            layers,
            volume,
            net,
            ledger,
            volumes,
            consoles: Arc::new(consoles),
            run_root,
            settings,
            scope,
            closing: ShutdownDecision::default(),
            protected_layers: Mutex::default(),
            layer_gate: tokio::sync::Mutex::default(),
            audit_gate: Arc::default(),
            promised: Mutex::default(),
            starting: StartingMachines::default(),
            held: HeldMemory::default(),
            owners: OwnerShares::default(),
        });
        let found = recover::take_over(&context, plan).await?;
        context.collect_layers().await;
        let standby = Arc::new(StandbyPool::new(&context.settings, &context.layers));
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let recovered = RecoveryReport { adopted: found.adopted, asleep: found.asleep, ..cleared };
        let host = Self { context, standby, sandboxes: Arc::default(), events, recovered };
        for (id, generation, spec, start) in found.sandboxes {
            host.begin(id, generation, spec, start);
        }
        usage::beat(&host.context, &usage::living(&host.sandboxes)).await;
        host.context.scope.start("usage", usage::repeat(host.context.clone(), host.sandboxes.clone()));
        host.context.scope.start("standby", host.standby.clone().keep_filled(host.context.clone()));
        host.context.scope.start("denials", denials::pass_on(host.context.clone(), host.events.clone()));
        let turn = host.context.audit_gate.clone().lock_owned().await;
        host.context.scope.start("audit", audit::repeat(host.context.clone(), host.sandboxes.clone(), turn));
        if host.context.volume.kind() == DataVolumeKind::Image {
            host.context.scope.start("trim", trim::repeat(host.context.clone()));
            host.context.scope.start("level", level::repeat(host.context.clone()));
        }
        host.context.scope.start("consoles", consoles::keep_short(host.context.clone()));
        Ok(host)
    }

    /// What the recovery at start found.
    pub fn recovered(&self) -> &RecoveryReport {
        &self.recovered
    }

    /// Measures one round trip to a sandbox's agent.
    pub async fn ping(&self, id: SandboxId) -> Result<Duration, Fault> {
        let (session, _using) = self.session(id).await?;
        let started = Instant::now();
        session.ping().await?;
        Ok(started.elapsed())
    }

    /// Asks a sandbox's guest for its resource usage.
    pub async fn figures(&self, id: SandboxId) -> Result<GuestUsage, Fault> {
        Ok(self.session(id).await?.0.measure().await?)
    }

    /// Asks a sandbox's guest for its listening ports.
    pub async fn ports(&self, id: SandboxId) -> Result<Vec<PortReport>, Fault> {
        Ok(self.session(id).await?.0.ports(UseKind::Client).await?.ports)
    }

    /// Returns the process of a sandbox's machine, for measurements.
    pub async fn machine_pid(&self, id: SandboxId) -> Option<u32> {
        let rows = self.context.ledger.machines().await.ok()?;
        rows.into_iter().find(|row| row.sandbox == Some(id))?.pid
    }

    /// Removes all sandboxes and closes the host.
    pub async fn close(&self) {
        self.close_as(ShutdownMode::Remove).await;
    }

    /// Closes the host. `leave` says what happens to the sandboxes.
    pub async fn close_as(&self, leave: ShutdownMode) {
        self.context.closing.decide(leave);
        let living = usage::living(&self.sandboxes);
        let left = self.context.scope.close(CLOSE_DEADLINE).await;
        if left > 0 {
            tracing::warn!(left, "tasks did not end in time; the next start cleans up");
        }
        let released = match leave {
            ShutdownMode::Running => self.context.net.detach().await,
            ShutdownMode::Remove | ShutdownMode::Sleep => match self.context.ledger.machines().await {
                // A sandbox that could not be put to sleep was left running.
                Ok(machines) if !machines.is_empty() && leave == ShutdownMode::Sleep => self.context.net.detach().await,
                _ => self.context.net.close().await,
            },
        };
        if let Err(error) = released {
            tracing::warn!(%error, "could not release the network; the next start cleans up");
        }
        // Those that are still running are confirmed once more. The others have their last fact.
        usage::beat(&self.context, &living).await;
        self.context.ledger.close().await;
        let _ = std::fs::remove_dir(&self.context.run_root);
    }

    pub(crate) fn entry(&self, id: SandboxId) -> Option<SandboxEntry> {
        self.sandboxes.lock().expect("no holder panics").get(&id).cloned()
    }

    /// Finds or makes the entry of a sandbox, starting its driver if it is new.
    pub(crate) fn begin(
        &self,
        id: SandboxId,
        generation: u64,
        spec: pandastack_model::SandboxSpec,
        start: DriverStart,
    ) -> SandboxEntry {
        let mut sandboxes = self.sandboxes.lock().expect("no holder panics");
        if let Some(entry) = sandboxes.get(&id) {
            return entry.clone();
        }
        let mut first = PublishedState::creating(id, self.context.driver.tier());
        // A caller that looks before the driver's first step must not see a sandbox of an earlier
        // run as new.
        start.describe(&mut first);
        let (tell, condition) = watch::channel(first);
        let (requests, rx) = mpsc::channel(REQUESTS_MAX);
        let given_up = RemovalRequests::new(self.context.scope.token());
        let entry = SandboxEntry { condition, requests, given_up: given_up.clone() };
        sandboxes.insert(id, entry.clone());
        let assignment = Assignment { id, generation, spec, start, requests: rx, here: trace::here(), given_up };
        let (context, standby, events) = (self.context.clone(), self.standby.clone(), self.events.clone());
        let post = Supervisor { context, standby, events, table: self.sandboxes.clone() };
        self.context.scope.start("sandbox", post.serve(assignment, tell));
        entry
    }

    /// Returns the link to a sandbox, and the use that keeps it awake. Waits for a change in
    /// progress, and wakes a sleeping sandbox.
    pub(crate) async fn session(&self, id: SandboxId) -> Result<(GuestSession, UseGuard), Fault> {
        self.serving(id, UseKind::Client).await.map(|ServingSandbox { session, using, .. }| (session, using))
    }

    /// Like `session`, with the network slot and the exec defaults. The platform wakes nothing.
    pub(crate) async fn serving(&self, id: SandboxId, by: UseKind) -> Result<ServingSandbox, Fault> {
        let since = Instant::now();
        loop {
            let entry = self.entry(id).ok_or_else(Fault::no_sandbox)?;
            let mut condition = entry.condition.clone();
            condition.mark_unchanged();
            let is_changing = entry.condition.borrow().view.state.is_changing();
            let now = match is_changing {
                true => trace::span("sandbox.wait", about(id), settled(&entry)).await?,
                false => settled(&entry).await?,
            };
            match step(&now.view.state, SandboxRequest::Use) {
                Ok(HostAction::Serve) => {
                    let (session, slot) = now.session.zip(now.slot).ok_or_else(Fault::no_sandbox)?;
                    if let Some(using) = session.activity().begin(by) {
                        return Ok(ServingSandbox { session, using, slot, defaults: now.defaults });
                    }
                    // It is about to fall asleep: wait for that, then ask again. The sleep may
                    // already have failed, so any change since the first look counts.
                    let _ = condition.changed().await;
                }
                Ok(HostAction::Restore) if by == UseKind::Platform => return Err(UseKind::asleep()),
                Ok(HostAction::Restore) => {
                    trace::span("sandbox.auto_wake", about(id), ask(&entry, since, DriverRequest::Wake)).await?;
                }
                Ok(_) => return Err(Fault::bug("a settled sandbox neither serves nor refuses requests")),
                Err(refusal) => return Err(refusal_fault(refusal, &now.view.state)),
            }
        }
    }

    /// Passes a request to a sandbox's driver and waits for its answer.
    pub(crate) async fn request<T>(
        &self,
        id: SandboxId,
        request: impl FnOnce(ReplySender<T>) -> DriverRequest,
    ) -> Result<T, Fault> {
        let (entry, since) = (self.entry(id).ok_or_else(Fault::no_sandbox)?, Instant::now());
        settled(&entry).await?;
        ask(&entry, since, request).await
    }

    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        match self.context.scope.token().is_cancelled() {
            false => Ok(()),
            true => Err(Fault::new(FaultKind::Unavailable, "host.closing", "the host is shutting down")),
        }
    }
}

/// Adds the sandbox's id to a trace span.
pub(crate) fn about(id: SandboxId) -> impl FnOnce(&mut OpenSpan) {
    move |work| work.note("pandastack.sandbox.id", id.to_string())
}

/// Waits until no change is in progress. A sandbox that is being removed counts as settled.
pub(crate) async fn settled(entry: &SandboxEntry) -> Result<PublishedState, Fault> {
    let mut condition = entry.condition.clone();
    let is_settled = |now: &PublishedState| {
        now.refused.is_some() || !now.view.state.is_changing() || now.view.state == SandboxState::Stopping
    };
    let now = match condition.wait_for(is_settled).await {
        Ok(now) => now.clone(),
        Err(_) => return Err(Fault::bug("a sandbox's driver task ended without a result")),
    };
    match now.refused {
        Some(fault) => Err(fault),
        None => Ok(now),
    }
}

/// Sends a request to a sandbox's driver. `since` is when the caller started waiting.
async fn ask<T>(
    entry: &SandboxEntry,
    since: Instant,
    request: impl FnOnce(ReplySender<T>) -> DriverRequest,
) -> Result<T, Fault> {
    let (reply, answer) = oneshot::channel();
    let asked = TracedRequest { since, ..request(reply).into() };
    // A driver that is ending takes no more requests: the sandbox is gone for this caller.
    entry.requests.send(asked).await.map_err(|_| Fault::no_sandbox())?;
    answer.await.map_err(|_| Fault::no_sandbox())?
}
