//! What a host has taken from the machine it runs on: processes, namespaces, links, tables, mounts, loop devices, files.

use std::path::Path;

use anyhow::Result;
use pandastack_host::net;

/// Everything found that belongs to one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    pub processes: Vec<String>,
    pub network: Vec<String>,
    pub mounts: Vec<String>,
    pub loops: Vec<String>,
    pub files: Vec<String>,
}

impl Leftovers {
    /// Looks for everything of an instance with this machine folder and this data folder.
    pub async fn find(instance: &str, run_root: &Path, data_dir: &Path) -> Result<Self> {
        let net::Leftovers { namespaces, links, tables } = net::leftovers(instance).await?;
        let data = data_dir.display().to_string();
        let lines = |text: String| -> Vec<String> { text.lines().filter(|line| line.contains(&data)).map(str::to_owned).collect() };
        let loops = std::process::Command::new("losetup").arg("-l").output()?;
        let folder = |path: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().display().to_string()).collect()
        };
        Ok(Self {
            processes: processes(run_root),
            network: [namespaces, links, tables].concat(),
            mounts: lines(std::fs::read_to_string("/proc/mounts")?),
            loops: lines(String::from_utf8_lossy(&loops.stdout).into_owned()),
            files: [folder(run_root), folder(&data_dir.join("volume/disks")), folder(&data_dir.join("volume/staging"))].concat(),
        })
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn processes(run_root: &Path) -> Vec<String> {
    let mark = run_root.display().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().chars().all(|c| c.is_ascii_digit()))
        .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|words| String::from_utf8_lossy(&words).contains(&mark)))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
