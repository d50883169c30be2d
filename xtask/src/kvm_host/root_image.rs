//! The root disk and kernel of the emulated KVM host. Made once from Debian packages, cached under
//! the digest of their inputs, and never written to afterwards.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::run;

/// Raise it if the build changes but the lists below do not.
const FORMAT: &str = "1";
const SUITE: &str = "bookworm";
const PACKAGES: &[&str] = &[
    "ca-certificates",
    "cpio",
    "curl",
    "e2fsprogs",
    "iproute2",
    "kmod",
    "linux-image-cloud-amd64",
    "nftables",
    "procps",
    "python3-minimal",
    "qemu-system-x86",
    "strace",
    "util-linux",
    "xfsprogs",
    "zstd",
];
const DISK_SIZE: &str = "8G";

/// Runs the script on the data disk, which changes with every run. This one must not change.
const FIRST_INIT: &str = "#!/bin/sh
mount -t devtmpfs dev /dev
mount -t ext4 /dev/nvme1n1 /work
exec /bin/sh /work/.kvm-host/init
";

/// A root disk and its kernel.
pub struct RootImage {
    pub disk: PathBuf,
    pub kernel: PathBuf,
}

/// Returns the root image. Builds it if it is not cached yet.
pub fn ensure(cache: &Path) -> Result<RootImage> {
    let kept = cache.join(digest());
    let image = RootImage { disk: kept.join("root.ext4"), kernel: kept.join("vmlinuz") };
    fs::create_dir_all(cache)?;
    // Concurrent runs build it only once.
    let lock = File::create(cache.join("lock")).context("open the lock")?;
    lock.lock().context("take the lock")?;
    if !kept.exists() {
        build(cache, &kept)?;
    }
    Ok(image)
}

fn digest() -> String {
    let parts = [FORMAT, SUITE, DISK_SIZE, FIRST_INIT, &PACKAGES.join(",")].join("\n");
    blake3::hash(parts.as_bytes()).to_hex()[..16].to_owned()
}

fn build(cache: &Path, kept: &Path) -> Result<()> {
    let begin = Instant::now();
    eprintln!("kvm-host: building the root image (once)");
    let half_made = cache.join("half-made");
    if half_made.exists() {
        fs::remove_dir_all(&half_made).context("remove an unfinished image")?;
    }
    fs::create_dir_all(&half_made)?;
    let tree = half_made.join("tree");
    install(&half_made, &tree)?;
    fs::rename(kernel_of(&tree)?, half_made.join("vmlinuz")).context("take out the kernel")?;
    let mut disk = Command::new("mke2fs");
    disk.args(["-q", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-d"]);
    disk.arg(&tree).arg(half_made.join("root.ext4")).arg(DISK_SIZE);
    run::output(disk)?;
    fs::remove_dir_all(&tree).context("remove the unpacked tree")?;
    fs::rename(&half_made, kept).context("keep the image")?;
    eprintln!("kvm-host: root image built in {:.0} s", begin.elapsed().as_secs_f32());
    Ok(())
}

fn install(half_made: &Path, tree: &Path) -> Result<()> {
    let init = half_made.join("first-init");
    fs::write(&init, FIRST_INIT)?;
    let mut debian = Command::new("mmdebstrap");
    // The kernel has drivers for both disks, so it needs no initramfs.
    debian.env("INITRD", "No").args(["--quiet", "--variant=minbase"]);
    debian.arg(format!("--include={}", PACKAGES.join(",")));
    for folder in ["doc", "man", "locale", "info"] {
        debian.arg(format!("--dpkgopt=path-exclude=/usr/share/{folder}/*"));
    }
    debian.arg(format!("--customize-hook=upload {} /sbin/first-init", init.display()));
    debian.arg(r#"--customize-hook=chmod 755 "$1/sbin/first-init" && mkdir -p "$1/work" && rm -f "$1"/boot/initrd*"#);
    run::output({
        debian.arg(SUITE).arg(tree);
        debian
    })
    .map(drop)
}

fn kernel_of(tree: &Path) -> Result<PathBuf> {
    let boot = fs::read_dir(tree.join("boot")).context("list /boot")?;
    let mut kernels = boot.filter_map(|entry| Some(entry.ok()?.path()));
    let is_kernel =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"));
    kernels.find(is_kernel).context("find a kernel in /boot")
}
