//! Launches a machine and waits until its guest answers: from standby or cold, resume, one exchange
//! with the guest. A create and a fork give the guest a new identity; a wake keeps it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use pandastack_kit::{
    Secret, random_bytes,
    trace::{self, OpenSpan},
};
use pandastack_layers::{Layer, LayerOpenError};
use pandastack_model::{Fault, LayerId, SandboxId, SandboxOrigin, SandboxSpec, SandboxState};
use pandastack_vmm::{Machine, MachineError, MachineState, Power};
use pandastack_wire_guest::{Rebirth, VOLUMES_SINCE};
use tokio_util::sync::CancellationToken;

use super::{
    admission::CapacityError,
    identity::{GuestIdentity, set_clock, unhex},
    last_copy::LastCopy,
    living::LivingMachine,
    owners::OwnedShare,
    prepare::{HostContext, PrepareError, PreparedMachine, SlotHandle},
    publish::defaults_of,
    standby::{LaunchGuard, StandbyPool},
};
use crate::{
    guest::{GuestSession, LinkError, SpareHolder, take_up},
    ledger::{LedgerError, SandboxRecord},
    net::{GatewayGuest, NetError},
    volumes::VolumeClaim,
};

/// Pause between two attempts to reach a guest that was just resumed.
const DIAL_POLL: Duration = Duration::from_millis(2);

/// Connections that may break in a greeting before the launch fails.
const LOST_MAX: usize = 3;

/// Maximum greetings of a guest that cannot be restored again, each with the launch deadline.
const GREETINGS_MAX: usize = 3;

/// A sandbox could not be launched; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Open(#[from] LayerOpenError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("restrict the network")]
    Network(#[source] NetError),
    #[error("the machine ended before its guest responded: {reason}")]
    Died { reason: String },
    #[error("the guest rejected its new identity")]
    Rebirth(#[source] LinkError),
    #[error("the guest did not respond within {seconds} s")]
    Silent { seconds: u64 },
    #[error(transparent)]
    Share(Fault),
    #[error(transparent)]
    Volume(Fault),
    #[error("the layer is too old for volumes")]
    NoVolumes,
    #[error("the sandbox was removed before its guest responded")]
    Abandoned,
}

/// The sandbox that a machine is launched for.
pub struct LaunchTarget<'a> {
    pub id: SandboxId,
    pub spec: &'a SandboxSpec,
    /// Volumes that are already claimed for it.
    pub claim: &'a VolumeClaim,
    pub given_up: &'a CancellationToken,
    /// Set once a failed wake can no longer return to sleep.
    pub no_return: AtomicBool,
}

/// Launches a new sandbox, unless it is given up meanwhile.
pub async fn create(
    context: &Arc<HostContext>,
    standby: &StandbyPool,
    wanted: &LaunchTarget<'_>,
) -> Result<LivingMachine, LaunchError> {
    let started = Instant::now();
    let launching = standby.launching();
    if wanted.given_up.is_cancelled() {
        return Err(LaunchError::Abandoned);
    }
    let (layer, mode) = match wanted.spec.origin {
        SandboxOrigin::Template => (context.layers.template(&wanted.spec.template)?, "cold"),
        SandboxOrigin::Layer(layer) => (layer, context.mode_of(layer)),
    };
    let share = share_of_owner(context, layer, wanted.spec)?;
    let env = birth_env(context, layer, wanted.spec);
    let life = GuestIdentity::New { id: wanted.id, env: &env };
    if wanted.spec.origin == SandboxOrigin::Template {
        let (ready, dead) = standby.take(&wanted.spec.template, layer);
        for prepared in dead {
            prepared.undo.unwind().await;
        }
        if let Some(mut prepared) = ready {
            hold_share(share.as_ref(), &mut prepared);
            match start_life(context, prepared, "standby", started, wanted, &life).await {
                // The standby machine is broken. The caller need not know.
                Err(error @ (LaunchError::Died { .. } | LaunchError::Machine(_) | LaunchError::Rebirth(_))) => {
                    tracing::warn!(%error, "a standby machine is unusable; starting another");
                }
                outcome => return outcome,
            }
        }
    }
    let mut prepared = trace::span("machine.prepare", |_| {}, prepare(context, standby, &launching, layer)).await?;
    hold_share(share.as_ref(), &mut prepared);
    start_life(context, prepared, mode, started, wanted, &life).await
}

/// Counts a machine of a layer against its owner's share. An unreadable layer is not counted:
/// opening it fails later.
fn share_of_owner(
    context: &HostContext,
    layer: LayerId,
    spec: &SandboxSpec,
) -> Result<Option<Arc<OwnedShare>>, LaunchError> {
    let (Some(owner), Ok(manifest)) = (&spec.owner, context.layers.manifest(layer)) else { return Ok(None) };
    let share = context.owners.take(owner, manifest.memory, context.totals()).map_err(LaunchError::Share)?;
    Ok(Some(Arc::new(share)))
}

fn hold_share(share: Option<&Arc<OwnedShare>>, prepared: &mut PreparedMachine) {
    if let Some(share) = share {
        share.clone().hold(&mut prepared.undo);
    }
}

/// Environment of a new sandbox: its own variables over those of its layer. An unreadable layer
/// adds none: opening it fails later.
fn birth_env(context: &HostContext, layer: LayerId, spec: &SandboxSpec) -> BTreeMap<String, String> {
    let below = context.layers.manifest(layer).map(|manifest| defaults_of(&manifest).env);
    let mut env = below.unwrap_or_default();
    env.extend(spec.env.clone());
    env
}

/// Launches a sandbox that sleeps in a layer.
pub async fn wake(
    context: &Arc<HostContext>,
    standby: &StandbyPool,
    layer: LayerId,
    wanted: &LaunchTarget<'_>,
) -> Result<LivingMachine, LaunchError> {
    let started = Instant::now();
    let launching = standby.launching();
    if wanted.given_up.is_cancelled() {
        return Err(LaunchError::Abandoned);
    }
    let share = share_of_owner(context, layer, wanted.spec)?;
    let mut prepared = trace::span("machine.prepare", |_| {}, prepare(context, standby, &launching, layer)).await?;
    hold_share(share.as_ref(), &mut prepared);
    start_life(context, prepared, "wake", started, wanted, &GuestIdentity::Same).await
}

/// Prepares a machine. If memory is short, removes blanks and standby machines and tries again.
async fn prepare(
    context: &Arc<HostContext>,
    standby: &StandbyPool,
    launching: &LaunchGuard<'_>,
    layer: LayerId,
) -> Result<PreparedMachine, LaunchError> {
    loop {
        let store = context.layers.clone();
        let opened = context.scope.block("open layer", move || store.open_layer(layer)).await;
        let opened = opened.map_err(PrepareError::from)??;
        let (ahead, dead) = standby.blanks.take(&opened.manifest);
        for machine_slot in dead {
            machine_slot.give_up().await;
        }
        let was_ahead = ahead.is_some();
        match context.prepare(opened, ahead).await {
            Err(PrepareError::Start(error)) if was_ahead => {
                tracing::warn!(%error, "a blank machine is unusable; starting another");
            }
            // The blank is gone, and its memory is free. Try again.
            Err(PrepareError::Full(CapacityError::Memory { .. })) if was_ahead => {}
            Err(PrepareError::Full(full)) => {
                if !standby.make_room(&full, launching).await {
                    return Err(PrepareError::Full(full).into());
                }
            }
            // The layer was collected while this machine was being made.
            Err(PrepareError::Gone { layer }) => return Err(LayerOpenError::Missing { layer }.into()),
            outcome => return Ok(outcome?),
        }
    }
}

async fn start_life(
    context: &Arc<HostContext>,
    prepared: PreparedMachine,
    boot_mode: &'static str,
    started: Instant,
    wanted: &LaunchTarget<'_>,
    life: &GuestIdentity<'_>,
) -> Result<LivingMachine, LaunchError> {
    let PreparedMachine { machine, layer, disk, slot, undo, session } = prepared;
    let prepared_after = started.elapsed();
    let secret = random_bytes::<32>().to_vec();
    if let Err(error) = restrict(context, &slot, wanted).await {
        undo.unwind().await;
        return Err(error);
    }
    let mode = |work: &mut OpenSpan| work.note("pandastack.boot.mode", boot_mode);
    let alive = bring_to_life(context, &*machine, &layer, session, wanted, life, &secret);
    // Safe to cancel: it acquires nothing, and the machine that it resumes is in `undo`.
    let living = tokio::select! {
        biased;
        () = wanted.given_up.cancelled() => Err(LaunchError::Abandoned),
        // The link of a dead machine stays silent: waiting for its guest would end at the deadline.
        reason = death(&*machine) => Err(LaunchError::Died { reason }),
        living = trace::span("guest.start", mode, alive) => living,
    };
    match living {
        Ok(session) => {
            let (boot, secret) = (started.elapsed(), Secret::new(secret));
            tracing::debug!(sandbox = %wanted.id, boot_mode, ?prepared_after, ?boot, "launch stages");
            let (claim, spare) = (wanted.claim.clone(), SpareHolder::default());
            let (prepared, since) = (prepared_after, Some(Instant::now()));
            Ok(LivingMachine {
                machine,
                session,
                spare,
                secret,
                layer,
                last_copy: LastCopy::default(),
                disk,
                slot,
                claim,
                undo,
                boot,
                prepared,
                since,
                boot_mode,
                waits: 0,
            })
        }
        Err(error) => {
            undo.unwind().await;
            Err(error)
        }
    }
}

/// Applies egress rules and the bandwidth limit before the guest runs. Costs nothing without them.
async fn restrict(context: &HostContext, slot: &SlotHandle, wanted: &LaunchTarget<'_>) -> Result<(), LaunchError> {
    open_slot(context, slot, wanted.id, wanted.spec).await.map_err(LaunchError::Network)?;
    let slot = slot.lock().await;
    let Some(slot) = &*slot else { return Ok(()) };
    slot.set_bandwidth(wanted.spec.bandwidth_mbps).await.map_err(LaunchError::Network)
}

/// Applies a sandbox's egress rules, and serves its guest at the gateway if the service wants that.
pub async fn open_slot(
    context: &HostContext,
    slot: &SlotHandle,
    id: SandboxId,
    spec: &SandboxSpec,
) -> Result<(), NetError> {
    let slot = slot.lock().await;
    let Some(slot) = &*slot else { return Ok(()) };
    match context.settings.gateway.as_ref().filter(|service| service.serves(spec)) {
        Some(service) => slot.serve_gateway(&spec.egress, GatewayGuest { sandbox: id, service: service.clone() }).await,
        None => slot.set_egress(&spec.egress).await,
    }
}

async fn bring_to_life(
    context: &Arc<HostContext>,
    machine: &dyn Machine,
    layer: &Layer,
    session: Option<GuestSession>,
    wanted: &LaunchTarget<'_>,
    life: &GuestIdentity<'_>,
    secret: &[u8],
) -> Result<GuestSession, LaunchError> {
    if !wanted.claim.is_empty() && layer.manifest.guest_generation < VOLUMES_SINCE {
        return Err(LaunchError::NoVolumes);
    }
    context.ledger.assigned(machine.id(), wanted.id).await?;
    wanted.claim.attach(machine).await?;
    if matches!(life, GuestIdentity::Same) && wanted.claim.writes() {
        // Once the guest runs, its volumes are newer than the memory it slept in. A second wake
        // from that memory would overwrite newer data. So the wake is recorded as final before the
        // guest runs. The line still names the layer: if only the ledger's answer is lost, the
        // sandbox sleeps on in it.
        let slept_in = Some(layer.manifest.layer);
        let waking = SandboxRecord { state: SandboxState::Waking, layer: slept_in, secret: Some(secret.to_vec()) };
        context.ledger.record_durably(wanted.id, &waking).await?;
        wanted.no_return.store(true, Ordering::Relaxed);
    }
    machine.resume().await?;
    let rebirth = || life.rebirth(secret);
    let session = match session {
        Some(session) => {
            reborn(context, &session, rebirth()).await?;
            session
        }
        None => greet_surely(context, machine, layer, &rebirth, wanted).await?,
    };
    match life {
        GuestIdentity::New { .. } | GuestIdentity::Nobody => {
            let mounted = wanted.claim.mount(&layer.manifest.volumes, &session).await;
            mounted.map_err(LaunchError::Volume)?
        }
        GuestIdentity::Same => {
            if let Err(fault) = wanted.claim.grow_in_guest(machine, &session).await {
                // The volumes keep their old size, which is better than a sandbox that never wakes.
                tracing::warn!(sandbox = %wanted.id, %fault, "could not extend the file system of a grown volume");
            }
        }
    }
    Ok(session)
}

/// Sends the rebirth over a link that is already open.
async fn reborn(context: &HostContext, session: &GuestSession, rebirth: Rebirth) -> Result<(), LaunchError> {
    let deadline = context.settings.launch_deadline;
    let reborn = tokio::time::timeout(deadline, async {
        let told = Instant::now();
        session.rebirth(&rebirth).await?;
        correct_clock(context, session, &rebirth, told).await
    });
    reborn.await.map_err(|_| LaunchError::Silent { seconds: deadline.as_secs() })?.map_err(LaunchError::Rebirth)
}

/// Sets the clock again if the rebirth took so long that its time was late. The guest answers
/// faster by now.
async fn correct_clock(
    context: &HostContext,
    session: &GuestSession,
    rebirth: &Rebirth,
    told: Instant,
) -> Result<(), LinkError> {
    let exchange_max = context.settings.clock_exchange_max;
    if told.elapsed() <= exchange_max {
        return Ok(());
    }
    set_clock(session, &rebirth.secret, exchange_max).await
}

/// Greets a guest. Repeats that if giving up would lose the sandbox, because its wake is final.
async fn greet_surely(
    context: &HostContext,
    machine: &dyn Machine,
    layer: &Layer,
    rebirth: &(dyn Fn() -> Rebirth + Sync),
    wanted: &LaunchTarget<'_>,
) -> Result<GuestSession, LaunchError> {
    let mut tries = 0;
    loop {
        let error = match greet(context, machine, layer, rebirth).await {
            Ok(session) => return Ok(session),
            Err(error) => error,
        };
        let waits = machine.power().await.is_ok_and(|power| power == Power::Waiting);
        tries += usize::from(!waits);
        if tries >= GREETINGS_MAX || !wanted.no_return.load(Ordering::Relaxed) {
            return Err(error);
        }
        tracing::warn!(sandbox = %wanted.id, %error, waits, "could not reach the guest; trying again");
    }
}

/// Reaches the guest of a machine that was just resumed, and sends the rebirth in the first
/// exchange.
pub async fn greet(
    context: &HostContext,
    machine: &dyn Machine,
    layer: &Layer,
    rebirth: &(dyn Fn() -> Rebirth + Sync),
) -> Result<GuestSession, LaunchError> {
    let sealed_secret = unhex(&layer.manifest.link_secret);
    let deadline = context.settings.launch_deadline;
    let greeted = tokio::time::timeout(deadline, async {
        if let Some(state) = &layer.manifest.link {
            let (told, new_life) = (Instant::now(), rebirth());
            match take_up(machine, state, &new_life, &context.scope, deadline).await {
                Ok(session) => {
                    correct_clock(context, &session, &new_life, told).await.map_err(LaunchError::Rebirth)?;
                    return Ok(session);
                }
                // Usual on a busy host, and also what a guest does that does not know the link.
                Err(LinkError::Deadline) => tracing::info!("the guest is silent on its sealed link; dialing"),
                Err(error) => tracing::warn!(%error, "the sealed link is unusable; dialing"),
            }
        }
        // The guest may have accepted the rebirth although its answer was lost: it has the new
        // secret then.
        let mut secrets = vec![sealed_secret, rebirth().secret];
        let mut lost = 0;
        loop {
            match machine.dial().await {
                Ok(link) => {
                    let (told, rebirth) = (Instant::now(), rebirth());
                    match GuestSession::open(link, &secrets[0], Some(&rebirth), &context.scope).await {
                        Ok(session) => {
                            correct_clock(context, &session, &rebirth, told).await.map_err(LaunchError::Rebirth)?;
                            return Ok(session);
                        }
                        Err(LinkError::Refused(_)) if secrets.len() > 1 => drop(secrets.remove(0)),
                        Err(LinkError::Io(_) | LinkError::Closed) if lost < LOST_MAX => lost += 1,
                        Err(error) => return Err(LaunchError::Rebirth(error)),
                    }
                }
                Err(error) => tracing::trace!(%error, "the guest is not reachable yet"),
            }
            tokio::time::sleep(DIAL_POLL).await;
        }
    });
    greeted.await.map_err(|_| LaunchError::Silent { seconds: deadline.as_secs() })?
}

/// Waits until a machine is dead and returns the reason.
pub async fn death(machine: &dyn Machine) -> String {
    let mut life = machine.watch();
    match life.wait_for(|state| *state != MachineState::Alive).await.as_deref() {
        Ok(MachineState::Dead { reason }) => reason.clone(),
        Ok(MachineState::Alive) | Err(_) => "the task that watches the machine ended".to_owned(),
    }
}
