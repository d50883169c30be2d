//! Managed databases, and the sealed machines that they start from.

use std::{collections::BTreeMap, fmt};

use pandastack_database::{DatabaseRow, Query, Transaction, query, query_as, query_scalar};
use pandastack_kit::Secret;
use pandastack_model::{LayerId, SandboxId, SandboxState, TemplateName, VolumeId};
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::{DatabaseSize, DatabaseSleep, database_status};

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
    pub cloned_from: Option<SandboxId>,
    /// The layer of the template that its machine was started from.
    pub template_layer: Option<String>,
    /// The password that its role has, as far as is known.
    pub password: Option<Secret<String>>,
    /// The password that its role is about to get, or has got already.
    pub next_password: Option<Secret<String>>,
    /// `None` until it has credentials of its own.
    pub broker_token: Option<Secret<String>>,
    /// What is still to be done to its machine.
    pub repair: Option<DatabaseRepair>,
    /// The volume that has its data while another one is being filled.
    pub kept_volume: Option<VolumeId>,
    /// Why it could not be made.
    pub error: Option<String>,
    /// The last restore drill, as JSON.
    pub drill: Option<String>,
    pub created_at_ns: u64,
}

/// Work on the machine of a database that survives a restart of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseRepair {
    /// A new machine gets its volume.
    Restart,
    /// A new machine with a blank volume is filled from the archive, up to a time if one is given.
    Restore { until_ns: Option<u64> },
    /// It becomes a copy of its parent.
    Reset,
}

/// What clients of a database need.
#[derive(Clone)]
pub struct DatabaseCredentials {
    pub password: Secret<String>,
    pub broker_token: Secret<String>,
}

/// A sealed machine with a running server and an empty cluster.
#[derive(Clone)]
pub struct GoldenRow {
    /// The layer of the template that it was made from.
    pub template_layer: String,
    pub template: TemplateName,
    pub layer: LayerId,
    pub sandbox: SandboxId,
    pub volume: VolumeId,
    /// The password of the tenant's role.
    pub password: Secret<String>,
    pub created_at_ns: u64,
}

/// Without its secrets.
impl fmt::Debug for ManagedDatabaseRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedDatabaseRow").field("id", &self.id).field("workspace", &self.workspace).finish()
    }
}

impl ManagedDatabaseRow {
    /// Returns what clients need, if it is ready for them.
    pub fn login(&self) -> Option<DatabaseCredentials> {
        let (password, broker_token) = (self.password.clone()?, self.broker_token.clone()?);
        Some(DatabaseCredentials { password, broker_token })
    }

    /// Whether what is being done to it ends with other credentials.
    pub fn loses_login(&self) -> bool {
        matches!(self.repair, Some(DatabaseRepair::Restore { .. }))
    }

    /// Returns the database whose archive it is restored from.
    pub fn cloned_source(&self) -> SandboxId {
        // A clone has an archive of its own as soon as it is ready.
        self.cloned_from.filter(|_| self.broker_token.is_none()).unwrap_or(self.id)
    }
}

impl DatabaseRepair {
    fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Restore { .. } => "restore",
            Self::Reset => "reset",
        }
    }
}

impl Store {
    /// Records a database that is about to be made.
    pub async fn add_database(&self, database: &ManagedDatabaseRow) -> Result<(), StoreError> {
        insert(database).execute(&self.database).await.map(drop).map_err(failed("record a database"))
    }

    /// Records the password that the role of a database has, and the layer of its template.
    pub async fn set_database_start(
        &self,
        id: SandboxId,
        password: &Secret<String>,
        template_layer: &str,
    ) -> Result<(), StoreError> {
        query("UPDATE managed_database SET password = ?, template_layer = ? WHERE id = ?")
            .bind(password.reveal().clone())
            .bind(template_layer)
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record how a database starts"))
    }

    /// Records the password that a database is about to get.
    pub async fn begin_database_login(&self, id: SandboxId, next: &Secret<String>) -> Result<(), StoreError> {
        query("UPDATE managed_database SET next_password = ? WHERE id = ?")
            .bind(next.reveal().clone())
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record the next password of a database"))
    }

    /// Records that a database keeps its old password.
    pub async fn drop_next_password(&self, id: SandboxId) -> Result<(), StoreError> {
        query("UPDATE managed_database SET next_password = NULL WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("forget the next password of a database"))
    }

    /// Records what is to be done to the machine of a database, or that it is done. Returns false
    /// if the database was deleted.
    pub async fn set_database_repair(&self, id: SandboxId, repair: Option<DatabaseRepair>) -> Result<bool, StoreError> {
        let until_ns = match repair {
            Some(DatabaseRepair::Restore { until_ns }) => until_ns,
            _ => None,
        };
        query("UPDATE managed_database SET repair = ?, restore_to = ?, error = NULL WHERE id = ?")
            .bind(repair.map(DatabaseRepair::as_str))
            .bind(until_ns.map(to_sql))
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(|rows| rows > 0)
            .map_err(failed("record the repair of a database"))
    }

    /// Records which volume has the data of a database while another one is being filled, or that
    /// this is over.
    pub async fn keep_volume(&self, id: SandboxId, kept: Option<VolumeId>) -> Result<(), StoreError> {
        query("UPDATE managed_database SET kept_volume = ? WHERE id = ?")
            .bind(kept.map(|volume| volume.to_string()))
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record the volume with the data of a database"))
    }

    /// Whether a database is being restored from the backups of this one.
    pub async fn is_restored_from(&self, source: SandboxId) -> Result<bool, StoreError> {
        let sql = "SELECT COUNT(*) FROM managed_database WHERE repair = 'restore'
                   AND (id = ?1 OR (cloned_from = ?1 AND broker_token IS NULL))";
        query_scalar::<i64>(sql)
            .bind(source.to_string())
            .fetch_one(&self.database)
            .await
            .map(|count| count > 0)
            .map_err(failed("look for restores from a database"))
    }

    /// Records the layer of the template that the machine of a database was started from.
    pub async fn set_database_layer(&self, id: SandboxId, template_layer: &str) -> Result<(), StoreError> {
        query("UPDATE managed_database SET template_layer = ? WHERE id = ?")
            .bind(template_layer)
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record the template of a database"))
    }

    /// Records a restore drill of a database.
    pub async fn set_database_drill(&self, id: SandboxId, drill: &str) -> Result<(), StoreError> {
        query("UPDATE managed_database SET drill = ? WHERE id = ?")
            .bind(drill)
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a restore drill"))
    }

    /// Lists the databases of all workspaces.
    pub async fn all_databases(&self) -> Result<Vec<ManagedDatabaseRow>, StoreError> {
        let rows = query("SELECT * FROM managed_database ORDER BY created_at, id")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list all databases"))?;
        rows.iter().map(read).collect()
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

    /// Lists the databases of all workspaces that are not ready, get a password or are repaired,
    /// unless that failed.
    pub async fn unfinished_databases(&self) -> Result<Vec<ManagedDatabaseRow>, StoreError> {
        let sql = "SELECT * FROM managed_database
                   WHERE error IS NULL AND (broker_token IS NULL OR next_password IS NOT NULL OR repair IS NOT NULL)";
        let rows = query(sql).fetch_all(&self.database).await.map_err(failed("list unfinished databases"))?;
        rows.iter().map(read).collect()
    }

    /// Records the credentials of a database. It is ready from now on, and a restore is done: after
    /// a crash it must not begin again, because its data is no longer that of its source. Returns
    /// false if it was deleted.
    pub async fn set_database_login(&self, id: SandboxId, login: &DatabaseCredentials) -> Result<bool, StoreError> {
        let sql = "UPDATE managed_database SET password = ?, broker_token = ?, next_password = NULL, error = NULL,
                       kept_volume = CASE WHEN repair = 'restore' THEN NULL ELSE kept_volume END,
                       restore_to = NULL,
                       repair = CASE WHEN repair = 'restore' THEN NULL ELSE repair END
                   WHERE id = ?";
        query(sql)
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
        query("UPDATE managed_database SET error = ?, repair = NULL WHERE id = ?")
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
        let mut tx = self.begin_for(id, "begin to delete a database").await?;
        drop_database(&mut tx, id).await?;
        tx.commit().await.map_err(failed("delete a database"))
    }

    /// Lists deleted databases whose backups may still be there.
    pub async fn forgotten_archives(&self) -> Result<Vec<SandboxId>, StoreError> {
        let sql = "SELECT database_id FROM forgotten_archive";
        let rows: Vec<(String,)> =
            query_as(sql).fetch_all(&self.database).await.map_err(failed("list archives of deleted databases"))?;
        let id = |text: String| text.parse().map_err(|_| StoreError::Corrupt { id: text, field: "database_id" });
        rows.into_iter().map(|(text,)| id(text)).collect()
    }

    /// Records that the backups of a database are to be removed.
    pub async fn remember_archive(&self, id: SandboxId) -> Result<(), StoreError> {
        query("INSERT INTO forgotten_archive (database_id) VALUES (?) ON CONFLICT (database_id) DO NOTHING")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("remember the archive of a database"))
    }

    /// Records that the archive removes the backups of a deleted database by itself.
    pub async fn archive_is_removed(&self, id: SandboxId) -> Result<(), StoreError> {
        query("DELETE FROM forgotten_archive WHERE database_id = ?")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("forget the archive of a deleted database"))
    }

    /// Records a golden machine that is about to be made.
    pub async fn begin_golden(&self, golden: &GoldenRow) -> Result<(), StoreError> {
        let GoldenRow { template_layer, template, layer, sandbox, volume, password, created_at_ns } = golden;
        let sql =
            "INSERT INTO golden_database (template_layer, template, layer, sandbox_id, volume_id, password, ready,
                       created_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        query(sql)
            .bind(template_layer)
            .bind(template.as_str())
            .bind(layer.to_string())
            .bind(sandbox.to_string())
            .bind(volume.to_string())
            .bind(password.reveal().clone())
            .bind(false)
            .bind(to_sql(*created_at_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a golden machine"))
    }

    /// Finds the golden machine of a template's layer.
    pub async fn find_golden(&self, template_layer: &str) -> Result<Option<GoldenRow>, StoreError> {
        // One without a password is of an older version.
        let sql = "SELECT * FROM golden_database WHERE template_layer = ? AND ready = ? AND password IS NOT NULL";
        let row = query(sql)
            .bind(template_layer)
            .bind(true)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a golden machine"))?;
        row.as_ref().map(read_golden).transpose()
    }

    /// Whether golden layers are or were made in this machine.
    pub async fn is_golden_maker(&self, sandbox: SandboxId) -> Result<bool, StoreError> {
        query("SELECT sandbox_id FROM golden_database WHERE sandbox_id = ?")
            .bind(sandbox.to_string())
            .fetch_optional(&self.database)
            .await
            .map(|row| row.is_some())
            .map_err(failed("find a golden machine by its sandbox"))
    }

    /// Counts the databases of all workspaces by the status that the API shows.
    pub async fn count_databases(&self) -> Result<Vec<(&'static str, u64)>, StoreError> {
        let sql = "SELECT CASE WHEN d.repair IS NOT NULL THEN 'creating'
                               WHEN d.error IS NOT NULL THEN 'failed'
                               WHEN d.password IS NULL OR d.broker_token IS NULL OR s.status = 'failed' THEN 'creating'
                               WHEN s.status IS NULL THEN 'failed'
                               ELSE s.status END, COUNT(*)
                   FROM managed_database d LEFT JOIN sandbox s ON s.id = d.id GROUP BY 1 ORDER BY 1";
        let counted: Vec<(String, i64)> =
            query_as(sql).fetch_all(&self.database).await.map_err(failed("count databases by status"))?;
        let mut statuses: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (state, count) in counted {
            let corrupt = || StoreError::Corrupt { id: String::new(), field: "status" };
            let state = SandboxState::from_name(&state, None).ok_or_else(corrupt)?;
            *statuses.entry(database_status(&state)).or_default() += from_sql(count);
        }
        Ok(statuses.into_iter().collect())
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
        let rows = query("SELECT * FROM golden_database WHERE ready = ? OR password IS NULL")
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

/// Names every field, so that a new field does not compile until it is stored or ignored here.
pub(super) fn insert(database: &ManagedDatabaseRow) -> Query<'static> {
    let ManagedDatabaseRow { id, workspace, label, size, sleep, branched_from, cloned_from, .. } = database;
    let ManagedDatabaseRow { template_layer, password, next_password, broker_token, repair, .. } = database;
    let ManagedDatabaseRow { kept_volume: _, error: _, drill: _, created_at_ns, .. } = database;
    let until_ns = match repair {
        Some(DatabaseRepair::Restore { until_ns }) => *until_ns,
        _ => None,
    };
    let secret = |secret: &Option<Secret<String>>| secret.as_ref().map(|secret| secret.reveal().clone());
    let sql = "INSERT INTO managed_database (id, workspace, label, size, always_on, branched_from, cloned_from,
                   template_layer, password, next_password, broker_token, repair, restore_to, created_at)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    query(sql)
        .bind(id.to_string())
        .bind(workspace.0.clone())
        .bind(label.clone())
        .bind(size.as_str())
        .bind(sleep.is_never())
        .bind(branched_from.map(|from| from.to_string()))
        .bind(cloned_from.map(|from| from.to_string()))
        .bind(template_layer.clone())
        .bind(secret(password))
        .bind(secret(next_password))
        .bind(secret(broker_token))
        .bind(repair.map(DatabaseRepair::as_str))
        .bind(until_ns.map(to_sql))
        .bind(to_sql(*created_at_ns))
}

/// Removes the row of a database, in the transaction that deletes its sandbox. Its backups are
/// removed afterwards.
pub(super) async fn drop_database(tx: &mut Transaction, id: SandboxId) -> Result<(), StoreError> {
    let remember = "INSERT INTO forgotten_archive (database_id) SELECT id FROM managed_database WHERE id = ?
                    ON CONFLICT (database_id) DO NOTHING";
    query(remember)
        .bind(id.to_string())
        .execute(&mut *tx)
        .await
        .map_err(failed("remember the archive of a deleted database"))?;
    query("DELETE FROM managed_database WHERE id = ?")
        .bind(id.to_string())
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("delete the database of a sandbox"))
}

/// Removes the row of a branch that was never ready, in the transaction that forgets its sandbox.
/// Other databases stay, to show why they could not be made.
pub(super) async fn drop_branch(tx: &mut Transaction, id: SandboxId) -> Result<(), StoreError> {
    query("DELETE FROM managed_database WHERE id = ? AND branched_from IS NOT NULL AND broker_token IS NULL")
        .bind(id.to_string())
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("delete the branch of a sandbox"))
}

fn read(row: &DatabaseRow) -> Result<ManagedDatabaseRow, StoreError> {
    let id: String = column(row, "id")?;
    let corrupt = |field| StoreError::Corrupt { id: id.clone(), field };
    let size: String = column(row, "size")?;
    let other = |field: &'static str| -> Result<Option<SandboxId>, StoreError> {
        let text: Option<String> = column(row, field)?;
        text.map(|text| text.parse().map_err(|_| corrupt(field))).transpose()
    };
    let secret = |field| column::<Option<String>>(row, field).map(|text| text.map(Secret::new));
    let repair: Option<String> = column(row, "repair")?;
    let until: Option<i64> = column(row, "restore_to")?;
    let kept: Option<String> = column(row, "kept_volume")?;
    let repair = match repair.as_deref() {
        None => None,
        Some("restart") => Some(DatabaseRepair::Restart),
        Some("restore") => Some(DatabaseRepair::Restore { until_ns: until.map(from_sql) }),
        Some("reset") => Some(DatabaseRepair::Reset),
        Some(_) => return Err(corrupt("repair")),
    };
    Ok(ManagedDatabaseRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        workspace: WorkspaceId(column(row, "workspace")?),
        label: column(row, "label")?,
        size: DatabaseSize::named(&size).ok_or_else(|| corrupt("size"))?,
        sleep: DatabaseSleep::of_always_on(column(row, "always_on")?),
        branched_from: other("branched_from")?,
        cloned_from: other("cloned_from")?,
        template_layer: column(row, "template_layer")?,
        password: secret("password")?,
        next_password: secret("next_password")?,
        broker_token: secret("broker_token")?,
        repair,
        kept_volume: kept.map(|text| text.parse().map_err(|_| corrupt("kept_volume"))).transpose()?,
        error: column(row, "error")?,
        drill: column(row, "drill")?,
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
        password: Secret::new(column::<Option<String>>(row, "password")?.unwrap_or_default()),
        created_at_ns: column(row, "created_at").map(from_sql)?,
        template_layer,
    })
}
