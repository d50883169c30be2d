//! The kinds of sandbox events. One list for the event stream, the webhooks and their
//! documentation.

use std::fmt;

/// A kind of event. Its name is part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    Running,
    /// Sent with `Running`, for published clients that wait for it.
    SshReady,
    Paused,
    Resumed,
    Hibernated,
    Woken,
    Forked,
    Deleted,
    ForkStaged,
    ForkChildFailed,
    ForkCompleted,
    TreeCompleted,
    TreePromoted,
    EgressDenied,
    MachineDied,
    RecoveredOrphan,
    RecoveredAsleep,
    /// A workspace has used a share of its budget.
    BudgetAlert,
    /// A workspace has used its budget up.
    BudgetUsedUp,
    /// A database whose machine died is started again.
    DatabaseRestarted,
    /// The volume of a database was nearly full and grew.
    DatabaseGrown,
    /// The volume of a database is nearly full and could not grow.
    DatabaseNotGrown,
    /// A base backup of a database failed.
    DatabaseBackupFailed,
    /// The log of a database does not reach its archive, or not in time.
    DatabaseArchiveFailing,
    /// The log of a database reaches its archive again.
    DatabaseArchiveRecovered,
}

/// Where a kind of event is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAudience {
    /// The sandbox's event list and stream, and webhooks.
    Everyone,
    /// The sandbox's event list and stream only.
    Stream,
}

impl EventKind {
    pub const ALL: [EventKind; 25] = [
        EventKind::Running,
        EventKind::SshReady,
        EventKind::Paused,
        EventKind::Resumed,
        EventKind::Hibernated,
        EventKind::Woken,
        EventKind::Forked,
        EventKind::Deleted,
        EventKind::ForkStaged,
        EventKind::ForkChildFailed,
        EventKind::ForkCompleted,
        EventKind::TreeCompleted,
        EventKind::TreePromoted,
        EventKind::EgressDenied,
        EventKind::MachineDied,
        EventKind::RecoveredOrphan,
        EventKind::RecoveredAsleep,
        EventKind::BudgetAlert,
        EventKind::BudgetUsedUp,
        EventKind::DatabaseRestarted,
        EventKind::DatabaseGrown,
        EventKind::DatabaseNotGrown,
        EventKind::DatabaseBackupFailed,
        EventKind::DatabaseArchiveFailing,
        EventKind::DatabaseArchiveRecovered,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Running => "sandbox.running",
            EventKind::SshReady => "sandbox.ssh_ready",
            EventKind::Paused => "sandbox.paused",
            EventKind::Resumed => "sandbox.resumed",
            EventKind::Hibernated => "sandbox.hibernated",
            EventKind::Woken => "sandbox.woken",
            EventKind::Forked => "sandbox.forked",
            EventKind::Deleted => "sandbox.deleted",
            EventKind::ForkStaged => "fork.staged",
            EventKind::ForkChildFailed => "fork.child_failed",
            EventKind::ForkCompleted => "fork.completed",
            EventKind::TreeCompleted => "fork_tree.completed",
            EventKind::TreePromoted => "fork_tree.promoted",
            EventKind::EgressDenied => "egress.denied",
            EventKind::MachineDied => "vm.died",
            EventKind::RecoveredOrphan => "recover.orphaned",
            EventKind::RecoveredAsleep => "recover.hibernated",
            EventKind::BudgetAlert => "billing.budget_alert",
            EventKind::BudgetUsedUp => "billing.budget_used_up",
            EventKind::DatabaseRestarted => "database.restarted",
            EventKind::DatabaseGrown => "database.grown",
            EventKind::DatabaseNotGrown => "database.not_grown",
            EventKind::DatabaseBackupFailed => "database.backup_failed",
            EventKind::DatabaseArchiveFailing => "database.archive_failing",
            EventKind::DatabaseArchiveRecovered => "database.archive_recovered",
        }
    }

    pub fn audience(self) -> EventAudience {
        match self {
            EventKind::SshReady
            | EventKind::ForkStaged
            | EventKind::ForkChildFailed
            | EventKind::ForkCompleted
            | EventKind::TreeCompleted
            | EventKind::RecoveredOrphan
            | EventKind::RecoveredAsleep => EventAudience::Stream,
            EventKind::Running
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::Hibernated
            | EventKind::Woken
            | EventKind::Forked
            | EventKind::Deleted
            | EventKind::TreePromoted
            | EventKind::EgressDenied
            | EventKind::MachineDied
            | EventKind::BudgetAlert
            | EventKind::BudgetUsedUp
            | EventKind::DatabaseRestarted
            | EventKind::DatabaseGrown
            | EventKind::DatabaseNotGrown
            | EventKind::DatabaseBackupFailed
            | EventKind::DatabaseArchiveFailing
            | EventKind::DatabaseArchiveRecovered => EventAudience::Everyone,
        }
    }

    /// Returns the kinds that webhooks can subscribe to.
    pub fn delivered() -> impl Iterator<Item = EventKind> {
        Self::ALL.into_iter().filter(|kind| kind.audience() == EventAudience::Everyone)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_listed_once() {
        let names: BTreeSet<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), EventKind::ALL.len());
    }
}
