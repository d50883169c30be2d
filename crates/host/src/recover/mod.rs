//! What the host does first after a start: goes on with what an earlier process of the same data
//! folder left, and removes what was half-made or nobody's. The ledger says what was meant; reality
//! says what is left of it.
//!
//! ```text
//! ledger says       machine lives          machine gone
//! creating          end it, forget         forget
//! waking            take it over           failed      (only of who writes a volume; others are hibernated until they run)
//! running, paused   take it over           failed
//! hibernated        end it (half a wake)   asleep
//! stopping          finish the removal     finish the removal
//! failed            end it                 failed
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
pub use plan::Plan;
pub use take_over::take_over;

/// What was found, taken over and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sandboxes whose machines were taken over as they ran.
    pub adopted: usize,
    /// Sandboxes that sleep.
    pub asleep: usize,
    /// Machine processes that were ended.
    pub machines: usize,
    pub disks: usize,
    pub folders: usize,
}

impl Recovered {
    /// Tells whether the earlier process had left nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The host cannot go on after its last run.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Volumes(pandastack_model::Fault),
    #[error("machine process {pid} cannot be ended")]
    Immortal { pid: i32 },
    #[error("clear {path}")]
    Clear {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// Reads the ledger and decides about every line.
pub async fn plan(ledger: &Ledger) -> Result<Plan, RecoverError> {
    Ok(Plan::of(ledger.sandboxes().await?, ledger.machines().await?))
}

/// Removes everything that a process left which kept no ledger: the machines below a folder of its
/// own with their disks, the folder, and a network of its own.
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
    plan: &Plan,
    run_root: &Path,
    layers: &LayerStore,
    ledger: &Ledger,
    instance: &str,
) -> Result<Recovered, RecoverError> {
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
        ledger.sandbox_gone(*sandbox).await?;
    }
    Ok(Recovered { machines, disks: disks.len(), folders, ..Recovered::default() })
}
