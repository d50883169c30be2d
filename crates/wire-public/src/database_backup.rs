//! Backups of managed databases: what is kept, clones by time, restore drills; and what a branch
//! changed.

use pandastack_model::Fault;
use serde::{Deserialize, Serialize};

use crate::{
    DatabaseSize,
    database::{checked_label, checked_size},
    failure::{bad, short},
    time::parse_rfc3339,
};

/// What a database could be restored from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseBackups {
    /// Base backups, newest first.
    pub items: Vec<DatabaseBackup>,
    pub count: usize,
    /// The database can be cloned as of any second in it. None before the first backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<RestoreWindow>,
    pub archive: DatabaseArchive,
    /// The last restore drill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drill: Option<BackupDrill>,
}

/// A base backup. It was verified when it was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseBackup {
    pub name: String,
    /// RFC 3339.
    pub taken_at: String,
    pub size_bytes: u64,
}

/// The times that a database can be restored to, as RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoreWindow {
    pub earliest: String,
    pub latest: String,
}

/// State of the archive of a database's write-ahead log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseArchive {
    /// `ok`, `behind`, `failing` or `off`.
    pub health: String,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_archived_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_segment: Option<String>,
    /// Segments that are on this host but not yet in the store.
    pub pending_segments: u64,
    pub pending_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A restore drill: a backup is restored in a scratch machine and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackupDrill {
    /// `running`, `passed` or `failed`.
    pub status: String,
    /// RFC 3339.
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// The base backup that it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_time: Option<String>,
    /// Bytes of the restored databases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_size_bytes: Option<u64>,
    /// Tables and indexes whose structure was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relations_checked: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The difference of two databases' schemas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchemaDiff {
    pub from: String,
    pub to: String,
    /// Whether the schemas are the same.
    pub same: bool,
    /// Unified diff of `pg_dump --schema-only`; empty if they are the same.
    pub diff: String,
}

/// Clones a database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CloneDatabase {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// RFC 3339; without it the latest that is archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_time: Option<String>,
    /// `1g`, `4g` or `16g`; without it the size of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}

/// Starts a restore drill.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VerifyBackup {
    /// RFC 3339; without it the latest that is archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_time: Option<String>,
}

/// A checked request for a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneSpec {
    pub label: Option<String>,
    /// Nanoseconds since 1970.
    pub target_ns: Option<u64>,
    pub size: Option<DatabaseSize>,
}

impl CloneDatabase {
    /// Checks the request.
    pub fn checked(self) -> Result<CloneSpec, Fault> {
        let Self { label, target_time, size } = self;
        let size = size.filter(|size| !size.is_empty()).as_deref().map(checked_size).transpose()?;
        Ok(CloneSpec { label: checked_label(label)?, target_ns: checked_time(target_time)?, size })
    }
}

impl VerifyBackup {
    /// Returns the checked time, in nanoseconds since 1970.
    pub fn checked(self) -> Result<Option<u64>, Fault> {
        checked_time(self.target_time)
    }
}

fn checked_time(text: Option<String>) -> Result<Option<u64>, Fault> {
    let read = |text: String| {
        parse_rfc3339(&text).ok_or_else(|| {
            let text = format!("target_time must be a time like 2026-01-31T23:59:59Z, not {:?}", short(&text));
            bad("database.bad_target_time", text)
        })
    };
    text.filter(|text| !text.is_empty()).map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_checked() {
        let clone = |time: &str, size: &str| {
            let ask = CloneDatabase { label: None, target_time: Some(time.into()), size: Some(size.into()) };
            ask.checked()
        };
        let whole = clone("1970-01-01T00:00:02Z", "4g").unwrap();
        assert_eq!((whole.target_ns, whole.size), (Some(2_000_000_000), Some(DatabaseSize::Medium)));
        assert_eq!(clone("", "").unwrap(), CloneSpec { label: None, target_ns: None, size: None });
        assert_eq!(clone("yesterday", "").unwrap_err().code, "database.bad_target_time");
        assert_eq!(clone("", "5g").unwrap_err().code, "database.bad_size");
    }
}
