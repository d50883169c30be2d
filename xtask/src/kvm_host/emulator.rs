//! The QEMU that emulates the computer. Not the one that is installed: Debian 12's crashes the
//! kernel of an AMD computer with nested guests once in a few minutes (a page fault of the guest is
//! delivered to the host, or the CPU is lost). Debian 13's does not. Its packages are unpacked, not
//! installed, and kept.

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
    /// Returns the emulator, unpacking it if it is not kept yet.
    pub fn ensure(cache: &Path) -> Result<Self> {
        let tree = cache.join(format!("{PACKAGE}-{SUITE}"));
        fs::create_dir_all(cache)?;
        // Two runs at once unpack it once.
        let lock = File::create(cache.join("lock")).context("open the lock")?;
        lock.lock().context("take the lock")?;
        if !tree.exists() {
            unpack(cache, &tree)?;
        }
        Ok(Self { tree })
    }

    /// Returns the words that start it: its own loader, libraries and firmware, whatever the system
    /// has.
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
