//! The wanted sandboxes. Their states are in `states.rs`.

use pandastack_billing::{PlanLimits, QuotaRefusal, QuotaRequest, QuotaRule, check_quota};
use pandastack_database::{Query, query, query_as, query_scalar};
use pandastack_model::{SandboxId, SandboxOrigin, SandboxSpec, SandboxState};
use pandastack_wire_fleet::{Caller, WorkspaceId};

use super::{
    Intent, Lineage, ManagedDatabaseRow, Store, StoreError, VolumeRow, databases, failed, from_sql,
    intent::{column, egress_to_sql, map_to_sql, read_id, read_intent, read_state, volumes_to_sql},
    quotas::{MIB_PER_GIB, count_creates, usage},
    to_sql,
    usage::{UsageSubject, add_subject},
    volumes::add_copy,
};

const GIB: u64 = 1 << 30;

/// A sandbox to be made, and what is recorded with it.
#[derive(Clone, Debug)]
pub struct PlannedSandbox {
    pub intent: Intent,
    /// The volumes that are copied or made for it.
    pub copies: Vec<VolumeRow>,
    /// The database that it is the machine of, if that has no row yet.
    pub database: Option<Box<ManagedDatabaseRow>>,
}

/// Whether rows were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxesAdded {
    Yes,
    /// The rows would exceed the workspace's limit.
    Full,
    /// The rows would exceed the workspace's plan.
    Refused(QuotaRefusal),
    /// A volume that was to be copied for a sandbox would get this name, which is in use.
    NameTaken(String),
}

impl Store {
    /// Counts a workspace's sandboxes.
    pub async fn count(&self, workspace: &WorkspaceId) -> Result<u64, StoreError> {
        query_scalar::<i64>("SELECT COUNT(*) FROM sandbox WHERE workspace = ?")
            .bind(&workspace.0)
            .fetch_one(&self.database)
            .await
            .map(from_sql)
            .map_err(failed("count sandboxes"))
    }

    /// Writes intents of one workspace, all or none. Checks the limit again, because other creates
    /// may have been committed since the plan.
    pub async fn commit(
        &self,
        caller: &Caller,
        planned: &[PlannedSandbox],
        limits: &PlanLimits,
    ) -> Result<SandboxesAdded, StoreError> {
        let Some(PlannedSandbox { intent: first, .. }) = planned.first() else { return Ok(SandboxesAdded::Yes) };
        // Take the write lock at once: a transaction that reads first fails, instead of waiting,
        // while another writer is active.
        let mut tx = self.begin_in(&first.workspace, "begin a commit").await?;
        let used = usage(&mut tx, &first.workspace, first.created_at_ns).await?;
        let sum = |of: fn(&Intent) -> u64| -> u64 { planned.iter().map(|planned| of(&planned.intent)).sum() };
        let sizes = || planned.iter().flat_map(|planned| &planned.copies).map(|copy| copy.size.get());
        let wanted = QuotaRequest {
            sandboxes: planned.len() as u64,
            creates: planned.len() as u64,
            volumes: sizes().count() as u64,
            volume_size_gib: sizes().max().unwrap_or_default().div_ceil(GIB),
            volume_added_gib: sizes().sum::<u64>().div_ceil(GIB),
            cpu: sum(|intent| u64::from(intent.size.cpus)),
            memory_mb: sum(|intent| intent.size.memory_mib),
            disk_gib: sum(|intent| intent.size.disk_mib).div_ceil(MIB_PER_GIB),
            ..QuotaRequest::default()
        };
        match check_quota(limits, &used, &wanted) {
            Ok(()) => {}
            Err(QuotaRefusal { rule: QuotaRule::Sandboxes, .. }) => return Ok(SandboxesAdded::Full),
            Err(refusal) => return Ok(SandboxesAdded::Refused(refusal)),
        }
        count_creates(&mut tx, &first.workspace, planned.len() as u64, first.created_at_ns).await?;
        for PlannedSandbox { intent, copies, database } in planned {
            insert(intent).execute(&mut tx).await.map_err(failed("commit a sandbox"))?;
            add_subject(&mut tx, caller, UsageSubject::Sandbox(intent)).await?;
            for copy in copies {
                if !add_copy(&mut tx, caller, copy).await? {
                    return Ok(SandboxesAdded::NameTaken(copy.name.clone()));
                }
            }
            if let Some(database) = database {
                databases::insert(database).execute(&mut tx).await.map_err(failed("record a database"))?;
            }
        }
        tx.commit().await.map_err(failed("commit sandboxes"))?;
        Ok(SandboxesAdded::Yes)
    }

    /// Finds one sandbox of a workspace.
    pub async fn find(&self, workspace: &WorkspaceId, id: SandboxId) -> Result<Option<Intent>, StoreError> {
        let row = query("SELECT * FROM sandbox WHERE id = ? AND workspace = ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a sandbox"))?;
        row.as_ref().map(read_intent).transpose()
    }

    /// Returns only the state of one sandbox of a workspace, which is all that the edge needs.
    pub async fn state(&self, workspace: &WorkspaceId, id: SandboxId) -> Result<Option<SandboxState>, StoreError> {
        let row = query("SELECT id, status, status_reason FROM sandbox WHERE id = ? AND workspace = ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a sandbox's state"))?;
        row.as_ref().map(read_state).transpose()
    }

    /// Returns the state of a sandbox in any workspace.
    pub async fn any_state(&self, id: SandboxId) -> Result<Option<SandboxState>, StoreError> {
        let row = query("SELECT id, status, status_reason FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find any sandbox's state"))?;
        row.as_ref().map(read_state).transpose()
    }

    /// Finds the state of a sandbox that anyone may reach by its name. The machine of a database is
    /// no such sandbox: only clients of the database reach it.
    pub async fn public_state(&self, id: SandboxId) -> Result<Option<SandboxState>, StoreError> {
        let sql = "SELECT id, status, status_reason FROM sandbox WHERE id = ?
                   AND NOT EXISTS (SELECT 1 FROM managed_database WHERE managed_database.id = sandbox.id)";
        let row = query(sql)
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a public sandbox's state"))?;
        row.as_ref().map(read_state).transpose()
    }

    /// Lists a workspace's sandboxes of all kinds, newest first.
    pub async fn list(&self, workspace: &WorkspaceId) -> Result<Vec<Intent>, StoreError> {
        let rows = query("SELECT * FROM sandbox WHERE workspace = ? ORDER BY created_at DESC, id")
            .bind(&workspace.0)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list sandboxes"))?;
        rows.iter().map(read_intent).collect()
    }

    /// Lists the sandboxes of a fork tree by index.
    pub async fn list_tree(&self, workspace: &WorkspaceId, tree: &str) -> Result<Vec<SandboxId>, StoreError> {
        let rows = query("SELECT id FROM sandbox WHERE workspace = ? AND fork_tree_id = ? ORDER BY fork_index, id")
            .bind(&workspace.0)
            .bind(tree)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list a fork tree"))?;
        rows.iter().map(read_id).collect()
    }

    /// Lists every sandbox of every workspace with its state.
    pub async fn all_states(&self) -> Result<Vec<(SandboxId, SandboxState)>, StoreError> {
        let rows = query("SELECT id, status, status_reason FROM sandbox")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list all sandboxes"))?;
        rows.iter().map(|row| Ok((read_id(row)?, read_state(row)?))).collect()
    }

    /// Lists every sandbox with its workspace and its state.
    pub async fn sandbox_states(&self) -> Result<Vec<(SandboxId, WorkspaceId, SandboxState)>, StoreError> {
        let rows = query("SELECT id, workspace, status, status_reason FROM sandbox")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list all sandboxes"))?;
        let one = |row| Ok((read_id(row)?, WorkspaceId(column(row, "workspace")?), read_state(row)?));
        rows.iter().map(one).collect()
    }

    /// Counts all sandboxes by the name of their state.
    pub async fn count_by_status(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let counted: Vec<(String, i64)> =
            query_as("SELECT status, COUNT(*) FROM sandbox GROUP BY status ORDER BY status")
                .fetch_all(&self.database)
                .await
                .map_err(failed("count sandboxes by state"))?;
        Ok(counted.into_iter().map(|(status, count)| (status, from_sql(count))).collect())
    }

    /// Returns the workspace and the template of a sandbox.
    pub async fn owner(&self, id: SandboxId) -> Result<Option<(WorkspaceId, String)>, StoreError> {
        let found: Option<(String, String)> = query_as("SELECT workspace, template FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a sandbox's owner"))?;
        Ok(found.map(|(workspace, template)| (WorkspaceId(workspace), template)))
    }
}

/// Names every field, so that a new field does not compile until it is stored or ignored here.
pub(super) fn insert(intent: &Intent) -> Query<'static> {
    let volumes = volumes_to_sql(intent);
    let Intent { id, workspace, generation, created_at_ns, spec, volume_names: _, from_snapshot, lineage, .. } = intent;
    let Intent { size, state, observed, .. } = intent;
    // The owner is the workspace.
    let SandboxSpec { owner: _, template, origin, ttl_seconds, persistent, metadata, env, egress, .. } = spec;
    let SandboxSpec { bandwidth_mbps, volumes: _, .. } = spec;
    let Lineage { parent, tree, index, promoted } = lineage;
    let layer = match origin {
        SandboxOrigin::Template => None,
        SandboxOrigin::Layer(layer) => Some(layer.to_string()),
    };
    let sql = "INSERT INTO sandbox (id, workspace, generation, created_at, template, ttl_seconds, persistent, metadata,
                   env, cpus, memory_mib, disk_mib, status, guest_ip, boot_ms, boot_mode, isolation, origin_layer,
                   from_snapshot, egress, bandwidth_mbps, volumes, parent, fork_tree_id, fork_index, promoted_ttl_seconds,
                   promoted_persistent)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    query(sql)
        .bind(id.to_string())
        .bind(workspace.0.clone())
        .bind(to_sql(*generation))
        .bind(to_sql(*created_at_ns))
        .bind(template.to_string())
        .bind(to_sql(*ttl_seconds))
        .bind(*persistent)
        .bind(map_to_sql(metadata))
        .bind(map_to_sql(env))
        .bind(i64::from(size.cpus))
        .bind(to_sql(size.memory_mib))
        .bind(to_sql(size.disk_mib))
        .bind(state.as_str())
        .bind(observed.guest_ip.clone())
        .bind(to_sql(observed.boot_ms))
        .bind(observed.boot_mode.clone())
        .bind(observed.isolation.clone())
        .bind(layer)
        .bind(from_snapshot.clone())
        .bind(egress_to_sql(egress))
        .bind(bandwidth_mbps.map(i64::from))
        .bind(volumes)
        .bind(parent.map(|parent| parent.to_string()))
        .bind(tree.clone())
        .bind(index.map(i64::from))
        .bind(promoted.map(|limit| to_sql(limit.ttl_seconds)))
        .bind(promoted.map(|limit| limit.persistent))
}
