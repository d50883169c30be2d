//! Families: which sandbox was forked from which. A deleted sandbox stays known while it has
//! descendants, up to a limit.

use std::collections::BTreeMap;

use pandastack_database::{DatabaseRow, Transaction, query};
use pandastack_model::SandboxId;
use pandastack_wire_fleet::WorkspaceId;

use super::{
    MachineSize, Store, StoreError, failed, from_sql,
    intent::{column, read_id},
    to_sql,
};
use crate::limits::ANCESTORS_PER_WORKSPACE_MAX;

/// The label with the name that people gave.
const NAME_LABEL: &str = "name";

/// One member of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyMember {
    pub id: SandboxId,
    pub parent: Option<SandboxId>,
    /// The name of the state; `deleted` for a sandbox that is known only because of descendants.
    pub status: String,
    pub template: String,
    pub created_at_ns: u64,
    pub tree: Option<String>,
    pub index: Option<u32>,
    /// The label `name`.
    pub name: Option<String>,
    /// `None` for one that is deleted.
    pub size: Option<MachineSize>,
}

impl Store {
    /// Lists all sandboxes of a workspace, and its deleted ones that are still known.
    pub async fn relatives(&self, workspace: &WorkspaceId) -> Result<Vec<FamilyMember>, StoreError> {
        let sql =
            "SELECT id, parent, status, template, created_at, fork_tree_id, fork_index, metadata, cpus, memory_mib,
                       disk_mib FROM sandbox WHERE workspace = ?
                   UNION ALL
                   SELECT id, parent, 'deleted', template, created_at, NULL, NULL, NULL, NULL, NULL, NULL
                       FROM fork_ancestor WHERE workspace = ?
                   ORDER BY created_at, id";
        let rows = query(sql)
            .bind(&workspace.0)
            .bind(&workspace.0)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list related sandboxes"))?;
        let relative = |row| {
            let id = read_id(row)?;
            let parent: Option<String> = column(row, "parent")?;
            let corrupt = |_| StoreError::Corrupt { id: id.to_string(), field: "parent" };
            Ok(FamilyMember {
                id,
                parent: parent.map(|text| text.parse()).transpose().map_err(corrupt)?,
                status: column(row, "status")?,
                template: column(row, "template")?,
                created_at_ns: column(row, "created_at").map(from_sql)?,
                tree: column(row, "fork_tree_id")?,
                index: column::<Option<i64>>(row, "fork_index")?.and_then(|index| u32::try_from(index).ok()),
                name: name_in(column(row, "metadata")?),
                size: size_in(row)?,
            })
        };
        rows.iter().map(relative).collect()
    }
}

/// Returns the label `name` of stored labels.
fn name_in(metadata: Option<String>) -> Option<String> {
    let mut labels: BTreeMap<String, String> = serde_json::from_str(&metadata?).ok()?;
    labels.remove(NAME_LABEL).filter(|name| !name.is_empty())
}

fn size_in(row: &DatabaseRow) -> Result<Option<MachineSize>, StoreError> {
    let number = |name| column::<Option<i64>>(row, name);
    let (Some(cpus), Some(memory), Some(disk)) = (number("cpus")?, number("memory_mib")?, number("disk_mib")?) else {
        return Ok(None);
    };
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    Ok(Some(MachineSize { cpus, memory_mib: from_sql(memory), disk_mib: from_sql(disk) }))
}

/// Keeps a sandbox that is about to be deleted, if it has children. Past the limit, those that were
/// deleted first are dropped.
pub(super) async fn keep_ancestor(tx: &mut Transaction, id: SandboxId, now_ns: u64) -> Result<(), StoreError> {
    let keep = "INSERT INTO fork_ancestor (id, workspace, parent, template, created_at, deleted_at)
                SELECT id, workspace, parent, template, created_at, ? FROM sandbox AS gone WHERE id = ? AND (
                    EXISTS (SELECT 1 FROM sandbox WHERE workspace = gone.workspace AND parent = gone.id) OR
                    EXISTS (SELECT 1 FROM fork_ancestor WHERE workspace = gone.workspace AND parent = gone.id))
                ON CONFLICT (id) DO NOTHING";
    let kept = query(keep)
        .bind(to_sql(now_ns))
        .bind(id.to_string())
        .execute(&mut *tx)
        .await
        .map_err(failed("record an ancestor"))?;
    if kept == 0 {
        return Ok(());
    }
    let drop_old = "DELETE FROM fork_ancestor WHERE id IN (
                        SELECT id FROM fork_ancestor
                        WHERE workspace = (SELECT workspace FROM fork_ancestor WHERE id = ?)
                        ORDER BY deleted_at DESC, id LIMIT 1000000000 OFFSET ?)";
    query(drop_old)
        .bind(id.to_string())
        .bind(to_sql(ANCESTORS_PER_WORKSPACE_MAX))
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("delete old ancestors"))
}

/// Drops deleted ancestors that lost their last descendant with this sandbox.
pub(super) async fn prune(tx: &mut Transaction, gone: SandboxId) -> Result<(), StoreError> {
    // A kept ancestor has children. One without children lost the last of them to this delete, or
    // to an earlier pass of this loop.
    let leaves = "DELETE FROM fork_ancestor WHERE workspace = (SELECT workspace FROM deleted_sandbox WHERE id = ?) AND
                      NOT EXISTS (SELECT 1 FROM sandbox AS child
                          WHERE child.workspace = fork_ancestor.workspace AND child.parent = fork_ancestor.id) AND
                      NOT EXISTS (SELECT 1 FROM fork_ancestor AS child
                          WHERE child.workspace = fork_ancestor.workspace AND child.parent = fork_ancestor.id)";
    loop {
        let pruned = query(leaves).bind(gone.to_string()).execute(&mut *tx).await;
        if pruned.map_err(failed("delete ancestors without descendants"))? == 0 {
            return Ok(());
        }
    }
}
