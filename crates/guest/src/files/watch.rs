//! Reports changes at a path, by inotify. All folders are watched before the host gets `Watching`;
//! every later change is reported, or its loss is. A new folder is watched as soon as it is
//! reported. The entries found in it then are reported as created, so a change may be reported
//! twice.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs, io, mem,
    os::fd::AsFd,
    path::{Path, PathBuf},
    rc::Rc,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};
use pandastack_wire_guest::{ErrorKind, Frame, FrameKind, Message, PathChange, PathChangeKind, PathChanges, WatchPath};

use super::{absolute, failed};
use crate::{
    Agent,
    descriptor::{self, AsyncDescriptor},
    limits,
    session::{AgentChannel, GuestFault},
};

/// Encoded size of a change without its path, rounded up.
const CHANGE_BYTES: usize = 32;

/// Number of active watches.
#[derive(Default)]
pub(crate) struct WatchCount(Cell<usize>);

/// One active watch; uncounted when dropped.
struct CountedWatch(Rc<Agent>);

impl CountedWatch {
    fn take(agent: &Rc<Agent>) -> Result<Self, GuestFault> {
        let count = &agent.watchers.0;
        if count.get() >= limits::WATCHES_MAX {
            let text = format!("{} watches are already open; close one first", limits::WATCHES_MAX);
            return Err(GuestFault::new(ErrorKind::Full, text));
        }
        count.set(count.get() + 1);
        Ok(Self(agent.clone()))
    }
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let count = &self.0.watchers.0;
        count.set(count.get() - 1);
    }
}

/// Watches until the host cancels or the path is gone.
pub(crate) async fn watch(agent: &Rc<Agent>, channel: &AgentChannel, ask: WatchPath) -> Result<Frame, GuestFault> {
    let path = absolute(&ask.path)?;
    let _place = CountedWatch::take(agent)?;
    let mut watcher = PathWatcher::new(path, ask.recursive)?;
    watcher.arm().await?;
    channel.send(Frame::new(channel.id, FrameKind::Watching, Bytes::new())).await;
    loop {
        watcher.hear().await?;
        send(channel, mem::take(&mut watcher.changes)).await;
        if watcher.gone {
            return Err(GuestFault::new(ErrorKind::Missing, "the watched path was deleted or moved"));
        }
    }
}

async fn send(channel: &AgentChannel, changes: Vec<PathChange>) {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut left = changes.into_iter().peekable();
    while let Some(change) = left.next() {
        bytes += CHANGE_BYTES + change.path.len();
        batch.push(change);
        if bytes > limits::CHANGES_BYTES || left.peek().is_none() {
            let frame = PathChanges { changes: mem::take(&mut batch) }.frame(channel.id);
            channel.room_for(frame.payload.len()).await.send(frame);
            bytes = 0;
        }
    }
}

struct PathWatcher {
    notes: Inotify,
    /// The same descriptor, registered with the runtime.
    ready: AsyncDescriptor,
    root: PathBuf,
    recursive: bool,
    paths: BTreeMap<WatchDescriptor, PathBuf>,
    /// The first half of a folder's move, until the next event gives the target.
    leaving: Option<(u32, PathBuf)>,
    /// Received and not yet sent.
    changes: Vec<PathChange>,
    gone: bool,
}

impl PathWatcher {
    fn new(root: &Path, recursive: bool) -> Result<Self, GuestFault> {
        let made = || -> io::Result<(Inotify, AsyncDescriptor)> {
            let notes = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
            let ready = descriptor::watch(notes.as_fd().try_clone_to_owned()?)?;
            Ok((notes, ready))
        };
        let (notes, ready) = made().map_err(failed("watch", root))?;
        let (paths, changes) = (BTreeMap::new(), Vec::new());
        Ok(Self { notes, ready, root: root.to_owned(), recursive, paths, leaving: None, changes, gone: false })
    }

    /// Watches the root, and everything below it if the watch is recursive.
    async fn arm(&mut self) -> Result<(), GuestFault> {
        let root = self.root.clone();
        let added = self.notes.add_watch(&root, changes_of_interest());
        self.paths.insert(added.map_err(|cause| failed("watch", &root)(cause.into()))?, root.clone());
        if self.recursive && root.is_dir() {
            let mut folders = folders_in(&root);
            while let Some(folder) = folders.pop() {
                match self.add(&folder) {
                    Ok(()) => folders.extend(folders_in(&folder)),
                    Err(WatchRefusal::Gone) => {}
                    Err(WatchRefusal::TooMany) => {
                        let text = format!("there are more than {} directories to watch", limits::WATCHED_FOLDERS_MAX);
                        return Err(GuestFault::new(ErrorKind::Full, text));
                    }
                }
                if self.paths.len().is_multiple_of(limits::ENTRIES_PER_TURN) {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }

    /// Waits until there is a change to report, or the root is gone.
    async fn hear(&mut self) -> Result<(), GuestFault> {
        while self.changes.is_empty() && !self.gone {
            let mut ready = self.ready.readable().await.map_err(failed("watch", &self.root))?;
            let notes = ready.try_io(|_| Ok(self.notes.read_events()?));
            drop(ready);
            match notes {
                Ok(notes) => notes.map_err(failed("watch", &self.root))?.into_iter().for_each(|note| self.take(note)),
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, note: InotifyEvent) {
        self.settle_move(&note);
        if note.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            self.tell(PathChangeKind::Overflow, self.root.clone(), false, 0);
            // New folders may have been missed.
            return self.follow_all_below(&self.root.clone(), NewFolderReport::Nothing);
        }
        if note.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.paths.remove(&note.wd);
            return;
        }
        let Some(folder) = self.paths.get(&note.wd).cloned() else { return };
        let is_root = folder == self.root;
        let leaves = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_UNMOUNT;
        if note.mask.intersects(leaves) {
            if is_root {
                self.gone = true;
                self.tell(PathChangeKind::Deleted, folder, false, 0);
            }
            return;
        }
        let path = match &note.name {
            Some(name) => folder.join(name),
            None if is_root => folder,
            // The watch of its parent reports the same.
            None => return,
        };
        let is_folder = note.mask.contains(AddWatchFlags::IN_ISDIR);
        let Some(kind) = kind_of(note.mask) else { return };
        self.tell(kind, path.clone(), is_folder, note.cookie);
        if self.recursive && is_folder {
            match kind {
                PathChangeKind::Created => self.follow_all_below(&path, NewFolderReport::Found),
                PathChangeKind::MovedTo => self.follow_all_below(&path, NewFolderReport::Nothing),
                PathChangeKind::MovedFrom => self.leaving = Some((note.cookie, path)),
                _ => {}
            }
        }
    }

    /// Stops watching a folder that was moved to a place outside the watch.
    fn settle_move(&mut self, note: &InotifyEvent) {
        let Some((cookie, path)) = self.leaving.take() else { return };
        if note.cookie == cookie && note.mask.contains(AddWatchFlags::IN_MOVED_TO) {
            return;
        }
        let left: Vec<_> = self.paths.iter().filter(|(_, at)| at.starts_with(&path)).map(|(wd, _)| *wd).collect();
        for wd in left {
            let _ = self.notes.rm_watch(wd);
            self.paths.remove(&wd);
        }
    }

    /// Watches a new folder and everything below it.
    fn follow_all_below(&mut self, folder: &Path, tell: NewFolderReport) {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            match self.add(&folder) {
                Ok(()) => {}
                Err(WatchRefusal::Gone) => continue,
                Err(WatchRefusal::TooMany) => return self.tell(PathChangeKind::Overflow, folder, true, 0),
            }
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if tell == NewFolderReport::Found {
                    self.tell(PathChangeKind::Created, entry.path(), is_folder, 0);
                }
                if is_folder {
                    folders.push(entry.path());
                }
            }
        }
    }

    fn add(&mut self, folder: &Path) -> Result<(), WatchRefusal> {
        if self.paths.len() >= limits::WATCHED_FOLDERS_MAX {
            return Err(WatchRefusal::TooMany);
        }
        let flags = changes_of_interest() | AddWatchFlags::IN_ONLYDIR | AddWatchFlags::IN_DONT_FOLLOW;
        match self.notes.add_watch(folder, flags) {
            Ok(wd) => {
                // Also updates the path of a renamed folder, whose descriptor stays the same.
                self.paths.insert(wd, folder.to_owned());
                Ok(())
            }
            Err(Errno::ENOSPC | Errno::ENOMEM) => Err(WatchRefusal::TooMany),
            Err(_) => Err(WatchRefusal::Gone),
        }
    }

    fn tell(&mut self, kind: PathChangeKind, path: PathBuf, folder: bool, cookie: u32) {
        let path = path.to_string_lossy().into_owned();
        self.changes.push(PathChange { kind, path, folder, cookie: (cookie != 0).then_some(cookie) });
    }
}

/// Whether the entries found in a new folder are reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewFolderReport {
    Found,
    Nothing,
}

/// Why a folder is not watched.
enum WatchRefusal {
    /// It is no longer a folder.
    Gone,
    TooMany,
}

fn changes_of_interest() -> AddWatchFlags {
    AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
}

fn kind_of(mask: AddWatchFlags) -> Option<PathChangeKind> {
    let kinds = [
        (AddWatchFlags::IN_CREATE, PathChangeKind::Created),
        (AddWatchFlags::IN_MODIFY, PathChangeKind::Modified),
        (AddWatchFlags::IN_CLOSE_WRITE, PathChangeKind::Written),
        (AddWatchFlags::IN_DELETE, PathChangeKind::Deleted),
        (AddWatchFlags::IN_MOVED_FROM, PathChangeKind::MovedFrom),
        (AddWatchFlags::IN_MOVED_TO, PathChangeKind::MovedTo),
        (AddWatchFlags::IN_ATTRIB, PathChangeKind::Attributes),
    ];
    kinds.into_iter().find_map(|(flag, kind)| mask.contains(flag).then_some(kind))
}

fn folders_in(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
