//! What a host reports about a sandbox, and what is known about a volume.

use std::{fmt, str::FromStr};

/// What happened to a sandbox. The fact also tells the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactKind {
    /// The sandbox is gone. Nothing is billed from here.
    Ended,
    /// It sleeps: no machine. Bills storage only.
    Hibernated,
    /// Its CPUs are stopped, its memory stays. Bills memory and storage, but no CPU.
    Paused,
    /// A machine was started for a new sandbox, or for a fork. Bills everything.
    Started,
    /// A machine was started for a sleeping sandbox.
    Woken,
    /// The CPUs of a paused sandbox run again.
    Resumed,
    /// A running machine has another size from now on.
    Resized,
}

/// Text that names no kind of fact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind of usage fact")]
pub struct BadFactKind(String);

impl FactKind {
    pub const ALL: [Self; 7] =
        [Self::Ended, Self::Hibernated, Self::Paused, Self::Started, Self::Woken, Self::Resumed, Self::Resized];

    /// Returns the name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Hibernated => "hibernated",
            Self::Paused => "paused",
            Self::Started => "started",
            Self::Woken => "woken",
            Self::Resumed => "resumed",
            Self::Resized => "resized",
        }
    }

    /// Tells whether the machine before this fact was still there when the fact happened. A new
    /// machine says nothing about when the old one stopped.
    pub(super) const fn continues(self) -> bool {
        match self {
            Self::Ended | Self::Hibernated | Self::Paused | Self::Resumed | Self::Resized => true,
            Self::Started | Self::Woken => false,
        }
    }
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FactKind {
    type Err = BadFactKind;

    fn from_str(text: &str) -> Result<Self, BadFactKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| BadFactKind(text.chars().take(40).collect()))
    }
}

/// One fact about one sandbox. It carries the whole state after it, so that a lost fact spoils only
/// the time next to it. The host repeats its last fact with a later `seen_ns`: that is the
/// heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageFact {
    /// Counts the machines of a sandbox: 0 for the first, one more for each wake or move. Control
    /// gives it, because another host counts from another number. If control reports the end of a
    /// machine that its host lost, it uses the next epoch: the time since the last heartbeat is
    /// then not billed.
    pub epoch: u32,
    /// The host's counter. It grows with every fact, but may skip numbers.
    pub sequence: u64,
    pub kind: FactKind,
    pub vcpus: u32,
    pub memory_mib: u64,
    /// Provisioned disk of the sandbox itself, in every state but the end.
    pub storage_bytes: u64,
    /// The host's clock when it happened.
    pub at_ns: u64,
    /// The host's clock when it last confirmed that this is still the state.
    pub seen_ns: u64,
}

impl UsageFact {
    /// Limits the host's clock to the time at which control received the fact. So a clock that runs
    /// ahead cannot bill time that has not passed. Apply it before the fact is stored.
    #[must_use]
    pub fn received_at(self, now_ns: u64) -> Self {
        Self { at_ns: self.at_ns.min(now_ns), seen_ns: self.seen_ns.min(now_ns), ..self }
    }

    /// Combines two reports of the same fact: the latest time it happened and the latest time it
    /// was confirmed. A host always tells the same beginning; an earlier one was limited by a clock
    /// of control that was set back. The order and the number of reports have no effect. A table
    /// does the same with `max(at_ns)` and `max(seen_ns)`.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        // Reports of one fact never differ in this part. If a host has a defect, the smaller
        // counts.
        let state = |fact: &Self| (fact.kind, fact.vcpus, fact.memory_mib, fact.storage_bytes);
        let base = if state(&self) <= state(&other) { self } else { other };
        Self { at_ns: self.at_ns.max(other.at_ns), seen_ns: self.seen_ns.max(other.seen_ns), ..base }
    }
}

/// One fact about a volume or a database: its provisioned size from now on. Storage is billed until
/// a fact with zero bytes, whatever its host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageFact {
    /// Grows with every change of the volume.
    pub sequence: u64,
    pub at_ns: u64,
    pub bytes: u64,
}
