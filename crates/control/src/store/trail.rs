//! The audit trail: the changing requests of each workspace, limited in age and number.

use std::collections::{BTreeMap, BTreeSet};

use pandastack_database::{DatabaseRow, Transaction, query, query_built, query_scalar};
use pandastack_door::AuditRow;
use pandastack_wire_fleet::WorkspaceId;

use super::{
    Store, StoreError,
    chain::{self, ChainEnds, ChainLink, ChainedEntry},
    failed, from_sql,
    intent::column,
    to_sql,
};
use crate::limits::AUDIT_PAGE;

/// Which entries are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub since_ns: u64,
    /// The first time that is too late.
    pub until_ns: Option<u64>,
    /// An actor or an e-mail address.
    pub actor: Option<String>,
    pub method: Option<String>,
}

/// Where a read of all entries continues: those without a number come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditCursor {
    Unnumbered { at_ns: u64, id: String },
    After(u64),
}

impl AuditCursor {
    /// Begins with the oldest entry.
    pub fn start() -> Self {
        Self::Unnumbered { at_ns: 0, id: String::new() }
    }
}

impl Store {
    /// Adds entries with their ids to the chains of their workspaces, all or none. Ids that are
    /// stored already are those of a try whose answer was lost; nothing is added then.
    pub async fn add_audit_entries(&self, audit_entries: &[(String, AuditRow)]) -> Result<(), StoreError> {
        // Everybody locks in this order.
        let workspaces: BTreeSet<&str> = audit_entries.iter().map(|(_, entry)| entry.workspace.0.as_str()).collect();
        let (Some(first), Some((id, _))) = (workspaces.first(), audit_entries.first()) else { return Ok(()) };
        let mut tx = self.begin_chain(first).await?;
        let mut heads = BTreeMap::new();
        for workspace in &workspaces {
            tx.lock(chain::lock(workspace)).await.map_err(failed("lock the audit chain"))?;
            heads.insert(*workspace, chain::ends(&mut tx, workspace).await?.unwrap_or_default().head);
        }
        if is_written(&mut tx, id).await? {
            return Ok(());
        }
        for (id, entry) in audit_entries {
            let head = heads.entry(&entry.workspace.0).or_default();
            let chained = ChainedEntry::after(head, id, entry);
            chain::insert(&mut tx, &chained).await?;
            *head = chained.link();
        }
        for (workspace, head) in &heads {
            chain::set_head(&mut tx, workspace, head).await?;
        }
        tx.commit().await.map_err(failed("commit the audit trail"))
    }

    /// Removes entries older than a given time, and the oldest entries of each workspace past a
    /// number. Only the start of a chain is removed, and the anchor tells how far.
    pub async fn prune_audit_entries(&self, before_ns: u64, per_workspace_max: u64) -> Result<(), StoreError> {
        let sql = "SELECT workspace FROM audit_chain WHERE head_number - anchor_number > ?
                   UNION SELECT DISTINCT workspace FROM audit WHERE at < ?";
        let rows = query(sql)
            .bind(to_sql(per_workspace_max))
            .bind(to_sql(before_ns))
            .fetch_all(&self.database)
            .await
            .map_err(failed("find old audit entries"))?;
        for row in &rows {
            let workspace: String = column(row, "workspace")?;
            while self.prune_page(&workspace, before_ns, per_workspace_max).await? == AUDIT_PAGE {}
        }
        Ok(())
    }

    /// Removes up to one page of a workspace's entries. Returns how many.
    async fn prune_page(&self, workspace: &str, before_ns: u64, max: u64) -> Result<u64, StoreError> {
        let mut tx = self.begin_chain(workspace).await?;
        let unnumbered = query("DELETE FROM audit WHERE workspace = ? AND number IS NULL AND at < ?")
            .bind(workspace)
            .bind(to_sql(before_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("delete old audit entries"))?;
        // Without it somebody has removed it, or inserted entries. Everything stays as found.
        let Some(ChainEnds { head, anchor, .. }) = chain::ends(&mut tx, workspace).await? else { return Ok(0) };
        let sql = "SELECT number, hash, at FROM audit WHERE workspace = ? AND number > ? AND number <= ?
                   ORDER BY number LIMIT ?";
        let oldest = query(sql)
            .bind(workspace)
            .bind(to_sql(anchor.number))
            .bind(to_sql(head.number))
            .bind(to_sql(AUDIT_PAGE))
            .fetch_all(&mut tx)
            .await
            .map_err(failed("read old audit entries"))?;
        let kept_from = head.number.saturating_sub(max);
        let (mut last, mut removed) = (anchor.clone(), 0);
        for row in &oldest {
            let number = column(row, "number").map(from_sql)?;
            let is_old = column(row, "at").map(from_sql)? < before_ns;
            if !is_old && number > kept_from {
                break;
            }
            last = ChainLink { number, hash: column(row, "hash")? };
            removed += 1;
        }
        if removed == 0 && unnumbered == 0 {
            return Ok(0);
        }
        query("DELETE FROM audit WHERE workspace = ? AND number > ? AND number <= ?")
            .bind(workspace)
            .bind(to_sql(anchor.number))
            .bind(to_sql(last.number))
            .execute(&mut tx)
            .await
            .map_err(failed("delete old audit entries"))?;
        let sql = "UPDATE audit_chain SET anchor_number = ?, anchor_hash = ?, unnumbered = unnumbered - ?
                   WHERE workspace = ?";
        query(sql)
            .bind(to_sql(last.number))
            .bind(&last.hash)
            .bind(to_sql(unnumbered))
            .bind(workspace)
            .execute(&mut tx)
            .await
            .map_err(failed("move the start of an audit chain"))?;
        tx.commit().await.map_err(failed("commit the removal of old audit entries"))?;
        Ok(removed)
    }

    /// Lists the last entries of a workspace, newest first.
    pub async fn audit_entries(
        &self,
        workspace: &WorkspaceId,
        filter: &AuditFilter,
        limit: u64,
    ) -> Result<Vec<ChainedEntry>, StoreError> {
        let mut sql = "SELECT * FROM audit WHERE workspace = ? AND at >= ? AND at < ?".to_owned();
        let until_ns = filter.until_ns.map_or(i64::MAX, to_sql);
        let mut values = Vec::new();
        if let Some(actor) = &filter.actor {
            sql += " AND (actor = ? OR actor_email = ?)";
            values.extend([actor, actor]);
        }
        if let Some(method) = &filter.method {
            sql += " AND method = ?";
            values.push(method);
        }
        sql += " ORDER BY at DESC, COALESCE(number, 0) DESC, id LIMIT ?";
        let first = query_built(sql).bind(&workspace.0).bind(to_sql(filter.since_ns)).bind(until_ns);
        let query = values.into_iter().fold(first, |query, value| query.bind(value)).bind(to_sql(limit));
        read_all(query.fetch_all(&self.database).await.map_err(failed("read the audit trail"))?)
    }

    /// Reads the next page of a workspace's entries, oldest first. `None` at the end.
    pub async fn audit_page(
        &self,
        workspace: &WorkspaceId,
        cursor: AuditCursor,
    ) -> Result<Option<(Vec<ChainedEntry>, AuditCursor)>, StoreError> {
        let number = match cursor {
            AuditCursor::Unnumbered { at_ns, id } => {
                let sql = "SELECT * FROM audit WHERE workspace = ?1 AND number IS NULL
                           AND (at > ?2 OR (at = ?2 AND id > ?3)) ORDER BY at, id LIMIT ?4";
                let rows = query(sql)
                    .bind(&workspace.0)
                    .bind(to_sql(at_ns))
                    .bind(id)
                    .bind(to_sql(AUDIT_PAGE))
                    .fetch_all(&self.database)
                    .await
                    .map_err(failed("read the audit trail"))?;
                let page = read_all(rows)?;
                if let Some(last) = page.last() {
                    let next = AuditCursor::Unnumbered { at_ns: last.entry.at_ns, id: last.id.clone() };
                    return Ok(Some((page, next)));
                }
                0
            }
            AuditCursor::After(number) => number,
        };
        let sql = "SELECT * FROM audit WHERE workspace = ? AND number > ? ORDER BY number LIMIT ?";
        let rows = query(sql)
            .bind(&workspace.0)
            .bind(to_sql(number))
            .bind(to_sql(AUDIT_PAGE))
            .fetch_all(&self.database)
            .await
            .map_err(failed("read the audit trail"))?;
        let page = read_all(rows)?;
        let last = page.last().and_then(|last| last.number);
        Ok(last.map(|last| (page, AuditCursor::After(last))))
    }
}

async fn is_written(tx: &mut Transaction, id: &str) -> Result<bool, StoreError> {
    let found: Option<i64> = query_scalar("SELECT status FROM audit WHERE id = ?")
        .bind(id)
        .fetch_optional(tx)
        .await
        .map_err(failed("read the audit trail"))?;
    Ok(found.is_some())
}

fn read_all(rows: Vec<DatabaseRow>) -> Result<Vec<ChainedEntry>, StoreError> {
    rows.iter().map(chain::read).collect()
}
