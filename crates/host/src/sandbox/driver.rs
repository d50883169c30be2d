//! Owns one sandbox from launch to teardown: the only task that changes its state. Never talks to
//! clients. It calls `launch` and `seal`, writes the ledger and publishes through `publish`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_kit::trace::{self, TracePosition};
use pandastack_model::{
    ByteSize, Egress, ExecDefaults, Fault, LayerId, SandboxId, SandboxOrigin, SandboxSpec, SandboxState, VolumeId,
};
use pandastack_vmm::{Machine, MachineState, Power};
use pandastack_wire_fleet::{ChangeCause, HostEvent, IdlePolicy, LayerView, RemovedBy, SandboxView, SealParams};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::{
    fault::launch_fault,
    launch::{self, LaunchTarget, death},
    living::LivingMachine,
    prepare::HostContext,
    publish::PublishedState,
    removal::{RemovalRequest, RemovalRequests},
    standby::StandbyPool,
};
use crate::{
    guest::GuestSession,
    ledger::{BilledSize, LedgerError, SandboxRecord},
    volumes::{self, VolumeGrowth},
};

/// Divides the launch deadline into the time limit for reaching a living guest again, and that
/// limit into the one for each connection. Enough for a loaded host, short for waiting callers.
const RELINK_PARTS: u32 = 2;

/// Pause between two attempts to reach a living guest.
const RELINK_PAUSE: Duration = Duration::from_millis(20);

/// Pause before dialling a guest again that waits for space on the host's disk.
const WAIT_PAUSE: Duration = Duration::from_millis(500);

pub type ReplySender<T> = oneshot::Sender<Result<T, Fault>>;

/// A request to a sandbox's driver. It is answered when the work is done.
pub enum DriverRequest {
    /// Take the sandbox down and answer when nothing is left.
    Remove(ReplySender<()>, RemovalRequest),
    Pause(ReplySender<SandboxView>),
    Resume(ReplySender<SandboxView>),
    Sleep(ReplySender<SandboxView>),
    Wake(ReplySender<SandboxView>),
    Seal(SealParams, Option<ExecDefaults>, ReplySender<LayerView>),
    SetEgress(Egress, ReplySender<()>),
    SetLifecycle(IdlePolicy, ReplySender<SandboxView>),
    /// A volume that the sandbox may write has grown.
    VolumeGrown(VolumeGrowth, ReplySender<()>),
}

/// A request with its trace context.
pub struct TracedRequest {
    pub request: DriverRequest,
    pub here: Option<TracePosition>,
    /// When the caller started waiting.
    pub since: Instant,
}

impl From<DriverRequest> for TracedRequest {
    /// Attaches the trace context of the current task.
    fn from(request: DriverRequest) -> Self {
        Self { request, here: trace::here(), since: Instant::now() }
    }
}

/// The state in which a driver gets a sandbox.
pub enum DriverStart {
    /// Not made yet.
    Create,
    /// Made by an earlier process of this host, with a living machine.
    Adopted(Box<LivingMachine>, SandboxState),
    /// Asleep in a layer.
    Asleep(LayerId),
    /// Failed, with the reason.
    Failed(String),
}

impl DriverStart {
    /// Fills in the condition that callers see before the driver's first step.
    pub fn describe(&self, first: &mut PublishedState) {
        match self {
            DriverStart::Create => {}
            DriverStart::Adopted(living, state) => first.living(living, state.clone()),
            DriverStart::Asleep(_) => first.without(SandboxState::Asleep),
            DriverStart::Failed(reason) => first.without(SandboxState::Failed { reason: reason.clone() }),
        }
    }
}

/// The input of a driver: one sandbox.
pub struct Assignment {
    pub id: SandboxId,
    pub generation: u64,
    pub spec: SandboxSpec,
    pub start: DriverStart,
    pub requests: mpsc::Receiver<TracedRequest>,
    /// Trace context of the create.
    pub here: Option<TracePosition>,
    /// Cancelled while a removal is requested, so that waits end early.
    pub given_up: RemovalRequests,
}

/// Current form of a sandbox: a machine, a layer to wake from, or neither.
pub(super) enum SandboxForm {
    Living(Box<LivingMachine>),
    Asleep(LayerId),
    Dead,
}

/// A sandbox, as its driver owns it.
pub(super) struct OwnedSandbox<'a> {
    pub context: Arc<HostContext>,
    pub standby: Arc<StandbyPool>,
    pub id: SandboxId,
    pub spec: SandboxSpec,
    pub body: SandboxForm,
    pub given_up: RemovalRequests,
    /// When the last wake failed, and with which fault. `None` if it did not fail.
    pub unwoken: Option<(Instant, Fault)>,
    /// Whether the ledger line of a sleeping sandbox may be wrong, because its last write failed.
    pub is_unwritten: bool,
    pub tell: &'a watch::Sender<PublishedState>,
    pub events: broadcast::Sender<HostEvent>,
}

enum DriverEvent {
    Asked(Option<TracedRequest>),
    Died(String),
    LinkLost,
    /// The guest runs again after a wait for disk space.
    WentOn,
    Idle,
    Closing,
}

/// Drives a sandbox to its end. When this returns, the sandbox is gone or belongs to the next
/// process; the fault says why it never ran.
pub async fn drive(
    context: Arc<HostContext>,
    standby: Arc<StandbyPool>,
    assignment: Assignment,
    tell: &watch::Sender<PublishedState>,
    events: broadcast::Sender<HostEvent>,
) -> Result<(), Fault> {
    let Assignment { id, generation, spec, start, mut requests, here, given_up } = assignment;
    let mut owned = OwnedSandbox {
        context,
        standby,
        id,
        spec,
        body: SandboxForm::Dead,
        given_up,
        unwoken: None,
        is_unwritten: false,
        tell,
        events,
    };
    trace::within(here, owned.begin(generation, start)).await?;
    loop {
        match owned.next(&mut requests).await {
            DriverEvent::Died(reason) => owned.fail(reason).await,
            DriverEvent::LinkLost => owned.relink().await,
            DriverEvent::WentOn => owned.set_guest_clock().await,
            DriverEvent::Idle if owned.spec.persistent => owned.rest().await,
            DriverEvent::Idle if !owned.retire() => {}
            DriverEvent::Idle => {
                if owned.take_down(RemovedBy::Idleness).await.is_ok() {
                    return Ok(());
                }
                owned.restart_idle_time();
            }
            DriverEvent::Asked(Some(TracedRequest { request: DriverRequest::Remove(done, removal), here, .. })) => {
                let removed = trace::within(here, owned.take_down(RemovedBy::Request)).await;
                let is_gone = removed.is_ok();
                let _ = done.send(removed);
                if is_gone {
                    return Ok(());
                }
                // The removal was refused, so the sandbox is no longer given up.
                drop(removal);
            }
            DriverEvent::Asked(Some(TracedRequest { request, here, since })) => {
                trace::within(here, owned.answer(request, since)).await;
            }
            DriverEvent::Asked(None) | DriverEvent::Closing => {
                owned.leave().await;
                return Ok(());
            }
        }
    }
}

impl OwnedSandbox<'_> {
    async fn begin(&mut self, generation: u64, start: DriverStart) -> Result<(), Fault> {
        match start {
            DriverStart::Create => self.create(generation).await,
            DriverStart::Adopted(living, state) => {
                self.context.consoles.begin(self.id, living.machine.id());
                living.spare.fill_later(&living.machine, &living.secret, &self.context.scope);
                let runs = state == SandboxState::Running;
                self.tell.send_modify(|now| now.living(&living, state));
                self.body = SandboxForm::Living(living);
                if runs {
                    // The earlier process may have been killed while the guest was paused for a
                    // seal.
                    self.set_clock().await;
                }
                Ok(())
            }
            DriverStart::Asleep(layer) => {
                let manifest = self.context.layers.manifest(layer).map_err(Fault::bug)?;
                self.tell.send_modify(|now| now.asleep(&manifest));
                self.body = SandboxForm::Asleep(layer);
                Ok(())
            }
            DriverStart::Failed(reason) => {
                self.tell.send_modify(|now| now.without(SandboxState::Failed { reason }));
                Ok(())
            }
        }
    }

    async fn create(&mut self, generation: u64) -> Result<(), Fault> {
        self.context.ledger.wanted(self.id, generation, &self.spec).await?;
        let mut clones = Vec::new();
        let created = self.create_with(&mut clones).await;
        if created.is_err() {
            self.forget().await;
            for volume in clones {
                if let Err(fault) = self.context.volumes.remove(volume).await {
                    tracing::error!(sandbox = %self.id, %volume, %fault, "could not remove the clone of a volume");
                }
            }
        }
        created
    }

    /// Creates the sandbox. `clones` receives the volumes that were made for it.
    async fn create_with(&mut self, clones: &mut Vec<VolumeId>) -> Result<(), Fault> {
        self.clone_volumes(clones).await?;
        let claim = self.context.volumes.claim(self.id, &self.spec.volumes).await?;
        let (id, spec, given_up) = (self.id, &self.spec, &self.given_up.token());
        let wanted = LaunchTarget { id, spec, claim: &claim, given_up, no_return: false.into() };
        let launched = launch::create(&self.context, &self.standby, &wanted).await;
        let living = match launched {
            Ok(living) => living,
            Err(error) => {
                tracing::info!(sandbox = %self.id, %error, "could not launch a sandbox");
                return Err(launch_fault(error, &self.spec));
            }
        };
        if let Err((living, fault)) = self.record_and_publish(living, "sandbox runs").await {
            living.undo.unwind().await;
            return Err(fault);
        }
        Ok(())
    }

    /// Makes clones of the volumes that were sealed with the sandbox's layer.
    async fn clone_volumes(&self, clones: &mut Vec<VolumeId>) -> Result<(), Fault> {
        let SandboxOrigin::Layer(layer) = self.spec.origin else { return Ok(()) };
        // A layer that cannot be read is reported by the launch.
        let Ok(manifest) = self.context.layers.manifest(layer) else { return Ok(()) };
        for used in volumes::clones(&manifest, &self.spec.volumes)? {
            let image = self.context.layers.files(layer).volume(used.slot);
            let size = std::fs::metadata(&image).map_err(Fault::bug)?.len();
            let room = self.context.admit_volume(used.volume, ByteSize::new(size)).await?;
            self.context.volumes.make_from(used.volume, image, room).await?;
            clones.push(used.volume);
        }
        Ok(())
    }

    /// Records a launched machine in the ledger, then publishes it. Returns the machine if the
    /// ledger cannot be written.
    pub(super) async fn record_and_publish(
        &mut self,
        living: LivingMachine,
        what: &'static str,
    ) -> Result<(), (Box<LivingMachine>, Fault)> {
        let secret = Some(living.secret.reveal().clone());
        let now = SandboxRecord { state: SandboxState::Running, layer: None, secret };
        let size = BilledSize::of(&living.layer.manifest);
        if let Err(error) = self.context.ledger.record_machine(self.id, &now, size).await {
            tracing::error!(sandbox = %self.id, %error, "could not record a launched sandbox");
            return Err((Box::new(living), error.into()));
        }
        tracing::info!(sandbox = %self.id, boot_ms = living.boot.as_millis() as u64, mode = living.boot_mode, "{what}");
        self.context.consoles.begin(self.id, living.machine.id());
        self.tell.send_modify(|now| now.living(&living, SandboxState::Running));
        living.spare.fill_later(&living.machine, &living.secret, &self.context.scope);
        self.body = SandboxForm::Living(Box::new(living));
        Ok(())
    }

    async fn next(&self, requests: &mut mpsc::Receiver<TracedRequest>) -> DriverEvent {
        let token = self.context.scope.token();
        let SandboxForm::Living(living) = &self.body else {
            return tokio::select! {
                biased;
                request = requests.recv() => DriverEvent::Asked(request),
                () = token.cancelled() => DriverEvent::Closing,
            };
        };
        let paused = self.tell.borrow().view.state == SandboxState::Paused;
        let idle = async {
            match self.spec.ttl_seconds {
                0 => std::future::pending().await,
                seconds => living.session.activity().idle_for(Duration::from_secs(seconds)).await,
            }
        };
        tokio::select! {
            biased;
            reason = death(&*living.machine) => DriverEvent::Died(reason),
            request = requests.recv() => DriverEvent::Asked(request),
            () = token.cancelled() => DriverEvent::Closing,
            // A paused guest cannot answer a new link. It is dialled after it resumes.
            () = living.session.broken(), if !paused => DriverEvent::LinkLost,
            () = went_on(living), if !paused => DriverEvent::WentOn,
            () = idle => DriverEvent::Idle,
        }
    }

    async fn relink(&mut self) {
        let SandboxForm::Living(living) = &mut self.body else { return };
        let token = self.context.scope.token();
        let reached = tokio::select! {
            reached = dial_again(&self.context, &*living.machine, living.secret.reveal()) => reached,
            () = self.given_up.cancelled() => return,
            () = token.cancelled() => return,
        };
        match reached {
            ReachOutcome::Session(session) => {
                living.session = session.clone();
                self.tell.send_modify(|now| now.session = Some(session));
                // The link may have been lost while the guest was stopped.
                self.set_clock().await;
            }
            ReachOutcome::Waits => tokio::time::sleep(WAIT_PAUSE).await,
            // The machine runs, but without its agent the sandbox is unusable.
            ReachOutcome::Silent => living.machine.stop().await,
        }
    }

    /// Sets the clock of a guest that has waited for disk space.
    async fn set_guest_clock(&mut self) {
        let SandboxForm::Living(living) = &mut self.body else { return };
        living.waits = *living.machine.went_on().borrow();
        self.set_clock().await;
    }

    /// Logs a failed ledger write. The next start repairs the line, but an operator should know.
    pub(super) fn log(&self, written: Result<(), LedgerError>) {
        if let Err(error) = written {
            tracing::error!(sandbox = %self.id, %error, "could not write a ledger line");
        }
    }
}

/// Trace id of the request that the driver works on.
pub(super) fn cause() -> ChangeCause {
    trace::here().map(|here| here.trace().to_string())
}

/// Waits until a guest runs again after a wait for disk space that `waits` does not count yet.
async fn went_on(living: &LivingMachine) {
    if living.machine.went_on().wait_for(|times| *times != living.waits).await.is_err() {
        std::future::pending().await
    }
}

/// Result of an attempt to reach a living guest.
pub enum ReachOutcome {
    Session(GuestSession),
    /// It is stopped until the host's disk has space.
    Waits,
    Silent,
}

/// Opens a new link to a living guest.
pub async fn dial_again(context: &HostContext, machine: &dyn Machine, secret: &[u8]) -> ReachOutcome {
    let deadline = context.settings.launch_deadline / RELINK_PARTS;
    let reached = tokio::time::timeout(deadline, async {
        while *machine.watch().borrow() == MachineState::Alive {
            // One connection may get lost, or stay silent on a busy host.
            let opened = tokio::time::timeout(deadline / RELINK_PARTS, async {
                let link = machine.dial().await.ok()?;
                GuestSession::open(link, secret, None, &context.scope).await.ok()
            });
            if let Ok(Some(session)) = opened.await {
                return ReachOutcome::Session(session);
            }
            if machine.power().await.is_ok_and(|power| power == Power::Waiting) {
                return ReachOutcome::Waits;
            }
            tokio::time::sleep(RELINK_PAUSE).await;
        }
        ReachOutcome::Silent
    });
    reached.await.unwrap_or(ReachOutcome::Silent)
}
