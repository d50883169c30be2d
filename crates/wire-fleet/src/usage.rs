//! What a host tells about the use of its machines. Bills are made from this alone.

use pandastack_model::SandboxId;

/// How far a reader has read a host's facts. The default is the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageCursor {
    /// Names the host's ledger. Another ledger counts from the beginning.
    pub ledger: String,
    /// Highest revision that was read.
    pub revision: u64,
}

/// A part of a host's facts, in the order of their revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsagePage {
    pub facts: Vec<MachineFact>,
    /// Where the next page begins.
    pub cursor: UsageCursor,
    /// Whether more facts can be read now.
    pub more: bool,
}

/// One fact about a sandbox's machine, with the whole state after it. A host tells its last fact
/// again, with a later `seen_ns`, while nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineFact {
    pub sandbox: SandboxId,
    /// Counts the sandbox's machines from 0. It also grows when the host's clock was set.
    pub epoch: u32,
    /// Grows with every fact of this host.
    pub sequence: u64,
    pub change: MachineEvent,
    pub vcpus: u8,
    pub memory_mib: u64,
    /// Size of the sandbox's own disk as its guest sees it.
    pub disk_bytes: u64,
    /// When it happened, by a clock that is not set while the host runs. Unix time.
    pub at_ns: u64,
    /// When the host last confirmed that this is still the state.
    pub seen_ns: u64,
}

/// What happened to a sandbox's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MachineEvent {
    /// A machine runs for a new sandbox or fork, or a lost one was replaced.
    Started,
    /// Its CPUs are stopped.
    Paused,
    /// Its CPUs run again.
    Resumed,
    /// It sleeps, without a machine.
    Hibernated,
    /// A machine runs for a sandbox that slept.
    Woken,
    /// The sandbox is gone, or its machine died and does not come back.
    Ended,
}

impl MachineEvent {
    pub const ALL: [Self; 6] = [Self::Started, Self::Paused, Self::Resumed, Self::Hibernated, Self::Woken, Self::Ended];

    /// Returns the name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Hibernated => "hibernated",
            Self::Woken => "woken",
            Self::Ended => "ended",
        }
    }

    /// Reads the name in tables.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| change.as_str() == name)
    }
}
