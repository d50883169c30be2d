//! Sandboxes as users see them: each with what it is for, in lists by kind.

use pandastack_database::{DatabaseRow, query, query_built, query_scalar};
use pandastack_model::SandboxId;
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::{KindFilter, MachineKind};

use super::{
    Intent, Store, StoreError, failed,
    intent::{column, read_intent},
    to_sql,
};

/// A sandbox, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSandbox {
    pub intent: Intent,
    pub kind: MachineKind,
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The last sandbox of the page before, of any kind.
    pub after: Option<SandboxId>,
    pub limit: u64,
}

impl Store {
    /// Finds one sandbox of a workspace, and what it is for.
    pub async fn find_shown(&self, workspace: &WorkspaceId, id: SandboxId) -> Result<Option<ShownSandbox>, StoreError> {
        let sql = select(KindFilter::All) + " AND sandbox.id = ?2";
        let row = query_built(sql)
            .bind(&workspace.0)
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a sandbox and its kind"))?;
        row.as_ref().map(read).transpose()
    }

    /// Returns what a sandbox is for, also if it has no row any more.
    pub async fn machine_kind(&self, id: SandboxId) -> Result<MachineKind, StoreError> {
        let row = query("SELECT id AS database_id FROM managed_database WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find what a sandbox is for"))?;
        row.as_ref().map_or(Ok(MachineKind::Sandbox), kind_of)
    }

    /// Lists a workspace's sandboxes of some kinds, newest first.
    pub async fn list_shown(
        &self,
        workspace: &WorkspaceId,
        kinds: KindFilter,
    ) -> Result<Vec<ShownSandbox>, StoreError> {
        let sql = select(kinds) + NEWEST_FIRST;
        let rows = query_built(sql).bind(&workspace.0).fetch_all(&self.database).await;
        rows.map_err(failed("list sandboxes by kind"))?.iter().map(read).collect()
    }

    /// Lists a page of a workspace's sandboxes of some kinds, newest first.
    pub async fn list_page(
        &self,
        workspace: &WorkspaceId,
        kinds: KindFilter,
        ListPage { after, limit }: ListPage,
    ) -> Result<Vec<ShownSandbox>, StoreError> {
        let Some(after) = after else {
            let sql = select(kinds) + NEWEST_FIRST + " LIMIT ?2";
            let rows = query_built(sql).bind(&workspace.0).bind(to_sql(limit)).fetch_all(&self.database).await;
            return rows.map_err(failed("list the first page of sandboxes"))?.iter().map(read).collect();
        };
        let place = query_scalar::<i64>("SELECT created_at FROM sandbox WHERE workspace = ? AND id = ?")
            .bind(&workspace.0)
            .bind(after.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find the end of a page of sandboxes"))?;
        let Some(created_at) = place else { return Ok(Vec::new()) };
        let older = " AND sandbox.created_at <= ?2 AND (sandbox.created_at < ?2 OR sandbox.id > ?3)";
        let sql = select(kinds) + older + NEWEST_FIRST + " LIMIT ?4";
        let page = query_built(sql).bind(&workspace.0).bind(created_at).bind(after.to_string()).bind(to_sql(limit));
        let rows = page.fetch_all(&self.database).await;
        rows.map_err(failed("list a page of sandboxes"))?.iter().map(read).collect()
    }
}

const NEWEST_FIRST: &str = " ORDER BY sandbox.created_at DESC, sandbox.id";

/// Begins a statement that reads the sandboxes of a workspace, which is its first value.
fn select(kinds: KindFilter) -> String {
    let only = match kinds {
        KindFilter::Sandboxes => " AND managed_database.id IS NULL",
        KindFilter::Databases => " AND managed_database.id IS NOT NULL",
        KindFilter::All => "",
    };
    format!(
        "SELECT sandbox.*, managed_database.id AS database_id
         FROM sandbox LEFT JOIN managed_database ON managed_database.id = sandbox.id
         WHERE sandbox.workspace = ?1{only}"
    )
}

fn read(row: &DatabaseRow) -> Result<ShownSandbox, StoreError> {
    Ok(ShownSandbox { intent: read_intent(row)?, kind: kind_of(row)? })
}

/// Reads what a sandbox is for: `database_id` is the id of the row of its database, if it has one.
pub(super) fn kind_of(row: &DatabaseRow) -> Result<MachineKind, StoreError> {
    let database: Option<String> = column(row, "database_id")?;
    Ok(if database.is_some() { MachineKind::Database } else { MachineKind::Sandbox })
}
