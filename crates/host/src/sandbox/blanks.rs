//! Blanks: processes that wait for a layer, grouped by the shape of their machine. A fork, a wake
//! and a create without a standby machine take one and save most of a process's start. They hold no
//! guest memory. [`super::Standby`] makes them when it has nothing else to do.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use pandastack_layers::{LayerStore, Manifest};
use pandastack_vmm::MachineState;

use super::prepare::{MachineShape, MachineSlot};

/// Maximum number of shapes with blanks: the most recently used ones.
const SHAPES_MAX: usize = 4;

/// The blank processes of a host.
pub struct Blanks {
    /// Blanks for each shape. 0 if the driver does not support them.
    wanted: AtomicUsize,
    /// Most recently used shape first.
    recent: Mutex<VecDeque<MachineShape>>,
    shelves: Mutex<HashMap<MachineShape, VecDeque<MachineSlot>>>,
}

impl Blanks {
    /// Starts with the shapes of all templates.
    pub fn new(wanted: usize, layers: &LayerStore) -> Self {
        let blanks = Self { wanted: AtomicUsize::new(wanted), recent: Mutex::default(), shelves: Mutex::default() };
        for (_, layer) in layers.templates() {
            if let Ok(manifest) = layers.manifest(layer) {
                blanks.remember(MachineShape::of(&manifest));
            }
        }
        blanks
    }

    /// Takes a living blank that fits a layer, and marks its shape as used. Also returns the dead
    /// ones found on the way.
    pub fn take(&self, manifest: &Manifest) -> (Option<MachineSlot>, Vec<MachineSlot>) {
        let shape = MachineShape::of(manifest);
        let mut dead = Vec::new();
        let taken = {
            let mut shelves = self.shelves();
            let shelf = shelves.get_mut(&shape);
            shelf.and_then(|shelf| {
                loop {
                    match shelf.pop_front() {
                        Some(machine_slot) if !is_alive(&machine_slot) => dead.push(machine_slot),
                        other => break other,
                    }
                }
            })
        };
        self.remember(shape);
        (taken, dead)
    }

    /// Takes the blanks that died.
    pub fn take_dead(&self) -> VecDeque<MachineSlot> {
        let mut all = VecDeque::new();
        for shelf in self.shelves().values_mut() {
            let (alive, dead): (VecDeque<_>, _) = std::mem::take(shelf).into_iter().partition(is_alive);
            *shelf = alive;
            all.extend(dead);
        }
        all
    }

    /// Takes a blank of the least recently used shape.
    pub fn yield_one(&self) -> Option<MachineSlot> {
        let recent = self.recent().clone();
        let mut shelves = self.shelves();
        let stale = shelves.keys().find(|shape| !recent.contains(shape)).cloned();
        let oldest = stale.into_iter().chain(recent.into_iter().rev());
        oldest.into_iter().find_map(|shape| shelves.get_mut(&shape)?.pop_back())
    }

    /// Takes a blank of a shape that is no longer kept.
    pub fn take_stale(&self) -> Option<MachineSlot> {
        let recent = self.recent().clone();
        let mut shelves = self.shelves();
        shelves.retain(|_, shelf| !shelf.is_empty());
        shelves.iter_mut().find(|(shape, _)| !recent.contains(shape))?.1.pop_back()
    }

    /// Returns a shape that has too few blanks.
    pub fn next_short(&self) -> Option<MachineShape> {
        let recent = self.recent().clone();
        let shelves = self.shelves();
        let count = |shape: &MachineShape| shelves.get(shape).map_or(0, VecDeque::len);
        recent.into_iter().find(|shape| count(shape) < self.wanted.load(Ordering::Relaxed))
    }

    /// Puts a blank on its shelf.
    pub fn put(&self, shape: MachineShape, machine_slot: MachineSlot) {
        self.shelves().entry(shape).or_default().push_back(machine_slot);
    }

    /// Counts all blanks.
    pub fn count(&self) -> usize {
        self.shelves().values().map(VecDeque::len).sum()
    }

    /// Takes all blanks.
    pub fn take_all(&self) -> Vec<MachineSlot> {
        std::mem::take(&mut *self.shelves()).into_values().flatten().collect()
    }

    /// Records that the driver does not support blanks.
    pub fn want_none(&self) {
        self.wanted.store(0, Ordering::Relaxed);
    }

    fn remember(&self, shape: MachineShape) {
        let mut recent = self.recent();
        recent.retain(|known| *known != shape);
        recent.push_front(shape);
        recent.truncate(SHAPES_MAX);
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<MachineShape>> {
        self.recent.lock().expect("no holder panics")
    }

    fn shelves(&self) -> MutexGuard<'_, HashMap<MachineShape, VecDeque<MachineSlot>>> {
        self.shelves.lock().expect("no holder panics")
    }
}

fn is_alive(machine_slot: &MachineSlot) -> bool {
    machine_slot.blank.as_ref().is_some_and(|blank| *blank.watch().borrow() == MachineState::Alive)
}
