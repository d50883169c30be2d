//! How an archive is doing, and the news of it.

/// State of one database's archive, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArchiveHealth {
    Ok,
    /// Files wait on this server's disk for longer than they should, or the disk's share is full.
    Behind,
    /// A segment is missing: a new base backup is needed before later times can be restored.
    Gap,
    /// Uploads fail again and again, or two different files have one name.
    Failing,
}

/// One change of a database's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthChange {
    pub database: String,
    pub old: ArchiveHealth,
    pub new: ArchiveHealth,
}
