//! Operations on whole folders of a guest.

use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;
use pandastack_model::{Fault, FaultKind, SandboxId};

use crate::{ByteStream, FileEntry};

/// Whether an operation includes the folders above or below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathScope {
    Only,
    All,
}

/// What happens to an existing file at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingTarget {
    Stays,
    Goes,
}

/// Request to list a folder recursively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkParams {
    pub path: String,
    /// Number of levels; 1 lists the folder's own entries.
    pub depth: u32,
    pub entries_max: u32,
}

/// A recursive listing. Each folder comes before its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkResult {
    /// Names are paths relative to the folder. The host has checked them.
    pub entries: Vec<FileEntry>,
    /// Whether the listing is incomplete.
    pub truncated: bool,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChangeKind {
    Created,
    Modified,
    Written,
    Deleted,
    MovedFrom,
    MovedTo,
    Attributes,
    /// Some changes were lost.
    Overflow,
}

/// One change below a watched path. The path comes from an untrusted guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub kind: FileChangeKind,
    pub path: String,
    pub folder: bool,
    /// The same in both halves of a move.
    pub cookie: Option<u32>,
}

/// A stream of changes. Dropping it ends the watch.
pub type FileChangeStream = Pin<Box<dyn Stream<Item = Result<Vec<FileChange>, Fault>> + Send>>;

/// Result of unpacking an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackSummary {
    pub entries: u64,
    /// Total size of the files.
    pub bytes: u64,
}

/// A host whose guests handle whole folders.
#[async_trait]
pub trait TreePort: Send + Sync + 'static {
    /// Makes a folder. With `PathScope::All` also its parents, and an existing folder succeeds.
    async fn make_dir(&self, _: SandboxId, _path: &str, _: PathScope) -> Result<(), Fault> {
        cannot()
    }

    async fn move_path(&self, _: SandboxId, _from: &str, _to: &str, _: ExistingTarget) -> Result<(), Fault> {
        cannot()
    }

    /// Sets permission bits; with `PathScope::All` recursively.
    async fn chmod(&self, _: SandboxId, _path: &str, _mode: u32, _: PathScope) -> Result<(), Fault> {
        cannot()
    }

    async fn walk(&self, _: SandboxId, _: WalkParams) -> Result<WalkResult, Fault> {
        cannot()
    }

    /// Watches a path. Returns once every later change will be reported.
    async fn watch(&self, _: SandboxId, _path: &str, _: PathScope) -> Result<FileChangeStream, Fault> {
        cannot()
    }

    /// Reads a folder or a file as a tar archive.
    async fn read_tree(&self, _: SandboxId, _path: &str) -> Result<ByteStream, Fault> {
        cannot()
    }

    /// Unpacks a tar archive below a folder, which is created if it is missing.
    async fn write_tree(&self, _: SandboxId, _path: &str, _: ByteStream) -> Result<UnpackSummary, Fault> {
        cannot()
    }
}

fn cannot<T>() -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Conflict, "host.cannot", "this host does not support directory operations"))
}
