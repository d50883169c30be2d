//! What an earlier process left in the process table and in the machines' folder.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_sys::cgroup::Hierarchy;
use pandastack_vmm::{group_of, groups_of};

use super::RecoverError;

/// How long a killed process may take to be gone.
const DEATH_DEADLINE: Duration = Duration::from_secs(10);

/// A machine process and the id of its machine.
pub type MachineProcess = (Pid, String);

/// Finds processes that name a machine folder of ours: the folder is unique to this data folder, a reused pid is not.
pub fn machine_processes(run_root: &Path) -> Vec<MachineProcess> {
    let mark = format!("{}/mch_", run_root.display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((Pid::from_raw(pid), machine_of(pid, &mark)?))).collect()
}

fn machine_of(pid: i32, mark: &str) -> Option<String> {
    // A zombie has no arguments left, so a killed process that nobody reaped does not count.
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = String::from_utf8_lossy(&words).into_owned();
    if !words.contains("-accel") {
        return None;
    }
    let id = words.split_once(mark)?.1;
    let end = id.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(id.len());
    Some(format!("mch_{}", &id[..end]))
}

/// Ends the machine processes that nobody keeps, and waits until they are gone.
pub async fn end_processes(run_root: &Path, keep: &HashSet<String>) -> Result<usize, RecoverError> {
    let mut doomed = machine_processes(run_root);
    doomed.retain(|(_, machine)| !keep.contains(machine));
    for (pid, _) in &doomed {
        let _ = kill(*pid, Signal::SIGKILL);
    }
    let deadline = Instant::now() + DEATH_DEADLINE;
    for (pid, machine) in &doomed {
        while machine_processes(run_root).iter().any(|(_, other)| other == machine) {
            if Instant::now() > deadline {
                return Err(RecoverError::Immortal { pid: pid.as_raw() });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    // Whoever watched them removed their groups with them; these had nobody.
    for machine in groups(run_root).iter().filter(|machine| !keep.contains(*machine)) {
        while !remove_group(run_root, machine) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(doomed.len())
}

/// Lists the machines that have a control group.
pub fn groups(run_root: &Path) -> Vec<String> {
    Hierarchy::find().map(|tree| tree.names(&groups_of(run_root))).unwrap_or_default()
}

/// Removes the control group of a machine. `false` if it is still in use.
pub fn remove_group(run_root: &Path, machine: &str) -> bool {
    Hierarchy::find().is_ok_and(|tree| tree.group(&group_of(&run_root.join(machine))).remove())
}

/// Tells whether a machine was killed for want of memory. Its control group alone remembers that.
pub fn was_short_of_memory(run_root: &Path, machine: &str) -> bool {
    Hierarchy::find().is_ok_and(|tree| tree.group(&group_of(&run_root.join(machine))).memory_kills() > 0)
}

/// Lists the machines' folders.
pub fn folders(run_root: &Path) -> Vec<String> {
    let entries = fs::read_dir(run_root).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Removes the folders of machines that nobody keeps.
pub fn clear_folders(run_root: &Path, keep: &HashSet<String>) -> Result<usize, RecoverError> {
    let mut doomed = folders(run_root);
    doomed.retain(|folder| !keep.contains(folder));
    for folder in &doomed {
        let path = run_root.join(folder);
        let removed = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        removed.map_err(|cause| RecoverError::Clear { path, cause })?;
    }
    Ok(doomed.len())
}
