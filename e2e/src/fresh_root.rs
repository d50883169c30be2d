//! A Debian system as after its installation: its own files, processes, network and control
//! groups, and systemd as its first process. Tests install packages there. Needs root, no machine.

#![allow(clippy::unwrap_used, reason = "a system that does not boot is the end of a test")]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use pandastack_testbed::PATIENCE;
use tempfile::TempDir;

use crate::published::{kept, run};

const SUITE: &str = "bookworm";
const BOOT: &str = include_str!("fresh_root.sh");
const CGROUPS: &str = "/sys/fs/cgroup";

/// A running system. A drop ends all its processes and removes it.
pub struct FreshRoot {
    child: Child,
    /// Process id of its systemd on this host.
    init: u32,
    group: String,
    folder: TempDir,
}

impl FreshRoot {
    /// Boots a system that has these packages and those that they need.
    pub fn boot(packages: &[&str]) -> Self {
        let (folder, root) = unpacked(SUITE, &[&["systemd-sysv"], packages].concat());
        let group = format!("pandastack-fresh-{}", std::process::id());
        let log = File::create(folder.path().join("log")).unwrap();
        let mut boot = Command::new("sh");
        boot.args(["-c", BOOT, "boot"]).arg(&root).arg(&group).stdin(Stdio::null());
        let child = boot.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut system = Self { child, init: 0, group, folder };
        system.wait_until_up();
        system
    }

    fn wait_until_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pid = self.child.id();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            self.init = children.trim().parse().unwrap_or(0);
            let state = if self.init == 0 { String::new() } else { self.state() };
            if ["running", "degraded"].contains(&state.as_str()) {
                assert_eq!(state, "running", "{:?}", self.try_run(&["systemctl", "--failed"]));
                return;
            }
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "the system ended: {}", log());
            assert!(Instant::now() < deadline, "the system is {state:?}: {}", log());
            sleep(Duration::from_millis(50));
        }
    }

    fn state(&self) -> String {
        let output = self.try_run(&["systemctl", "is-system-running"]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// A path of the system, as this host reaches it: with the mounts of the system.
    pub fn path(&self, inside: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.init)).join(inside.trim_start_matches('/'))
    }

    /// Process id of its systemd on this host.
    pub fn init(&self) -> u32 {
        self.init
    }

    /// Runs a program in the system.
    pub fn try_run(&self, words: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.arg("--all").arg(format!("--target={}", self.init)).args(["env", "-i", "HOME=/root"]);
        command.args(["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]).args(words);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a program that must succeed, and returns what it wrote.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.try_run(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{words:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for FreshRoot {
    fn drop(&mut self) {
        // `unshare` takes the first process with it, and that one all others.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let deadline = Instant::now() + PATIENCE;
        while groups(&self.group).iter().any(|group| !remove_group(group)) && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
    }
}

/// Unpacks a Debian system with these packages and those that they need, and returns its folder.
pub fn unpacked(suite: &str, packages: &[&str]) -> (TempDir, PathBuf) {
    let packages = packages.join(",");
    let archive = kept(&format!("install-{suite}"), &packages, |folder| {
        // Its mounts end with it.
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "mmdebstrap", "--mode=root", "--variant=minbase"]);
        run(command.arg(format!("--include={packages}")).arg(suite).arg(folder.join("root.tar")));
    });
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    run(Command::new("tar").arg("-xf").arg(archive.join("root.tar")).arg("-C").arg(&root));
    (folder, root)
}

/// The control group with this name, in each tree.
fn groups(name: &str) -> Vec<PathBuf> {
    let trees = fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path());
    trees.chain([PathBuf::from(CGROUPS)]).map(|tree| tree.join(name)).filter(|group| group.is_dir()).collect()
}

/// Removes a group and those below it. False if a process is still in one.
fn remove_group(group: &Path) -> bool {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_group(&entry.path());
    }
    fs::remove_dir(group).is_ok()
}
