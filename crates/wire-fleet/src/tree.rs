//! Folders of a guest as wholes.

use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;
use pandastack_model::{Fault, FaultKind, SandboxId};

use crate::{ByteStream, FileEntry};

/// Whether what is above or below is meant too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Only,
    All,
}

/// What happens to a file that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTheWay {
    Stays,
    Goes,
}

/// Asks for a folder and what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkAsk {
    pub path: String,
    /// How many levels; 1 is the folder's own entries.
    pub depth: u32,
    pub entries_max: u32,
}

/// A folder and what is below it, each folder before what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// With paths below the folder for names, checked by the host.
    pub entries: Vec<FileEntry>,
    /// Whether there is more.
    pub truncated: bool,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Created,
    Modified,
    Written,
    Deleted,
    MovedFrom,
    MovedTo,
    Attributes,
    /// Some changes are not told.
    Overflow,
}

/// One change below a watched path. The path comes from an untrusted guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    pub path: String,
    pub folder: bool,
    /// The same in both halves of a move.
    pub cookie: Option<u32>,
}

/// Changes under way. Dropping it ends the watch.
pub type ChangeStream = Pin<Box<dyn Stream<Item = Result<Vec<Change>, Fault>> + Send>>;

/// What an archive held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
}

/// A host whose guests handle folders as wholes.
#[async_trait]
pub trait TreePort: Send + Sync + 'static {
    /// Makes a folder; with `Reach::All` also those above it, and one that is there is fine.
    async fn make_dir(&self, _: SandboxId, _path: &str, _: Reach) -> Result<(), Fault> {
        cannot()
    }

    async fn move_path(&self, _: SandboxId, _from: &str, _to: &str, _: InTheWay) -> Result<(), Fault> {
        cannot()
    }

    /// Sets permission bits; with `Reach::All` also those of everything below.
    async fn chmod(&self, _: SandboxId, _path: &str, _mode: u32, _: Reach) -> Result<(), Fault> {
        cannot()
    }

    async fn walk(&self, _: SandboxId, _: WalkAsk) -> Result<Walked, Fault> {
        cannot()
    }

    /// Answers when every change from now on will be told.
    async fn watch(&self, _: SandboxId, _path: &str, _: Reach) -> Result<ChangeStream, Fault> {
        cannot()
    }

    /// Gives a folder or a file as a tar archive.
    async fn read_tree(&self, _: SandboxId, _path: &str) -> Result<ByteStream, Fault> {
        cannot()
    }

    /// Puts what a tar archive holds below a folder, which is made if it is not there.
    async fn write_tree(&self, _: SandboxId, _path: &str, _: ByteStream) -> Result<Unpacked, Fault> {
        cannot()
    }
}

fn cannot<T>() -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Conflict, "host.cannot", "this host does not handle folders as wholes"))
}
