//! The plans: what a workspace may use and what it pays. An operator edits them in a file, which
//! [`file`] reads. Says nothing about what a workspace uses now; `quota` compares the two.

mod file;
mod limit;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

pub use file::{BUILT_IN_PLANS, PlansError};
pub use limit::QuotaLimit;
use serde::{Deserialize, Serialize};

use crate::money::PicoDollars;

/// The four plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanName {
    Free,
    Pro,
    Team,
    Custom,
}

/// Text that names no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a plan; the plans are free, pro, team and custom")]
pub struct BadPlanName(String);

impl PlanName {
    pub const ALL: [Self; 4] = [Self::Free, Self::Pro, Self::Team, Self::Custom];

    /// Returns the name in files, tables and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Pro => "pro",
            Self::Team => "team",
            Self::Custom => "custom",
        }
    }
}

impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PlanName {
    type Err = BadPlanName;

    fn from_str(text: &str) -> Result<Self, BadPlanName> {
        let found = Self::ALL.into_iter().find(|plan| plan.as_str() == text);
        found.ok_or_else(|| BadPlanName(text.chars().take(40).collect()))
    }
}

/// All plans of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plans {
    plans: [Plan; 4],
}

impl Plans {
    /// Returns a plan.
    pub fn get(&self, name: PlanName) -> &Plan {
        &self.plans[name as usize]
    }

    /// Returns all plans, the smallest first.
    pub fn all(&self) -> &[Plan; 4] {
        &self.plans
    }
}

/// The plans of the embedded file.
impl Default for Plans {
    fn default() -> Self {
        Self::parse(BUILT_IN_PLANS).expect("the embedded file is valid; a test reads it")
    }
}

/// One plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub name: PlanName,
    pub limits: PlanLimits,
    pub prices: PlanPrices,
}

/// What a workspace may use at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    pub max_sandboxes: QuotaLimit,
    pub max_cpu_total: QuotaLimit,
    pub max_memory_mb_total: QuotaLimit,
    pub max_disk_gib_total: QuotaLimit,
    pub max_volumes: QuotaLimit,
    pub max_volume_size_gib: QuotaLimit,
    pub max_volume_total_gib: QuotaLimit,
    pub hourly_create_limit: QuotaLimit,
    pub ttl_seconds_max: QuotaLimit,
    pub builds_concurrent_max: QuotaLimit,
    pub connections_max: QuotaLimit,
    pub rate: RequestRate,
}

/// Request rate of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRate {
    /// Requests at once after a pause. At least 1.
    pub burst: u32,
    /// Requests per second in the long run. At least 1.
    pub per_second: u32,
}

/// What a plan costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanPrices {
    /// Shown only: Stripe has the price that is charged.
    pub monthly: PicoDollars,
    /// Usage in a month that costs nothing.
    pub credit: PicoDollars,
    pub vcpu_second: PicoDollars,
    pub memory_gib_second: PicoDollars,
    pub storage_gib_month: PicoDollars,
    /// Storage that costs nothing.
    pub storage_included_gib: u64,
    pub overage: OveragePolicy,
}

/// What happens when the credit of a month is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OveragePolicy {
    /// New sandboxes are refused until the next month.
    Stop,
    /// Usage above the credit is charged.
    Bill,
}

/// Limits of one workspace that replace those of its plan. Stored as JSON; absent keys keep the
/// plan's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaOverrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sandboxes: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cpu_total: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory_mb_total: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_disk_gib_total: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_volumes: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_volume_size_gib: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_volume_total_gib: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hourly_create_limit: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_max: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builds_concurrent_max: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_max: Option<QuotaLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RequestRate>,
}

impl PlanLimits {
    /// Returns these limits with a workspace's own values in their place. A volume above the
    /// largest possible size stays impossible, and a rate of zero counts as one.
    #[must_use]
    pub fn with(self, own: &QuotaOverrides) -> Self {
        let largest = QuotaLimit::AtMost(crate::limits::VOLUME_SIZE_GIB_MAX);
        let rate = own.rate.unwrap_or(self.rate);
        Self {
            max_sandboxes: own.max_sandboxes.unwrap_or(self.max_sandboxes),
            max_cpu_total: own.max_cpu_total.unwrap_or(self.max_cpu_total),
            max_memory_mb_total: own.max_memory_mb_total.unwrap_or(self.max_memory_mb_total),
            max_disk_gib_total: own.max_disk_gib_total.unwrap_or(self.max_disk_gib_total),
            max_volumes: own.max_volumes.unwrap_or(self.max_volumes),
            max_volume_size_gib: own.max_volume_size_gib.unwrap_or(self.max_volume_size_gib).min(largest),
            max_volume_total_gib: own.max_volume_total_gib.unwrap_or(self.max_volume_total_gib),
            hourly_create_limit: own.hourly_create_limit.unwrap_or(self.hourly_create_limit),
            ttl_seconds_max: own.ttl_seconds_max.unwrap_or(self.ttl_seconds_max),
            builds_concurrent_max: own.builds_concurrent_max.unwrap_or(self.builds_concurrent_max),
            connections_max: own.connections_max.unwrap_or(self.connections_max),
            rate: RequestRate { burst: rate.burst.max(1), per_second: rate.per_second.max(1) },
        }
    }
}
