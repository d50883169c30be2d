//! Templates that belong to a workspace, and the cached layers of build steps. A layer that loses
//! its owner becomes a holding in the same transaction, so that every layer has a row.

use pandastack_database::{DatabaseRow, Transaction, WriteLock, query, query_scalar};
use pandastack_model::{BuildId, ByteSize, LayerId, TemplateName};
use pandastack_wire_fleet::WorkspaceId;

use super::{
    BuildResource, MachineSize, Store, StoreError, failed, from_sql,
    intent::{column, read_size},
    to_sql,
};
use crate::build::TemplateSettings;

/// A template as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateRow {
    pub workspace: WorkspaceId,
    pub name: TemplateName,
    pub layer: LayerId,
    /// The source that it was built from.
    pub base: String,
    pub size: MachineSize,
    pub disk_mib: u64,
    pub settings: TemplateSettings,
    pub created_at_ns: u64,
}

/// The cached layer of a build step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedLayer {
    pub key: String,
    pub layer: LayerId,
    pub own: ByteSize,
}

impl Store {
    /// Ends a build successfully. The template now owns the layer. The layer of an older template
    /// with the same name becomes a holding and is returned.
    pub async fn finish_build(&self, build: BuildId, template: &TemplateRow) -> Result<Option<LayerId>, StoreError> {
        let TemplateRow { workspace, name, layer, base, size, disk_mib, settings, created_at_ns } = template;
        let mut tx = self.begin_in(workspace, "begin a template").await?;
        let old = let_go_of(&mut tx, workspace, name).await?;
        let sql =
            "INSERT INTO template (workspace, name, layer, base, cpus, memory_mib, disk_mib, settings, created_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        query(sql)
            .bind(&workspace.0)
            .bind(name.as_str())
            .bind(layer.to_string())
            .bind(base)
            .bind(i64::from(size.cpus))
            .bind(to_sql(size.memory_mib))
            .bind(to_sql(*disk_mib))
            .bind(serde_json::to_string(settings).expect("settings are plain data"))
            .bind(to_sql(*created_at_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("record a template"))?;
        query("DELETE FROM build_holding WHERE id = ?")
            .bind(layer.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("transfer a layer"))?;
        query("UPDATE build SET status = 'done', cpus = ?, memory_mib = ?, ended_at = ? WHERE id = ?")
            .bind(i64::from(size.cpus))
            .bind(to_sql(size.memory_mib))
            .bind(to_sql(*created_at_ns))
            .bind(build.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("finish a build"))?;
        tx.commit().await.map_err(failed("commit a template"))?;
        Ok(old)
    }

    /// Removes a template and returns its layer, which the caller must release.
    pub async fn remove_template(
        &self,
        workspace: &WorkspaceId,
        name: &TemplateName,
    ) -> Result<Option<LayerId>, StoreError> {
        let mut tx = self.begin_in(workspace, "begin a removal").await?;
        let layer = let_go_of(&mut tx, workspace, name).await?;
        tx.commit().await.map_err(failed("commit a removal"))?;
        Ok(layer)
    }

    /// Finds one template of a workspace.
    pub async fn find_template(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<TemplateRow>, StoreError> {
        let row = query("SELECT * FROM template WHERE workspace = ? AND name = ?")
            .bind(&workspace.0)
            .bind(name)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a template"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists a workspace's templates by name.
    pub async fn list_templates(&self, workspace: &WorkspaceId) -> Result<Vec<TemplateRow>, StoreError> {
        let rows = query("SELECT * FROM template WHERE workspace = ? ORDER BY name")
            .bind(&workspace.0)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list templates"))?;
        rows.iter().map(read).collect()
    }

    /// Finds the cached layer of a build step, and records the use.
    pub async fn cached_layer(
        &self,
        workspace: &WorkspaceId,
        key: &str,
        now_ns: u64,
    ) -> Result<Option<LayerId>, StoreError> {
        let sql = "UPDATE build_layer SET used_at = ? WHERE workspace = ? AND cache_key = ? RETURNING layer";
        let found: Option<String> = query_scalar(sql)
            .bind(to_sql(now_ns))
            .bind(&workspace.0)
            .bind(key)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("look for a step's layer"))?;
        let corrupt = |_| StoreError::Corrupt { id: key.to_owned(), field: "layer" };
        found.map(|layer| layer.parse().map_err(corrupt)).transpose()
    }

    /// Adds a build's layer to the cache. Returns false if another build was faster; then the layer
    /// stays a holding.
    pub async fn cache_layer(
        &self,
        workspace: &WorkspaceId,
        cached: &CachedLayer,
        now_ns: u64,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin_in(workspace, "begin to cache a layer").await?;
        let sql = "INSERT INTO build_layer (workspace, cache_key, layer, bytes, used_at) VALUES (?, ?, ?, ?, ?)
                   ON CONFLICT (workspace, cache_key) DO NOTHING";
        let done = query(sql)
            .bind(&workspace.0)
            .bind(&cached.key)
            .bind(cached.layer.to_string())
            .bind(to_sql(cached.own.get()))
            .bind(to_sql(now_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("cache a step's layer"))?;
        if done == 0 {
            return Ok(false);
        }
        query("DELETE FROM build_holding WHERE id = ?")
            .bind(cached.layer.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("transfer a layer"))?;
        tx.commit().await.map_err(failed("commit a step's layer"))?;
        Ok(true)
    }

    /// Removes a layer from the cache because it cannot be used.
    pub async fn uncache_layer(&self, layer: LayerId) -> Result<(), StoreError> {
        self.evict("DELETE FROM build_layer WHERE layer = ?1 AND ?2 = 0 RETURNING layer", layer.to_string(), 0)
            .await
            .map(drop)
    }

    /// Removes layers from a workspace's cache past a number or an amount of data, least recently
    /// used first. The caller must release them.
    pub async fn trim_cache(
        &self,
        workspace: &WorkspaceId,
        layers_max: u64,
        bytes_max: ByteSize,
    ) -> Result<Vec<LayerId>, StoreError> {
        let by_count = "DELETE FROM build_layer WHERE workspace = ?1 AND cache_key NOT IN
                        (SELECT cache_key FROM build_layer WHERE workspace = ?1 ORDER BY used_at DESC LIMIT ?2)
                        RETURNING layer";
        let mut gone = self.evict(by_count, workspace.0.clone(), layers_max).await?;
        let by_bytes = "DELETE FROM build_layer WHERE workspace = ?1 AND cache_key IN (SELECT cache_key FROM
                        (SELECT cache_key, SUM(bytes) OVER (ORDER BY used_at DESC, cache_key) AS total FROM build_layer
                         WHERE workspace = ?1) AS summed WHERE total > ?2) RETURNING layer";
        gone.extend(self.evict(by_bytes, workspace.0.clone(), bytes_max.get()).await?);
        Ok(gone)
    }

    /// Turns cached layers into holdings.
    async fn evict(&self, sql: &'static str, first: String, second: u64) -> Result<Vec<LayerId>, StoreError> {
        let mut tx = self
            .database
            .begin_write(WriteLock::on("build cache", &first))
            .await
            .map_err(failed("begin to delete cached layers"))?;
        let gone: Vec<String> = query_scalar(sql)
            .bind(first)
            .bind(to_sql(second))
            .fetch_all(&mut tx)
            .await
            .map_err(failed("delete cached layers"))?;
        let gone: Vec<LayerId> = gone.iter().filter_map(|layer| layer.parse().ok()).collect();
        for layer in &gone {
            orphan(&mut tx, *layer).await?;
        }
        tx.commit().await.map_err(failed("commit deleted layers"))?;
        Ok(gone)
    }
}

/// Removes the row of a template and turns its layer into a holding.
async fn let_go_of(
    tx: &mut Transaction,
    workspace: &WorkspaceId,
    name: &TemplateName,
) -> Result<Option<LayerId>, StoreError> {
    let layer: Option<String> = query_scalar("DELETE FROM template WHERE workspace = ? AND name = ? RETURNING layer")
        .bind(&workspace.0)
        .bind(name.as_str())
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed("remove a template"))?;
    let layer: Option<LayerId> = layer.and_then(|layer| layer.parse().ok());
    if let Some(layer) = layer {
        orphan(tx, layer).await?;
    }
    Ok(layer)
}

async fn orphan(tx: &mut Transaction, layer: LayerId) -> Result<(), StoreError> {
    query("INSERT INTO build_holding (id, kind) VALUES (?, 'layer') ON CONFLICT (id) DO NOTHING")
        .bind(BuildResource::Layer(layer).id())
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("record an orphaned layer"))
}

fn read(row: &DatabaseRow) -> Result<TemplateRow, StoreError> {
    let name: String = column(row, "name")?;
    let corrupt = |field| StoreError::Corrupt { id: format!("template {name}"), field };
    let text = |name| column::<String>(row, name);
    let number = |name| column::<i64>(row, name).map(from_sql);
    Ok(TemplateRow {
        workspace: WorkspaceId(text("workspace")?),
        name: name.parse().map_err(|_| corrupt("name"))?,
        layer: text("layer")?.parse().map_err(|_| corrupt("layer"))?,
        base: text("base")?,
        size: read_size(row)?,
        disk_mib: number("disk_mib")?,
        settings: serde_json::from_str(&text("settings")?).map_err(|_| corrupt("settings"))?,
        created_at_ns: number("created_at")?,
    })
}
