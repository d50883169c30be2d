//! Recovers at the host's start: takes over what an earlier process of the same data folder left,
//! and removes what was half-made or has no owner. The ledger gives the intent; the host shows what
//! is left.
//!
//! ```text
//! ledger says       machine lives          machine gone
//! creating          end it, forget         forget
//! waking            take it over           failed      (1)
//! running, paused   take it over           failed
//! hibernated        end it (half a wake)   asleep
//! stopping          finish the removal     finish the removal
//! failed            end it                 failed
//! (1) only with a writable volume; others stay recorded as hibernated until they run
//! ```

mod leftovers;
mod plan;
mod take_over;

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use pandastack_layers::LayerStore;

use crate::{
    ledger::{Ledger, LedgerError},
    net::{NetError, sweep},
};

pub use leftovers::{folders, groups, machine_processes, remove_group};
pub use plan::RecoveryPlan;
pub use take_over::take_over;

/// Result of a recovery: what was found, taken over and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Sandboxes whose machines were taken over as they ran.
    pub adopted: usize,
    /// Sandboxes that sleep.
    pub asleep: usize,
    /// Machine processes that were ended.
    pub machines: usize,
    pub disks: usize,
    pub folders: usize,
}

impl RecoveryReport {
    /// Whether the earlier process left nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The host cannot recover from its last run.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Volumes(pandastack_model::Fault),
    #[error("machine process {pid} cannot be killed")]
    Immortal { pid: i32 },
    #[error("remove {path}")]
    Clear {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// Reads the ledger and decides about every line.
pub async fn plan(ledger: &Ledger) -> Result<RecoveryPlan, RecoverError> {
    Ok(RecoveryPlan::of(ledger.sandboxes().await?, ledger.machines().await?))
}

/// Removes everything that a process without a ledger left: the machines below its own folder with
/// their disks, the folder, and its own network.
pub async fn clear_abandoned(run_root: &Path, layers: &LayerStore, instance: &str) -> Result<(), RecoverError> {
    let nobody = HashSet::new();
    leftovers::end_processes(run_root, &nobody).await?;
    sweep(instance, &[]).await?;
    for machine in folders(run_root) {
        layers.discard(&machine);
    }
    leftovers::clear_folders(run_root, &nobody)?;
    match fs::remove_dir(run_root) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(RecoverError::Clear { path: run_root.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

/// Removes everything that the plan does not keep.
pub async fn clear(
    plan: &RecoveryPlan,
    run_root: &Path,
    layers: &LayerStore,
    ledger: &Ledger,
    instance: &str,
) -> Result<RecoveryReport, RecoverError> {
    let keep = plan.kept_machines();
    let machines = leftovers::end_processes(run_root, &keep).await?;
    sweep(instance, &plan.kept_slots()).await?;
    let mut disks = layers.disks();
    disks.retain(|disk| !keep.contains(disk));
    for disk in &disks {
        layers.discard(disk);
    }
    layers.clear_drafts();
    let folders = leftovers::clear_folders(run_root, &keep)?;
    for machine in &plan.end {
        ledger.gone(machine.id).await?;
    }
    for sandbox in &plan.forget {
        ledger.sandbox_lost(*sandbox).await?;
    }
    Ok(RecoveryReport { machines, disks: disks.len(), folders, ..RecoveryReport::default() })
}
