//! All resources of a host on its machine: processes, control groups, namespaces, links, tables,
//! mounts, loop devices, files, ledger entries.

use std::path::{Path, PathBuf};

use anyhow::Result;
use pandastack_host::{Ledger, net};
use pandastack_sys::cgroup::CgroupHierarchy;
use pandastack_vmm::groups_of;

/// All resources found of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceLeftovers {
    pub processes: Vec<String>,
    pub groups: Vec<String>,
    pub network: Vec<String>,
    pub mounts: Vec<String>,
    pub loops: Vec<String>,
    pub files: Vec<String>,
    pub ledger: Vec<String>,
}

impl InstanceLeftovers {
    /// Finds all resources of an instance with this machine folder and this data folder.
    pub async fn find(instance: &str, run_root: &Path, data_dir: &Path) -> Result<Self> {
        let net::NetLeftovers { namespaces, links, tables } = net::leftovers(instance).await?;
        let data = data_dir.display().to_string();
        let lines = |text: String| -> Vec<String> {
            text.lines().filter(|line| line.contains(&data)).map(str::to_owned).collect()
        };
        let loops = std::process::Command::new("losetup").arg("-l").output()?;
        let folder = |path: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().display().to_string()).collect()
        };
        Ok(Self {
            processes: processes(run_root),
            groups: CgroupHierarchy::find()?.names(&groups_of(run_root)),
            network: [namespaces, links, tables].concat(),
            mounts: lines(std::fs::read_to_string("/proc/mounts")?),
            loops: lines(String::from_utf8_lossy(&loops.stdout).into_owned()),
            files: [folder(run_root), folder(&data_dir.join("volume/disks")), folder(&data_dir.join("volume/staging"))]
                .concat(),
            ledger: ledger(&data_dir.join("ledger.db")).await?,
        })
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

async fn ledger(file: &Path) -> Result<Vec<String>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let ledger = Ledger::open(file).await?;
    let machines = ledger.machines().await?;
    ledger.close().await;
    Ok(machines.into_iter().map(|machine| machine.id.to_string()).collect())
}

/// Finds the processes whose arguments name a path in a machine folder.
pub fn processes(run_root: &Path) -> Vec<String> {
    let mark = format!("{}/", run_root.display());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().chars().all(|c| c.is_ascii_digit()))
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|words| String::from_utf8_lossy(&words).contains(&mark))
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Finds the machine folder of a data folder's server through one of its machines. A jailed process
/// has its disk open without a path, but its arguments name its own folder.
pub fn run_root_of(data_dir: &Path) -> Option<PathBuf> {
    let disks = data_dir.join("volume/disks");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = entries.filter(|process| {
        let open = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|file| file.starts_with(&disks))
    });
    ours.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok()).find_map(|words| {
        let words = String::from_utf8_lossy(&words).into_owned();
        let (root, _) = words.split_once("/mch_")?;
        Some(PathBuf::from(&root[root.rfind("/run/pandastack/")?..]))
    })
}
