//! Turns a request into a machine whose guest answers: standby or cold, resume, one exchange with
//! the guest. A create and a fork give the guest a new identity; a wake keeps it.

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
    trace::{self, Work},
};
use pandastack_layers::{Layer, OpenError};
use pandastack_model::{Fault, LayerId, Origin, SandboxId, SandboxSpec, SandboxState};
use pandastack_vmm::{Machine, MachineError, MachineState, Power};
use pandastack_wire_guest::{Rebirth, VOLUMES_SINCE};
use tokio_util::sync::CancellationToken;

use super::{
    admission::Full,
    life::{CLOCK_EXCHANGE_MAX, Life, set_clock, unhex},
    living::Living,
    owners::OwnedShare,
    prepare::{HostContext, PrepareError, Prepared, SlotHandle},
    publish::defaults_of,
    standby::{Launching, Standby},
};
use crate::{
    guest::{LinkError, Session, SparePlace, take_up},
    ledger::{LedgerError, Record},
    net::NetError,
    volumes::Claim,
};

/// Between two attempts to reach a guest that was just resumed.
const DIAL_POLL: Duration = Duration::from_millis(2);

/// Connections that may break in a greeting before the guest is taken for a bad one.
const LOST_MAX: usize = 3;

/// Greetings of a guest that could not be woken a second time, each as long as a launch may take.
const GREETINGS_MAX: usize = 3;

/// A sandbox could not be launched; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("restrict the network")]
    Network(#[source] NetError),
    #[error("the machine died before its guest answered: {reason}")]
    Died { reason: String },
    #[error("the guest refused its new life")]
    Rebirth(#[source] LinkError),
    #[error("the guest did not answer within {seconds} s")]
    Silent { seconds: u64 },
    #[error(transparent)]
    Share(Fault),
    #[error(transparent)]
    Volume(Fault),
    #[error("the layer was sealed before guests had volumes")]
    NoVolumes,
    #[error("the sandbox was given up before its guest answered")]
    Abandoned,
}

/// Who a machine is for.
pub struct Wanted<'a> {
    pub id: SandboxId,
    pub spec: &'a SandboxSpec,
    /// The volumes that it uses already.
    pub claim: &'a Claim,
    pub given_up: &'a CancellationToken,
    /// Set when a failure can no longer be answered by sleeping on.
    pub no_return: AtomicBool,
}

/// Launches a new sandbox, unless it is given up meanwhile.
pub async fn create(context: &Arc<HostContext>, standby: &Standby, wanted: &Wanted<'_>) -> Result<Living, LaunchError> {
    let started = Instant::now();
    let launching = standby.launching();
    if wanted.given_up.is_cancelled() {
        return Err(LaunchError::Abandoned);
    }
    let (layer, mode) = match wanted.spec.origin {
        Origin::Template => (context.layers.template(&wanted.spec.template)?, "cold"),
        Origin::Layer(layer) => (layer, context.mode_of(layer)),
    };
    let share = share_of_owner(context, layer, wanted.spec)?;
    let env = birth_env(context, layer, wanted.spec);
    let life = Life::New { id: wanted.id, env: &env };
    if wanted.spec.origin == Origin::Template {
        let (ready, dead) = standby.take(&wanted.spec.template, layer);
        for prepared in dead {
            prepared.undo.unwind().await;
        }
        if let Some(mut prepared) = ready {
            hold_share(share.as_ref(), &mut prepared);
            match start_life(context, prepared, "standby", started, wanted, &life).await {
                // It went bad while it stood by; the caller need not know.
                Err(error @ (LaunchError::Died { .. } | LaunchError::Machine(_) | LaunchError::Rebirth(_))) => {
                    tracing::warn!(%error, "standby machine of no use; starting another");
                }
                outcome => return outcome,
            }
        }
    }
    let mut prepared = trace::span("machine.prepare", |_| {}, prepare(context, standby, &launching, layer)).await?;
    hold_share(share.as_ref(), &mut prepared);
    start_life(context, prepared, mode, started, wanted, &life).await
}

/// Counts a machine of a layer against its owner's share. A layer that cannot be read is found out
/// by who opens it.
fn share_of_owner(
    context: &HostContext,
    layer: LayerId,
    spec: &SandboxSpec,
) -> Result<Option<Arc<OwnedShare>>, LaunchError> {
    let (Some(owner), Ok(manifest)) = (&spec.owner, context.layers.manifest(layer)) else { return Ok(None) };
    let share = context.owners.take(owner, manifest.memory, context.totals()).map_err(LaunchError::Share)?;
    Ok(Some(Arc::new(share)))
}

fn hold_share(share: Option<&Arc<OwnedShare>>, prepared: &mut Prepared) {
    if let Some(share) = share {
        share.clone().hold(&mut prepared.undo);
    }
}

/// The environment of a new sandbox: its own over that of its layer. A layer that cannot be read is
/// found out by who opens it.
fn birth_env(context: &HostContext, layer: LayerId, spec: &SandboxSpec) -> BTreeMap<String, String> {
    let below = context.layers.manifest(layer).map(|manifest| defaults_of(&manifest).env);
    let mut env = below.unwrap_or_default();
    env.extend(spec.env.clone());
    env
}

/// Launches a sandbox that sleeps in a layer.
pub async fn wake(
    context: &Arc<HostContext>,
    standby: &Standby,
    layer: LayerId,
    wanted: &Wanted<'_>,
) -> Result<Living, LaunchError> {
    let started = Instant::now();
    let launching = standby.launching();
    if wanted.given_up.is_cancelled() {
        return Err(LaunchError::Abandoned);
    }
    let share = share_of_owner(context, layer, wanted.spec)?;
    let mut prepared = trace::span("machine.prepare", |_| {}, prepare(context, standby, &launching, layer)).await?;
    hold_share(share.as_ref(), &mut prepared);
    start_life(context, prepared, "wake", started, wanted, &Life::Same).await
}

/// Prepares a machine; if the host has too little memory, what only stands by gives way.
async fn prepare(
    context: &Arc<HostContext>,
    standby: &Standby,
    launching: &Launching<'_>,
    layer: LayerId,
) -> Result<Prepared, LaunchError> {
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
                tracing::warn!(%error, "process that waited for a layer of no use; starting another");
            }
            // The process that waited is gone, and what it had is free.
            Err(PrepareError::Full(Full::Memory { .. })) if was_ahead => {}
            Err(PrepareError::Full(full)) => {
                if !standby.make_room(&full, launching).await {
                    return Err(PrepareError::Full(full).into());
                }
            }
            // Its last owner let it go while this machine was being made.
            Err(PrepareError::Gone { layer }) => return Err(OpenError::Missing { layer }.into()),
            outcome => return Ok(outcome?),
        }
    }
}

async fn start_life(
    context: &Arc<HostContext>,
    prepared: Prepared,
    boot_mode: &'static str,
    started: Instant,
    wanted: &Wanted<'_>,
    life: &Life<'_>,
) -> Result<Living, LaunchError> {
    let Prepared { machine, layer, disk, slot, undo, session } = prepared;
    let prepared_after = started.elapsed();
    let secret = random_bytes::<32>().to_vec();
    if let Err(error) = restrict(&slot, wanted.spec).await {
        undo.unwind().await;
        return Err(error);
    }
    let mode = |work: &mut Work| work.note("pandastack.boot.mode", boot_mode);
    let alive = bring_to_life(context, &*machine, &layer, session, wanted, life, &secret);
    // May be dropped at any point: it acquires nothing, and the machine it wakes is in `undo`.
    let living = tokio::select! {
        biased;
        () = wanted.given_up.cancelled() => Err(LaunchError::Abandoned),
        // The link of a dead machine stays silent, so that waiting for its guest would only run
        // into the deadline.
        reason = death(&*machine) => Err(LaunchError::Died { reason }),
        living = trace::span("guest.start", mode, alive) => living,
    };
    match living {
        Ok(session) => {
            let (boot, secret) = (started.elapsed(), Secret::new(secret));
            tracing::debug!(sandbox = %wanted.id, boot_mode, ?prepared_after, ?boot, "launch stages");
            let (claim, spare) = (wanted.claim.clone(), SparePlace::default());
            let (prepared, since) = (prepared_after, Some(Instant::now()));
            Ok(Living {
                machine,
                session,
                spare,
                secret,
                layer,
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

/// Holds the guest to its owner's terms before it runs. Costs nothing where there are none.
async fn restrict(slot: &SlotHandle, spec: &SandboxSpec) -> Result<(), LaunchError> {
    let slot = slot.lock().await;
    let Some(slot) = &*slot else { return Ok(()) };
    slot.set_egress(&spec.egress).await.map_err(LaunchError::Network)?;
    slot.set_bandwidth(spec.bandwidth_mbps).await.map_err(LaunchError::Network)
}

async fn bring_to_life(
    context: &Arc<HostContext>,
    machine: &dyn Machine,
    layer: &Layer,
    session: Option<Session>,
    wanted: &Wanted<'_>,
    life: &Life<'_>,
    secret: &[u8],
) -> Result<Session, LaunchError> {
    if !wanted.claim.is_empty() && layer.manifest.guest_generation < VOLUMES_SINCE {
        return Err(LaunchError::NoVolumes);
    }
    context.ledger.assigned(machine.id(), wanted.id).await?;
    wanted.claim.attach(machine).await?;
    if matches!(life, Life::Same) && wanted.claim.writes() {
        // Once the guest runs, its volumes become newer than the memory it slept in. Woken from
        // that a second time it would write what it remembers over what it has written since. So
        // there is no way back, whatever happens to us from here on. The line still names the
        // layer: if only the answer to it is lost, the sandbox sleeps on in that.
        let slept_in = Some(layer.manifest.layer);
        let waking = Record { state: SandboxState::Waking, layer: slept_in, secret: Some(secret.to_vec()) };
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
        Life::New { .. } | Life::Nobody => wanted.claim.mount(&session).await.map_err(LaunchError::Volume)?,
        Life::Same => {
            if let Err(fault) = wanted.claim.catch_up(machine, &session).await {
                // It has its volumes as it had them before, which is better than never to wake.
                tracing::warn!(sandbox = %wanted.id, %fault, "grown volumes not filled");
            }
        }
    }
    Ok(session)
}

/// Gives a guest whose link is open its new life.
async fn reborn(context: &HostContext, session: &Session, rebirth: Rebirth) -> Result<(), LaunchError> {
    let deadline = context.settings.launch_deadline;
    let reborn = tokio::time::timeout(deadline, async {
        let told = Instant::now();
        session.rebirth(&rebirth).await?;
        correct_clock(session, &rebirth, told).await
    });
    reborn.await.map_err(|_| LaunchError::Silent { seconds: deadline.as_secs() })?.map_err(LaunchError::Rebirth)
}

/// Tells the time once more if the rebirth took so long that the clock it brought is late. The
/// guest is warm by now.
async fn correct_clock(session: &Session, rebirth: &Rebirth, told: Instant) -> Result<(), LinkError> {
    if told.elapsed() <= CLOCK_EXCHANGE_MAX {
        return Ok(());
    }
    set_clock(session, &rebirth.secret).await
}

/// Greets, and goes on with it for longer where giving up would lose the sandbox: it was told apart
/// from its layer, and lives.
async fn greet_surely(
    context: &HostContext,
    machine: &dyn Machine,
    layer: &Layer,
    rebirth: &(dyn Fn() -> Rebirth + Sync),
    wanted: &Wanted<'_>,
) -> Result<Session, LaunchError> {
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
        tracing::warn!(sandbox = %wanted.id, %error, waits, "not reached, and there is no way back; again");
    }
}

/// Reaches the guest of a machine that was just resumed and gives it its new life in the first
/// exchange.
pub async fn greet(
    context: &HostContext,
    machine: &dyn Machine,
    layer: &Layer,
    rebirth: &(dyn Fn() -> Rebirth + Sync),
) -> Result<Session, LaunchError> {
    let sealed_secret = unhex(&layer.manifest.link_secret);
    let deadline = context.settings.launch_deadline;
    let greeted = tokio::time::timeout(deadline, async {
        if let Some(state) = &layer.manifest.link {
            let (told, new_life) = (Instant::now(), rebirth());
            match take_up(machine, state, &new_life, &context.scope, deadline).await {
                Ok(session) => {
                    correct_clock(&session, &new_life, told).await.map_err(LaunchError::Rebirth)?;
                    return Ok(session);
                }
                Err(error) => tracing::warn!(%error, "sealed link of no use; dialling"),
            }
        }
        // The new life may have begun before an answer to it was lost.
        let mut secrets = vec![sealed_secret, rebirth().secret];
        let mut lost = 0;
        loop {
            match machine.dial().await {
                Ok(link) => {
                    let (told, rebirth) = (Instant::now(), rebirth());
                    match Session::open(link, &secrets[0], Some(&rebirth), &context.scope).await {
                        Ok(session) => {
                            correct_clock(&session, &rebirth, told).await.map_err(LaunchError::Rebirth)?;
                            return Ok(session);
                        }
                        Err(LinkError::Refused(_)) if secrets.len() > 1 => drop(secrets.remove(0)),
                        Err(LinkError::Io(_) | LinkError::Closed) if lost < LOST_MAX => lost += 1,
                        Err(error) => return Err(LaunchError::Rebirth(error)),
                    }
                }
                Err(error) => tracing::trace!(%error, "guest not reachable yet"),
            }
            tokio::time::sleep(DIAL_POLL).await;
        }
    });
    greeted.await.map_err(|_| LaunchError::Silent { seconds: deadline.as_secs() })?
}

/// Waits until a machine is dead and tells why.
pub async fn death(machine: &dyn Machine) -> String {
    let mut life = machine.watch();
    match life.wait_for(|state| *state != MachineState::Alive).await.as_deref() {
        Ok(MachineState::Dead { reason }) => reason.clone(),
        Ok(MachineState::Alive) | Err(_) => "its watcher ended".to_owned(),
    }
}
