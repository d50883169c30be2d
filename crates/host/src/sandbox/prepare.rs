//! Acquires what one machine needs and starts it paused: network slot, disk, folder, process. Each thing acquired is
//! remembered with its release; failure unwinds, success hands the list on. A machine of an earlier process is taken over
//! with the very same list.

use std::{
    collections::HashSet,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use pandastack_kit::{Scope, ScopeError, Undo};
use pandastack_layers::{Layer, LayerStore, Volume, hot};
use pandastack_model::{Bytes, LayerId, MachineId};
use pandastack_vmm::{Driver, Machine, MachineLimits, MachineSpec, NetworkPort, StartError};

use super::{
    admission::{Full, Terms, View, admit, parse_meminfo},
    closing::Closing,
};
use crate::{
    guest::Session,
    ledger::{Ledger, LedgerError},
    net::{NetError, NetPool, Slot},
    settings::HostSettings,
    volumes::Volumes,
};

/// A network slot that several may look at and one gives back.
pub type SlotHandle = Arc<tokio::sync::Mutex<Option<Slot>>>;

/// What every launch on this host works with.
pub struct Parts {
    pub driver: Arc<dyn Driver>,
    pub layers: LayerStore,
    pub volume: Arc<Volume>,
    pub net: Arc<NetPool>,
    pub ledger: Ledger,
    pub volumes: Volumes,
    pub run_root: PathBuf,
    pub settings: HostSettings,
    pub scope: Scope,
    pub closing: Closing,
    /// Layers that somebody is about to start machines from.
    pub in_hand: Mutex<HashSet<LayerId>>,
    /// Held by who decides that a layer is not used, and by who begins to use one.
    pub layer_gate: tokio::sync::Mutex<()>,
    /// Guest memory of all machines that exist or are being made.
    pub promised: Mutex<u64>,
}

/// A machine that is loaded, paused and nobody's yet.
pub struct Prepared {
    pub machine: Arc<dyn Machine>,
    pub layer: Layer,
    pub disk: PathBuf,
    pub slot: SlotHandle,
    pub undo: Undo,
    /// The link, if the machine was primed.
    pub session: Option<Session>,
}

/// A machine could not be prepared; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error(transparent)]
    Full(#[from] Full),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("layer {layer} was removed meanwhile")]
    Gone { layer: LayerId },
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        cause: io::Error,
    },
}

impl Parts {
    /// Prepares a machine from a layer.
    pub async fn prepare(self: &Arc<Self>, layer: Layer) -> Result<Prepared, PrepareError> {
        let newest = self.driver.profile();
        let present = self.driver.profile_of(&layer.manifest.profile.runtime).unwrap_or(newest);
        if let Some((needed, present)) = layer.manifest.mismatch(&present) {
            return Err(StartError::Profile { needed, present }.into());
        }
        self.warm_up(&layer);
        let mut undo = Undo::new();
        let acquired = async {
            self.promise(layer.manifest.memory, &mut undo)?;
            let slot = self.net.take().await?;
            let (network, name) = (slot.port(), slot.name().to_owned());
            let slot = self.hold_slot(slot, &mut undo);
            let id = MachineId::random();
            self.begin_use(id, &name, &layer).await?;
            self.hold_line(id, &mut undo);
            let spec = self.place(id, &layer, network, &mut undo).await?;
            let disk = spec.disk.clone();
            let machine: Arc<dyn Machine> = Arc::from(self.driver.restore(spec, &layer.files).await?);
            hold_machine(&machine, &mut undo);
            self.ledger.started(id, machine.pid()).await?;
            Ok((machine, slot, disk))
        };
        match acquired.await {
            Ok((machine, slot, disk)) => Ok(Prepared { machine, layer, disk, slot, undo, session: None }),
            Err(error) => {
                undo.unwind().await;
                Err(error)
            }
        }
    }

    /// Writes down that a machine is about to be made from a layer, unless the layer has gone since it was opened.
    async fn begin_use(&self, id: MachineId, slot: &str, layer: &Layer) -> Result<(), PrepareError> {
        let _gate = self.layer_gate.lock().await;
        let used = layer.manifest.layer;
        if !self.layers.contains(used) {
            return Err(PrepareError::Gone { layer: used });
        }
        Ok(self.ledger.intend(id, slot, used).await?)
    }

    /// Reads ahead what the layer's guest had used, beside everything else that a start has to do.
    fn warm_up(&self, layer: &Layer) {
        let (scope, files) = (self.scope.clone(), layer.files.clone());
        self.scope.start("read ahead", async move {
            let _ = scope.block("read ahead", move || hot::read_ahead(&files.mem, &hot::read(&files.hot))).await;
        });
    }

    /// Counts a machine's memory, if it fits.
    pub fn promise(self: &Arc<Self>, memory: Bytes, undo: &mut Undo) -> Result<(), Full> {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let (total, free) = parse_meminfo(&meminfo).unwrap_or((Bytes::new(u64::MAX), Bytes::new(u64::MAX)));
        let settings = &self.settings;
        let terms = Terms {
            memory_reserve: settings.memory_reserve,
            overcommit_percent: settings.overcommit_percent,
            disk_reserve: settings.disk_reserve,
        };
        let disk_free = Bytes::new(self.volume.free_bytes());
        // Looked at and counted under one lock, so that two at a time cannot both get the last place.
        let mut promised = self.promised.lock().expect("no holder panics");
        let memory_promised = Bytes::new(*promised);
        admit(&View { memory_free: free, memory_total: total, memory_promised, disk_free }, &terms, memory)?;
        *promised += memory.get();
        drop(promised);
        self.hold_promise(memory, undo);
        Ok(())
    }

    /// Tells whether memory is so short that machines nobody uses should go.
    pub fn is_crowded(&self) -> bool {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let reserve = self.settings.memory_reserve.get();
        parse_meminfo(&meminfo).is_some_and(|(_, free)| free.get() < reserve.saturating_mul(2))
    }

    /// Counts the memory of a machine that is already there.
    pub fn promise_present(self: &Arc<Self>, memory: Bytes, undo: &mut Undo) {
        *self.promised.lock().expect("no holder panics") += memory.get();
        self.hold_promise(memory, undo);
    }

    fn hold_promise(self: &Arc<Self>, memory: Bytes, undo: &mut Undo) {
        let parts = self.clone();
        undo.hold("promised memory", move || async move {
            *parts.promised.lock().expect("no holder panics") -= memory.get();
        });
    }

    /// Remembers to give a slot back.
    pub fn hold_slot(self: &Arc<Self>, slot: Slot, undo: &mut Undo) -> SlotHandle {
        let handle: SlotHandle = Arc::new(tokio::sync::Mutex::new(Some(slot)));
        let (parts, given) = (self.clone(), handle.clone());
        undo.hold("network slot", move || async move {
            let Some(slot) = given.lock().await.take() else { return };
            if let Err(error) = parts.net.give_back(slot).await {
                tracing::error!(%error, "network slot not removed");
            }
        });
        handle
    }

    /// Remembers to take a machine off the ledger.
    pub fn hold_line(self: &Arc<Self>, id: MachineId, undo: &mut Undo) {
        let parts = self.clone();
        undo.hold("ledger line", move || async move {
            if let Err(error) = parts.ledger.gone(id).await {
                tracing::error!(%error, "ledger line not removed");
            }
        });
    }

    /// Remembers to remove a machine's folder and disk.
    pub fn hold_files(self: &Arc<Self>, id: MachineId, undo: &mut Undo) {
        let (parts, folder) = (self.clone(), self.run_root.join(id.to_string()));
        undo.hold("machine folder", move || async move {
            let _ = std::fs::remove_dir_all(folder);
        });
        undo.hold("disk", move || async move { parts.layers.discard(&id.to_string()) });
    }

    /// Describes a machine of this host; the same words for a start and for a later adoption.
    pub fn describe(&self, id: MachineId, layer: &Layer, network: NetworkPort) -> MachineSpec {
        let manifest = &layer.manifest;
        MachineSpec {
            id,
            memory: manifest.memory,
            cpus: manifest.cpus,
            disk: self.layers.disk(&id.to_string()),
            run_dir: self.run_root.join(id.to_string()),
            network,
            runtime: Some(manifest.profile.runtime.clone()),
            limits: MachineLimits::of(manifest.memory, manifest.cpus),
        }
    }

    async fn place(
        self: &Arc<Self>,
        id: MachineId,
        layer: &Layer,
        network: NetworkPort,
        undo: &mut Undo,
    ) -> Result<MachineSpec, PrepareError> {
        let spec = self.describe(id, layer, network);
        self.hold_files(id, undo);
        std::fs::create_dir_all(&spec.run_dir)
            .map_err(|cause| PrepareError::Io { action: "make the machine's folder", cause })?;
        let (parts, layer) = (self.clone(), layer.clone());
        let disk = self.scope.block("overlay", move || parts.layers.overlay(&layer, &id.to_string())).await?;
        disk.map_err(|cause| PrepareError::Io { action: "copy the layer's disk", cause })?;
        Ok(spec)
    }
}

/// Remembers to stop a machine: first of all, since everything else is in use until then.
pub fn hold_machine(machine: &Arc<dyn Machine>, undo: &mut Undo) {
    let stopping = machine.clone();
    undo.hold("machine", move || async move { stopping.stop().await });
}
