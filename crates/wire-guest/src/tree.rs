//! Folders as wholes, from generation 3: making, moving, modes, walking, watching, and trees as tar
//! streams.

use minicbor::{Decode, Encode};

use crate::{Entry, Kind, Message};

macro_rules! message {
    ($($name:ty => $kind:ident),* $(,)?) => { $(impl Message for $name { const KIND: Kind = Kind::$kind; })* };
}

message! {
    MakeDir => MakeDir, Move => Move, Chmod => Chmod, Walk => Walk, Watch => Watch, Changes => Changes,
    Branches => Branches, Unpacked => Unpacked,
}

/// Makes a folder. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MakeDir {
    #[n(0)]
    pub path: String,
    /// Whether those above are made too, and one that is there is fine.
    #[n(1)]
    pub parents: bool,
}

/// Gives a path another name. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Move {
    #[n(0)]
    pub from: String,
    #[n(1)]
    pub to: String,
    /// Whether a file that is there is replaced.
    #[n(2)]
    pub overwrite: bool,
}

/// Sets permission bits. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Chmod {
    #[n(0)]
    pub path: String,
    #[n(1)]
    pub mode: u32,
    /// Whether everything below has them too, links excepted.
    #[n(2)]
    pub recursive: bool,
}

/// Lists a folder and what is below it. Answered by one or more `Branches`, the last with END.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Walk {
    #[n(0)]
    pub path: String,
    /// How many levels; 1 is the folder's own entries.
    #[n(1)]
    pub depth: u32,
    /// How many entries at most.
    #[n(2)]
    pub entries_max: u32,
}

/// A part of a walk: each folder before what is in it, names in order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Branches {
    /// With paths below the walk's folder for names.
    #[n(0)]
    pub entries: Vec<Entry>,
    /// Whether there is more than was asked for or could be read. Only the last part says so.
    #[n(1)]
    pub truncated: bool,
}

/// Watches a path. Answered by `Watching` once every change from then on will be told, then
/// `Changes`; each of them is credited. Ends with `Error`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Watch {
    #[n(0)]
    pub path: String,
    /// Whether folders below are watched too, new ones included.
    #[n(1)]
    pub recursive: bool,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ChangeKind {
    #[n(0)]
    Created,
    #[n(1)]
    Modified,
    /// Closed by somebody who could write.
    #[n(2)]
    Written,
    #[n(3)]
    Deleted,
    #[n(4)]
    MovedFrom,
    #[n(5)]
    MovedTo,
    /// Mode, owner or times.
    #[n(6)]
    Attributes,
    /// Changes came faster than they were taken, or there are more folders than are watched: some
    /// are not told.
    #[n(7)]
    Overflow,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Change {
    #[n(0)]
    pub kind: ChangeKind,
    #[n(1)]
    pub path: String,
    #[n(2)]
    pub folder: bool,
    /// The same in both halves of a move.
    #[n(3)]
    pub cookie: Option<u32>,
}

/// Changes in their order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Changes {
    #[n(0)]
    pub changes: Vec<Change>,
}

/// A finished unpacking.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Unpacked {
    #[n(0)]
    pub entries: u64,
    /// Bytes of files.
    #[n(1)]
    pub bytes: u64,
}
