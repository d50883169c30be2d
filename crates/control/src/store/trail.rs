//! The audit trail: the changing requests of each workspace, limited in age and number.

use pandastack_door::AuditRow;
use pandastack_wire_fleet::WorkspaceId;
use sqlx::{Row, sqlite::SqliteRow};

use super::{Store, StoreError, failed, from_sql, intent::column, to_sql};

impl Store {
    /// Adds entries, all or none.
    pub async fn add_audit_entries(&self, audit_entries: &[AuditRow]) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed("begin to write the audit trail"))?;
        let sql =
            "INSERT INTO audit (id, workspace, at, request_id, method, route, path, status, duration_ms, key_prefix)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        for entry in audit_entries {
            sqlx::query(sql)
                .bind(pandastack_kit::random_hex::<16>())
                .bind(&entry.workspace.0)
                .bind(to_sql(entry.at_ns))
                .bind(&entry.request_id)
                .bind(&entry.method)
                .bind(&entry.route)
                .bind(&entry.path)
                .bind(i64::from(entry.status))
                .bind(to_sql(entry.duration_ms))
                .bind(&entry.key_prefix)
                .execute(&mut *tx)
                .await
                .map_err(failed("write to the audit trail"))?;
        }
        tx.commit().await.map_err(failed("commit the audit trail"))
    }

    /// Removes entries older than a given time, and the oldest entries of each workspace past a
    /// number.
    pub async fn prune_audit_entries(&self, before_ns: u64, per_workspace_max: u64) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM audit WHERE at < ?")
            .bind(to_sql(before_ns))
            .execute(&self.pool)
            .await
            .map_err(failed("delete old audit entries"))?;
        let many = "DELETE FROM audit WHERE id IN (SELECT id FROM (
                        SELECT id, ROW_NUMBER() OVER (PARTITION BY workspace ORDER BY at DESC, id) AS number FROM audit)
                        AS ranked WHERE number > ?)";
        sqlx::query(many)
            .bind(to_sql(per_workspace_max))
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("limit the number of audit entries"))
    }

    /// Lists the last entries of a workspace since a given time, newest first.
    pub async fn audit_entries(
        &self,
        workspace: &WorkspaceId,
        since_ns: u64,
        limit: u64,
    ) -> Result<Vec<AuditRow>, StoreError> {
        let rows = sqlx::query("SELECT * FROM audit WHERE workspace = ? AND at >= ? ORDER BY at DESC, id LIMIT ?")
            .bind(&workspace.0)
            .bind(to_sql(since_ns))
            .bind(to_sql(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(failed("read the audit trail"))?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &SqliteRow) -> Result<AuditRow, StoreError> {
    let text = |name| column::<String>(row, name);
    let status: i64 = row.try_get("status").map_err(failed("read a row"))?;
    Ok(AuditRow {
        workspace: WorkspaceId(text("workspace")?),
        at_ns: column(row, "at").map(from_sql)?,
        request_id: text("request_id")?,
        method: text("method")?,
        route: text("route")?,
        path: text("path")?,
        status: u16::try_from(status).unwrap_or(0),
        duration_ms: column(row, "duration_ms").map(from_sql)?,
        key_prefix: text("key_prefix")?,
    })
}
