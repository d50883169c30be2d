//! Requests with an idempotency key: the request, its response, and the resources it made.

use pandastack_database::{DatabaseRow, query};
use pandastack_door::{AttemptState, IdempotencyKey};
use pandastack_wire_fleet::WorkspaceId;

use super::{Store, StoreError, failed, to_sql};
use crate::limits::{ATTEMPT_BYTES_PER_WORKSPACE_MAX, ATTEMPTS_PER_WORKSPACE_MAX};

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
        let insert = "INSERT INTO attempt (workspace, key, digest, created_at) VALUES (?, ?, ?, ?)
                      ON CONFLICT (workspace, key) DO NOTHING";
        let done = query(insert)
            .bind(&workspace.0)
            .bind(key)
            .bind(digest)
            .bind(to_sql(now_ns))
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

    /// Records what a request is about to make, before it is made.
    pub async fn note_made(
        &self,
        attempt: &IdempotencyKey,
        made: ResourceKind,
        ids: &[String],
    ) -> Result<(), StoreError> {
        for id in ids {
            query("INSERT INTO attempt_made (workspace, key, kind, id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")
                .bind(&attempt.workspace.0)
                .bind(&attempt.key)
                .bind(made.as_str())
                .bind(id)
                .execute(&self.database)
                .await
                .map_err(failed("record what an attempt creates"))?;
        }
        Ok(())
    }

    /// Stores the response of a request. Past its limits the workspace loses its oldest responses.
    pub async fn answer_attempt(
        &self,
        attempt: &IdempotencyKey,
        status: u16,
        body: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let IdempotencyKey { workspace, key } = attempt;
        let mut tx = self.begin_in(workspace, "begin to store a response").await?;
        query("UPDATE attempt SET status = ?, answer = ? WHERE workspace = ? AND key = ?")
            .bind(i64::from(status))
            .bind(body)
            .bind(&workspace.0)
            .bind(key)
            .execute(&mut tx)
            .await
            .map_err(failed("store a response"))?;
        query("DELETE FROM attempt_made WHERE workspace = ? AND key = ?")
            .bind(&workspace.0)
            .bind(key)
            .execute(&mut tx)
            .await
            .map_err(failed("delete the record of what an attempt created"))?;
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
        tx.commit().await.map_err(failed("commit a response"))
    }

    /// Frees a key after a request that had no effect.
    pub async fn drop_attempt(&self, attempt: &IdempotencyKey) -> Result<(), StoreError> {
        for sql in [
            "DELETE FROM attempt WHERE workspace = ? AND key = ?",
            "DELETE FROM attempt_made WHERE workspace = ? AND key = ?",
        ] {
            query(sql)
                .bind(&attempt.workspace.0)
                .bind(&attempt.key)
                .execute(&self.database)
                .await
                .map_err(failed("free an idempotency key"))?;
        }
        Ok(())
    }

    /// Lists interrupted requests with the resources that they may have made.
    pub async fn unfinished_attempts(&self) -> Result<Vec<(IdempotencyKey, Vec<(ResourceKind, String)>)>, StoreError> {
        let rows = query("SELECT workspace, key FROM attempt WHERE status IS NULL")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list unfinished attempts"))?;
        let mut found = Vec::new();
        for row in rows {
            let bad = failed("read an attempt");
            let attempt = IdempotencyKey {
                workspace: WorkspaceId(row.try_get("workspace").map_err(&bad)?),
                key: row.try_get("key").map_err(&bad)?,
            };
            let made = query("SELECT kind, id FROM attempt_made WHERE workspace = ? AND key = ?")
                .bind(&attempt.workspace.0)
                .bind(&attempt.key)
                .fetch_all(&self.database)
                .await
                .map_err(failed("list what an attempt created"))?;
            let read = |row: &DatabaseRow| {
                let (kind, id): (String, String) = (row.try_get("kind").ok()?, row.try_get("id").ok()?);
                Some((ResourceKind::from_str(&kind)?, id))
            };
            found.push((attempt, made.iter().filter_map(read).collect()));
        }
        Ok(found)
    }
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
