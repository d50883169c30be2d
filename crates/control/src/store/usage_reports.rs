//! Usage of a workspace, split by day, template, subject or member.

use pandastack_billing::UsageTotals;
use pandastack_database::{query_as, query_built};
use pandastack_wire_fleet::WorkspaceId;

use super::{Store, StoreError, failed, intent::column, to_sql, usage::UsageAmounts};

/// How a report is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageSplit {
    Day,
    Template,
    /// Sandboxes with the volumes that were copied for them, and other volumes.
    Subject,
    Member,
}

impl UsageSplit {
    pub const ALL: [Self; 4] = [Self::Day, Self::Template, Self::Subject, Self::Member];

    /// Returns the word of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Template => "template",
            Self::Subject => "sandbox",
            Self::Member => "member",
        }
    }

    /// Returns the columns of a row's key and label.
    const fn columns(self) -> (&'static str, &'static str) {
        match self {
            Self::Day => ("CAST(usage_day.day AS TEXT)", "''"),
            Self::Template => ("CASE WHEN s.kind = 'volume' THEN 'volumes' ELSE s.template END", "''"),
            Self::Subject => (
                "COALESCE(s.of_sandbox, usage_day.subject)",
                "COALESCE(MAX(CASE WHEN s.of_sandbox IS NULL THEN s.template END), '')",
            ),
            Self::Member => ("s.member", "COALESCE(MAX(u.email), '')"),
        }
    }
}

/// One row of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageSlice {
    /// The number of a day, or the name or id that the report is split by.
    pub key: String,
    pub label: String,
    pub totals: UsageTotals,
}

impl Store {
    /// Reports the usage of a workspace in some days, both included. Returns the largest rows.
    pub async fn usage_report(
        &self,
        workspace: &WorkspaceId,
        split: UsageSplit,
        (from_day, to_day): (u64, u64),
        rows_max: u64,
    ) -> Result<Vec<UsageSlice>, StoreError> {
        let (key, label) = split.columns();
        let sum = |amount| format!("CAST(COALESCE(SUM(usage_day.{amount}), 0) AS BIGINT) AS {amount}");
        let (vcpu, memory, storage) = (sum("vcpu_ms"), sum("memory_mib_ms"), sum("storage_mib_ms"));
        let sql = format!(
            "SELECT {key} AS slice, {label} AS label, {vcpu}, {memory}, {storage}
             FROM usage_day LEFT JOIN usage_subject AS s ON s.id = usage_day.subject
                 LEFT JOIN user_account AS u ON u.id = s.member
             WHERE usage_day.workspace = ? AND usage_day.day BETWEEN ? AND ?
             GROUP BY 1 ORDER BY 3 DESC, 5 DESC, 1 LIMIT ?"
        );
        let rows = query_built(sql)
            .bind(&workspace.0)
            .bind(to_sql(from_day))
            .bind(to_sql(to_day))
            .bind(to_sql(rows_max))
            .fetch_all(&self.database)
            .await
            .map_err(failed("report usage"))?;
        let one = |row| {
            let amounts = UsageAmounts {
                vcpu_ms: column(row, "vcpu_ms")?,
                memory_mib_ms: column(row, "memory_mib_ms")?,
                storage_mib_ms: column(row, "storage_mib_ms")?,
            };
            let key: Option<String> = column(row, "slice")?;
            Ok(UsageSlice { key: key.unwrap_or_default(), label: column(row, "label")?, totals: amounts.totals() })
        };
        rows.iter().map(one).collect()
    }

    /// Sums the usage of a workspace in some days, both included.
    pub async fn usage_of_days(
        &self,
        workspace: &WorkspaceId,
        (from_day, to_day): (u64, u64),
    ) -> Result<UsageTotals, StoreError> {
        const HOURS: u64 = 24;
        let sql = "SELECT vcpu_ms, memory_mib_ms, storage_mib_ms FROM usage_total
                   WHERE workspace = ? AND hour BETWEEN ? AND ?";
        let rows: Vec<(i64, i64, i64)> = query_as(sql)
            .bind(&workspace.0)
            .bind(to_sql(from_day.saturating_mul(HOURS)))
            .bind(to_sql(to_day.saturating_add(1).saturating_mul(HOURS).saturating_sub(1)))
            .fetch_all(&self.database)
            .await
            .map_err(failed("sum usage of days"))?;
        let one =
            |(vcpu_ms, memory_mib_ms, storage_mib_ms)| UsageAmounts { vcpu_ms, memory_mib_ms, storage_mib_ms }.totals();
        Ok(rows.into_iter().map(one).sum())
    }
}
