//! Mount namespaces with chosen contents. A [`MountNamespace`] is made once: a read-only tree with
//! some host folders and empty places. A jailed process takes a copy (see `jail`) and mounts its
//! own [`MountTree`]s on the places. A copy is cheap, because the root holds no other mounts of the
//! host. Needs Linux 5.12. Never moves the calling thread.
#![allow(unsafe_code)]

use std::{
    ffi::{CString, c_char},
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::stat::{Mode, SFlag, mknod},
    unistd::{chdir, pivot_root},
};

/// The root holds only a few empty files. A larger root is an error.
const ROOT_OPTIONS: &str = "size=64k,nr_inodes=64,mode=755";

/// An entry of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEntry {
    /// A host folder, read-only.
    Folder { at: String, of: PathBuf },
    /// An empty file, to be covered by a [`MountTree`].
    Place { at: String },
    /// A host device with its own node, usable by every user.
    Device { at: String, of: PathBuf },
}

/// A mount namespace, which exists as long as this handle.
#[derive(Debug)]
pub struct MountNamespace {
    namespace: File,
}

/// A copy of a part of the host's mounts, not attached anywhere yet.
#[derive(Debug)]
pub struct MountTree {
    mount: OwnedFd,
}

/// Access through a [`MountTree`]. Writing, set-user-id and devices are never allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    Read,
    /// Read, and execute programs.
    Run,
}

impl MountNamespace {
    /// Makes a root. `over` is any host folder. It is used as a mount point, in the new namespace
    /// only.
    pub fn make(over: &Path, entries: &[RootEntry]) -> io::Result<MountNamespace> {
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("jail-root".to_owned());
            let made = thread.spawn_scoped(scope, || make_here(over, entries))?;
            made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl AsFd for MountNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

/// Runs on a thread that ends afterwards, because the thread cannot return to its old namespace.
fn make_here(over: &Path, entries: &[RootEntry]) -> io::Result<MountNamespace> {
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
    let namespace = File::open("/proc/thread-self/ns/mnt")?;
    let none: Option<&str> = None;
    // New mounts must not propagate to the host, nor back.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    // Taken before `over` is mounted on, because `over` may be one of them or contain one.
    let parts = entries.iter().map(PendingEntry::take).collect::<io::Result<Vec<_>>>()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("jail"), over, Some("tmpfs"), flags, Some(ROOT_OPTIONS))?;
    for (part, at) in parts {
        part.put(&over.join(at))?;
    }
    chdir(over)?;
    pivot_root(".", ".")?;
    // The host's old root is mounted over the new one. After this, nothing of the host is left.
    umount2(".", MntFlags::MNT_DETACH)?;
    chdir("/")?;
    mount(none, "/", none, flags | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none)?;
    Ok(MountNamespace { namespace })
}

/// An entry that is not in the root yet.
enum PendingEntry {
    Folder(MountTree),
    Place,
    Device(u64),
}

impl PendingEntry {
    fn take(entry: &RootEntry) -> io::Result<(PendingEntry, &str)> {
        Ok(match entry {
            RootEntry::Folder { at, of } => (PendingEntry::Folder(MountTree::of(of, MountAccess::Run)?), at),
            RootEntry::Place { at } => (PendingEntry::Place, at),
            RootEntry::Device { at, of } => (PendingEntry::Device(fs::metadata(of)?.rdev()), at),
        })
    }

    fn put(self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            make_public_folder(parent)?;
        }
        match self {
            PendingEntry::Folder(tree) => {
                make_public_folder(path)?;
                let at = CString::new(path.as_os_str().as_bytes())?;
                // SAFETY: `at` is a C string.
                if !unsafe { put(tree.as_fd().as_raw_fd(), at.as_ptr()) } {
                    return Err(io::Error::last_os_error());
                }
            }
            PendingEntry::Place => drop(File::create(path)?),
            PendingEntry::Device(device) => {
                mknod(path, SFlag::S_IFCHR, Mode::empty(), device)?;
                // `mknod` would apply the caller's umask.
                fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
            }
        }
        Ok(())
    }
}

/// Makes a folder that every user may enter, with any umask of the caller. A machine's user does
/// not own its root.
fn make_public_folder(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_public_folder(parent)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

impl MountTree {
    /// Copies the mount at a path.
    pub fn of(path: &Path, allowed: MountAccess) -> io::Result<MountTree> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC;
        // SAFETY: the path is a C string that lives through the call; the answer is a new
        // descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
        // SAFETY: the kernel has just returned this descriptor, and no other code holds it.
        let mount = unsafe { OwnedFd::from_raw_fd(checked(fd)?) };
        let mut set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        if allowed == MountAccess::Read {
            set |= MOUNT_ATTR_NOEXEC;
        }
        let attributes = MountAttributes { set, clear: 0, propagation: libc::MS_PRIVATE, userns: 0 };
        // SAFETY: the descriptor is open, the empty path is a C string, and the kernel reads as
        // many bytes as the structure has.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                mount.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                &raw const attributes,
                size_of::<MountAttributes>(),
            )
        };
        checked(result)?;
        Ok(MountTree { mount })
    }
}

impl AsFd for MountTree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }
}

/// Mounts a tree on a place in the calling process's namespace.
///
/// # Safety
/// `at` must be a C string. Makes one system call only, so a child that shares our memory may use
/// it.
pub(crate) unsafe fn put(tree: RawFd, at: *const c_char) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::syscall(libc::SYS_move_mount, tree, c"".as_ptr(), libc::AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) == 0 }
}

// From linux/mount.h.
const OPEN_TREE_CLONE: libc::c_int = 1;
const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const MOUNT_ATTR_NOEXEC: u64 = 8;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;

/// `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

fn checked(result: libc::c_long) -> io::Result<RawFd> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_may_enter_the_folders_of_a_root_though_the_server_makes_private_ones() {
        let top = std::env::temp_dir().join(format!("pandastack-root-{}", std::process::id()));
        crate::private::close_umask();
        make_public_folder(&top.join("dev/deep")).unwrap();
        for name in ["", "dev", "dev/deep"] {
            assert_eq!(fs::metadata(top.join(name)).unwrap().permissions().mode() & 0o777, 0o755, "{name}");
        }
        fs::remove_dir_all(&top).unwrap();
    }
}
