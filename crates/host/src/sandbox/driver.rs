//! Owns one sandbox from launch to teardown: the only task that changes its state.
//! Never talks to clients; it asks `launch` and tells `publish`.

use std::{sync::Arc, time::Duration};

use pandastack_kit::Secret;
use pandastack_model::{Fault, SandboxId};
use pandastack_vmm::{Machine, MachineState};
use pandastack_wire_fleet::{Ensure, HostEvent, RemovedBy};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    fault::launch_fault,
    launch::{Launched, death, launch},
    prepare::Parts,
    publish::Condition,
    standby::Standby,
};
use crate::guest::Session;

/// How often a lost link is dialled again before the sandbox is given up.
const RELINKS_MAX: usize = 3;

/// From one such attempt to the guest's answer. Longer than a loaded host takes, short enough for who waits in the sandbox.
const RELINK_DEADLINE: Duration = Duration::from_secs(5);

/// Between two of them.
const RELINK_PAUSE: Duration = Duration::from_millis(50);

/// What others may ask of the driver.
pub enum Request {
    /// Take the sandbox down and answer when nothing is left.
    Remove(oneshot::Sender<()>),
}

enum Happening {
    Asked(Option<Request>),
    Died(String),
    LinkLost,
    Closing,
}

/// A sandbox as its driver is given it.
pub struct Charge {
    pub ask: Ensure,
    pub requests: mpsc::Receiver<Request>,
    /// Cancelled once a removal was asked for or the host closes: nothing needs to be waited for any more.
    pub given_up: CancellationToken,
}

/// Drives a sandbox to its end. When this returns, nothing of it is left; the fault says why it never ran.
pub async fn drive(
    parts: Arc<Parts>,
    standby: Arc<Standby>,
    charge: Charge,
    tell: &watch::Sender<Condition>,
    events: broadcast::Sender<HostEvent>,
) -> Result<(), Fault> {
    let Charge { ask, mut requests, given_up } = charge;
    let id = ask.id;
    let launched = match launch(&parts, &standby, id, &ask.spec, &given_up).await {
        Ok(launched) => launched,
        Err(error) => {
            tracing::info!(sandbox = %id, %error, "launch refused");
            return Err(launch_fault(error, &ask.spec));
        }
    };
    let Launched { machine, session, secret, layer, undo, boot, boot_mode } = launched;
    tracing::info!(sandbox = %id, boot_ms = boot.as_millis() as u64, boot_mode, "sandbox runs");
    tell.send_modify(|now| *now = now.clone().running(&layer.manifest, session, boot, boot_mode));
    let mut undo = Some(undo);
    let mut dead = false;
    loop {
        let now = tell.borrow().clone();
        match next(&parts, &*machine, now.session.as_ref(), &mut requests, dead).await {
            Happening::Died(reason) => {
                dead = true;
                // The link of a killed machine stays silent instead of breaking: end it, and with it what waits on it.
                if let Some(session) = &now.session {
                    session.close();
                }
                fail(id, reason, tell, &events);
                if let Some(undo) = undo.take() {
                    undo.unwind().await;
                }
            }
            Happening::LinkLost => {
                let session = tokio::select! {
                    session = relink(&parts, &*machine, &secret) => session,
                    () = given_up.cancelled() => break,
                };
                match session {
                    Some(session) => tell.send_modify(|now| now.session = Some(session)),
                    // The machine runs but its agent does not answer: nobody could use it any more.
                    None => machine.stop().await,
                }
            }
            Happening::Asked(Some(Request::Remove(done))) => {
                take_down(id, undo.take(), tell, &events).await;
                let _ = done.send(());
                return Ok(());
            }
            Happening::Asked(None) | Happening::Closing => break,
        }
    }
    take_down(id, undo.take(), tell, &events).await;
    Ok(())
}

async fn next(
    parts: &Parts,
    machine: &dyn Machine,
    session: Option<&Session>,
    requests: &mut mpsc::Receiver<Request>,
    dead: bool,
) -> Happening {
    let lost = async {
        match session {
            Some(session) => session.broken().await,
            None => std::future::pending().await,
        }
    };
    let token = parts.scope.token();
    tokio::select! {
        biased;
        reason = death(machine), if !dead => Happening::Died(reason),
        request = requests.recv() => Happening::Asked(request),
        () = lost => Happening::LinkLost,
        () = token.cancelled() => Happening::Closing,
    }
}

fn fail(id: SandboxId, reason: String, tell: &watch::Sender<Condition>, events: &broadcast::Sender<HostEvent>) {
    tracing::info!(sandbox = %id, reason, "sandbox failed");
    tell.send_modify(|now| *now = now.clone().failed(reason.clone()));
    let _ = events.send(HostEvent::Failed { id, reason });
}

async fn relink(parts: &Parts, machine: &dyn Machine, secret: &Secret<Vec<u8>>) -> Option<Session> {
    for _ in 0..RELINKS_MAX {
        if *machine.watch().borrow() != MachineState::Alive {
            return None;
        }
        let greeted = tokio::time::timeout(RELINK_DEADLINE, async {
            let link = machine.dial().await.ok()?;
            Session::open(link, secret.reveal(), None, &parts.scope).await.ok()
        });
        if let Ok(Some(session)) = greeted.await {
            return Some(session);
        }
        tokio::time::sleep(RELINK_PAUSE).await;
    }
    None
}

async fn take_down(
    id: SandboxId,
    undo: Option<pandastack_kit::Undo>,
    tell: &watch::Sender<Condition>,
    events: &broadcast::Sender<HostEvent>,
) {
    if let Some(session) = &tell.borrow().session {
        session.close();
    }
    tell.send_modify(|now| *now = now.clone().stopping());
    if let Some(undo) = undo {
        undo.unwind().await;
    }
    tracing::info!(sandbox = %id, "sandbox removed");
    let _ = events.send(HostEvent::Removed { id, why: RemovedBy::Request });
}
