//! Machines kept ready: restored, primed, paused. A create from one is only a resume and a rebirth.
//! Every template has a shelf, from the host's start or from its first use; under burst, creates go first and refilling waits.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use pandastack_model::LayerId;
use pandastack_vmm::MachineState;
use tokio::sync::Notify;

use super::{
    launch::{LaunchError, death},
    prepare::{Parts, Prepared},
    prime::prime,
};

/// Quiet time after a create before refilling starts, so that it does not compete with the next one.
const SETTLE: Duration = Duration::from_millis(40);

/// After a failed attempt.
const RETRY: Duration = Duration::from_secs(5);

/// The standby machines of a host.
pub struct Standby {
    shelves: Mutex<HashMap<LayerId, VecDeque<Prepared>>>,
    launching: Mutex<usize>,
    bell: Notify,
    wanted: usize,
}

/// Held by a create while it is under way.
pub struct Launching<'a>(&'a Standby);

impl Standby {
    /// Makes empty shelves.
    pub fn new(wanted: usize) -> Self {
        Self { shelves: Mutex::default(), launching: Mutex::new(0), bell: Notify::new(), wanted }
    }

    /// Takes a living standby machine of a layer; from now on the layer has a shelf.
    pub fn take(&self, layer: LayerId) -> (Option<Prepared>, Vec<Prepared>) {
        let mut shelves = self.shelves.lock().expect("no holder panics");
        let shelf = shelves.entry(layer).or_default();
        let mut dead = Vec::new();
        let taken = loop {
            match shelf.pop_front() {
                Some(prepared) if *prepared.machine.watch().borrow() != MachineState::Alive => dead.push(prepared),
                other => break other,
            }
        };
        self.bell.notify_one();
        (taken, dead)
    }

    /// Gives a layer a shelf before its first use.
    pub fn expect(&self, layer: LayerId) {
        self.shelves.lock().expect("no holder panics").entry(layer).or_default();
        self.bell.notify_one();
    }

    /// Counts the machines on all shelves.
    pub fn count(&self) -> usize {
        self.shelves.lock().expect("no holder panics").values().map(VecDeque::len).sum()
    }

    /// Notes a create under way; refilling waits for all of them.
    pub fn launching(&self) -> Launching<'_> {
        *self.launching.lock().expect("no holder panics") += 1;
        Launching(self)
    }

    /// Fills shelves until told to stop, then empties them.
    pub async fn keep_filled(self: Arc<Self>, parts: Arc<Parts>) {
        let token = parts.scope.token();
        loop {
            let pause = match self.next_short() {
                None => None,
                Some(_) if *self.launching.lock().expect("no holder panics") > 0 => None,
                Some(layer) => Some(if self.add(&parts, layer).await { SETTLE } else { RETRY }),
            };
            let woken = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => {
                        self.bell.notified().await;
                        tokio::time::sleep(SETTLE).await;
                    }
                }
            };
            tokio::select! {
                () = woken => {}
                () = token.cancelled() => break,
            }
        }
        let shelves = std::mem::take(&mut *self.shelves.lock().expect("no holder panics"));
        for prepared in shelves.into_values().flatten() {
            prepared.undo.unwind().await;
        }
    }

    fn next_short(&self) -> Option<LayerId> {
        let shelves = self.shelves.lock().expect("no holder panics");
        shelves
            .iter()
            .filter(|(_, shelf)| shelf.len() < self.wanted)
            .min_by_key(|(_, shelf)| shelf.len())
            .map(|(layer, _)| *layer)
    }

    async fn add(&self, parts: &Arc<Parts>, layer: LayerId) -> bool {
        let (store, scope) = (parts.layers.clone(), parts.scope.clone());
        let opened = scope.block("open layer", move || store.open_layer(layer)).await;
        let layer = match opened {
            Ok(Ok(layer)) => layer,
            Ok(Err(error)) => {
                tracing::warn!(%error, "no standby machines for this layer");
                self.shelves.lock().expect("no holder panics").remove(&layer);
                return true;
            }
            Err(_) => return false,
        };
        let id = layer.manifest.layer;
        let mut prepared = match parts.prepare(layer).await {
            Ok(prepared) => prepared,
            Err(error) => {
                tracing::warn!(%error, "standby machine not prepared; trying again later");
                return false;
            }
        };
        let (token, machine) = (parts.scope.token(), prepared.machine.clone());
        let primed = tokio::select! {
            primed = prime(parts, &mut prepared) => primed,
            reason = death(&*machine) => Err(LaunchError::Died { reason }),
            () = token.cancelled() => Err(LaunchError::Abandoned),
        };
        if let Err(error) = primed {
            tracing::warn!(%error, "standby machine not primed; trying again later");
            prepared.undo.unwind().await;
            return false;
        }
        self.shelves.lock().expect("no holder panics").entry(id).or_default().push_back(prepared);
        true
    }
}

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        *self.0.launching.lock().expect("no holder panics") -= 1;
        self.0.bell.notify_one();
    }
}
