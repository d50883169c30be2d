//! What the host has and this database never knew: kept for a while, until an operator gives it to
//! a workspace or it expires. Rows of it appear in no other table before it is adopted.

use std::{fmt, str::FromStr};

use pandastack_database::{DatabaseRow, Query, Transaction, WriteLock, query, query_scalar};
use pandastack_model::{SandboxId, VolumeId};
use pandastack_wire_fleet::{Caller, WorkspaceId};

use super::{
    IdleLimit, Intent, MachineSize, ManagedDatabaseRow, Store, StoreError, VolumeRow, databases, failed, from_sql,
    intent::column,
    sandboxes, to_sql,
    usage::{UsageSubject, add_subject},
    volumes::add_present,
};
use crate::plan::{NewOwner, OrphanRefusal, OrphanRequest, OrphanState, RemovalCause, orphan_step};

/// What was put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanId {
    Sandbox(SandboxId),
    /// The machine of a managed database.
    Database(SandboxId),
    Volume(VolumeId),
}

impl OrphanId {
    /// Returns the kind.
    pub fn kind(self) -> &'static str {
        match self {
            OrphanId::Sandbox(_) => "sandbox",
            OrphanId::Database(_) => "database",
            OrphanId::Volume(_) => "volume",
        }
    }

    fn read(kind: &str, id: &str) -> Option<Self> {
        match kind {
            "sandbox" => id.parse().map(OrphanId::Sandbox).ok(),
            "database" => id.parse().map(OrphanId::Database).ok(),
            "volume" => id.parse().map(OrphanId::Volume).ok(),
            _ => None,
        }
    }

    /// Returns its machine; `None` for a volume.
    pub fn sandbox(self) -> Option<SandboxId> {
        match self {
            OrphanId::Sandbox(id) | OrphanId::Database(id) => Some(id),
            OrphanId::Volume(_) => None,
        }
    }
}

impl fmt::Display for OrphanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrphanId::Sandbox(id) | OrphanId::Database(id) => id.fmt(f),
            OrphanId::Volume(id) => id.fmt(f),
        }
    }
}

/// Something that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanRow {
    pub id: OrphanId,
    pub state: OrphanState,
    /// Why the last request was not carried out.
    pub error: Option<String>,
    /// The backup that was restored, if one was.
    pub backup: Option<String>,
    pub put_aside_at_ns: u64,
    pub expires_at_ns: u64,
    pub facts: OrphanFacts,
}

/// What the host knew of it when it was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanFacts {
    /// State of a sandbox; `used` or `unused` for a volume.
    pub host_state: String,
    pub template: Option<String>,
    /// The workspace that it counted against.
    pub workspace: Option<WorkspaceId>,
    /// The database that a volume belongs to. It is removed with it.
    pub of_sandbox: Option<SandboxId>,
    /// The oldest time that the host knows: it exists at least since then.
    pub since_ns: Option<u64>,
    pub size: MachineSize,
    /// The idle limit that it gets back.
    pub idle: IdleLimit,
}

/// The rows that an adoption writes.
#[derive(Clone, Debug)]
pub struct AdoptedRows {
    pub orphan: OrphanId,
    pub owner: NewOwner,
    pub sandbox: Option<Intent>,
    pub volumes: Vec<VolumeRow>,
    pub database: Option<ManagedDatabaseRow>,
}

/// Whether an adoption was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanEntered {
    Yes,
    /// Another volume of the workspace has this name.
    NameTaken(String),
    /// It is not being adopted any more.
    Changed,
}

impl Store {
    /// Records what was found. What is recorded already stays as it is.
    pub async fn put_aside(&self, found: &[OrphanRow]) -> Result<(), StoreError> {
        if found.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin_on_orphans("begin to put something aside").await?;
        for orphan in found {
            insert(orphan).execute(&mut tx).await.map_err(failed("put something aside"))?;
        }
        tx.commit().await.map_err(failed("commit what was put aside"))
    }

    /// Puts a volume aside that has a row, and removes that.
    pub async fn put_volume_aside(&self, volume: &OrphanRow) -> Result<(), StoreError> {
        let mut tx = self.begin_on_orphans("begin to put a volume aside").await?;
        insert(volume).execute(&mut tx).await.map_err(failed("put a volume aside"))?;
        query("DELETE FROM volume WHERE id = ?")
            .bind(volume.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("remove the row of a volume that was put aside"))?;
        tx.commit().await.map_err(failed("commit a volume that was put aside"))
    }

    /// Lists everything that was put aside, machines before volumes.
    pub async fn orphans(&self) -> Result<Vec<OrphanRow>, StoreError> {
        let rows = query("SELECT * FROM orphan ORDER BY put_aside_at, kind, id")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list what was put aside"))?;
        rows.iter().map(read).collect()
    }

    /// Finds something that was put aside.
    pub async fn find_orphan(&self, id: &str) -> Result<Option<OrphanRow>, StoreError> {
        let row = query("SELECT * FROM orphan WHERE id = ?")
            .bind(id)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find what was put aside"))?;
        row.as_ref().map(read).transpose()
    }

    /// Requests something of what was put aside. `None` if there is no such thing. `error` says why
    /// the request before was not carried out.
    pub async fn ask_orphan(
        &self,
        id: &str,
        ask: OrphanRequest,
        error: Option<&str>,
    ) -> Result<Option<Result<OrphanRow, OrphanRefusal>>, StoreError> {
        let mut tx = self.begin_on_orphans("begin to change what was put aside").await?;
        let row = query("SELECT * FROM orphan WHERE id = ?")
            .bind(id)
            .fetch_optional(&mut tx)
            .await
            .map_err(failed("find what was put aside"))?;
        let Some(mut orphan) = row.as_ref().map(read).transpose()? else { return Ok(None) };
        // A look that finds nothing new keeps the error for the operator.
        let error = if ask == OrphanRequest::Rest { orphan.error.take() } else { error.map(str::to_owned) };
        orphan.state = match orphan_step(&orphan.state, ask) {
            Ok(state) => state,
            Err(refusal) => return Ok(Some(Err(refusal))),
        };
        orphan.error = error;
        write_state(&mut tx, &orphan).await?;
        tx.commit().await.map_err(failed("commit a change of what was put aside"))?;
        Ok(Some(Ok(orphan)))
    }

    /// Notes why something was not carried out yet. It is tried again.
    pub async fn note_orphan_error(&self, id: OrphanId, error: &str) -> Result<(), StoreError> {
        query("UPDATE orphan SET error = ? WHERE id = ?")
            .bind(error)
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("note an error of what was put aside"))
    }

    /// Forgets something that is gone or has an owner.
    pub async fn forget_orphan(&self, id: OrphanId) -> Result<(), StoreError> {
        query("DELETE FROM orphan WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("forget what was put aside"))
    }

    /// Gives something to a workspace: writes its rows there, all or none, and drops the volumes
    /// among them from what was put aside.
    pub async fn enter_orphan(&self, rows: &AdoptedRows, now_ns: u64) -> Result<OrphanEntered, StoreError> {
        let AdoptedRows { orphan: id, owner, sandbox, volumes, database } = rows;
        let caller = Caller::of(owner.workspace.clone());
        let mut tx = self.begin_on_orphans("begin an adoption").await?;
        tx.lock(WriteLock::on("workspace", &owner.workspace.0)).await.map_err(failed("lock a workspace"))?;
        let row = query("SELECT * FROM orphan WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&mut tx)
            .await
            .map_err(failed("find what is adopted"))?;
        let Some(mut orphan) = row.as_ref().map(read).transpose()? else { return Ok(OrphanEntered::Changed) };
        if orphan.state != OrphanState::Adopting(owner.clone()) {
            return Ok(OrphanEntered::Changed);
        }
        for volume in volumes {
            if !add_present(&mut tx, &caller, volume, now_ns).await? {
                return Ok(OrphanEntered::NameTaken(volume.name.clone()));
            }
            query("DELETE FROM orphan WHERE id = ? AND id <> ?")
                .bind(volume.id.to_string())
                .bind(id.to_string())
                .execute(&mut tx)
                .await
                .map_err(failed("adopt the volume of a sandbox"))?;
        }
        if let Some(intent) = sandbox {
            sandboxes::insert(intent).execute(&mut tx).await.map_err(failed("adopt a sandbox"))?;
            // What it used before was nobody's.
            let counted = Intent { created_at_ns: now_ns, ..intent.clone() };
            add_subject(&mut tx, &caller, UsageSubject::Sandbox(&counted)).await?;
        }
        if let Some(database) = database {
            databases::insert(database).execute(&mut tx).await.map_err(failed("adopt a database"))?;
        }
        orphan.state = match orphan_step(&orphan.state, OrphanRequest::Enter) {
            Ok(state) => state,
            Err(_) => return Ok(OrphanEntered::Changed),
        };
        orphan.error = None;
        write_state(&mut tx, &orphan).await?;
        tx.commit().await.map_err(failed("commit an adoption"))?;
        Ok(OrphanEntered::Yes)
    }

    /// Whether there is a workspace.
    pub async fn has_workspace(&self, workspace: &WorkspaceId) -> Result<bool, StoreError> {
        query_scalar::<i64>("SELECT COUNT(*) FROM workspace WHERE id = ?")
            .bind(&workspace.0)
            .fetch_one(&self.database)
            .await
            .map(|count| count > 0)
            .map_err(failed("find a workspace"))
    }

    /// Only one transaction at a time changes what was put aside: there is little of it.
    async fn begin_on_orphans(&self, attempted: &'static str) -> Result<Transaction, StoreError> {
        self.database.begin_write(WriteLock::on_all("orphans")).await.map_err(failed(attempted))
    }
}

/// Names every field, so that a new field does not compile until it is stored or ignored here.
fn insert(orphan: &OrphanRow) -> Query<'static> {
    let OrphanRow { id, state, error, backup, put_aside_at_ns, expires_at_ns, facts } = orphan;
    let OrphanFacts { host_state, template, workspace, of_sandbox, since_ns, size, idle } = facts;
    let MachineSize { cpus, memory_mib, disk_mib } = *size;
    let StoredState { state, owner, removed_by } = StoredState::of(state);
    let sql = "INSERT INTO orphan (id, kind, state, new_workspace, new_name, removed_by, error, backup, put_aside_at,
                   expires_at, host_state, template, workspace, of_sandbox, since, cpus, memory_mib, disk_mib,
                   ttl_seconds, persistent)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING";
    query(sql)
        .bind(id.to_string())
        .bind(id.kind())
        .bind(state)
        .bind(owner.map(|owner| owner.workspace.0.clone()))
        .bind(owner.and_then(|owner| owner.name.clone()))
        .bind(removed_by)
        .bind(error.clone())
        .bind(backup.clone())
        .bind(to_sql(*put_aside_at_ns))
        .bind(to_sql(*expires_at_ns))
        .bind(host_state.clone())
        .bind(template.clone())
        .bind(workspace.as_ref().map(|workspace| workspace.0.clone()))
        .bind(of_sandbox.map(|sandbox| sandbox.to_string()))
        .bind(since_ns.map(to_sql))
        .bind(i64::from(cpus))
        .bind(to_sql(memory_mib))
        .bind(to_sql(disk_mib))
        .bind(to_sql(idle.ttl_seconds))
        .bind(idle.persistent)
}

async fn write_state(tx: &mut Transaction, orphan: &OrphanRow) -> Result<(), StoreError> {
    let StoredState { state, owner, removed_by } = StoredState::of(&orphan.state);
    let sql = "UPDATE orphan SET state = ?, new_workspace = ?, new_name = ?, removed_by = ?, error = ? WHERE id = ?";
    query(sql)
        .bind(state)
        .bind(owner.map(|owner| owner.workspace.0.clone()))
        .bind(owner.and_then(|owner| owner.name.clone()))
        .bind(removed_by)
        .bind(orphan.error.clone())
        .bind(orphan.id.to_string())
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("record the state of what was put aside"))
}

/// A state as its columns.
struct StoredState<'a> {
    state: &'static str,
    owner: Option<&'a NewOwner>,
    removed_by: Option<&'static str>,
}

impl<'a> StoredState<'a> {
    fn of(state: &'a OrphanState) -> Self {
        let plain = |state| Self { state, owner: None, removed_by: None };
        match state {
            OrphanState::Found => plain("found"),
            OrphanState::Kept => plain("kept"),
            OrphanState::Adopting(owner) => Self { owner: Some(owner), ..plain("adopting") },
            OrphanState::Adopted(owner) => Self { owner: Some(owner), ..plain("adopted") },
            OrphanState::Removing(cause) => Self { removed_by: Some(cause.as_str()), ..plain("removing") },
        }
    }
}

impl OrphanState {
    /// Returns the name that is stored and shown.
    pub fn as_str(&self) -> &'static str {
        StoredState::of(self).state
    }
}

impl RemovalCause {
    fn as_str(self) -> &'static str {
        match self {
            RemovalCause::Request => "request",
            RemovalCause::Expiry => "expiry",
        }
    }
}

fn read(row: &DatabaseRow) -> Result<OrphanRow, StoreError> {
    let id: String = column(row, "id")?;
    let corrupt = |field| StoreError::Corrupt { id: id.clone(), field };
    let number = |name| column::<i64>(row, name).map(from_sql);
    let text = |name| column::<Option<String>>(row, name);
    let of_sandbox = text("of_sandbox")?.map(|text| SandboxId::from_str(&text)).transpose();
    Ok(OrphanRow {
        id: OrphanId::read(&column::<String>(row, "kind")?, &id).ok_or_else(|| corrupt("kind"))?,
        state: read_state(row)?.ok_or_else(|| corrupt("state"))?,
        error: text("error")?,
        backup: text("backup")?,
        put_aside_at_ns: number("put_aside_at")?,
        expires_at_ns: number("expires_at")?,
        facts: OrphanFacts {
            host_state: column(row, "host_state")?,
            template: text("template")?,
            workspace: text("workspace")?.map(WorkspaceId),
            of_sandbox: of_sandbox.map_err(|_| corrupt("of_sandbox"))?,
            since_ns: column::<Option<i64>>(row, "since")?.map(from_sql),
            size: super::intent::read_size(row)?,
            idle: IdleLimit { ttl_seconds: number("ttl_seconds")?, persistent: column(row, "persistent")? },
        },
    })
}

fn read_state(row: &DatabaseRow) -> Result<Option<OrphanState>, StoreError> {
    let state: String = column(row, "state")?;
    let (workspace, removed_by): (Option<String>, Option<String>) =
        (column(row, "new_workspace")?, column(row, "removed_by")?);
    let name = column(row, "new_name")?;
    let owner = workspace.map(|workspace| NewOwner { workspace: WorkspaceId(workspace), name });
    Ok(match state.as_str() {
        "found" => Some(OrphanState::Found),
        "kept" => Some(OrphanState::Kept),
        "adopting" => owner.map(OrphanState::Adopting),
        "adopted" => owner.map(OrphanState::Adopted),
        "removing" => match removed_by.as_deref() {
            Some("request") => Some(OrphanState::Removing(RemovalCause::Request)),
            Some("expiry") => Some(OrphanState::Removing(RemovalCause::Expiry)),
            _ => None,
        },
        _ => None,
    })
}
