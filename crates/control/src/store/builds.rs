//! Builds of templates, and the resources that they hold on the host.

use pandastack_database::{DatabaseRow, query, query_built, query_scalar};
use pandastack_model::{BuildId, LayerId, SandboxId, TemplateName, VolumeId};
use pandastack_wire_fleet::WorkspaceId;

use super::{Store, StoreError, failed, from_sql, intent::column, to_sql};

/// A build as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRow {
    pub id: BuildId,
    pub workspace: WorkspaceId,
    pub name: TemplateName,
    pub status: BuildStatus,
    /// Why it failed.
    pub error: Option<String>,
    pub size_mb: u64,
    pub cpus: Option<u32>,
    pub memory_mib: Option<u64>,
    /// Uploaded bytes.
    pub bytes: Option<u64>,
    pub image_ref: Option<String>,
    pub started_at_ns: u64,
    pub ended_at_ns: Option<u64>,
}

/// Progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildStatus {
    Queued,
    Running,
    Baking,
    Done,
    Failed,
}

impl BuildStatus {
    const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Baking, Self::Done, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Baking => "baking",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// Whether a build's row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildAdded {
    Yes,
    /// Another unfinished build has the same template name.
    Twin,
    /// The workspace reached its limit of unfinished builds.
    Full,
}

/// A resource on the host that only builds use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildResource {
    Sandbox(SandboxId),
    Layer(LayerId),
    Volume(VolumeId),
}

impl BuildResource {
    fn kind(self) -> &'static str {
        match self {
            BuildResource::Sandbox(_) => "sandbox",
            BuildResource::Layer(_) => "layer",
            BuildResource::Volume(_) => "volume",
        }
    }

    pub(super) fn id(self) -> String {
        match self {
            BuildResource::Sandbox(id) => id.to_string(),
            BuildResource::Layer(id) => id.to_string(),
            BuildResource::Volume(id) => id.to_string(),
        }
    }
}

const UNFINISHED: &str = "status NOT IN ('done', 'failed')";

impl Store {
    /// Records an accepted build.
    pub async fn begin_build(&self, build: &BuildRow, under_way_max: u64) -> Result<BuildAdded, StoreError> {
        let mut tx = self.begin_in(&build.workspace, "begin a build").await?;
        let sql = format!(
            "SELECT COUNT(*) AS held, COALESCE(SUM(CASE WHEN name = ? THEN 1 ELSE 0 END), 0) AS twins FROM build
             WHERE workspace = ? AND {UNFINISHED}"
        );
        let row = query_built(sql)
            .bind(build.name.as_str())
            .bind(&build.workspace.0)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("count builds"))?;
        if column::<i64>(&row, "twins")? > 0 {
            return Ok(BuildAdded::Twin);
        }
        if from_sql(column(&row, "held")?) >= under_way_max {
            return Ok(BuildAdded::Full);
        }
        let sql =
            "INSERT INTO build (id, workspace, name, status, size_mb, cpus, memory_mib, bytes, image_ref, started_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        query(sql)
            .bind(build.id.to_string())
            .bind(&build.workspace.0)
            .bind(build.name.as_str())
            .bind(build.status.as_str())
            .bind(to_sql(build.size_mb))
            .bind(build.cpus.map(i64::from))
            .bind(build.memory_mib.map(to_sql))
            .bind(build.bytes.map(to_sql))
            .bind(&build.image_ref)
            .bind(to_sql(build.started_at_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("record a build"))?;
        tx.commit().await.map_err(failed("commit a build"))?;
        Ok(BuildAdded::Yes)
    }

    /// Records the progress of a build.
    pub async fn mark_build(&self, id: BuildId, status: BuildStatus) -> Result<(), StoreError> {
        query("UPDATE build SET status = ? WHERE id = ?")
            .bind(status.as_str())
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a build's status"))
    }

    /// Records why a build failed.
    pub async fn fail_build(&self, id: BuildId, error: &str, now_ns: u64) -> Result<(), StoreError> {
        query("UPDATE build SET status = 'failed', error = ?, ended_at = ? WHERE id = ? AND status <> 'done'")
            .bind(error)
            .bind(to_sql(now_ns))
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a failed build"))
    }

    /// Finds one build of a workspace.
    pub async fn find_build(&self, workspace: &WorkspaceId, id: BuildId) -> Result<Option<BuildRow>, StoreError> {
        let row = query("SELECT * FROM build WHERE id = ? AND workspace = ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a build"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists a workspace's builds, newest first.
    pub async fn list_builds(&self, workspace: &WorkspaceId) -> Result<Vec<BuildRow>, StoreError> {
        let rows = query("SELECT * FROM build WHERE workspace = ? ORDER BY started_at DESC, id")
            .bind(&workspace.0)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list builds"))?;
        rows.iter().map(read).collect()
    }

    /// Lists every build that has not ended.
    pub async fn unfinished_builds(&self) -> Result<Vec<BuildRow>, StoreError> {
        let sql = format!("SELECT * FROM build WHERE {UNFINISHED}");
        let rows = query_built(sql).fetch_all(&self.database).await.map_err(failed("list unfinished builds"))?;
        rows.iter().map(read).collect()
    }

    /// Removes a workspace's oldest ended builds past a number, and returns their ids.
    pub async fn forget_old_builds(&self, workspace: &WorkspaceId, kept: u64) -> Result<Vec<BuildId>, StoreError> {
        let sql = "DELETE FROM build WHERE workspace = ? AND status IN ('done', 'failed') AND id NOT IN
                   (SELECT id FROM build WHERE workspace = ? ORDER BY started_at DESC, id LIMIT ?) RETURNING id";
        let gone: Vec<String> = query_scalar(sql)
            .bind(&workspace.0)
            .bind(&workspace.0)
            .bind(to_sql(kept))
            .fetch_all(&self.database)
            .await
            .map_err(failed("delete old builds"))?;
        Ok(gone.iter().filter_map(|id| id.parse().ok()).collect())
    }

    /// Records a resource that is about to be made for a build.
    pub async fn hold(&self, build: BuildId, holding: BuildResource) -> Result<(), StoreError> {
        query("INSERT INTO build_holding (id, kind, build) VALUES (?, ?, ?)")
            .bind(holding.id())
            .bind(holding.kind())
            .bind(build.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a resource of a build"))
    }

    /// Forgets a resource that was removed.
    pub async fn forget_resource(&self, holding: BuildResource) -> Result<(), StoreError> {
        query("DELETE FROM build_holding WHERE id = ?")
            .bind(holding.id())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("delete the record of a build's resource"))
    }

    /// Lists the resources of one build or of all, in the order in which they can be released.
    pub async fn holdings(&self, build: Option<BuildId>) -> Result<Vec<BuildResource>, StoreError> {
        let sql = "SELECT id, kind FROM build_holding WHERE ? IS NULL OR build = ?
                   ORDER BY CASE kind WHEN 'sandbox' THEN 0 ELSE 1 END, id";
        let build = build.map(|build| build.to_string());
        let rows = query(sql)
            .bind(&build)
            .bind(&build)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list the resources of builds"))?;
        rows.iter().map(read_holding).collect()
    }
}

fn read_holding(row: &DatabaseRow) -> Result<BuildResource, StoreError> {
    let id: String = column(row, "id")?;
    let kind: String = column(row, "kind")?;
    let corrupt = || StoreError::Corrupt { id: id.clone(), field: "kind" };
    match kind.as_str() {
        "sandbox" => id.parse().map(BuildResource::Sandbox).map_err(|_| corrupt()),
        "layer" => id.parse().map(BuildResource::Layer).map_err(|_| corrupt()),
        "volume" => id.parse().map(BuildResource::Volume).map_err(|_| corrupt()),
        _ => Err(corrupt()),
    }
}

fn read(row: &DatabaseRow) -> Result<BuildRow, StoreError> {
    let id: String = column(row, "id")?;
    let corrupt = |field| StoreError::Corrupt { id: id.clone(), field };
    let text = |name| column::<String>(row, name);
    let number = |name| column::<i64>(row, name).map(from_sql);
    let maybe = |name| column::<Option<i64>>(row, name).map(|number| number.map(from_sql));
    let status = text("status")?;
    Ok(BuildRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        workspace: WorkspaceId(text("workspace")?),
        name: text("name")?.parse().map_err(|_| corrupt("name"))?,
        status: BuildStatus::ALL.into_iter().find(|known| known.as_str() == status).ok_or_else(|| corrupt("status"))?,
        error: column(row, "error")?,
        size_mb: number("size_mb")?,
        cpus: maybe("cpus")?.and_then(|cpus| u32::try_from(cpus).ok()),
        memory_mib: maybe("memory_mib")?,
        bytes: maybe("bytes")?,
        image_ref: column(row, "image_ref")?,
        started_at_ns: number("started_at")?,
        ended_at_ns: maybe("ended_at")?,
    })
}
