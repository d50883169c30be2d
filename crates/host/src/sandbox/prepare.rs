//! Acquires everything that one machine needs and starts it paused: network slot, disk, folder,
//! process. Each resource is listed with its release: a failure unwinds the list, success passes it
//! on. A machine of an earlier process is taken over with the same list.
//!
//! ```text
//! machine_slot: slot, ledger line, folder   (+ empty disk, waiting process: a blank)
//! prepare: memory promised, layer recorded, disk filled, process restored
//! ```

use std::{
    collections::HashSet,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use pandastack_kit::{Scope, ScopeError, Undo};
use pandastack_layers::{DataVolume, Layer, LayerStore, Manifest, hot};
use pandastack_model::{ByteSize, Fault, LayerId, MachineId, VolumeId};
use pandastack_sys::private;
use pandastack_vmm::{
    Blank, Driver, LayerFiles, Machine, MachineLimits, MachineSpec, MachineStartError, NetworkAttachment,
};

use super::{
    admission::{AdmissionLimits, CapacityError, HostResources, VolumeCapacity, admit, admit_volume, parse_meminfo},
    fault::volume_fault,
    held::HeldMemory,
    owners::{OwnerShares, ShareTotals},
    shutdown::ShutdownDecision,
    starting::{StartingMachine, StartingMachines},
};
use crate::{
    consoles::Consoles,
    guest::GuestSession,
    ledger::{Ledger, LedgerError},
    net::{NetError, NetPool, NetSlot},
    settings::HostSettings,
    volumes::{HostVolumes, VolumeSizePermit, check_size},
};

/// A shared network slot. It is given back once.
pub type SlotHandle = Arc<tokio::sync::Mutex<Option<NetSlot>>>;

/// State of the host that every launch uses.
pub struct HostContext {
    pub driver: Arc<dyn Driver>,
    pub layers: LayerStore,
    pub volume: Arc<DataVolume>,
    pub net: Arc<NetPool>,
    pub ledger: Ledger,
    pub volumes: HostVolumes,
    pub consoles: Arc<Consoles>,
    pub run_root: PathBuf,
    pub settings: HostSettings,
    pub scope: Scope,
    pub closing: ShutdownDecision,
    /// Layers that must not be collected: they are being made or are about to be used.
    pub protected_layers: Mutex<HashSet<LayerId>>,
    /// Lock taken while a layer's references are counted or added.
    pub layer_gate: tokio::sync::Mutex<()>,
    /// Lock taken during an audit.
    pub audit_gate: Arc<tokio::sync::Mutex<()>>,
    /// Budget for sealed memory that is held until it is written, while its guest already runs.
    pub held: HeldMemory,
    /// Guest memory of all machines that exist or are being made.
    pub promised: Mutex<u64>,
    /// Admitted machines whose process does not run yet.
    pub starting: StartingMachines,
    /// Slots and memory that each owner of sandboxes uses.
    pub owners: OwnerShares,
}

/// A machine that is restored, paused and not assigned to a sandbox yet.
pub struct PreparedMachine {
    pub machine: Arc<dyn Machine>,
    pub layer: Layer,
    pub disk: PathBuf,
    pub slot: SlotHandle,
    pub undo: Undo,
    /// The link, if the machine was primed.
    pub session: Option<GuestSession>,
}

/// A machine could not be prepared; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Full(#[from] CapacityError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Start(#[from] MachineStartError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("layer {layer} was removed in the meantime")]
    Gone { layer: LayerId },
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// Size and runtime of a machine. A process that was started for a shape can restore every layer of
/// that shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MachineShape {
    memory: ByteSize,
    cpus: u8,
    disk: ByteSize,
    runtime: String,
}

impl MachineShape {
    pub fn new(memory: ByteSize, cpus: u8, disk: ByteSize, runtime: String) -> Self {
        Self { memory, cpus, disk, runtime }
    }

    pub fn of(manifest: &Manifest) -> Self {
        let Manifest { memory, cpus, disk, profile, .. } = manifest;
        Self { memory: *memory, cpus: *cpus, disk: *disk, runtime: profile.runtime.clone() }
    }
}

/// Resources of a machine: network slot, folder, ledger line and, for a blank, its process.
pub struct MachineSlot {
    pub spec: MachineSpec,
    pub slot: SlotHandle,
    pub blank: Option<Box<dyn Blank>>,
    slot_name: String,
    undo: Undo,
}

impl MachineSlot {
    /// Returns the machine's description and the list of releases. For a slot without a process.
    pub fn into_parts(self) -> (MachineSpec, Undo) {
        (self.spec, self.undo)
    }

    /// Stops the blank process, if there is one, and releases everything.
    pub async fn give_up(self) {
        if let Some(blank) = self.blank {
            blank.stop().await;
        }
        self.undo.unwind().await;
    }
}

impl HostContext {
    /// Prepares a machine from a layer, in `ahead` if a slot was made in advance.
    pub async fn prepare(
        self: &Arc<Self>,
        layer: Layer,
        ahead: Option<MachineSlot>,
    ) -> Result<PreparedMachine, PrepareError> {
        let (promise, starting) = match self.accept(&layer) {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(machine_slot) = ahead {
                    machine_slot.give_up().await;
                }
                return Err(error);
            }
        };
        self.read_ahead(layer.files.clone());
        let machine_slot = match ahead {
            Some(machine_slot) => Ok(machine_slot),
            None => self.machine_slot(&MachineShape::of(&layer.manifest), Some(&layer)).await,
        };
        let MachineSlot { spec, slot, mut blank, slot_name, mut undo } = match machine_slot {
            Ok(machine_slot) => machine_slot,
            Err(error) => {
                promise.unwind().await;
                return Err(error);
            }
        };
        undo.absorb(promise);
        let disk = spec.disk.clone();
        let started = async {
            let id = spec.id;
            if blank.is_none() {
                self.fill_disk(id, &layer).await?;
                let machine: Arc<dyn Machine> = Arc::from(self.driver.restore(spec, &layer.files).await?);
                drop(starting);
                hold_machine(&machine, &mut undo);
                self.ledger.started(id, machine.pid()).await?;
                return Ok(machine);
            }
            // The blank process already runs, so the host's free memory shows it.
            drop(starting);
            self.begin_use(id, &slot_name, Some(&layer)).await?;
            let waiting = blank.take().expect("looked at above");
            // The disk is read only once the guest runs, so both steps run at the same time.
            let (restored, filled) = tokio::join!(waiting.restore(&layer.files), self.fill_disk(id, &layer));
            let machine: Arc<dyn Machine> = Arc::from(restored?);
            hold_machine(&machine, &mut undo);
            filled?;
            Ok(machine)
        };
        let started: Result<_, PrepareError> = started.await;
        match started {
            Ok(machine) => Ok(PreparedMachine { machine, layer, disk, slot, undo, session: None }),
            Err(error) => {
                if let Some(blank) = blank {
                    blank.stop().await;
                }
                undo.unwind().await;
                Err(error)
            }
        }
    }

    /// Checks that this host can run a layer and has room for it, and counts its memory.
    fn accept(self: &Arc<Self>, layer: &Layer) -> Result<(Undo, StartingMachine), PrepareError> {
        let newest = self.driver.profile();
        let present = self.driver.profile_of(&layer.manifest.profile.runtime).unwrap_or(newest);
        if let Some((needed, present)) = layer.manifest.mismatch(&present) {
            return Err(MachineStartError::Profile { needed, present }.into());
        }
        let mut promise = Undo::new();
        let starting = self.promise(layer.manifest.memory, &mut promise)?;
        Ok((promise, starting))
    }

    /// Starts a process that waits for a layer of a shape. `None` if the driver has no blanks.
    pub async fn blank(self: &Arc<Self>, shape: &MachineShape) -> Result<Option<MachineSlot>, PrepareError> {
        let _starting = self.starting.begin();
        let mut machine_slot = self.machine_slot(shape, None).await?;
        let started = async {
            let (store, id, size) = (self.layers.clone(), machine_slot.spec.id, shape.disk);
            let reserved = self.scope.block("reserve disk", move || store.reserve(&id.to_string(), size)).await?;
            reserved.map_err(|cause| PrepareError::Io { action: "reserve a disk", cause })?;
            machine_slot.blank = self.driver.blank(machine_slot.spec.clone()).await?;
            if let Some(blank) = &machine_slot.blank {
                self.ledger.started(id, blank.pid()).await?;
            }
            Ok(())
        };
        let started: Result<(), PrepareError> = started.await;
        if started.is_err() || machine_slot.blank.is_none() {
            machine_slot.give_up().await;
            return started.map(|()| None);
        }
        Ok(Some(machine_slot))
    }

    /// Acquires what a machine needs before its process starts. A blank has no layer yet.
    pub async fn machine_slot(
        self: &Arc<Self>,
        shape: &MachineShape,
        layer: Option<&Layer>,
    ) -> Result<MachineSlot, PrepareError> {
        let mut undo = Undo::new();
        let taken = async {
            let slot = self.net.take().await?;
            let (network, name) = (slot.port(), slot.name().to_owned());
            let slot = self.hold_slot(slot, &mut undo);
            let id = MachineId::random();
            self.begin_use(id, &name, layer).await?;
            self.hold_line(id, &mut undo);
            self.hold_files(id, &mut undo);
            let spec = self.describe(id, shape, network);
            private::make_folder(&spec.run_dir)
                .map_err(|cause| PrepareError::Io { action: "create the machine's folder", cause })?;
            Ok((spec, slot, name))
        };
        match taken.await {
            Ok((spec, slot, slot_name)) => Ok(MachineSlot { spec, slot, blank: None, slot_name, undo }),
            Err(error) => {
                undo.unwind().await;
                Err(error)
            }
        }
    }

    /// Records a machine that is about to be made, and the layer that it uses. Fails if that layer
    /// was removed since it was opened.
    async fn begin_use(&self, id: MachineId, slot: &str, layer: Option<&Layer>) -> Result<(), PrepareError> {
        let _gate = self.layer_gate.lock().await;
        let used = layer.map(|layer| layer.manifest.layer);
        match used {
            Some(layer) if !self.layers.contains(layer) => Err(PrepareError::Gone { layer }),
            _ => Ok(self.ledger.intend(id, slot, used).await?),
        }
    }

    /// Reads the pages that the layer's guest had used into the page cache, in the background.
    pub fn read_ahead(&self, files: LayerFiles) {
        let scope = self.scope.clone();
        self.scope.start("read ahead", async move {
            let _ = scope.block("read ahead", move || hot::read_ahead(&files.mem, &hot::read(&files.hot))).await;
        });
    }

    /// Counts a machine's memory, if it fits. The machine counts as starting until
    /// `StartingMachine` is dropped.
    pub fn promise(self: &Arc<Self>, memory: ByteSize, undo: &mut Undo) -> Result<StartingMachine, CapacityError> {
        let settings = &self.settings;
        let terms = AdmissionLimits {
            memory_reserve: settings.memory_reserve,
            overcommit_percent: settings.overcommit_percent,
            disk_reserve: settings.disk_reserve,
        };
        let disk_free = ByteSize::new(self.volume.free_bytes());
        // Check and count under one lock, so that two callers cannot both get the last place.
        let mut promised = self.promised.lock().expect("no holder panics");
        let memory_promised = ByteSize::new(*promised);
        // Read before the free memory: a process that starts in between is then counted twice,
        // rather than not at all.
        let machines_starting = self.starting.count();
        let (memory_total, memory_free) = self.memory().unwrap_or((ByteSize::new(u64::MAX), ByteSize::new(u64::MAX)));
        let view = HostResources { memory_free, machines_starting, memory_total, memory_promised, disk_free };
        admit(&view, &terms, memory)?;
        *promised += memory.get();
        let starting = self.starting.begin();
        drop(promised);
        self.hold_promise(memory, undo);
        Ok(starting)
    }

    /// Totals that all owners of sandboxes share.
    pub fn totals(&self) -> ShareTotals {
        let memory = self.memory().map_or(u64::MAX, |(total, _)| total.get());
        let memory = ByteSize::new(memory.saturating_mul(self.settings.overcommit_percent) / 100);
        ShareTotals { slots: u64::try_from(self.net.max()).unwrap_or(u64::MAX), memory }
    }

    /// Checks that a new or grown volume has a valid size and fits. The returned `VolumeSizePermit`
    /// is exclusive, so that two callers cannot both get the last space.
    pub async fn admit_volume(&self, volume: VolumeId, size: ByteSize) -> Result<VolumeSizePermit, Fault> {
        check_size(size)?;
        let room = self.volumes.room().await;
        let others = self.volumes.list().await?.into_iter().filter(|other| other.volume != volume);
        let promised = ByteSize::new(others.map(|other| other.size.get()).sum());
        let (free, total) = (self.volume.free_bytes(), self.volume.total_bytes());
        let view = VolumeCapacity { disk_free: ByteSize::new(free), disk_total: ByteSize::new(total), promised };
        admit_volume(&view, self.settings.disk_reserve, size).map_err(|full| volume_fault(&full))?;
        Ok(room)
    }

    /// Whether memory is so short that blanks and standby machines should be removed.
    pub fn is_crowded(&self) -> bool {
        let reserve = self.settings.memory_reserve.get();
        self.memory().is_some_and(|(_, free)| free.get() < reserve.saturating_mul(2))
    }

    /// Total and available memory of the host.
    fn memory(&self) -> Option<(ByteSize, ByteSize)> {
        match &self.settings.memory {
            Some(source) => Some(source.look()),
            None => parse_meminfo(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        }
    }

    /// Counts the memory of a machine that already exists, without a check.
    pub fn promise_present(self: &Arc<Self>, memory: ByteSize, undo: &mut Undo) {
        *self.promised.lock().expect("no holder panics") += memory.get();
        self.hold_promise(memory, undo);
    }

    fn hold_promise(self: &Arc<Self>, memory: ByteSize, undo: &mut Undo) {
        let context = self.clone();
        undo.hold("promised memory", move || async move {
            *context.promised.lock().expect("no holder panics") -= memory.get();
        });
    }

    /// Adds the release of a network slot to `undo`.
    pub fn hold_slot(self: &Arc<Self>, slot: NetSlot, undo: &mut Undo) -> SlotHandle {
        let handle: SlotHandle = Arc::new(tokio::sync::Mutex::new(Some(slot)));
        let (context, given) = (self.clone(), handle.clone());
        undo.hold("network slot", move || async move {
            let Some(slot) = given.lock().await.take() else { return };
            if let Err(error) = context.net.give_back(slot).await {
                tracing::error!(%error, "could not remove a network slot");
            }
        });
        handle
    }

    /// Adds the removal of a machine's ledger line to `undo`.
    pub fn hold_line(self: &Arc<Self>, id: MachineId, undo: &mut Undo) {
        let context = self.clone();
        undo.hold("ledger line", move || async move {
            if let Err(error) = context.ledger.gone(id).await {
                tracing::error!(%error, "could not remove a ledger line");
            }
        });
    }

    /// Adds the removal of a machine's folder and disk to `undo`.
    pub fn hold_files(self: &Arc<Self>, id: MachineId, undo: &mut Undo) {
        let (context, folder) = (self.clone(), self.run_root.join(id.to_string()));
        undo.hold("machine folder", move || async move {
            let _ = std::fs::remove_dir_all(folder);
        });
        undo.hold("disk", move || async move { context.layers.discard(&id.to_string()) });
    }

    /// Builds a machine's spec, the same for a start and for a later adoption.
    pub fn describe(&self, id: MachineId, shape: &MachineShape, network: NetworkAttachment) -> MachineSpec {
        MachineSpec {
            id,
            memory: shape.memory,
            cpus: shape.cpus,
            disk: self.layers.disk(&id.to_string()),
            run_dir: self.run_root.join(id.to_string()),
            network,
            runtime: Some(shape.runtime.clone()),
            limits: MachineLimits::of(shape.memory, shape.cpus),
        }
    }

    async fn fill_disk(self: &Arc<Self>, id: MachineId, layer: &Layer) -> Result<(), PrepareError> {
        let (store, layer) = (self.layers.clone(), layer.clone());
        let filled = self.scope.block("overlay", move || store.overlay(&layer, &id.to_string())).await?;
        filled.map(drop).map_err(|cause| PrepareError::Io { action: "copy the layer's disk", cause })
    }
}

/// Adds the stop of a machine to `undo`. The last entry is released first, so the machine stops
/// before its resources are released.
pub fn hold_machine(machine: &Arc<dyn Machine>, undo: &mut Undo) {
    let stopping = machine.clone();
    undo.hold("machine", move || async move { stopping.stop().await });
}
