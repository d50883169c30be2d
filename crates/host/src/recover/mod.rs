//! What the host does first after a start: end and remove everything that an earlier process of the same data folder left.
//! It trusts the ledger and reality, whichever names more; taking machines over instead of ending them comes later.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_layers::LayerStore;

use crate::{
    ledger::{Ledger, LedgerError},
    net::{NetError, sweep},
};

/// How long a killed process may take to be gone.
const DEATH_DEADLINE: Duration = Duration::from_secs(10);

/// What was found and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
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

/// The leftovers cannot be removed.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("machine process {pid} cannot be ended")]
    Immortal { pid: i32 },
    #[error("clear {path}")]
    Clear {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// Removes every leftover. Only this data folder's: processes are known by their machine folder in their arguments.
pub async fn recover(
    run_root: &Path,
    layers: &LayerStore,
    ledger: &Ledger,
    instance: &str,
) -> Result<Recovered, RecoverError> {
    let pids = machine_processes(run_root);
    for pid in &pids {
        let _ = kill(*pid, Signal::SIGKILL);
    }
    for pid in &pids {
        wait_for_death(*pid, run_root).await?;
    }
    sweep(instance, &[]).await?;
    let disks = layers.disks();
    for disk in &disks {
        layers.discard(disk);
    }
    layers.clear_drafts();
    let folders = clear(run_root)?;
    for machine in ledger.machines().await? {
        ledger.gone(&machine.id).await?;
    }
    Ok(Recovered { machines: pids.len(), disks: disks.len(), folders })
}

/// Finds processes that name a machine folder of ours: the folder is unique to this data folder, a reused pid is not.
pub fn machine_processes(run_root: &Path) -> Vec<Pid> {
    let mark = format!("{}/mch_", run_root.display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| names_folder(*pid, &mark)).map(Pid::from_raw).collect()
}

fn names_folder(pid: i32, mark: &str) -> bool {
    // A zombie has no arguments left, so a killed process that nobody reaped does not count.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| {
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains(mark) && words.contains("-accel")
    })
}

async fn wait_for_death(pid: Pid, run_root: &Path) -> Result<(), RecoverError> {
    let deadline = Instant::now() + DEATH_DEADLINE;
    while machine_processes(run_root).contains(&pid) {
        if Instant::now() > deadline {
            return Err(RecoverError::Immortal { pid: pid.as_raw() });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn clear(folder: &Path) -> Result<usize, RecoverError> {
    let failed = |cause| RecoverError::Clear { path: folder.to_owned(), cause };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(failed)?.flatten() {
        fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path())).map_err(failed)?;
        count += 1;
    }
    Ok(count)
}
