//! The environment of a machine's process: descriptors for its files, a root with only the runtime,
//! and a separate user. Decides nothing about QEMU's devices; `command` does.
//!
//! ```text
//! /runtime      the bundle, read-only              3 monitor   4 device state   5 tap    6 its user's lock
//! /kernel /initramfs   at a first boot             7 console   8 root disk   (volumes come over the monitor)
//! /dev/kvm      on the kvm tier                    memory: passed when the process opens it
//! ```

use std::{
    ffi::CString,
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::Path,
    str::FromStr,
};

use pandastack_model::Tier;
use pandastack_sys::{
    mounts::{MountAccess, MountNamespace, MountTree, RootEntry},
    netns::Netns,
    tap,
};
use pandastack_vmm::{MachineSpec, MachineStartError};

use crate::{
    bundle::Bundle,
    command::{DISK_FD, inherited},
    limits::USER_ATTEMPTS_PER_WINDOW,
};

/// Paths inside the jail.
pub const RUNTIME: &str = "/runtime";
/// Does not exist. The process opens it, and gets its memory instead.
pub const MEM: &str = "/mem";
pub const KERNEL: &str = "/kernel";
pub const INITRAMFS: &str = "/initramfs";
const KVM: &str = "/dev/kvm";

/// One lock file per user id. The holder of the lock owns the id. Each machine holds its own lock,
/// so the id is free when the machine ends.
const USERS_FOLDER: &str = "/run/pandastack/users";

/// Default user ids of machines' processes: above those of people and containers.
pub const USERS: Range<u32> = 900_000..965_536;

/// How far a machine's process is isolated from its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jail {
    /// Separate user, root, processes and limits, and no capabilities. A machine that cannot have
    /// all of it does not start.
    #[default]
    Full,
    /// Runs as the host's user and sees its files. Limits apply only if the host supports them.
    None,
}

impl FromStr for Jail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Jail::Full),
            "none" => Ok(Jail::None),
            _ => Err(format!("{text:?} is not a jail mode; use full or none")),
        }
    }
}

impl fmt::Display for Jail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if *self == Jail::Full { "full" } else { "none" })
    }
}

/// Makes the error for a failed step of the jail.
pub fn failed(step: &str) -> impl FnOnce(io::Error) -> MachineStartError + use<'_> {
    move |cause| MachineStartError::Jail { step: step.to_owned(), cause }
}

/// Makes the root that all machines of a runtime start from.
pub fn root(bundle: &Bundle, tier: Tier) -> io::Result<MountNamespace> {
    let at = |path: &str| path.trim_start_matches('/').to_owned();
    let mut entries = vec![RootEntry::Folder { at: at(RUNTIME), of: bundle.folder().to_owned() }];
    entries.extend([KERNEL, INITRAMFS].map(|path| RootEntry::Place { at: at(path) }));
    if tier == Tier::Kvm {
        entries.push(RootEntry::Device { at: at(KVM), of: KVM.into() });
    }
    MountNamespace::make(bundle.folder(), &entries)
}

/// Makes a host file visible at a place in the root, read-only.
pub fn show(file: &Path, at: &str) -> io::Result<(MountTree, CString)> {
    // Other users still cannot reach the file: the folders above it are private, so only the mount
    // exposes it.
    let mode = fs::metadata(file)?.permissions().mode();
    if mode & 0o004 == 0 {
        fs::set_permissions(file, fs::Permissions::from_mode(mode | 0o044))?;
    }
    Ok((MountTree::of(file, MountAccess::Read)?, CString::new(at)?))
}

/// A user id that no other machine on this host has.
#[derive(Debug)]
pub struct JailUser {
    pub number: u32,
    lock: File,
}

impl JailUser {
    /// Takes a free id from a range. Tries a small part of the range first, so that few files are
    /// made.
    pub fn take(range: &Range<u32>) -> io::Result<JailUser> {
        fs::create_dir_all(USERS_FOLDER)?;
        fs::set_permissions(USERS_FOLDER, fs::Permissions::from_mode(0o700))?;
        let count = range.end.saturating_sub(range.start);
        let mut window = 64.min(count);
        while window > 0 {
            for _ in 0..USER_ATTEMPTS_PER_WINDOW {
                let number = range.start + u32::from_ne_bytes(pandastack_kit::random_bytes::<4>()) % window;
                if let Some(lock) = try_lock(&Path::new(USERS_FOLDER).join(number.to_string()))? {
                    return Ok(JailUser { number, lock });
                }
            }
            if window == count {
                break;
            }
            window = window.saturating_mul(4).min(count);
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("no free user id in {range:?}")))
    }

    /// The lock that the process inherits to keep its id.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if let Err(error) = made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    // Read-only, so the process that inherits it cannot write.
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The open files that a machine's process inherits.
pub struct InheritedFiles {
    pub console: OwnedFd,
    pub tap: OwnedFd,
    pub disk: OwnedFd,
    /// Length of the disk.
    pub disk_bytes: u64,
}

impl InheritedFiles {
    /// Opens all files as the host's user, before the process exists.
    pub fn open(spec: &MachineSpec, netns: &Netns) -> Result<InheritedFiles, MachineStartError> {
        let network = |cause| MachineStartError::Network { netns: spec.network.netns.clone(), cause };
        let tap = netns.run(|| tap::attach_with_header(&spec.network.tap)).and_then(|tap| tap).map_err(network)?;
        let console = OpenOptions::new().create(true).append(true).open(spec.run_dir.join("console.log"));
        let console = console.map_err(MachineStartError::Spawn)?.into();
        let disk = open_disk(&spec.disk)?;
        let disk_bytes = disk.metadata().map_err(MachineStartError::Spawn)?.len();
        Ok(InheritedFiles { console, tap, disk: disk.into(), disk_bytes })
    }
}

fn open_disk(path: &Path) -> Result<File, MachineStartError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let named = |cause: io::Error| io::Error::new(cause.kind(), format!("open {}: {cause}", path.display()));
    opened.map_err(|cause| MachineStartError::Spawn(named(cause)))
}

/// The specification with the paths that the process sees: its disk is inherited.
pub fn seen_from_inside(spec: &MachineSpec) -> MachineSpec {
    MachineSpec { disk: inherited(DISK_FD), ..spec.clone() }
}
