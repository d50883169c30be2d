//! Sandboxes: what is wanted, and what the host last said.

use std::collections::BTreeMap;

use pandastack_model::{SandboxId, SandboxSpec, SandboxState};
use pandastack_wire_fleet::WorkspaceId;
use sqlx::{Row, sqlite::SqliteRow};

use super::{Store, StoreError, failed, from_sql, to_sql};

/// A sandbox as control keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub id: SandboxId,
    pub workspace: WorkspaceId,
    pub generation: u64,
    pub created_at_ns: u64,
    pub spec: SandboxSpec,
    pub size: Size,
    pub state: SandboxState,
    pub observed: Observed,
}

/// The template's size, kept because published clients need it at every moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub cpus: u32,
    pub memory_mib: u64,
}

/// What the host said when the sandbox came up. Empty until then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub guest_ip: String,
    pub boot_ms: u64,
    pub boot_mode: String,
    pub isolation: String,
}

/// Whether a row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    Yes,
    /// The workspace has as many sandboxes as it may.
    Full,
}

impl Store {
    /// Counts a workspace's sandboxes.
    pub async fn count(&self, workspace: &WorkspaceId) -> Result<u64, StoreError> {
        sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM sandbox WHERE workspace = ?")
            .bind(&workspace.0)
            .fetch_one(&self.pool)
            .await
            .map(from_sql)
            .map_err(failed("count sandboxes"))
    }

    /// Writes an intent, unless the workspace is full by now: other creates may have come between plan and commit.
    pub async fn commit(&self, intent: &Intent, sandboxes_max: u64) -> Result<Committed, StoreError> {
        let Intent { id, workspace, generation, created_at_ns, spec, size, state, observed } = intent;
        let SandboxSpec { template, ttl_seconds, persistent, metadata, env, .. } = spec;
        let sql =
            "INSERT INTO sandbox (id, workspace, generation, created_at, template, ttl_seconds, persistent, metadata,
                       env, cpus, memory_mib, status, guest_ip, boot_ms, boot_mode, isolation)
                   SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
                   WHERE (SELECT COUNT(*) FROM sandbox WHERE workspace = ?) < ?";
        let done = sqlx::query(sql)
            .bind(id.to_string())
            .bind(&workspace.0)
            .bind(to_sql(*generation))
            .bind(to_sql(*created_at_ns))
            .bind(template.as_str())
            .bind(to_sql(*ttl_seconds))
            .bind(*persistent)
            .bind(to_json(metadata))
            .bind(to_json(env))
            .bind(i64::from(size.cpus))
            .bind(to_sql(size.memory_mib))
            .bind(state.as_str())
            .bind(&observed.guest_ip)
            .bind(to_sql(observed.boot_ms))
            .bind(&observed.boot_mode)
            .bind(&observed.isolation)
            .bind(&workspace.0)
            .bind(to_sql(sandboxes_max))
            .execute(&self.pool)
            .await
            .map_err(failed("commit a sandbox"))?;
        Ok(if done.rows_affected() == 1 { Committed::Yes } else { Committed::Full })
    }

    /// Finds one sandbox of a workspace.
    pub async fn find(&self, workspace: &WorkspaceId, id: SandboxId) -> Result<Option<Intent>, StoreError> {
        let row = sqlx::query("SELECT * FROM sandbox WHERE id = ? AND workspace = ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("find a sandbox"))?;
        row.as_ref().map(intent).transpose()
    }

    /// Tells only the state of one sandbox of a workspace: what the byte path needs.
    pub async fn state(&self, workspace: &WorkspaceId, id: SandboxId) -> Result<Option<SandboxState>, StoreError> {
        let row = sqlx::query("SELECT id, status, status_reason FROM sandbox WHERE id = ? AND workspace = ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("find a sandbox's state"))?;
        row.as_ref().map(state).transpose()
    }

    /// Lists a workspace's sandboxes, newest first.
    pub async fn list(&self, workspace: &WorkspaceId) -> Result<Vec<Intent>, StoreError> {
        let rows = sqlx::query("SELECT * FROM sandbox WHERE workspace = ? ORDER BY created_at DESC, id")
            .bind(&workspace.0)
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list sandboxes"))?;
        rows.iter().map(intent).collect()
    }

    /// Lists every sandbox of every workspace with its state.
    pub async fn all_states(&self) -> Result<Vec<(SandboxId, SandboxState)>, StoreError> {
        let rows = sqlx::query("SELECT id, status, status_reason FROM sandbox")
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list all sandboxes"))?;
        rows.iter().map(|row| Ok((id(row)?, state(row)?))).collect()
    }

    /// Records that the sandbox runs. False if the row is no longer there.
    pub async fn mark_running(&self, id: SandboxId, size: Size, observed: &Observed) -> Result<bool, StoreError> {
        let sql = "UPDATE sandbox SET status = 'running', status_reason = NULL, cpus = ?, memory_mib = ?, guest_ip = ?,
                       boot_ms = ?, boot_mode = ?, isolation = ? WHERE id = ?";
        let done = sqlx::query(sql)
            .bind(i64::from(size.cpus))
            .bind(to_sql(size.memory_mib))
            .bind(&observed.guest_ip)
            .bind(to_sql(observed.boot_ms))
            .bind(&observed.boot_mode)
            .bind(&observed.isolation)
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(failed("record a running sandbox"))?;
        Ok(done.rows_affected() == 1)
    }

    /// Records that the sandbox's machine is dead.
    pub async fn mark_failed(&self, id: SandboxId, reason: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE sandbox SET status = 'failed', status_reason = ? WHERE id = ?")
            .bind(reason)
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("record a failed sandbox"))
    }

    /// Removes an intent that never became a sandbox.
    pub async fn forget(&self, id: SandboxId) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("forget a sandbox"))
    }

    /// Removes a sandbox and remembers its id for a while; ids remembered since before `forget_before_ns` are dropped.
    pub async fn bury(&self, id: SandboxId, now_ns: u64, forget_before_ns: u64) -> Result<(), StoreError> {
        // A read first would make the transaction fail instead of wait when another writer is at work.
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a burial"))?;
        let remember = "INSERT INTO deleted_sandbox (id, workspace, deleted_at) SELECT id, workspace, ? FROM sandbox
                        WHERE id = ? ON CONFLICT (id) DO NOTHING";
        sqlx::query(remember)
            .bind(to_sql(now_ns))
            .bind(id.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("remember a deleted sandbox"))?;
        sqlx::query("DELETE FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("delete a sandbox"))?;
        sqlx::query("DELETE FROM deleted_sandbox WHERE deleted_at < ?")
            .bind(to_sql(forget_before_ns))
            .execute(&mut *tx)
            .await
            .map_err(failed("drop old deleted ids"))?;
        tx.commit().await.map_err(failed("commit a burial"))
    }

    /// Says whether the workspace deleted this id since the given time.
    pub async fn was_buried(&self, workspace: &WorkspaceId, id: SandboxId, since_ns: u64) -> Result<bool, StoreError> {
        sqlx::query_scalar::<_, i64>(
            "SELECT COUNT(*) FROM deleted_sandbox WHERE id = ? AND workspace = ? AND deleted_at >= ?",
        )
        .bind(id.to_string())
        .bind(&workspace.0)
        .bind(to_sql(since_ns))
        .fetch_one(&self.pool)
        .await
        .map(|count| count > 0)
        .map_err(failed("look for a deleted sandbox"))
    }
}

fn to_json(map: &BTreeMap<String, String>) -> String {
    serde_json::to_string(map).expect("a map of text to text is always JSON")
}

fn column<'r, T>(row: &'r SqliteRow, name: &'static str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(name).map_err(failed("read a sandbox row"))
}

fn id(row: &SqliteRow) -> Result<SandboxId, StoreError> {
    let text: String = column(row, "id")?;
    text.parse().map_err(|_| StoreError::Corrupt { id: text, field: "id" })
}

fn state(row: &SqliteRow) -> Result<SandboxState, StoreError> {
    let status: String = column(row, "status")?;
    let known = SandboxState::from_name(&status, column(row, "status_reason")?);
    known.map_or_else(|| Err(StoreError::Corrupt { id: column(row, "id")?, field: "status" }), Ok)
}

fn intent(row: &SqliteRow) -> Result<Intent, StoreError> {
    let id = id(row)?;
    let corrupt = |field| StoreError::Corrupt { id: id.to_string(), field };
    let number = |name| column::<i64>(row, name).map(from_sql);
    let map = |name| {
        let text: String = column(row, name)?;
        serde_json::from_str::<BTreeMap<String, String>>(&text).map_err(|_| corrupt(name))
    };
    let template: String = column(row, "template")?;
    Ok(Intent {
        id,
        workspace: WorkspaceId(column(row, "workspace")?),
        generation: number("generation")?,
        created_at_ns: number("created_at")?,
        spec: SandboxSpec {
            template: template.parse().map_err(|_| corrupt("template"))?,
            ttl_seconds: number("ttl_seconds")?,
            persistent: column(row, "persistent")?,
            metadata: map("metadata")?,
            env: map("env")?,
            ..SandboxSpec::of(template.parse().map_err(|_| corrupt("template"))?)
        },
        size: Size { cpus: u32::try_from(number("cpus")?).unwrap_or(1), memory_mib: number("memory_mib")? },
        state: state(row)?,
        observed: Observed {
            guest_ip: column(row, "guest_ip")?,
            boot_ms: number("boot_ms")?,
            boot_mode: column(row, "boot_mode")?,
            isolation: column(row, "isolation")?,
        },
    })
}
