//! `cargo xtask kvm-host -- COMMAND`: runs a command in a machine with a real `/dev/kvm`, on hosts
//! that have none. QEMU emulates an AMD computer with nested virtualization, removed afterwards.
//! The command runs as root, in `/work`, with the release binaries in `PATH` and all `--with`
//! files. Times inside compare only with each other.

mod computer;
mod data_disk;
mod emulator;
mod root_image;
mod scratch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

/// Runs COMMAND in the emulated KVM host and ends with its exit code.
#[derive(clap::Args)]
pub struct KvmHostArgs {
    /// Bring a file or folder of this machine along, as PATH:GUEST_PATH (repeatable).
    #[arg(long, value_name = "PATH:GUEST_PATH", value_parser = data_disk::CopiedPath::parse)]
    with: Vec<data_disk::CopiedPath>,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
    /// Memory of the emulated computer.
    #[arg(long, default_value_t = 4096, value_name = "MIB")]
    memory_mib: u32,
    /// Space on `/work`; uses disk space here only as it is written.
    #[arg(long, default_value_t = 24, value_name = "GIB")]
    disk_gib: u32,
    /// Show the kernel's messages too.
    #[arg(long)]
    console: bool,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Prepares the two disks, runs the computer and passes on the command's exit code.
pub fn run(args: &KvmHostArgs) -> Result<ExitCode> {
    let cache = cache_folder()?;
    let root = root_image::ensure(&cache).context("prepare the root image")?;
    let scratch = scratch::Scratch::make(&cache)?;
    let disk = data_disk::DataDisk { command: &args.command, bring: &args.with, size_gib: args.disk_gib };
    let computer = computer::Computer {
        emulator: emulator::Emulator::ensure(&cache).context("prepare the emulator")?,
        kernel: root.kernel,
        root: root.disk,
        data: disk.write(scratch.path()).context("prepare the data disk")?,
        memory_mib: args.memory_mib,
        console: if args.console { computer::Console::Shown } else { computer::Console::Kept },
        deadline: Duration::from_secs(args.timeout),
    };
    computer.run(scratch.path())
}

fn cache_folder() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").context("find HOME, which holds the cache")?;
    Ok(PathBuf::from(home).join(".cache/pandastack/kvm-host"))
}
