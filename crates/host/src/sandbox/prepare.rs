//! Acquires what one machine needs and starts it paused: network slot, disk, folder, process. Each thing acquired is
//! remembered with its release; failure unwinds, success hands the list on.

use std::{io, path::PathBuf, sync::Arc};

use pandastack_kit::{Scope, ScopeError, Undo};
use pandastack_layers::{Layer, LayerStore, Volume};
use pandastack_model::{Bytes, MachineId};
use pandastack_vmm::{Driver, Machine, MachineLimits, MachineSpec, StartError};

use crate::{
    guest::Session,
    ledger::{Ledger, LedgerError},
    net::{NetError, NetPool},
    settings::HostSettings,
};

/// What every launch on this host works with.
pub struct Parts {
    pub driver: Arc<dyn Driver>,
    pub layers: LayerStore,
    pub volume: Arc<Volume>,
    pub net: Arc<NetPool>,
    pub ledger: Ledger,
    pub run_root: PathBuf,
    pub settings: HostSettings,
    pub scope: Scope,
}

/// A machine that is loaded, paused and nobody's yet.
pub struct Prepared {
    pub machine: Arc<dyn Machine>,
    pub layer: Layer,
    pub undo: Undo,
    /// The link, if the machine was primed.
    pub session: Option<Session>,
}

/// A machine could not be prepared; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error("only {free} are free on the data volume")]
    NoDisk { free: Bytes },
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
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
        if let Some((needed, present)) = layer.manifest.mismatch(&self.driver.profile()) {
            return Err(StartError::Profile { needed, present }.into());
        }
        let free = Bytes::new(self.volume.free_bytes());
        if free < self.settings.disk_reserve {
            return Err(PrepareError::NoDisk { free });
        }
        let mut undo = Undo::new();
        match self.acquire(&layer, &mut undo).await {
            Ok(machine) => Ok(Prepared { machine, layer, undo, session: None }),
            Err(error) => {
                undo.unwind().await;
                Err(error)
            }
        }
    }

    async fn acquire(self: &Arc<Self>, layer: &Layer, undo: &mut Undo) -> Result<Arc<dyn Machine>, PrepareError> {
        let id = MachineId::random();
        let slot = self.net.take().await?;
        let (network, slot_name) = (slot.port(), slot.name().to_owned());
        let parts = self.clone();
        undo.hold("network slot", move || async move {
            if let Err(error) = parts.net.give_back(slot).await {
                tracing::error!(%error, "network slot not removed");
            }
        });
        self.ledger.intend(id, &slot_name, layer.manifest.layer).await?;
        let parts = self.clone();
        undo.hold("ledger line", move || async move {
            if let Err(error) = parts.ledger.gone(&id.to_string()).await {
                tracing::error!(%error, "ledger line not removed");
            }
        });
        let (run_dir, disk) = self.place(id, layer, undo).await?;
        let manifest = &layer.manifest;
        let spec = MachineSpec {
            id,
            memory: manifest.memory,
            cpus: manifest.cpus,
            disk,
            run_dir,
            network,
            runtime: Some(manifest.profile.runtime.clone()),
            volumes: Vec::new(),
            limits: MachineLimits::of(manifest.memory, manifest.cpus),
        };
        let machine: Arc<dyn Machine> = Arc::from(self.driver.restore(spec, &layer.files).await?);
        let stopping = machine.clone();
        undo.hold("machine", move || async move { stopping.stop().await });
        self.ledger.started(id, machine.pid()).await?;
        Ok(machine)
    }

    async fn place(
        self: &Arc<Self>,
        id: MachineId,
        layer: &Layer,
        undo: &mut Undo,
    ) -> Result<(PathBuf, PathBuf), PrepareError> {
        let run_dir = self.run_root.join(id.to_string());
        std::fs::create_dir_all(&run_dir)
            .map_err(|cause| PrepareError::Io { action: "make the machine's folder", cause })?;
        let folder = run_dir.clone();
        undo.hold("machine folder", move || async move {
            let _ = std::fs::remove_dir_all(folder);
        });
        let parts = self.clone();
        undo.hold("disk", move || async move { parts.layers.discard(&id.to_string()) });
        let (parts, layer) = (self.clone(), layer.clone());
        let disk = self.scope.block("overlay", move || parts.layers.overlay(&layer, &id.to_string())).await?;
        Ok((run_dir, disk.map_err(|cause| PrepareError::Io { action: "copy the template's disk", cause })?))
    }
}
