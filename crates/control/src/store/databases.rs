//! Managed databases, and the sealed machines that they start from.

use pandastack_database::{DatabaseRow, Transaction, query};
use pandastack_kit::Secret;
use pandastack_model::{LayerId, SandboxId, TemplateName, VolumeId};
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::{DatabaseSize, DatabaseSleep};

use super::{Store, StoreError, failed, from_sql, intent::column, to_sql};

/// A database as it is stored.
#[derive(Clone)]
pub struct ManagedDatabaseRow {
    pub id: SandboxId,
    pub workspace: WorkspaceId,
    pub label: Option<String>,
    pub size: DatabaseSize,
    pub sleep: DatabaseSleep,
    pub branched_from: Option<SandboxId>,
    /// `None` until it has credentials of its own.
    pub login: Option<DatabaseCredentials>,
    /// Why it could not be made.
    pub error: Option<String>,
    pub created_at_ns: u64,
}

/// What clients of a database need.
#[derive(Clone)]
pub struct DatabaseCredentials {
    pub password: Secret<String>,
    pub broker_token: Secret<String>,
}

/// A sealed machine with a running server and an empty cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoldenRow {
    /// The layer of the template that it was made from.
    pub template_layer: String,
    pub template: TemplateName,
    pub layer: LayerId,
    pub sandbox: SandboxId,
    pub volume: VolumeId,
    pub created_at_ns: u64,
}

impl Store {
    /// Records a database that is about to be made.
    pub async fn add_database(&self, database: &ManagedDatabaseRow) -> Result<(), StoreError> {
        let ManagedDatabaseRow { id, workspace, label, size, sleep, branched_from, created_at_ns, .. } = database;
        let sql = "INSERT INTO managed_database (id, workspace, label, size, always_on, branched_from, created_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?)";
        query(sql)
            .bind(id.to_string())
            .bind(&workspace.0)
            .bind(label.clone())
            .bind(size.as_str())
            .bind(sleep.is_never())
            .bind(branched_from.map(|from| from.to_string()))
            .bind(to_sql(*created_at_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a database"))
    }

    /// Finds one database of a workspace.
    pub async fn find_database(
        &self,
        workspace: &WorkspaceId,
        id: SandboxId,
    ) -> Result<Option<ManagedDatabaseRow>, StoreError> {
        let row = self.any_database(id).await?;
        Ok(row.filter(|row| row.workspace == *workspace))
    }

    /// Finds one database of any workspace.
    pub async fn any_database(&self, id: SandboxId) -> Result<Option<ManagedDatabaseRow>, StoreError> {
        let row = query("SELECT * FROM managed_database WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a database"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists a workspace's databases, newest first.
    pub async fn list_databases(&self, workspace: &WorkspaceId) -> Result<Vec<ManagedDatabaseRow>, StoreError> {
        let rows = query("SELECT * FROM managed_database WHERE workspace = ? ORDER BY created_at DESC, id")
            .bind(&workspace.0)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list databases"))?;
        rows.iter().map(read).collect()
    }

    /// Lists the databases of all workspaces that have neither credentials nor an error.
    pub async fn unfinished_databases(&self) -> Result<Vec<ManagedDatabaseRow>, StoreError> {
        let rows = query("SELECT * FROM managed_database WHERE password IS NULL AND error IS NULL")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list unfinished databases"))?;
        rows.iter().map(read).collect()
    }

    /// Records the credentials of a database. It is ready from now on. Returns false if it was
    /// deleted.
    pub async fn set_database_login(&self, id: SandboxId, login: &DatabaseCredentials) -> Result<bool, StoreError> {
        query("UPDATE managed_database SET password = ?, broker_token = ?, error = NULL WHERE id = ?")
            .bind(login.password.reveal().clone())
            .bind(login.broker_token.reveal().clone())
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(|rows| rows > 0)
            .map_err(failed("record the credentials of a database"))
    }

    /// Records why a database could not be made.
    pub async fn fail_database(&self, id: SandboxId, error: &str) -> Result<(), StoreError> {
        query("UPDATE managed_database SET error = ? WHERE id = ?")
            .bind(error)
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record the failure of a database"))
    }

    /// Records whether a database sleeps.
    pub async fn set_database_sleep(&self, id: SandboxId, sleep: DatabaseSleep) -> Result<(), StoreError> {
        query("UPDATE managed_database SET always_on = ? WHERE id = ?")
            .bind(sleep.is_never())
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record whether a database sleeps"))
    }

    /// Removes the row of a database that has no sandbox.
    pub async fn forget_database(&self, id: SandboxId) -> Result<(), StoreError> {
        query("DELETE FROM managed_database WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("delete a database"))
    }

    /// Records a golden machine that is about to be made.
    pub async fn begin_golden(&self, golden: &GoldenRow) -> Result<(), StoreError> {
        let GoldenRow { template_layer, template, layer, sandbox, volume, created_at_ns } = golden;
        let sql =
            "INSERT INTO golden_database (template_layer, template, layer, sandbox_id, volume_id, ready, created_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?)";
        query(sql)
            .bind(template_layer)
            .bind(template.as_str())
            .bind(layer.to_string())
            .bind(sandbox.to_string())
            .bind(volume.to_string())
            .bind(false)
            .bind(to_sql(*created_at_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a golden machine"))
    }

    /// Finds the golden machine of a template's layer.
    pub async fn find_golden(&self, template_layer: &str) -> Result<Option<GoldenRow>, StoreError> {
        let row = query("SELECT * FROM golden_database WHERE template_layer = ? AND ready = ?")
            .bind(template_layer)
            .bind(true)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a golden machine"))?;
        row.as_ref().map(read_golden).transpose()
    }

    /// Records that a golden machine is sealed. Those of the template's earlier layers are not
    /// needed any more.
    pub async fn finish_golden(&self, golden: &GoldenRow) -> Result<(), StoreError> {
        query("UPDATE golden_database SET ready = (template_layer = ?1) WHERE template = ?2")
            .bind(&golden.template_layer)
            .bind(golden.template.as_str())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a sealed golden machine"))
    }

    /// Lists golden machines that are unfinished, or not needed any more.
    pub async fn stale_goldens(&self) -> Result<Vec<GoldenRow>, StoreError> {
        let rows = query("SELECT * FROM golden_database WHERE ready = ?")
            .bind(false)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list golden machines that are not needed"))?;
        rows.iter().map(read_golden).collect()
    }

    /// Removes the row of a golden machine after its layer was released.
    pub async fn forget_golden(&self, template_layer: &str) -> Result<(), StoreError> {
        query("DELETE FROM golden_database WHERE template_layer = ?")
            .bind(template_layer)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("delete a golden machine"))
    }
}

/// Removes the row of a database, in the transaction that deletes its sandbox.
pub(super) async fn drop_database(tx: &mut Transaction, id: SandboxId) -> Result<(), StoreError> {
    query("DELETE FROM managed_database WHERE id = ?")
        .bind(id.to_string())
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("delete the database of a sandbox"))
}

fn read(row: &DatabaseRow) -> Result<ManagedDatabaseRow, StoreError> {
    let id: String = column(row, "id")?;
    let corrupt = |field| StoreError::Corrupt { id: id.clone(), field };
    let size: String = column(row, "size")?;
    let branched_from: Option<String> = column(row, "branched_from")?;
    let (password, token): (Option<String>, Option<String>) = (column(row, "password")?, column(row, "broker_token")?);
    let login = password.zip(token).map(|(password, token)| DatabaseCredentials {
        password: Secret::new(password),
        broker_token: Secret::new(token),
    });
    Ok(ManagedDatabaseRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        workspace: WorkspaceId(column(row, "workspace")?),
        label: column(row, "label")?,
        size: DatabaseSize::named(&size).ok_or_else(|| corrupt("size"))?,
        sleep: DatabaseSleep::of_always_on(column(row, "always_on")?),
        branched_from: branched_from.map(|from| from.parse().map_err(|_| corrupt("branched_from"))).transpose()?,
        login,
        error: column(row, "error")?,
        created_at_ns: column(row, "created_at").map(from_sql)?,
    })
}

fn read_golden(row: &DatabaseRow) -> Result<GoldenRow, StoreError> {
    let template_layer: String = column(row, "template_layer")?;
    let corrupt = |field| StoreError::Corrupt { id: template_layer.clone(), field };
    let text = |name| column::<String>(row, name);
    Ok(GoldenRow {
        template: text("template")?.parse().map_err(|_| corrupt("template"))?,
        layer: text("layer")?.parse().map_err(|_| corrupt("layer"))?,
        sandbox: text("sandbox_id")?.parse().map_err(|_| corrupt("sandbox_id"))?,
        volume: text("volume_id")?.parse().map_err(|_| corrupt("volume_id"))?,
        created_at_ns: column(row, "created_at").map(from_sql)?,
        template_layer,
    })
}
