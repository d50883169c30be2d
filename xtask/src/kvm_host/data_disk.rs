//! The data disk of one run: the project's binaries, the caller's files, and the scripts that run
//! the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::run;

/// Release binaries that are copied if they are built.
const BINARIES: &[&str] = &["pandastack", "pandastack-guestd"];
const BINARIES_FOLDER: &str = "/opt/pandastack";

/// A file or folder that the caller copies into the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedPath {
    pub from: PathBuf,
    pub to: String,
}

impl CopiedPath {
    /// Parses `PATH:GUEST_PATH`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text.rsplit_once(':').ok_or("wants PATH:GUEST_PATH")?;
        if !to.starts_with('/') || to.split('/').any(|part| part == "..") {
            return Err(format!("{to} must be an absolute path in the machine"));
        }
        if !Path::new(from).exists() {
            return Err(format!("{from} does not exist"));
        }
        Ok(Self { from: from.into(), to: to.to_owned() })
    }
}

/// Contents of the data disk of one run.
pub struct DataDisk<'a> {
    pub command: &'a [String],
    pub bring: &'a [CopiedPath],
    pub size_gib: u32,
}

impl DataDisk<'_> {
    /// Writes the disk into a folder and returns its path.
    pub fn write(&self, scratch: &Path) -> Result<PathBuf> {
        let tree = scratch.join("tree");
        let own = tree.join(".kvm-host");
        fs::create_dir_all(own.join("brought"))?;
        let bring: Vec<_> = binaries().into_iter().chain(self.bring.iter().cloned()).collect();
        for (number, bring) in bring.iter().enumerate() {
            copy(&bring.from, &own.join("brought").join(number.to_string()))?;
        }
        fs::write(own.join("init"), init(&bring))?;
        fs::write(own.join("command"), format!("exec {}\n", shell_words(self.command)))?;
        let disk = scratch.join("data.ext4");
        let mut format = Command::new("mke2fs");
        format.args(["-q", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1", "-d"]);
        format.arg(&tree).arg(&disk).arg(format!("{}G", self.size_gib));
        run::output(format)?;
        fs::remove_dir_all(&tree)?;
        Ok(disk)
    }
}

/// Finds the built binaries: of the release, or in the folder `PANDASTACK_BINARIES`. A missing one
/// is only reported, because many commands need none.
fn binaries() -> Vec<CopiedPath> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| run::workspace().join("target"), PathBuf::from);
    let folder = std::env::var_os("PANDASTACK_BINARIES").map_or_else(|| target.join("release"), PathBuf::from);
    let found = BINARIES.iter().filter_map(|name| {
        let from = folder.join(name);
        if !from.exists() {
            eprintln!("kvm-host: {name} is not built (make build); going on without it");
            return None;
        }
        Some(CopiedPath { from, to: format!("{BINARIES_FOLDER}/{name}") })
    });
    found.collect()
}

/// Copies a file or a tree, with hard links if possible: nothing here writes to them.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copy = |flags: &str| {
        let mut command = Command::new("cp");
        command.arg(flags).arg("--").arg(from).arg(to);
        run::output(command)
    };
    if copy("-alH").is_ok() {
        return Ok(());
    }
    if to.exists() {
        fs::remove_dir_all(to).context("remove half a copy")?;
    }
    copy("-aH").with_context(|| format!("copy {}", from.display()))?;
    ensure!(to.exists(), "{} was not copied", from.display());
    Ok(())
}

/// The init script of the machine: mounts, network, KVM, then the command. Its output goes to one
/// port and its exit code to another.
fn init(bring: &[CopiedPath]) -> String {
    let places: String = bring.iter().enumerate().map(|(number, bring)| place(number, &bring.to)).collect();
    INIT.replace("@PLACES@", &places)
}

fn place(number: usize, to: &str) -> String {
    format!("place {number} {}\n", shell_words(&[to.to_owned()]))
}

const INIT: &str = r#"#!/bin/sh
exec < /dev/null > /dev/console 2>&1
export PATH=/opt/pandastack:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 PANDASTACK_DATA_DIR=/work/data
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd
for module in virtio_pci virtio_console virtio_net virtio_rng kvm-amd tun loop; do modprobe $module; done
hostname kvm-host
ip link set lo up
ip link set eth0 up && ip address add 10.0.2.15/24 dev eth0 && ip route add default via 10.0.2.2
echo 'nameserver 10.0.2.3' > /etc/resolv.conf
echo '127.0.0.1 localhost kvm-host' > /etc/hosts
place() {
    mkdir -p "$(dirname "$2")"
    if [ -d "/work/.kvm-host/brought/$1" ]; then mkdir -p "$2"; else : > "$2"; fi
    mount --bind "/work/.kvm-host/brought/$1" "$2"
}
@PLACES@
# The first number counts virtio devices, so it is not ours to know.
port() {
    for waited in $(seq 100); do
        for found in /dev/vport*p$1; do [ -c "$found" ] && echo "$found" && return; done
        sleep 0.05
    done
}
output=$(port 1) code=$(port 2)
cd /work
setsid sh /work/.kvm-host/command > "$output" 2>&1
echo $? > "$code"
sync
echo o > /proc/sysrq-trigger
sleep 60
"#;

/// Quotes words for a shell.
fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        let words = ["sh", "-c", "echo 'a b' \"$x\"; ls"].map(str::to_owned);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("printf '%s\\n' {}", shell_words(&words)));
        assert_eq!(run::output(shell).expect("run sh"), "sh\n-c\necho 'a b' \"$x\"; ls\n");
    }

    #[test]
    fn bringing_wants_an_existing_path_and_an_absolute_place() {
        assert_eq!(CopiedPath::parse("/tmp:/opt/x"), Ok(CopiedPath { from: "/tmp".into(), to: "/opt/x".into() }));
        for bad in ["/tmp", "/tmp:opt", "/no/such/path:/opt", "/tmp:/a/../b"] {
            assert!(CopiedPath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_init_places_what_is_brought() {
        let script = init(&[CopiedPath { from: "/tmp".into(), to: "/opt/it's".into() }]);
        assert!(script.contains("place 0 '/opt/it'\\''s'\n"), "{script}");
        assert!(!script.contains('@'), "{script}");
    }
}
