//! The QEMU that emulates the computer. Debian 12's QEMU crashes the kernel of an AMD computer with
//! nested guests every few minutes (a guest's page fault reaches the host, or the CPU is lost).
//! Debian 13's does not. Its packages are unpacked into the cache, not installed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::run;

const SUITE: &str = "trixie";
const PACKAGE: &str = "qemu-system-x86";

/// An unpacked QEMU with its libraries.
pub struct Emulator {
    tree: PathBuf,
}

impl Emulator {
    /// Returns the emulator. Unpacks it if it is not cached yet.
    pub fn ensure(cache: &Path) -> Result<Self> {
        let tree = cache.join(format!("{PACKAGE}-{SUITE}"));
        fs::create_dir_all(cache)?;
        // Concurrent runs unpack it only once.
        let lock = File::create(cache.join("lock")).context("open the lock")?;
        lock.lock().context("take the lock")?;
        if !tree.exists() {
            unpack(cache, &tree)?;
        }
        Ok(Self { tree })
    }

    /// Returns the program and arguments that start it with its own loader, libraries and firmware.
    pub fn words(&self) -> Vec<String> {
        let within = |path: &str| self.tree.join(path).display().to_string();
        let mut words = vec![within("usr/lib64/ld-linux-x86-64.so.2"), "--library-path".to_owned()];
        words.push(within("usr/lib/x86_64-linux-gnu"));
        words.push(within("usr/bin/qemu-system-x86_64"));
        for firmware in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            words.extend(["-L".to_owned(), within(firmware)]);
        }
        words
    }
}

fn unpack(cache: &Path, tree: &Path) -> Result<()> {
    let begin = Instant::now();
    eprintln!("kvm-host: unpacking {PACKAGE} of {SUITE} (once)");
    let half_made = cache.join("half-made-emulator");
    if half_made.exists() {
        fs::remove_dir_all(&half_made).context("remove an unfinished emulator")?;
    }
    let mut debian = Command::new("mmdebstrap");
    debian.args(["--quiet", "--variant=extract", "--dpkgopt=path-exclude=/usr/share/doc/*"]);
    debian.arg(format!("--include={PACKAGE}")).arg(SUITE).arg(&half_made);
    run::output(debian)?;
    fs::rename(&half_made, tree).context("keep the emulator")?;
    eprintln!("kvm-host: unpacked in {:.0} s", begin.elapsed().as_secs_f32());
    Ok(())
}
