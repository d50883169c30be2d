//! Workspaces and their API keys. Only the SHA-256 of a key is stored. A revoked key keeps its row,
//! up to a limit.

use pandastack_database::{DatabaseRow, query, query_as, query_scalar};
use pandastack_wire_fleet::WorkspaceId;

use super::{Revoked, Store, StoreError, failed, from_sql, intent::column, to_sql};

/// The creator of a key that was made on the server itself.
pub const OPERATOR: &str = "operator";

/// A key as it is stored.
pub struct KeyRow<'a> {
    pub hash: &'a str,
    pub prefix: &'a str,
    pub label: &'a str,
    pub expires_at_ns: Option<u64>,
    /// The id of the key that created this one, or `OPERATOR`.
    pub created_by: &'a str,
}

/// A key as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    pub id: String,
    pub prefix: String,
    pub label: String,
    pub created_at_ns: u64,
    pub created_by: String,
    pub last_used_at_ns: Option<u64>,
    pub expires_at_ns: Option<u64>,
}

/// The key that a hash belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    pub workspace: WorkspaceId,
    pub expires_at_ns: Option<u64>,
    pub revoked: bool,
}

/// Limits of a workspace's keys.
#[derive(Clone, Copy)]
pub struct KeyLimits {
    /// Working keys.
    pub working_max: u64,
    /// Revoked or expired keys. Past this number those that ended first are removed.
    pub ended_max: u64,
}

/// Whether a key was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAdded {
    Yes,
    Full,
}

/// Whether the last working key may be revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastKey {
    Keep,
    Revoke,
}

/// The result of a revocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRevoked {
    /// The hashes of the revoked keys.
    Yes(Vec<String>),
    /// No key of this workspace has that id or prefix.
    Missing,
    /// The workspace has no other working key.
    Last,
}

/// Returns the id of a key, which is derived from its hash.
pub fn key_id(hash: &str) -> String {
    format!("key_{}", hash.get(..16).unwrap_or(hash))
}

impl Store {
    /// Returns whether more than one workspace has a key, even a revoked or expired one.
    pub async fn has_several_workspaces(&self) -> Result<bool, StoreError> {
        let sql = "SELECT COUNT(*) FROM (SELECT DISTINCT workspace FROM api_key LIMIT 2) AS found";
        let count: i64 = query_scalar(sql).fetch_one(&self.database).await.map_err(failed("count workspaces"))?;
        Ok(count > 1)
    }

    /// Finds a key by its hash.
    pub async fn key_by_hash(&self, hash: &str) -> Result<Option<KnownKey>, StoreError> {
        let found: Option<(String, Option<i64>, Option<i64>)> =
            query_as("SELECT workspace, expires_at, revoked_at FROM api_key WHERE hash = ?")
                .bind(hash)
                .fetch_optional(&self.database)
                .await
                .map_err(failed("look up a key"))?;
        Ok(found.map(|(workspace, expires_at, revoked_at)| KnownKey {
            workspace: WorkspaceId(workspace),
            expires_at_ns: expires_at.map(from_sql),
            revoked: revoked_at.is_some(),
        }))
    }

    /// Returns the prefix of a workspace's oldest working key.
    pub async fn first_key_prefix(&self, workspace: &WorkspaceId, now_ns: u64) -> Result<Option<String>, StoreError> {
        let sql = "SELECT prefix FROM api_key
                   WHERE workspace = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)
                   ORDER BY created_at LIMIT 1";
        query_scalar(sql)
            .bind(&workspace.0)
            .bind(to_sql(now_ns))
            .fetch_optional(&self.database)
            .await
            .map_err(failed("look for a first key"))
    }

    /// Ensures that a workspace exists and has a key. A key that is already stored does not change,
    /// even if it is revoked.
    pub async fn ensure_key(&self, workspace: &WorkspaceId, key: KeyRow<'_>, now_ns: u64) -> Result<(), StoreError> {
        let limits = KeyLimits { working_max: i64::MAX as u64, ended_max: i64::MAX as u64 };
        self.add_key(workspace, key, now_ns, limits).await.map(drop)
    }

    /// Adds a key to a workspace, and creates the workspace if it does not exist.
    pub async fn add_key(
        &self,
        workspace: &WorkspaceId,
        key: KeyRow<'_>,
        now_ns: u64,
        limits: KeyLimits,
    ) -> Result<KeyAdded, StoreError> {
        let mut tx = self.begin_in(workspace, "begin a key").await?;
        query("INSERT INTO workspace (id, created_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING")
            .bind(&workspace.0)
            .bind(to_sql(now_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("create a workspace"))?;
        // The lock keeps concurrent callers from exceeding the limit.
        let insert = "INSERT INTO api_key (hash, id, prefix, workspace, label, created_at, expires_at, created_by)
                      SELECT ?, ?, ?, ?, ?, ?, ?, ?
                      WHERE (SELECT COUNT(*) FROM api_key WHERE workspace = ?
                             AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)) < ?
                      ON CONFLICT (hash) DO NOTHING";
        let done = query(insert)
            .bind(key.hash)
            .bind(key_id(key.hash))
            .bind(key.prefix)
            .bind(&workspace.0)
            .bind(key.label)
            .bind(to_sql(now_ns))
            .bind(key.expires_at_ns.map(to_sql))
            .bind(key.created_by)
            .bind(&workspace.0)
            .bind(to_sql(now_ns))
            .bind(to_sql(limits.working_max))
            .execute(&mut tx)
            .await
            .map_err(failed("create a key"))?;
        // Keep the operator's keys: the next start may be given a revoked one again.
        let ended = "DELETE FROM api_key WHERE hash IN (
                         SELECT hash FROM api_key WHERE workspace = ? AND created_by <> ?
                         AND (revoked_at IS NOT NULL OR expires_at <= ?)
                         ORDER BY COALESCE(revoked_at, expires_at) DESC, id LIMIT 1000000000 OFFSET ?)";
        query(ended)
            .bind(&workspace.0)
            .bind(OPERATOR)
            .bind(to_sql(now_ns))
            .bind(to_sql(limits.ended_max))
            .execute(&mut tx)
            .await
            .map_err(failed("delete old keys"))?;
        tx.commit().await.map_err(failed("commit a key"))?;
        Ok(if done > 0 { KeyAdded::Yes } else { KeyAdded::Full })
    }

    /// Lists the keys of a workspace that are not revoked, newest first.
    pub async fn list_keys(&self, workspace: &WorkspaceId, limit: u64) -> Result<Vec<ListedKey>, StoreError> {
        let sql = "SELECT * FROM api_key WHERE workspace = ? AND revoked_at IS NULL
                   ORDER BY created_at DESC, id LIMIT ?";
        let rows = query(sql)
            .bind(&workspace.0)
            .bind(to_sql(limit))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list keys"))?;
        rows.iter().map(read).collect()
    }

    /// Revokes the keys of a workspace that have this id or this prefix.
    pub async fn revoke_keys(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        last: LastKey,
        now_ns: u64,
    ) -> Result<KeyRevoked, StoreError> {
        // The lock keeps two callers from revoking the last two keys.
        let mut tx = self.begin_in(workspace, "begin a revocation").await?;
        let revoke = "UPDATE api_key SET revoked_at = ?
                      WHERE workspace = ? AND (id = ? OR prefix = ?) AND revoked_at IS NULL
                      AND (? OR EXISTS (
                          SELECT 1 FROM api_key WHERE workspace = ? AND id <> ? AND prefix <> ?
                          AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)))
                      RETURNING hash";
        let hashes: Vec<String> = query_scalar(revoke)
            .bind(to_sql(now_ns))
            .bind(&workspace.0)
            .bind(name)
            .bind(name)
            .bind(last == LastKey::Revoke)
            .bind(&workspace.0)
            .bind(name)
            .bind(name)
            .bind(to_sql(now_ns))
            .fetch_all(&mut tx)
            .await
            .map_err(failed("revoke a key"))?;
        if !hashes.is_empty() {
            let revoked: Vec<_> = hashes.iter().cloned().map(Revoked::Token).collect();
            self.announce(&mut tx, &revoked, now_ns).await?;
            tx.commit().await.map_err(failed("commit a revocation"))?;
            return Ok(KeyRevoked::Yes(hashes));
        }
        let sql = "SELECT COUNT(*) FROM api_key
                   WHERE workspace = ? AND (id = ? OR prefix = ?) AND revoked_at IS NULL";
        let there: i64 = query_scalar(sql)
            .bind(&workspace.0)
            .bind(name)
            .bind(name)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("look for a key"))?;
        Ok(if there > 0 { KeyRevoked::Last } else { KeyRevoked::Missing })
    }

    /// Records the use of a key.
    pub async fn touch_key(&self, hash: &str, now_ns: u64) -> Result<(), StoreError> {
        query("UPDATE api_key SET last_used_at = ? WHERE hash = ?")
            .bind(to_sql(now_ns))
            .bind(hash)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record the use of a key"))
    }
}

fn read(row: &DatabaseRow) -> Result<ListedKey, StoreError> {
    let text = |name| column::<String>(row, name);
    let time = |name| row.try_get::<Option<i64>>(name).map_err(failed("read a key")).map(|at| at.map(from_sql));
    Ok(ListedKey {
        id: text("id")?,
        prefix: text("prefix")?,
        label: text("label")?,
        created_at_ns: column(row, "created_at").map(from_sql)?,
        created_by: text("created_by")?,
        last_used_at_ns: time("last_used_at")?,
        expires_at_ns: time("expires_at")?,
    })
}

#[cfg(test)]
mod tests {
    use pandastack_database::DatabaseAddress;

    use super::*;

    const LIMITS: KeyLimits = KeyLimits { working_max: 3, ended_max: 2 };

    async fn add(store: &Store, workspace: &str, number: u8, expires_at_ns: Option<u64>, now_ns: u64) -> KeyAdded {
        let hash = format!("{number:02x}").repeat(32);
        let prefix = format!("pds_{number:08}");
        let key = KeyRow { hash: &hash, prefix: &prefix, label: "l", expires_at_ns, created_by: "key_x" };
        store.add_key(&WorkspaceId(workspace.into()), key, now_ns, LIMITS).await.unwrap()
    }

    async fn revoke(store: &Store, workspace: &str, number: u8, last: LastKey, now_ns: u64) -> KeyRevoked {
        let workspace = WorkspaceId(workspace.into());
        store.revoke_keys(&workspace, &format!("pds_{number:08}"), last, now_ns).await.unwrap()
    }

    #[tokio::test]
    async fn keys_are_counted_and_the_last_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DatabaseAddress::File(folder.path().join("c.db")), 1).await.unwrap();
        for number in 1..=3 {
            assert_eq!(add(&store, "a", number, None, 1).await, KeyAdded::Yes);
        }
        assert_eq!(add(&store, "a", 4, None, 1).await, KeyAdded::Full);
        assert_eq!(add(&store, "b", 9, None, 1).await, KeyAdded::Yes, "another workspace counts for itself");
        assert_eq!(revoke(&store, "b", 1, LastKey::Keep, 2).await, KeyRevoked::Missing, "not another's key");
        for number in 1..=2 {
            let hash = format!("{number:02x}").repeat(32);
            assert_eq!(revoke(&store, "a", number, LastKey::Keep, 2).await, KeyRevoked::Yes(vec![hash.clone()]));
            assert!(store.key_by_hash(&hash).await.unwrap().unwrap().revoked);
        }
        assert_eq!(revoke(&store, "a", 1, LastKey::Revoke, 2).await, KeyRevoked::Missing, "once is enough");
        assert_eq!(revoke(&store, "a", 3, LastKey::Keep, 2).await, KeyRevoked::Last);
        // An expired key does not count as a working one.
        assert_eq!(add(&store, "a", 5, Some(10), 3).await, KeyAdded::Yes);
        assert_eq!(revoke(&store, "a", 3, LastKey::Keep, 10).await, KeyRevoked::Last);
        assert!(matches!(revoke(&store, "a", 3, LastKey::Revoke, 10).await, KeyRevoked::Yes(_)));
        let listed = store.list_keys(&WorkspaceId("a".into()), 10).await.unwrap();
        assert_eq!(listed.iter().map(|key| key.prefix.as_str()).collect::<Vec<_>>(), ["pds_00000005"]);
    }

    #[tokio::test]
    async fn a_revoked_key_does_not_come_back_and_old_ones_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DatabaseAddress::File(folder.path().join("c.db")), 1).await.unwrap();
        add(&store, "a", 1, None, 1).await;
        revoke(&store, "a", 1, LastKey::Revoke, 2).await;
        add(&store, "a", 1, None, 3).await;
        let hash = "01".repeat(32);
        assert!(store.key_by_hash(&hash).await.unwrap().unwrap().revoked);
        for number in 2..=4 {
            add(&store, "a", number, None, 3).await;
            revoke(&store, "a", number, LastKey::Revoke, u64::from(number) + 2).await;
        }
        add(&store, "a", 5, None, 9).await;
        assert_eq!(store.key_by_hash(&hash).await.unwrap(), None, "only the last two that ended are kept");
        assert!(store.key_by_hash(&"04".repeat(32)).await.unwrap().is_some());
    }
}
