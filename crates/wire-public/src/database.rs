//! Managed PostgreSQL databases as the API shows them.

use pandastack_model::{Fault, SandboxState};
use serde::{Deserialize, Serialize};

use crate::failure::{bad, short};

/// The role and the database of a tenant, in every database machine.
pub const DATABASE_ROLE: &str = "pandastack";
/// Longest label of a database, in bytes.
pub const DATABASE_LABEL_BYTES_MAX: usize = 200;

/// A PostgreSQL server in a machine of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManagedDatabase {
    /// Also the id of the sandbox that it runs in.
    pub id: String,
    /// `provisioning`, `running`, `hibernated`, `waking` or `failed`. A running database has
    /// credentials.
    pub status: String,
    pub template: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// The database that this one was branched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branched_from: Option<String>,
    /// The database that this one was cloned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloned_from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_on: Option<bool>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Without a query string, so that clients may append one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_token: Option<String>,
    /// Why it failed, or what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether a restart would bring a newer version of its template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_available: Option<bool>,
    /// Only if it failed: whether it can be rebuilt from its archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_available: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover_eta_seconds: Option<u64>,
}

/// The databases of a workspace, without credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManagedDatabaseList {
    pub items: Vec<ManagedDatabase>,
    pub count: usize,
}

/// How to connect to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseConnection {
    pub connection_url: String,
    pub broker_url: String,
    pub broker_token: String,
}

/// The start of a wake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseWake {
    pub id: String,
    pub status: String,
}

/// Figures of a running database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseStats {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres_version: Option<String>,
    pub db_size_bytes: u64,
    pub connections: u64,
    pub max_connections: u64,
    pub uptime_seconds: u64,
    /// From 0 to 1.
    pub cache_hit_ratio: f64,
    pub disk_size_bytes: u64,
    pub disk_used_bytes: u64,
    pub disk_avail_bytes: u64,
    /// From 0 to 100.
    pub disk_used_pct: f64,
}

/// The last lines of the server's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabaseLogs {
    pub logs: String,
}

/// Creates a database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CreateDatabase {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// `1g`, `4g` or `16g`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_on: Option<bool>,
    /// Accepted; the template decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i64>,
    /// Accepted; the template decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
}

/// Changes a database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ChangeDatabase {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_on: Option<bool>,
}

/// Branches a database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BranchDatabase {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// How much memory a database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseSize {
    Small,
    Medium,
    Large,
}

/// Whether a database sleeps when nobody uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseSleep {
    WhenIdle,
    Never,
}

/// A checked request for a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSpec {
    pub label: Option<String>,
    pub size: DatabaseSize,
    pub sleep: DatabaseSleep,
}

impl DatabaseSize {
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Small => "1g",
            Self::Medium => "4g",
            Self::Large => "16g",
        }
    }

    /// Returns the template of its machine.
    pub fn template(self) -> &'static str {
        match self {
            Self::Small => "postgres-16",
            Self::Medium => "postgres-16-4g",
            Self::Large => "postgres-16-16g",
        }
    }

    /// Finds a size by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.as_str() == name)
    }
}

impl DatabaseSleep {
    /// Reads `always_on`.
    pub fn of_always_on(always_on: bool) -> Self {
        if always_on { Self::Never } else { Self::WhenIdle }
    }

    /// Returns `always_on`.
    pub fn is_never(self) -> bool {
        self == Self::Never
    }
}

impl CreateDatabase {
    /// Checks the request.
    pub fn checked(self) -> Result<DatabaseSpec, Fault> {
        let Self { label, size, always_on, cpu: _, memory_mb: _ } = self;
        let size = size.filter(|size| !size.is_empty()).unwrap_or_else(|| DatabaseSize::Small.as_str().to_owned());
        let known = checked_size(&size)?;
        let sleep = DatabaseSleep::of_always_on(always_on.unwrap_or_default());
        Ok(DatabaseSpec { label: checked_label(label)?, size: known, sleep })
    }
}

impl BranchDatabase {
    /// Returns the checked label.
    pub fn checked(self) -> Result<Option<String>, Fault> {
        checked_label(self.label)
    }
}

pub(crate) fn checked_size(size: &str) -> Result<DatabaseSize, Fault> {
    DatabaseSize::named(size)
        .ok_or_else(|| bad("database.bad_size", format!("size must be 1g, 4g or 16g, not {:?}", short(size))))
}

pub(crate) fn checked_label(label: Option<String>) -> Result<Option<String>, Fault> {
    let label = label.filter(|label| !label.is_empty());
    match &label {
        Some(text) if text.len() > DATABASE_LABEL_BYTES_MAX || text.contains('\0') => {
            let text = format!("label must have at most {DATABASE_LABEL_BYTES_MAX} bytes and no zero byte");
            Err(bad("database.bad_label", text))
        }
        _ => Ok(label),
    }
}

/// Returns the status of a database by the state of its sandbox.
pub fn database_status(sandbox: &SandboxState) -> &'static str {
    match sandbox {
        SandboxState::Creating => "provisioning",
        SandboxState::Running => "running",
        SandboxState::Paused | SandboxState::Asleep | SandboxState::FallingAsleep => "hibernated",
        SandboxState::Waking => "waking",
        SandboxState::Stopping => "deleting",
        SandboxState::Failed { .. } => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_checked() {
        let spec = CreateDatabase::default().checked().unwrap();
        assert_eq!(spec, DatabaseSpec { label: None, size: DatabaseSize::Small, sleep: DatabaseSleep::WhenIdle });
        let sized = |size: &str| CreateDatabase { size: Some(size.into()), ..Default::default() }.checked();
        assert_eq!(sized("16g").unwrap().size.template(), "postgres-16-16g");
        for size in ["2g", "1G", " 1g"] {
            assert_eq!(sized(size).unwrap_err().code, "database.bad_size");
        }
        let labelled = |label: String| BranchDatabase { label: Some(label) }.checked();
        assert_eq!(labelled("x".repeat(200)).unwrap().map(|label| label.len()), Some(200));
        assert_eq!(labelled("x".repeat(201)).unwrap_err().code, "database.bad_label");
        assert_eq!(labelled(String::new()).unwrap(), None);
    }
}
