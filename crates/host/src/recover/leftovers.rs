//! Finds and removes what an earlier process left: machine processes, control groups and folders.

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
use pandastack_sys::cgroup::{CgroupHierarchy, member_of};
use pandastack_vmm::{group_of, groups_of};

use super::RecoverError;

/// Time limit for a killed process to disappear.
const DEATH_DEADLINE: Duration = Duration::from_secs(10);

/// A machine process and the id of its machine.
pub type MachineProcess = (Pid, String);

/// Finds the processes of machines below a folder. A process in one of our control groups is that
/// group's machine: a guest that has taken over its process can rewrite the arguments. Arguments
/// count only outside such groups: the host has none, or the server was killed before the process
/// entered its group, when no guest ran in it yet.
pub fn machine_processes(run_root: &Path) -> Vec<MachineProcess> {
    let (groups, mark) = (groups_of(run_root), format!("{}/mch_", run_root.display()));
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let named = |pid: i32| member_of(pid.unsigned_abs(), &groups).or_else(|| named_by_arguments(pid, &mark));
    pids.filter_map(|pid| Some((Pid::from_raw(pid), named(pid)?))).collect()
}

fn named_by_arguments(pid: i32, mark: &str) -> Option<String> {
    // A zombie has no arguments, so a killed process that is not reaped yet does not count.
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = String::from_utf8_lossy(&words).into_owned();
    if !words.contains("-accel") {
        return None;
    }
    let id = words.split_once(mark)?.1;
    let end = id.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(id.len());
    Some(format!("mch_{}", &id[..end]))
}

/// Kills the machine processes that are not in `keep`, and waits until they are gone.
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
    // A watcher removes the group with its process. These processes had no watcher.
    for machine in groups(run_root).iter().filter(|machine| !keep.contains(*machine)) {
        while !remove_group(run_root, machine) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(doomed.len())
}

/// Lists the machines that have a control group.
pub fn groups(run_root: &Path) -> Vec<String> {
    CgroupHierarchy::find().map(|tree| tree.names(&groups_of(run_root))).unwrap_or_default()
}

/// Removes the control group of a machine. `false` if it is still in use.
pub fn remove_group(run_root: &Path, machine: &str) -> bool {
    CgroupHierarchy::find().is_ok_and(|tree| tree.group(&group_of(&run_root.join(machine))).remove())
}

/// Whether a machine was killed because it ran out of memory. Only its control group records that.
pub fn was_short_of_memory(run_root: &Path, machine: &str) -> bool {
    CgroupHierarchy::find().is_ok_and(|tree| tree.group(&group_of(&run_root.join(machine))).memory_kills() > 0)
}

/// Lists the machines' folders.
pub fn folders(run_root: &Path) -> Vec<String> {
    let entries = fs::read_dir(run_root).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Removes the folders of machines that are not in `keep`.
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use pandastack_model::MachineId;
    use pandastack_sys::cgroup::CgroupLimits;

    use super::*;

    /// Starts a process with these arguments that waits for input that never comes.
    fn waiting(arguments: &[&str]) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", "echo ready; read word"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its first output shows that its own arguments are in place.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        child
    }

    /// One process has arguments that say nothing; another claims to be a machine that is kept.
    /// Both are killed.
    #[tokio::test]
    async fn machines_are_known_by_their_control_groups_and_not_by_their_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let (run_root, kept) = (folder.path(), MachineId::random().to_string());
        let pretended = run_root.join(&kept).display().to_string();
        let limits = CgroupLimits { cpu_percent: 100, memory_bytes: 64 << 20, pids: 16 };
        let mut machines = Vec::new();
        for arguments in [vec!["silent"], vec!["-accel", &pretended]] {
            let (child, machine) = (waiting(&arguments), MachineId::random().to_string());
            let group = CgroupHierarchy::find().unwrap().group(&group_of(&run_root.join(&machine)));
            group.limit(&limits).unwrap();
            group.add_process(child.id()).unwrap();
            machines.push((child, machine));
        }
        let mut found = machine_processes(run_root);
        found.sort_by_key(|(pid, _)| pid.as_raw());
        let mut expected: Vec<MachineProcess> =
            machines.iter().map(|(child, machine)| (Pid::from_raw(child.id() as i32), machine.clone())).collect();
        expected.sort_by_key(|(pid, _)| pid.as_raw());
        let ended = end_processes(run_root, &HashSet::from([kept])).await;
        for (child, _) in &mut machines {
            let _ = child.kill();
            child.wait().unwrap();
        }
        for machine in groups(run_root) {
            assert!(remove_group(run_root, &machine));
        }
        assert_eq!(found, expected);
        assert_eq!(ended.unwrap(), 2);
    }
}
