//! Boots a bare kernel: modules, root file system, mounts, network. Runs once, as the first
//! process, before the rest of the agent. A failure ends the machine.

mod cmdline;
mod mounts;
pub mod network;
mod root;

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
};

use nix::sys::resource::{Resource, setrlimit};
use pandastack_sys::init;

pub use cmdline::{CmdlineError, KernelParameters, bytes_of_hex};

/// Limits of open files. Databases and build tools need high ones.
const OPEN_FILES_SOFT: u64 = 65_536;
const OPEN_FILES_HARD: u64 = 1_048_576;

/// Seconds between updates of the kernel's memory statistics, which may be off by some hundred
/// pages in between.
const STATISTICS_SECONDS: &str = "120\n";

/// Hostname and machine id until the first rebirth. They are as long as the real ones, so that the
/// files keep their size.
const FIRST_HOSTNAME: &str = "sandbox-00000000";
const FIRST_MACHINE_ID: &str = "00000000000000000000000000000000";

/// A failed boot step.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("mount {target}")]
    Mount {
        target: String,
        #[source]
        cause: io::Error,
    },
    #[error("read the kernel command line")]
    ReadCmdline(#[source] io::Error),
    #[error(transparent)]
    Cmdline(#[from] CmdlineError),
    #[error("load module {}", path.display())]
    Module {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("root device {device} did not appear")]
    NoRoot { device: String },
    #[error("enter the root file system: {step}")]
    Root {
        step: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error("set up the network")]
    Network(#[source] io::Error),
}

/// Boots the machine and returns the parameters of the kernel command line.
pub fn run() -> Result<KernelParameters, BootError> {
    mounts::early()?;
    // The console is for messages to people. Kernel messages stay in the kernel's ring buffer.
    let _ = fs::write("/proc/sys/kernel/printk", "3 4 1 3\n");
    let text = fs::read_to_string("/proc/cmdline").map_err(BootError::ReadCmdline)?;
    let orders = KernelParameters::parse(&text)?;
    load_modules()?;
    if let Some(device) = &orders.root {
        root::enter(device)?;
    }
    quiet_disks();
    quiet_statistics();
    mounts::late();
    mounts::identity();
    let _ = setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES_SOFT, OPEN_FILES_HARD);
    let _ = nix::unistd::sethostname(FIRST_HOSTNAME);
    network::loopback().map_err(BootError::Network)?;
    if let Some(addresses) = &orders.addresses {
        addresses.apply().map_err(BootError::Network)?;
    }
    // A copy of a busy guest must answer before the programs of its source go on.
    let _ = init::run_first();
    // A root file system without /etc is still usable.
    let _ = fs::write("/etc/hostname", format!("{FIRST_HOSTNAME}\n"));
    let _ = fs::write("/etc/hosts", network::hosts_of(FIRST_HOSTNAME));
    let _ = fs::write("/etc/machine-id", format!("{FIRST_MACHINE_ID}\n"));
    Ok(orders)
}

/// Disables scheduling and throttling of the disks. The host does both, and their timers would run
/// in every restored guest.
fn quiet_disks() {
    for disk in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let _ = fs::write(disk.path().join("queue/scheduler"), "none");
        let _ = fs::write(disk.path().join("queue/wbt_lat_usec"), "0");
    }
}

/// Makes the kernel update its memory statistics rarely. The default of once a second slows down a
/// guest that was just restored.
fn quiet_statistics() {
    let _ = fs::write("/proc/sys/vm/stat_interval", STATISTICS_SECONDS);
}

/// Writes one line to the console.
pub fn announce(line: &str) {
    let text = format!("{line}\n");
    let written =
        File::options().write(true).open("/dev/console").and_then(|mut console| console.write_all(text.as_bytes()));
    if written.is_err() {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Ends the machine. The hypervisor treats a restart as the end, which needs no power management.
pub fn give_up() -> ! {
    nix::unistd::sync();
    let error = init::restart();
    announce(&format!("pandastack guest agent: restart: {error}"));
    loop {
        std::thread::park();
    }
}

/// Loads the image's kernel modules in the order of their names.
fn load_modules() -> Result<(), BootError> {
    let Ok(folder) = fs::read_dir("/modules") else { return Ok(()) };
    let mut paths: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "ko")) {
        let loaded = File::open(&path).and_then(|file| init::load_module(&file));
        loaded.map_err(|cause| BootError::Module { path, cause })?;
    }
    Ok(())
}
