//! The file systems that Linux programs expect.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use nix::mount::{MsFlags, mount};

use super::BootError;

struct BootMount {
    source: &'static str,
    target: &'static str,
    kind: &'static str,
    flags: MsFlags,
    options: &'static str,
}

const SAFE: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// Needed before the root device can be found. They move to the real root.
const EARLY: &[BootMount] = &[
    BootMount { source: "dev", target: "/dev", kind: "devtmpfs", flags: MsFlags::MS_NOSUID, options: "mode=0755" },
    BootMount { source: "proc", target: "/proc", kind: "proc", flags: SAFE.union(MsFlags::MS_NOEXEC), options: "" },
    BootMount { source: "sys", target: "/sys", kind: "sysfs", flags: SAFE.union(MsFlags::MS_NOEXEC), options: "" },
];

/// Needed by programs. A machine without one of them is still usable.
const LATE: &[BootMount] = &[
    BootMount {
        source: "devpts",
        target: "/dev/pts",
        kind: "devpts",
        flags: MsFlags::MS_NOSUID,
        options: "mode=0620,gid=5,ptmxmode=0666",
    },
    BootMount { source: "shm", target: "/dev/shm", kind: "tmpfs", flags: SAFE, options: "mode=1777" },
    BootMount { source: "run", target: "/run", kind: "tmpfs", flags: SAFE, options: "mode=0755,size=20%" },
    BootMount {
        source: "cgroup",
        target: "/sys/fs/cgroup",
        kind: "cgroup2",
        flags: SAFE.union(MsFlags::MS_NOEXEC),
        options: "nsdelegate",
    },
];

/// Links that programs and shells rely on.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts the early file systems. An existing mount is accepted.
pub(super) fn early() -> Result<(), BootError> {
    for entry in EARLY {
        match entry.mount() {
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                return Err(BootError::Mount { target: entry.target.to_owned(), cause: error });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Mounts the late file systems, as far as the kernel supports them.
pub(super) fn late() {
    for entry in LATE {
        let _ = entry.mount();
    }
    for (to, from) in LINKS {
        let _ = std::os::unix::fs::symlink(to, from);
    }
    // Folder for the lock files of programs.
    let _ = fs::create_dir_all("/run/lock");
}

/// Files of the sandbox's identity, kept in memory. Every rebirth rewrites them before the first
/// user byte. A write through a disk's file system and journal is new code for a restored guest,
/// and took more than twice as long.
const IDENTITY: &[&str] = &["hostname", "hosts", "machine-id", "resolv.conf"];

/// Mounts files in memory over the identity files where possible. Without them, a rebirth is only
/// slower.
pub(super) fn identity() {
    let _ = fs::create_dir_all("/run/pandastack");
    for name in IDENTITY {
        let (fast, target) = (format!("/run/pandastack/{name}"), format!("/etc/{name}"));
        // A symlink would lead elsewhere, often to the file of a service that does not run here.
        if fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_symlink()) {
            let _ = fs::remove_file(&target);
        }
        let contents = fs::read(&target).unwrap_or_default();
        let laid = fs::write(&fast, &contents)
            .and_then(|()| File::options().create(true).append(true).open(&target))
            .and_then(|_| {
                Ok(mount(Some(fast.as_str()), target.as_str(), None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
            });
        if laid.is_err() {
            let _ = fs::remove_file(&fast);
        }
    }
}

/// Moves the early mounts into a new root.
pub(super) fn move_early(new_root: &str) -> Result<(), BootError> {
    for entry in EARLY {
        let target = format!("{new_root}{}", entry.target);
        let _ = fs::create_dir_all(&target);
        let moved = mount(Some(entry.target), target.as_str(), None::<&str>, MsFlags::MS_MOVE, None::<&str>);
        moved.map_err(|cause| BootError::Mount { target, cause: cause.into() })?;
    }
    Ok(())
}

impl BootMount {
    fn mount(&self) -> io::Result<()> {
        if !Path::new(self.target).is_dir() {
            fs::create_dir_all(self.target)?;
        }
        Ok(mount(Some(self.source), self.target, Some(self.kind), self.flags, Some(self.options))?)
    }
}
