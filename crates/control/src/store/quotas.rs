//! Plans of workspaces, and what workspaces use of them now.

use pandastack_billing::{QuotaUsage, Subscription};
use pandastack_database::{Transaction, query, query_as, query_scalar};
use pandastack_wire_fleet::WorkspaceId;

use super::{Store, StoreError, WorkspaceHold, failed, from_sql, to_sql};

const NS_PER_MINUTE: u64 = 60_000_000_000;
/// Minutes that an hourly limit looks back.
const MINUTES: u64 = 60;
const GIB: u64 = 1 << 30;
pub(super) const MIB_PER_GIB: u64 = 1024;

/// The plan of a workspace, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPlan {
    /// Empty for the default plan of the server.
    pub plan: String,
    /// JSON of limits that replace those of the plan. Empty for none.
    pub quotas: String,
}

/// Everything that decides what a workspace may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceTerms {
    pub plan: StoredPlan,
    pub hold: WorkspaceHold,
    pub subscription: Subscription,
}

impl Store {
    /// Returns everything that decides what a workspace may do.
    pub async fn workspace_terms(&self, workspace: &WorkspaceId) -> Result<WorkspaceTerms, StoreError> {
        let sql = "SELECT plan, quotas, hold, hold_reason, COALESCE(subscription, '') FROM workspace
                   LEFT JOIN billing_account ON billing_account.workspace = workspace.id WHERE workspace.id = ?";
        let found: Option<(String, String, String, String, String)> = query_as(sql)
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find the terms of a workspace"))?;
        let Some((plan, quotas, code, reason, subscription)) = found else { return Ok(WorkspaceTerms::default()) };
        let subscription = match subscription.is_empty() {
            true => Subscription::default(),
            false => serde_json::from_str(&subscription)
                .map_err(|_| StoreError::Corrupt { id: workspace.0.clone(), field: "subscription" })?,
        };
        Ok(WorkspaceTerms { plan: StoredPlan { plan, quotas }, hold: WorkspaceHold { code, reason }, subscription })
    }

    /// Lists all workspaces with their plans, by name.
    pub async fn list_plans(&self) -> Result<Vec<(WorkspaceId, StoredPlan)>, StoreError> {
        let rows: Vec<(String, String, String)> = query_as("SELECT id, plan, quotas FROM workspace ORDER BY id")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list the plans of workspaces"))?;
        Ok(rows.into_iter().map(|(id, plan, quotas)| (WorkspaceId(id), StoredPlan { plan, quotas })).collect())
    }

    /// Changes the plan of a workspace. Returns false if there is no such workspace.
    pub async fn set_plan(&self, workspace: &WorkspaceId, plan: &StoredPlan) -> Result<bool, StoreError> {
        let changed = query("UPDATE workspace SET plan = ?, quotas = ? WHERE id = ?")
            .bind(&plan.plan)
            .bind(&plan.quotas)
            .bind(&workspace.0)
            .execute(&self.database)
            .await
            .map_err(failed("change the plan of a workspace"))?;
        Ok(changed > 0)
    }

    /// Counts what a workspace uses now.
    pub async fn usage(&self, workspace: &WorkspaceId, now_ns: u64) -> Result<QuotaUsage, StoreError> {
        let mut tx = self.begin_in(workspace, "begin to count usage").await?;
        usage(&mut tx, workspace, now_ns).await
    }
}

/// Counts what a workspace uses now, in a transaction that may add to it.
pub(super) async fn usage(
    tx: &mut Transaction,
    workspace: &WorkspaceId,
    now_ns: u64,
) -> Result<QuotaUsage, StoreError> {
    // A sleeping or failed sandbox has no machine, and so no CPUs and memory.
    let sql = "SELECT COUNT(*),
                   CAST(COALESCE(SUM(CASE WHEN status IN ('hibernated', 'failed') THEN 0 ELSE cpus END), 0) AS BIGINT),
                   CAST(COALESCE(SUM(CASE WHEN status IN ('hibernated', 'failed') THEN 0 ELSE memory_mib END), 0)
                       AS BIGINT),
                   CAST(COALESCE(SUM(disk_mib), 0) AS BIGINT)
               FROM sandbox WHERE workspace = ?";
    let (sandboxes, cpu, memory_mb, disk_mib): (i64, i64, i64, i64) =
        query_as(sql).bind(&workspace.0).fetch_one(&mut *tx).await.map_err(failed("count what sandboxes use"))?;
    let sql = "SELECT COUNT(*), CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM volume WHERE workspace = ?";
    let (volumes, bytes): (i64, i64) =
        query_as(sql).bind(&workspace.0).fetch_one(&mut *tx).await.map_err(failed("count what volumes use"))?;
    let sql = "SELECT CAST(COALESCE(SUM(creates), 0) AS BIGINT) FROM create_count WHERE workspace = ? AND minute > ?";
    let creates: i64 = query_scalar(sql)
        .bind(&workspace.0)
        .bind(to_sql((now_ns / NS_PER_MINUTE).saturating_sub(MINUTES)))
        .fetch_one(&mut *tx)
        .await
        .map_err(failed("count creates"))?;
    Ok(QuotaUsage {
        sandboxes: from_sql(sandboxes),
        cpu: from_sql(cpu),
        memory_mb: from_sql(memory_mb),
        disk_gib: from_sql(disk_mib).div_ceil(MIB_PER_GIB),
        creates_last_hour: from_sql(creates),
        volumes: from_sql(volumes),
        volume_total_gib: from_sql(bytes).div_ceil(GIB),
        ..QuotaUsage::default()
    })
}

/// Counts creates of a workspace. Minutes that no limit looks at any more are removed.
pub(super) async fn count_creates(
    tx: &mut Transaction,
    workspace: &WorkspaceId,
    creates: u64,
    now_ns: u64,
) -> Result<(), StoreError> {
    let minute = now_ns / NS_PER_MINUTE;
    let sql = "INSERT INTO create_count (workspace, minute, creates) VALUES (?1, ?2, ?3)
               ON CONFLICT (workspace, minute) DO UPDATE SET creates = create_count.creates + ?3";
    query(sql)
        .bind(&workspace.0)
        .bind(to_sql(minute))
        .bind(to_sql(creates))
        .execute(&mut *tx)
        .await
        .map_err(failed("count creates"))?;
    query("DELETE FROM create_count WHERE workspace = ? AND minute <= ?")
        .bind(&workspace.0)
        .bind(to_sql(minute.saturating_sub(MINUTES)))
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("forget old creates"))
}
