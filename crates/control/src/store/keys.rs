//! Workspaces and the hashes of their keys.

use pandastack_wire_fleet::WorkspaceId;

use super::{Store, StoreError, failed, from_sql, to_sql};

impl Store {
    /// Finds the workspace that a key's hash belongs to, and when the key stops working.
    pub async fn workspace_of_key(&self, hash: &str) -> Result<Option<(WorkspaceId, Option<u64>)>, StoreError> {
        let found: Option<(String, Option<i64>)> =
            sqlx::query_as("SELECT workspace, expires_at FROM api_key WHERE hash = ?")
                .bind(hash)
                .fetch_optional(&self.pool)
                .await
                .map_err(failed("look up a key"))?;
        Ok(found.map(|(workspace, expires_at)| (WorkspaceId(workspace), expires_at.map(from_sql))))
    }

    /// Gives the prefix of a workspace's oldest key.
    pub async fn first_key_prefix(&self, workspace: &WorkspaceId) -> Result<Option<String>, StoreError> {
        sqlx::query_scalar("SELECT prefix FROM api_key WHERE workspace = ? ORDER BY created_at LIMIT 1")
            .bind(&workspace.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("look for a first key"))
    }

    /// Makes sure that a workspace exists and has a key. A key that is already known stays where it is.
    pub async fn ensure_key(&self, workspace: &WorkspaceId, key: KeyRow<'_>, now_ns: u64) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await.map_err(failed("begin a key"))?;
        sqlx::query("INSERT INTO workspace (id, created_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING")
            .bind(&workspace.0)
            .bind(to_sql(now_ns))
            .execute(&mut *tx)
            .await
            .map_err(failed("make a workspace"))?;
        let insert = "INSERT INTO api_key (hash, prefix, workspace, label, created_at, expires_at)
                      VALUES (?, ?, ?, ?, ?, ?)
                      ON CONFLICT (hash) DO NOTHING";
        sqlx::query(insert)
            .bind(key.hash)
            .bind(key.prefix)
            .bind(&workspace.0)
            .bind(key.label)
            .bind(to_sql(now_ns))
            .bind(key.expires_at_ns.map(to_sql))
            .execute(&mut *tx)
            .await
            .map_err(failed("make a key"))?;
        tx.commit().await.map_err(failed("commit a key"))
    }
}

/// A key as it is kept.
pub struct KeyRow<'a> {
    pub hash: &'a str,
    pub prefix: &'a str,
    pub label: &'a str,
    pub expires_at_ns: Option<u64>,
}
