//! Requests with an idempotency key: the request, its response, and the resources it made.

use pandastack_database::{DatabaseRow, Transaction, query, query_as};
use pandastack_door::{AttemptState, IdempotencyKey};
use pandastack_wire_fleet::WorkspaceId;

use super::{Store, StoreError, failed, from_sql, leases::SERVER_LEASE_PREFIX, to_sql};
use crate::limits::{ATTEMPT_BYTES_PER_WORKSPACE_MAX, ATTEMPTS_PER_WORKSPACE_MAX, ENDED_SERVERS_MAX};

/// A server that has unfinished requests and no lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedServer {
    pub name: String,
    /// When its lease ended; 0 if it has none.
    pub until_ns: u64,
}

/// The kind of resource that a request makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    Sandbox,
    Snapshot,
    Volume,
    Webhook,
    Build,
    /// A resource inside a guest. It is identified by the request path, because it has no name
    /// yet.
    InGuest,
}

impl ResourceKind {
    /// Whether only the server with the host can remove it.
    fn is_on_host(self) -> bool {
        match self {
            ResourceKind::Sandbox | ResourceKind::Snapshot | ResourceKind::Volume | ResourceKind::Build => true,
            ResourceKind::Webhook | ResourceKind::InGuest => false,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            ResourceKind::Sandbox => "sandbox",
            ResourceKind::Snapshot => "snapshot",
            ResourceKind::Volume => "volume",
            ResourceKind::Webhook => "webhook",
            ResourceKind::Build => "build",
            ResourceKind::InGuest => "in_guest",
        }
    }

    fn from_str(text: &str) -> Option<Self> {
        let all = [
            ResourceKind::Sandbox,
            ResourceKind::Snapshot,
            ResourceKind::Volume,
            ResourceKind::Webhook,
            ResourceKind::Build,
            ResourceKind::InGuest,
        ];
        all.into_iter().find(|made| made.as_str() == text)
    }
}

impl Store {
    /// Takes a key for a request, or returns what is known of it. Answered keys that are older than
    /// a given time are removed.
    pub async fn begin_attempt(
        &self,
        attempt: &IdempotencyKey,
        digest: &str,
        now_ns: u64,
        forget_before_ns: u64,
    ) -> Result<AttemptState, StoreError> {
        let IdempotencyKey { workspace, key } = attempt;
        // Take the write lock at once: a transaction that reads first fails, instead of waiting,
        // while another writer is active.
        let mut tx = self.begin_in(workspace, "begin an attempt").await?;
        query("DELETE FROM attempt WHERE created_at < ? AND status IS NOT NULL")
            .bind(to_sql(forget_before_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("delete old attempts"))?;
        let insert = "INSERT INTO attempt (workspace, key, digest, created_at, server) VALUES (?, ?, ?, ?, ?)
                      ON CONFLICT (workspace, key) DO NOTHING";
        let done = query(insert)
            .bind(&workspace.0)
            .bind(key)
            .bind(digest)
            .bind(to_sql(now_ns))
            .bind(&*self.holder)
            .execute(&mut tx)
            .await
            .map_err(failed("reserve an idempotency key"))?;
        let begun = if done == 1 {
            AttemptState::New
        } else {
            let sql = "SELECT digest, status, answer FROM attempt WHERE workspace = ? AND key = ?";
            let row = query(sql).bind(&workspace.0).bind(key).fetch_one(&mut tx).await;
            read(&row.map_err(failed("look up an idempotency key"))?, digest)?
        };
        tx.commit().await.map_err(failed("commit an attempt"))?;
        Ok(begun)
    }

    /// Records what a request is about to make, before it is made. Returns false if another server
    /// has taken the request over.
    pub async fn note_made(
        &self,
        attempt: &IdempotencyKey,
        made: ResourceKind,
        ids: &[String],
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin_in(&attempt.workspace, "begin to record what an attempt creates").await?;
        let sql = "SELECT 1 FROM attempt WHERE workspace = ? AND key = ? AND server = ? AND status IS NULL";
        let own = query(sql).bind(&attempt.workspace.0).bind(&attempt.key).bind(&*self.holder);
        if own.fetch_optional(&mut tx).await.map_err(failed("find an attempt"))?.is_none() {
            return Ok(false);
        }
        for id in ids {
            query("INSERT INTO attempt_made (workspace, key, kind, id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")
                .bind(&attempt.workspace.0)
                .bind(&attempt.key)
                .bind(made.as_str())
                .bind(id)
                .execute(&mut tx)
                .await
                .map_err(failed("record what an attempt creates"))?;
        }
        tx.commit().await.map_err(failed("commit what an attempt creates"))?;
        Ok(true)
    }

    /// Stores the response of a request. Past its limits the workspace loses its oldest responses.
    /// Returns false if another server has taken the request over.
    pub async fn answer_attempt(
        &self,
        attempt: &IdempotencyKey,
        status: u16,
        body: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let IdempotencyKey { workspace, key } = attempt;
        let mut tx = self.begin_in(workspace, "begin to store a response").await?;
        let kept = query("UPDATE attempt SET status = ?, answer = ? WHERE workspace = ? AND key = ? AND server = ?")
            .bind(i64::from(status))
            .bind(body)
            .bind(&workspace.0)
            .bind(key)
            .bind(&*self.holder)
            .execute(&mut tx)
            .await
            .map_err(failed("store a response"))?;
        if kept == 0 {
            return Ok(false);
        }
        forget_made(&mut tx, attempt).await?;
        // Newest first: delete the entries past the limit of number or of bytes.
        let prune = "DELETE FROM attempt WHERE workspace = ? AND status IS NOT NULL AND key IN (
                         SELECT key FROM (
                             SELECT key, ROW_NUMBER() OVER newest AS number,
                                    SUM(COALESCE(LENGTH(answer), 0)) OVER newest AS bytes
                             FROM attempt WHERE workspace = ?
                             WINDOW newest AS (ORDER BY created_at DESC, key ROWS UNBOUNDED PRECEDING)) AS ranked
                         WHERE number > ? OR bytes > ?)";
        query(prune)
            .bind(&workspace.0)
            .bind(&workspace.0)
            .bind(to_sql(ATTEMPTS_PER_WORKSPACE_MAX))
            .bind(to_sql(ATTEMPT_BYTES_PER_WORKSPACE_MAX))
            .execute(&mut tx)
            .await
            .map_err(failed("delete old responses"))?;
        tx.commit().await.map_err(failed("commit a response"))?;
        Ok(true)
    }

    /// Frees a key after a request that had no effect, unless another server has taken it over.
    pub async fn drop_attempt(&self, attempt: &IdempotencyKey) -> Result<(), StoreError> {
        let mut tx = self.begin_in(&attempt.workspace, "begin to free an idempotency key").await?;
        let gone = query("DELETE FROM attempt WHERE workspace = ? AND key = ? AND server = ?")
            .bind(&attempt.workspace.0)
            .bind(&attempt.key)
            .bind(&*self.holder)
            .execute(&mut tx)
            .await
            .map_err(failed("free an idempotency key"))?;
        if gone > 0 {
            forget_made(&mut tx, attempt).await?;
        }
        tx.commit().await.map_err(failed("commit a free idempotency key"))
    }

    /// Lists the servers that have unfinished requests and no lease. Never this one.
    pub async fn ended_servers(&self, now_ns: u64) -> Result<Vec<EndedServer>, StoreError> {
        let sql = "SELECT DISTINCT attempt.server, COALESCE(worker_lease.until, 0)
                   FROM attempt LEFT JOIN worker_lease ON worker_lease.name = ?1 || attempt.server
                   WHERE attempt.status IS NULL AND attempt.server <> '' AND attempt.server <> ?2
                       AND COALESCE(worker_lease.until, 0) <= ?3
                   ORDER BY attempt.server LIMIT ?4";
        let rows: Vec<(String, i64)> = query_as(sql)
            .bind(SERVER_LEASE_PREFIX)
            .bind(&*self.holder)
            .bind(to_sql(now_ns))
            .bind(to_sql(ENDED_SERVERS_MAX))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list ended servers"))?;
        Ok(rows.into_iter().map(|(name, until)| EndedServer { name, until_ns: from_sql(until) }).collect())
    }

    /// Lists the unfinished requests of a server.
    pub async fn unfinished_attempts(&self, server: &str) -> Result<Vec<IdempotencyKey>, StoreError> {
        let rows: Vec<(String, String)> =
            query_as("SELECT workspace, key FROM attempt WHERE status IS NULL AND server = ? ORDER BY created_at")
                .bind(server)
                .fetch_all(&self.database)
                .await
                .map_err(failed("list unfinished attempts"))?;
        Ok(rows.into_iter().map(|(workspace, key)| IdempotencyKey { workspace: WorkspaceId(workspace), key }).collect())
    }

    /// Takes an unfinished request over from a server that has no lease. Returns what the request
    /// may have made. `None` if it is finished, if its server runs, or if only a server with a host
    /// can undo it and this one has none.
    pub async fn take_over_attempt(
        &self,
        attempt: &IdempotencyKey,
        server: &str,
        (now_ns, has_host): (u64, bool),
    ) -> Result<Option<Vec<(ResourceKind, String)>>, StoreError> {
        let IdempotencyKey { workspace, key } = attempt;
        let mut tx = self.begin_in(workspace, "begin to take an attempt over").await?;
        let rows: Vec<(String, String)> = query_as("SELECT kind, id FROM attempt_made WHERE workspace = ? AND key = ?")
            .bind(&workspace.0)
            .bind(key)
            .fetch_all(&mut tx)
            .await
            .map_err(failed("list what an attempt created"))?;
        let made: Vec<_> =
            rows.into_iter().filter_map(|(kind, id)| Some((ResourceKind::from_str(&kind)?, id))).collect();
        if !has_host && made.iter().any(|(kind, _)| kind.is_on_host()) {
            return Ok(None);
        }
        let sql = "UPDATE attempt SET server = ?1 WHERE workspace = ?2 AND key = ?3 AND server = ?4
                       AND status IS NULL AND NOT EXISTS (SELECT 1 FROM worker_lease
                           WHERE name = ?5 AND holder <> ?1 AND until > ?6)";
        let taken = query(sql)
            .bind(&*self.holder)
            .bind(&workspace.0)
            .bind(key)
            .bind(server)
            .bind(format!("{SERVER_LEASE_PREFIX}{server}"))
            .bind(to_sql(now_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("take an attempt over"))?;
        tx.commit().await.map_err(failed("commit the take-over of an attempt"))?;
        Ok((taken > 0).then_some(made))
    }

    /// Returns the names under which earlier runs of this server worked on requests. Rows of
    /// earlier versions have no name.
    pub fn own_names(&self) -> [&str; 2] {
        [&self.holder, ""]
    }
}

async fn forget_made(tx: &mut Transaction, attempt: &IdempotencyKey) -> Result<(), StoreError> {
    query("DELETE FROM attempt_made WHERE workspace = ? AND key = ?")
        .bind(&attempt.workspace.0)
        .bind(&attempt.key)
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("delete the record of what an attempt created"))
}

fn read(row: &DatabaseRow, digest: &str) -> Result<AttemptState, StoreError> {
    let bad = failed("read an attempt");
    let known: String = row.try_get("digest").map_err(&bad)?;
    let status: Option<i64> = row.try_get("status").map_err(&bad)?;
    let body: Option<Vec<u8>> = row.try_get("answer").map_err(&bad)?;
    Ok(match status {
        _ if known != digest => AttemptState::Other,
        None => AttemptState::InFlight,
        Some(status) => AttemptState::Answered { status: u16::try_from(status).unwrap_or(500), body },
    })
}
