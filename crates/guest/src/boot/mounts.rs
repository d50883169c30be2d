//! The file systems a Linux program expects to find.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use nix::mount::{MsFlags, mount};

use super::BootError;

struct Mount {
    source: &'static str,
    target: &'static str,
    kind: &'static str,
    flags: MsFlags,
    options: &'static str,
}

const SAFE: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// Needed before the root device can be found; they move with us to the real root.
const EARLY: &[Mount] = &[
    Mount { source: "dev", target: "/dev", kind: "devtmpfs", flags: MsFlags::MS_NOSUID, options: "mode=0755" },
    Mount { source: "proc", target: "/proc", kind: "proc", flags: SAFE.union(MsFlags::MS_NOEXEC), options: "" },
    Mount { source: "sys", target: "/sys", kind: "sysfs", flags: SAFE.union(MsFlags::MS_NOEXEC), options: "" },
];

/// Wanted by programs; a kernel that lacks one still makes a usable machine.
const LATE: &[Mount] = &[
    Mount {
        source: "devpts",
        target: "/dev/pts",
        kind: "devpts",
        flags: MsFlags::MS_NOSUID,
        options: "mode=0620,gid=5,ptmxmode=0666",
    },
    Mount { source: "shm", target: "/dev/shm", kind: "tmpfs", flags: SAFE, options: "mode=1777" },
    Mount { source: "run", target: "/run", kind: "tmpfs", flags: SAFE, options: "mode=0755,size=20%" },
    Mount {
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

/// Mounts what everything else needs. What is mounted already is fine.
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

/// Mounts the rest, as far as the kernel can.
pub(super) fn late() {
    for entry in LATE {
        let _ = entry.mount();
    }
    for (to, from) in LINKS {
        let _ = std::os::unix::fs::symlink(to, from);
    }
    // Programs leave locks and sockets here.
    let _ = fs::create_dir_all("/run/lock");
}

/// Files of the sandbox's identity. Every new life rewrites them before its first user byte, so
/// they lie in memory: a write through a disk's file system and its journal is new code for a
/// restored guest, and took more than twice as long.
const IDENTITY: &[&str] = &["hostname", "hosts", "machine-id", "resolv.conf"];

/// Lays files in memory over those of the identity, as far as that works; without it they are only
/// slower.
pub(super) fn identity() {
    let _ = fs::create_dir_all("/run/pandastack");
    for name in IDENTITY {
        let (fast, target) = (format!("/run/pandastack/{name}"), format!("/etc/{name}"));
        // A link would lead elsewhere, often to something that does not run here.
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

/// Takes the early mounts along into a new root.
pub(super) fn move_early(new_root: &str) -> Result<(), BootError> {
    for entry in EARLY {
        let target = format!("{new_root}{}", entry.target);
        let _ = fs::create_dir_all(&target);
        let moved = mount(Some(entry.target), target.as_str(), None::<&str>, MsFlags::MS_MOVE, None::<&str>);
        moved.map_err(|cause| BootError::Mount { target, cause: cause.into() })?;
    }
    Ok(())
}

impl Mount {
    fn mount(&self) -> io::Result<()> {
        if !Path::new(self.target).is_dir() {
            fs::create_dir_all(self.target)?;
        }
        Ok(mount(Some(self.source), self.target, Some(self.kind), self.flags, Some(self.options))?)
    }
}
