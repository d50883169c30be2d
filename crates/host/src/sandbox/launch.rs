//! Turns a request into a machine whose guest answers: standby or cold, resume, one exchange with the guest.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_kit::{Clock, Secret, SystemClock, Undo, random_bytes, random_hex};
use pandastack_layers::{Layer, OpenError};
use pandastack_model::{SandboxId, SandboxSpec};
use pandastack_vmm::{Machine, MachineError, MachineState};
use pandastack_wire_guest::{Identity, Rebirth, Variable};
use tokio_util::sync::CancellationToken;

use super::{
    prepare::{Parts, PrepareError, Prepared},
    standby::Standby,
};
use crate::{
    guest::{LinkError, Session},
    ledger::LedgerError,
};

/// Between two attempts to reach a guest that was just resumed.
const DIAL_POLL: Duration = Duration::from_millis(2);

/// Everything a running sandbox holds.
pub struct Launched {
    pub machine: Arc<dyn Machine>,
    pub session: Session,
    pub secret: Secret<Vec<u8>>,
    pub layer: Layer,
    pub undo: Undo,
    pub boot: Duration,
    pub boot_mode: &'static str,
}

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
    #[error("the machine died before its guest answered: {reason}")]
    Died { reason: String },
    #[error("the guest refused its new life")]
    Rebirth(#[source] LinkError),
    #[error("the guest did not answer within {seconds} s")]
    Silent { seconds: u64 },
    #[error("the sandbox was given up before its guest answered")]
    Abandoned,
}

/// Launches a sandbox, unless it is given up meanwhile.
pub async fn launch(
    parts: &Arc<Parts>,
    standby: &Standby,
    id: SandboxId,
    spec: &SandboxSpec,
    given_up: &CancellationToken,
) -> Result<Launched, LaunchError> {
    if given_up.is_cancelled() {
        return Err(LaunchError::Abandoned);
    }
    let started = Instant::now();
    let _launching = standby.launching();
    let layer_id = parts.layers.template(&spec.template)?;
    let (ready, dead) = standby.take(layer_id);
    for prepared in dead {
        prepared.undo.unwind().await;
    }
    let wanted = Wanted { id, spec, given_up, started };
    if let Some(prepared) = ready {
        match start_life(parts, prepared, "standby", &wanted).await {
            // It went bad while it stood by; the caller need not know.
            Err(error @ (LaunchError::Died { .. } | LaunchError::Machine(_) | LaunchError::Rebirth(_))) => {
                tracing::warn!(%error, "standby machine of no use; starting another");
            }
            outcome => return outcome,
        }
    }
    let store = parts.layers.clone();
    let opened = parts.scope.block("open layer", move || store.open_layer(layer_id)).await;
    let prepared = parts.prepare(opened.map_err(PrepareError::from)??).await?;
    start_life(parts, prepared, "cold", &wanted).await
}

/// Who a machine is for.
struct Wanted<'a> {
    id: SandboxId,
    spec: &'a SandboxSpec,
    given_up: &'a CancellationToken,
    started: Instant,
}

async fn start_life(
    parts: &Arc<Parts>,
    prepared: Prepared,
    boot_mode: &'static str,
    wanted: &Wanted<'_>,
) -> Result<Launched, LaunchError> {
    let Prepared { machine, layer, undo, session } = prepared;
    let prepared_after = wanted.started.elapsed();
    let secret = random_bytes::<32>().to_vec();
    let new_life = || rebirth(wanted.id, wanted.spec, &secret);
    // May be dropped at any point: it acquires nothing, and the machine it wakes is in `undo`.
    let living = tokio::select! {
        biased;
        () = wanted.given_up.cancelled() => Err(LaunchError::Abandoned),
        // The link of a dead machine stays silent, so that waiting for its guest would only run into the deadline.
        reason = death(&*machine) => Err(LaunchError::Died { reason }),
        living = bring_to_life(parts, &*machine, &layer, session, wanted.id, &new_life) => living,
    };
    match living {
        Ok(session) => {
            let (boot, secret) = (wanted.started.elapsed(), Secret::new(secret));
            tracing::debug!(sandbox = %wanted.id, boot_mode, ?prepared_after, ?boot, "launch stages");
            Ok(Launched { machine, session, secret, layer, undo, boot, boot_mode })
        }
        Err(error) => {
            undo.unwind().await;
            Err(error)
        }
    }
}

async fn bring_to_life(
    parts: &Arc<Parts>,
    machine: &dyn Machine,
    layer: &Layer,
    session: Option<Session>,
    id: SandboxId,
    rebirth: &(dyn Fn() -> Rebirth + Sync),
) -> Result<Session, LaunchError> {
    parts.ledger.assigned(machine.id(), id).await?;
    machine.resume().await?;
    match session {
        Some(session) => {
            let deadline = parts.settings.launch_deadline;
            let reborn = tokio::time::timeout(deadline, session.rebirth(&rebirth())).await;
            reborn.map_err(|_| LaunchError::Silent { seconds: deadline.as_secs() })?.map_err(LaunchError::Rebirth)?;
            Ok(session)
        }
        None => greet(parts, machine, layer, rebirth).await,
    }
}

/// Reaches the guest of a machine that was just resumed and gives it its new life in the first exchange.
pub async fn greet(
    parts: &Parts,
    machine: &dyn Machine,
    layer: &Layer,
    rebirth: &(dyn Fn() -> Rebirth + Sync),
) -> Result<Session, LaunchError> {
    let sealed_secret = unhex(&layer.manifest.link_secret);
    let deadline = parts.settings.launch_deadline;
    let greeted = tokio::time::timeout(deadline, async {
        loop {
            match machine.dial().await {
                Ok(link) => {
                    let opened = Session::open(link, &sealed_secret, Some(&rebirth()), &parts.scope).await;
                    return opened.map_err(LaunchError::Rebirth);
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

/// The one message after a restore: everything that must differ between siblings.
fn rebirth(id: SandboxId, spec: &SandboxSpec, secret: &[u8]) -> Rebirth {
    let mut env: Vec<Variable> =
        spec.env.iter().map(|(name, value)| Variable { name: name.clone(), value: value.clone() }).collect();
    env.push(Variable { name: "PANDASTACK_SANDBOX_ID".to_owned(), value: id.to_string() });
    let hostname = format!("sandbox-{}", &id.to_string()[..8]);
    Rebirth {
        wall_clock_ns: SystemClock.now_ns(),
        entropy: random_bytes::<64>().to_vec(),
        secret: secret.to_vec(),
        identity: Some(Identity { hostname, machine_id: random_hex::<16>(), env, network: None }),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).filter_map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()).collect()
}
