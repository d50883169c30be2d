//! Mount namespaces that hold only what was put into them. A [`Root`] is one that is made once: a
//! read-only tree with some folders of the host in it and empty places for more. A process that is
//! to live in it takes a copy (see `jail`) and fills the places with [`Tree`]s of its own. Copying
//! costs little because the root has left every mount of the host behind. Needs Linux 5.12; never
//! moves the calling thread.
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

/// The root holds a handful of empty files; more than this means a mistake.
const ROOT_OPTIONS: &str = "size=64k,nr_inodes=64,mode=755";

/// What a root has, beside nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder of the host, read-only for everybody in here.
    Folder { at: String, of: PathBuf },
    /// An empty file, to be covered by a [`Tree`].
    Place { at: String },
    /// A device of the host under a node of its own, for every user.
    Device { at: String, of: PathBuf },
}

/// A mount namespace of its own, kept as long as this is.
#[derive(Debug)]
pub struct Root {
    namespace: File,
}

/// A copy of a part of the host's mounts that is nowhere yet.
#[derive(Debug)]
pub struct Tree {
    mount: OwnedFd,
}

/// What may be done through a [`Tree`]: never writing, and set-user-id and devices never work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    /// Read, and run programs.
    Run,
}

impl Root {
    /// Makes a root. `over` is any folder of the host; it is covered for a moment, in the new
    /// namespace only.
    pub fn make(over: &Path, entries: &[Entry]) -> io::Result<Root> {
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("jail-root".to_owned());
            let made = thread.spawn_scoped(scope, || make_here(over, entries))?;
            made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

/// Runs on a thread that ends afterwards, because it cannot come back.
fn make_here(over: &Path, entries: &[Entry]) -> io::Result<Root> {
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
    let namespace = File::open("/proc/thread-self/ns/mnt")?;
    let none: Option<&str> = None;
    // Nothing that is mounted from here on may appear on the host, nor the other way round.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    // Taken before `over` is covered, which may be one of them or lie above one.
    let parts = entries.iter().map(Part::take).collect::<io::Result<Vec<_>>>()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("jail"), over, Some("tmpfs"), flags, Some(ROOT_OPTIONS))?;
    for (part, at) in parts {
        part.put(&over.join(at))?;
    }
    chdir(over)?;
    pivot_root(".", ".")?;
    // The host's old root lies over the new one now; without it nothing of the host is left in
    // here.
    umount2(".", MntFlags::MNT_DETACH)?;
    chdir("/")?;
    mount(none, "/", none, flags | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none)?;
    Ok(Root { namespace })
}

/// An entry on its way into a root.
enum Part {
    Folder(Tree),
    Place,
    Device(u64),
}

impl Part {
    fn take(entry: &Entry) -> io::Result<(Part, &str)> {
        Ok(match entry {
            Entry::Folder { at, of } => (Part::Folder(Tree::of(of, Use::Run)?), at),
            Entry::Place { at } => (Part::Place, at),
            Entry::Device { at, of } => (Part::Device(fs::metadata(of)?.rdev()), at),
        })
    }

    fn put(self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            make_public_folder(parent)?;
        }
        match self {
            Part::Folder(tree) => {
                make_public_folder(path)?;
                let at = CString::new(path.as_os_str().as_bytes())?;
                // SAFETY: `at` is a C string.
                if !unsafe { put(tree.as_fd().as_raw_fd(), at.as_ptr()) } {
                    return Err(io::Error::last_os_error());
                }
            }
            Part::Place => drop(File::create(path)?),
            Part::Device(device) => {
                mknod(path, SFlag::S_IFCHR, Mode::empty(), device)?;
                // Not by `mknod`, which the caller's mask would take some of it from.
                fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
            }
        }
        Ok(())
    }
}

/// Makes a folder that every user may enter, whatever the caller's umask is: a machine's user is
/// not the owner of its root.
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

impl Tree {
    /// Takes a copy of the mount that a file lies on, seen from that file.
    pub fn of(path: &Path, allowed: Use) -> io::Result<Tree> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC;
        // SAFETY: the path is a C string that lives through the call; the answer is a new
        // descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        let mount = unsafe { OwnedFd::from_raw_fd(checked(fd)?) };
        let mut set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        if allowed == Use::Read {
            set |= MOUNT_ATTR_NOEXEC;
        }
        let attributes = Attributes { set, clear: 0, propagation: libc::MS_PRIVATE, userns: 0 };
        // SAFETY: the descriptor is open, the empty path is a C string, and the kernel reads as
        // many bytes as the structure has.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                mount.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                &raw const attributes,
                size_of::<Attributes>(),
            )
        };
        checked(result)?;
        Ok(Tree { mount })
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }
}

/// Puts a tree over a place of the calling process's own namespace.
///
/// # Safety
/// `at` must be a C string. Only makes a system call, so that a borrowed child may use it.
pub(crate) unsafe fn put(tree: RawFd, at: *const c_char) -> bool {
    // SAFETY: as promised by the caller.
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
struct Attributes {
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
