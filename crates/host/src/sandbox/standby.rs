//! Keeps machines ready: restored, primed, paused. A create from one needs only a resume and a
//! rebirth. Every template has a shelf, from the host's start or from its first use. Launches go
//! before refilling. The same task keeps the [`Blanks`], after the shelves.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use pandastack_layers::LayerStore;
use pandastack_model::{LayerId, TemplateName};
use pandastack_vmm::MachineState;
use tokio::sync::Notify;

use super::{
    admission::CapacityError,
    blanks::Blanks,
    launch::{LaunchError, death},
    prepare::{HostContext, PreparedMachine},
    prime::prime,
};
use crate::settings::HostSettings;

/// Quiet time after a create before refilling starts, so that it does not compete with the next
/// one.
const SETTLE: Duration = Duration::from_millis(40);

/// Pause after a failed attempt.
const RETRY: Duration = Duration::from_secs(5);

/// Interval of the checks for short memory and dead machines while the shelves are full. A dead
/// machine is replaced no sooner, so that one that always dies does not keep the host busy.
const LOOK: Duration = Duration::from_secs(2);

/// The standby machines of a host: its warm pool.
pub struct StandbyPool {
    shelves: Mutex<HashMap<LayerId, LayerStandby>>,
    launching: Mutex<usize>,
    /// Lock held while a machine or a blank is added: it already uses memory, but cannot be removed
    /// before it is on its shelf.
    adding: tokio::sync::Mutex<()>,
    bell: Notify,
    wanted: usize,
    warm: BTreeMap<TemplateName, usize>,
    pub blanks: Blanks,
}

/// The machines of one layer.
#[derive(Default)]
struct LayerStandby {
    machines: VecDeque<PreparedMachine>,
    wanted: usize,
}

/// Held by a launch in progress.
pub struct LaunchGuard<'a>(&'a StandbyPool);

impl StandbyPool {
    /// Makes an empty shelf for every template there is.
    pub fn new(settings: &HostSettings, layers: &LayerStore) -> Self {
        let (wanted, warm) = (settings.standby, settings.warm.clone());
        let (launching, blanks) = (Mutex::new(0), Blanks::new(settings.blanks, layers));
        let (adding, bell) = (tokio::sync::Mutex::default(), Notify::new());
        let standby = Self { shelves: Mutex::default(), launching, adding, bell, wanted, warm, blanks };
        for (template, layer) in layers.templates() {
            standby.locked().insert(layer, standby.shelf(&template));
        }
        standby
    }

    fn shelf(&self, template: &TemplateName) -> LayerStandby {
        let wanted = self.warm.get(template).copied().unwrap_or(self.wanted);
        LayerStandby { machines: VecDeque::new(), wanted }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<LayerId, LayerStandby>> {
        self.shelves.lock().expect("no holder panics")
    }

    /// Takes a living standby machine of a template's layer, and gives the layer a shelf if it has
    /// none. Also returns the dead machines found on the way.
    pub fn take(&self, template: &TemplateName, layer: LayerId) -> (Option<PreparedMachine>, Vec<PreparedMachine>) {
        let mut shelves = self.locked();
        let shelf = shelves.entry(layer).or_insert_with(|| self.shelf(template));
        shelf.wanted = shelf.wanted.max(self.shelf(template).wanted);
        let mut dead = Vec::new();
        let taken = loop {
            match shelf.machines.pop_front() {
                Some(prepared) if !is_alive(&prepared) => dead.push(prepared),
                other => break other,
            }
        };
        self.bell.notify_one();
        (taken, dead)
    }

    /// Takes the dead machines off their shelves.
    fn take_dead(&self) -> VecDeque<PreparedMachine> {
        let mut all = VecDeque::new();
        for shelf in self.locked().values_mut() {
            let (alive, dead): (VecDeque<_>, _) = std::mem::take(&mut shelf.machines).into_iter().partition(is_alive);
            shelf.machines = alive;
            all.extend(dead);
        }
        all
    }

    /// Gives every template a shelf, and removes the shelves of layers that no template names any
    /// more, because it was baked again. Returns the machines of the removed shelves.
    fn restock(&self, layers: &LayerStore) -> Vec<PreparedMachine> {
        let templates = layers.templates();
        let mut shelves = self.locked();
        for (template, layer) in &templates {
            shelves.entry(*layer).or_insert_with(|| self.shelf(template));
        }
        let is_named = |layer: &LayerId| templates.iter().any(|(_, named)| named == layer);
        let retired = shelves.extract_if(|layer, _| !is_named(layer));
        retired.flat_map(|(_, shelf)| shelf.machines).collect()
    }

    /// Takes a standby machine off the fullest shelf, to free its memory.
    fn yield_one(&self) -> Option<PreparedMachine> {
        self.locked().values_mut().max_by_key(|shelf| shelf.machines.len())?.machines.pop_back()
    }

    /// Frees memory for a machine that does not fit, and returns whether to try again. Blanks go
    /// first, because they save the least time. Nothing is removed if that would not help.
    pub async fn make_room(&self, full: &CapacityError, launching: &LaunchGuard<'_>) -> bool {
        let blank = match full {
            CapacityError::Memory { .. } => self.blanks.yield_one(),
            // Blanks have no guest memory promised.
            CapacityError::Promises { .. } => None,
            CapacityError::Disk { .. } | CapacityError::Volumes { .. } => return false,
        };
        if let Some(machine_slot) = blank {
            tracing::info!(%full, "removed a blank machine to free memory");
            machine_slot.give_up().await;
            return true;
        }
        if let Some(prepared) = self.yield_one() {
            tracing::info!(%full, "removed a standby machine to make room");
            prepared.undo.unwind().await;
            return true;
        }
        self.settled(launching).await
    }

    /// Waits for an addition in progress, so that it can be removed; returns whether there was one.
    /// The caller is launching, so nothing else is added meanwhile.
    async fn settled(&self, _launching: &LaunchGuard<'_>) -> bool {
        let adding = self.adding.try_lock().is_err();
        if adding {
            drop(self.adding.lock().await);
        }
        adding
    }

    /// Counts the machines on all shelves.
    pub fn count(&self) -> usize {
        self.locked().values().map(|shelf| shelf.machines.len()).sum()
    }

    /// Registers a launch in progress. Refilling waits until there is none.
    pub fn launching(&self) -> LaunchGuard<'_> {
        *self.launching.lock().expect("no holder panics") += 1;
        LaunchGuard(self)
    }

    /// Fills the shelves until the host closes, then empties them. Removes machines while memory is
    /// short.
    pub async fn keep_filled(self: Arc<Self>, context: Arc<HostContext>) {
        let token = context.scope.token();
        loop {
            let died = self.clear_dead().await;
            let pause = if context.is_crowded() {
                self.give_way(&context).await;
                Some(LOOK)
            } else if died {
                Some(LOOK)
            } else {
                let _adding = self.adding.lock().await;
                // Checked under the lock, because a launch in progress may be waiting for that
                // lock.
                let is_free = *self.launching.lock().expect("no holder panics") == 0;
                if is_free { self.add_one(&context).await } else { None }
            };
            let woken = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => {
                        let _ = tokio::time::timeout(LOOK, self.bell.notified()).await;
                        tokio::time::sleep(SETTLE).await;
                    }
                }
            };
            tokio::select! {
                () = woken => {}
                () = token.cancelled() => break,
            }
        }
        let shelves = std::mem::take(&mut *self.locked());
        for prepared in shelves.into_values().flat_map(|shelf| shelf.machines) {
            prepared.undo.unwind().await;
        }
        for machine_slot in self.blanks.take_all() {
            machine_slot.give_up().await;
        }
    }

    /// Releases machines and blanks that died on their shelves; returns whether there were any.
    async fn clear_dead(&self) -> bool {
        let (machines, blanks) = (self.take_dead(), self.blanks.take_dead());
        let died = machines.len() + blanks.len();
        if died > 0 {
            tracing::warn!(
                machines = machines.len(),
                blanks = blanks.len(),
                "standby machines or blanks ended; starting others"
            );
        }
        for prepared in machines {
            prepared.undo.unwind().await;
        }
        for machine_slot in blanks {
            machine_slot.give_up().await;
        }
        died > 0
    }

    /// Removes one blank or machine because memory is short. Blanks go first: they save the least
    /// time.
    async fn give_way(&self, context: &Arc<HostContext>) {
        if let Some(machine_slot) = self.blanks.yield_one() {
            machine_slot.give_up().await;
        } else if let Some(prepared) = self.yield_one() {
            tracing::info!("memory is short: removed a standby machine");
            prepared.undo.unwind().await;
        } else {
            tracing::trace!(
                promised = *context.promised.lock().expect("no holder panics"),
                "no standby machine is left to remove"
            );
        }
    }

    /// Adds one missing machine or blank, and returns how long to wait. `None` if none is missing.
    async fn add_one(&self, context: &Arc<HostContext>) -> Option<Duration> {
        for prepared in self.restock(&context.layers) {
            tracing::info!("a template was baked again: removed a standby machine of the old one");
            prepared.undo.unwind().await;
        }
        if let Some(layer) = self.next_short() {
            return Some(if self.add(context, layer).await { SETTLE } else { RETRY });
        }
        if let Some(machine_slot) = self.blanks.take_stale() {
            machine_slot.give_up().await;
        }
        let shape = self.blanks.next_short()?;
        match context.blank(&shape).await {
            Ok(Some(machine_slot)) => self.blanks.put(shape, machine_slot),
            Ok(None) => self.blanks.want_none(),
            Err(error) => {
                tracing::warn!(%error, "could not start a blank machine; trying again later");
                return Some(RETRY);
            }
        }
        Some(SETTLE)
    }

    fn next_short(&self) -> Option<LayerId> {
        let shelves = self.locked();
        let short = shelves.iter().filter(|(_, shelf)| shelf.machines.len() < shelf.wanted);
        short.min_by_key(|(_, shelf)| shelf.machines.len()).map(|(layer, _)| *layer)
    }

    async fn add(&self, context: &Arc<HostContext>, layer: LayerId) -> bool {
        let (store, scope) = (context.layers.clone(), context.scope.clone());
        let opened = scope.block("open layer", move || store.open_layer(layer)).await;
        let layer = match opened {
            Ok(Ok(layer)) => layer,
            Ok(Err(error)) => {
                tracing::warn!(%error, "no standby machines for this layer");
                if let Some(shelf) = self.locked().get_mut(&layer) {
                    shelf.wanted = 0;
                }
                return true;
            }
            Err(_) => return false,
        };
        let id = layer.manifest.layer;
        let mut prepared = match context.prepare(layer, None).await {
            Ok(prepared) => prepared,
            Err(error) => {
                tracing::warn!(%error, "could not prepare a standby machine; trying again later");
                return false;
            }
        };
        let (token, machine) = (context.scope.token(), prepared.machine.clone());
        let primed = tokio::select! {
            primed = prime(context, &mut prepared) => primed,
            reason = death(&*machine) => Err(LaunchError::Died { reason }),
            () = token.cancelled() => Err(LaunchError::Abandoned),
        };
        if let Err(error) = primed {
            tracing::warn!(%error, "could not prime a standby machine; trying again later");
            prepared.undo.unwind().await;
            return false;
        }
        match self.locked().get_mut(&id) {
            Some(shelf) => {
                shelf.machines.push_back(prepared);
                return true;
            }
            None => tracing::debug!(layer = %id, "the shelf is gone"),
        }
        prepared.undo.unwind().await;
        true
    }
}

impl Drop for LaunchGuard<'_> {
    fn drop(&mut self) {
        *self.0.launching.lock().expect("no holder panics") -= 1;
        self.0.bell.notify_one();
    }
}

fn is_alive(prepared: &PreparedMachine) -> bool {
    *prepared.machine.watch().borrow() == MachineState::Alive
}
