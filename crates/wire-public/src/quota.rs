//! Limits of a workspace, and what it uses of them.

use serde::{Deserialize, Serialize};

/// The limits of a workspace, and what it uses now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quotas {
    pub workspace: String,
    /// `free`, `pro`, `team` or `custom`.
    pub plan: String,
    pub limits: QuotaLimits,
    pub usage: QuotasUsed,
}

/// Limits. Null means that there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QuotaLimits {
    /// Sandboxes at the same time, sleeping ones included.
    pub max_sandboxes: Option<u64>,
    /// CPUs of all sandboxes that are not asleep.
    pub max_cpu_total: Option<u64>,
    /// Memory of all sandboxes that are not asleep.
    pub max_memory_mb_total: Option<u64>,
    /// Disks of all sandboxes.
    pub max_disk_gib_total: Option<u64>,
    /// Sandboxes that may be created in 60 minutes. Forks count; wakes do not.
    pub hourly_create_limit: Option<u64>,
    pub max_volumes: Option<u64>,
    pub max_volume_size_gib: Option<u64>,
    pub max_volume_total_gib: Option<u64>,
    /// Longest idle time of a sandbox.
    pub ttl_seconds_max: Option<u64>,
    /// Template builds at the same time.
    pub builds_concurrent_max: Option<u64>,
    /// Requests and streams at the same time.
    pub connections_max: Option<u64>,
    pub requests_per_second: Option<u32>,
    /// Requests at once after a pause.
    pub requests_burst: Option<u32>,
}

/// What a workspace uses now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QuotasUsed {
    pub sandboxes: u64,
    pub cpu: u64,
    pub memory_mb: u64,
    pub disk_gib: u64,
    pub creates_last_hour: u64,
    pub volumes: u64,
    pub volume_total_gib: u64,
}
