//! Operations on whole folders, from generation 3: make, move, chmod, walk, watch, and trees as tar
//! streams.

use minicbor::{Decode, Encode};

use crate::{DirEntry, FrameKind, Message};

macro_rules! message {
    ($($name:ty => $kind:ident),* $(,)?) => { $(impl Message for $name { const KIND: FrameKind = FrameKind::$kind; })* };
}

message! {
    CreateDir => MakeDir, RenamePath => Move, SetMode => Chmod, WalkDir => Walk, WatchPath => Watch, PathChanges => Changes,
    WalkEntries => WalkEntries, UnpackReply => Unpacked,
}

/// Makes a folder. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CreateDir {
    #[n(0)]
    pub path: String,
    /// Whether parents are made too, and an existing folder succeeds.
    #[n(1)]
    pub parents: bool,
}

/// Renames a path. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RenamePath {
    #[n(0)]
    pub from: String,
    #[n(1)]
    pub to: String,
    /// Whether an existing file is replaced.
    #[n(2)]
    pub overwrite: bool,
}

/// Sets permission bits. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SetMode {
    #[n(0)]
    pub path: String,
    #[n(1)]
    pub mode: u32,
    /// Whether it applies recursively. Links are left alone.
    #[n(2)]
    pub recursive: bool,
}

/// Lists a folder recursively. Answered by one or more `WalkEntries`, the last with END.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WalkDir {
    #[n(0)]
    pub path: String,
    /// Number of levels; 1 lists the folder's own entries.
    #[n(1)]
    pub depth: u32,
    /// Most entries to return.
    #[n(2)]
    pub entries_max: u32,
}

/// A part of a walk. Each folder comes before its contents; names are sorted.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WalkEntries {
    /// Names are paths relative to the walk's folder.
    #[n(0)]
    pub entries: Vec<DirEntry>,
    /// Whether entries are missing because of a limit or an unreadable folder. Set in the last part
    /// only.
    #[n(1)]
    pub truncated: bool,
}

/// Watches a path. Answered by `Watching` once every later change will be reported, then by
/// credited `PathChanges`. Ends with `Error`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WatchPath {
    #[n(0)]
    pub path: String,
    /// Whether folders below are watched too, new ones included.
    #[n(1)]
    pub recursive: bool,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum PathChangeKind {
    #[n(0)]
    Created,
    #[n(1)]
    Modified,
    /// Closed after it was open for writing.
    #[n(2)]
    Written,
    #[n(3)]
    Deleted,
    #[n(4)]
    MovedFrom,
    #[n(5)]
    MovedTo,
    /// Mode, owner or times changed.
    #[n(6)]
    Attributes,
    /// Some changes were lost: they came faster than they were read, or there are more folders than
    /// can be watched.
    #[n(7)]
    Overflow,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PathChange {
    #[n(0)]
    pub kind: PathChangeKind,
    #[n(1)]
    pub path: String,
    #[n(2)]
    pub folder: bool,
    /// The same in both halves of a move.
    #[n(3)]
    pub cookie: Option<u32>,
}

/// Changes in order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PathChanges {
    #[n(0)]
    pub changes: Vec<PathChange>,
}

/// Result of unpacking.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct UnpackReply {
    #[n(0)]
    pub entries: u64,
    /// Total size of the files.
    #[n(1)]
    pub bytes: u64,
}
