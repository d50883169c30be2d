//! The hash chain over the audit entries of a workspace. Each entry's hash covers the hash before
//! it, so that nobody can change, remove or insert an entry without changing all later hashes.

use pandastack_database::{DatabaseRow, Transaction, WriteLock, query};
use pandastack_door::AuditRow;
use pandastack_wire_fleet::WorkspaceId;
use sha2::{Digest, Sha256};

use super::{Store, StoreError, failed, from_sql, intent::column, to_sql};

/// What is hashed. A change of the fields needs another name.
const FORM: &str = "pandastack-audit-1";

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainedEntry {
    pub id: String,
    /// Its place in the chain. `None` for entries of versions without a chain.
    pub number: Option<u64>,
    pub previous_hash: String,
    pub hash: String,
    pub entry: AuditRow,
}

/// A place in a chain. Number 0 with an empty hash is the place before the first entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainLink {
    pub number: u64,
    pub hash: String,
}

/// What is known of a chain besides its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainEnds {
    /// The newest entry.
    pub head: ChainLink,
    /// The newest entry that was pruned.
    pub anchor: ChainLink,
    /// Entries without a number.
    pub unnumbered: u64,
}

impl ChainedEntry {
    /// Makes the entry that follows a link.
    pub fn after(link: &ChainLink, id: &str, entry: &AuditRow) -> Self {
        let mut made = Self {
            id: id.to_owned(),
            number: Some(link.number + 1),
            previous_hash: link.hash.clone(),
            hash: String::new(),
            entry: entry.clone(),
        };
        made.hash = made.computed_hash();
        made
    }

    /// Computes the hash of the fields: SHA-256 over all of them, each as `LENGTH:TEXT,`.
    pub fn computed_hash(&self) -> String {
        let entry = &self.entry;
        let number = to_sql(self.number.unwrap_or_default()).to_string();
        let (at_ns, duration_ms) = (to_sql(entry.at_ns).to_string(), to_sql(entry.duration_ms).to_string());
        let status = entry.status.to_string();
        let fields = [
            FORM,
            &self.previous_hash,
            &number,
            &self.id,
            &entry.workspace.0,
            &at_ns,
            &entry.request_id,
            &entry.method,
            &entry.route,
            &entry.path,
            &status,
            &duration_ms,
            &entry.key_prefix,
            &entry.actor,
            &entry.actor_email,
            &entry.address,
        ];
        let mut hash = Sha256::new();
        for field in fields {
            hash.update(format!("{}:{field},", field.len()));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the place of this entry.
    pub fn link(&self) -> ChainLink {
        ChainLink { number: self.number.unwrap_or_default(), hash: self.hash.clone() }
    }
}

impl Store {
    /// Begins a transaction that continues or reads the chain of one workspace.
    pub(super) async fn begin_chain(&self, workspace: &str) -> Result<Transaction, StoreError> {
        self.database.begin_write(lock(workspace)).await.map_err(failed("begin to write the audit trail"))
    }

    /// Lists the workspaces that have a chain, or entries.
    pub async fn audit_workspaces(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let sql = "SELECT workspace FROM audit_chain UNION SELECT DISTINCT workspace FROM audit ORDER BY workspace";
        let rows = query(sql).fetch_all(&self.database).await.map_err(failed("list the audit trails"))?;
        rows.iter().map(|row| column(row, "workspace").map(WorkspaceId)).collect()
    }
}

/// The lock of a workspace's chain. It is not the workspace's own, which every creation takes.
pub(super) fn lock(workspace: &str) -> WriteLock<'_> {
    WriteLock::on("audit", workspace)
}

/// Reads the ends of a chain. `None` if nothing was ever written to it.
pub(super) async fn ends(tx: &mut Transaction, workspace: &str) -> Result<Option<ChainEnds>, StoreError> {
    let sql = "SELECT * FROM audit_chain WHERE workspace = ?";
    let row = query(sql).bind(workspace).fetch_optional(tx).await.map_err(failed("read the audit chain"))?;
    row.as_ref().map(read_ends).transpose()
}

/// Stores the newest entry of a chain.
pub(super) async fn set_head(tx: &mut Transaction, workspace: &str, head: &ChainLink) -> Result<(), StoreError> {
    let sql = "INSERT INTO audit_chain (workspace, head_number, head_hash, anchor_number, anchor_hash, unnumbered)
               VALUES (?1, ?2, ?3, 0, '', 0)
               ON CONFLICT (workspace) DO UPDATE SET head_number = ?2, head_hash = ?3";
    query(sql)
        .bind(workspace)
        .bind(to_sql(head.number))
        .bind(&head.hash)
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("write the audit chain"))
}

/// Adds an entry.
pub(super) async fn insert(tx: &mut Transaction, chained: &ChainedEntry) -> Result<(), StoreError> {
    let ChainedEntry { id, number, previous_hash, hash, entry } = chained;
    let sql = "INSERT INTO audit (id, workspace, at, request_id, method, route, path, status, duration_ms,
                   key_prefix, actor, actor_email, address, number, previous_hash, hash)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    query(sql)
        .bind(id)
        .bind(&entry.workspace.0)
        .bind(to_sql(entry.at_ns))
        .bind(&entry.request_id)
        .bind(&entry.method)
        .bind(&entry.route)
        .bind(&entry.path)
        .bind(i64::from(entry.status))
        .bind(to_sql(entry.duration_ms))
        .bind(&entry.key_prefix)
        .bind(&entry.actor)
        .bind(&entry.actor_email)
        .bind(&entry.address)
        .bind(number.map(to_sql))
        .bind(previous_hash)
        .bind(hash)
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("write to the audit trail"))
}

pub(super) fn read(row: &DatabaseRow) -> Result<ChainedEntry, StoreError> {
    let text = |name| column::<String>(row, name);
    let status: i64 = column(row, "status")?;
    let entry = AuditRow {
        workspace: WorkspaceId(text("workspace")?),
        at_ns: column(row, "at").map(exact)?,
        request_id: text("request_id")?,
        method: text("method")?,
        route: text("route")?,
        path: text("path")?,
        status: u16::try_from(status).unwrap_or(u16::MAX),
        duration_ms: column(row, "duration_ms").map(exact)?,
        key_prefix: text("key_prefix")?,
        actor: text("actor")?,
        actor_email: text("actor_email")?,
        address: text("address")?,
    };
    Ok(ChainedEntry {
        id: text("id")?,
        number: column::<Option<i64>>(row, "number")?.map(from_sql),
        previous_hash: text("previous_hash")?,
        hash: text("hash")?,
        entry,
    })
}

/// Reads a number of an entry. One that no server writes becomes another one that no server writes,
/// so that the hash differs.
fn exact(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn read_ends(row: &DatabaseRow) -> Result<ChainEnds, StoreError> {
    let link = |number, hash| {
        Ok::<_, StoreError>(ChainLink { number: column(row, number).map(from_sql)?, hash: column(row, hash)? })
    };
    Ok(ChainEnds {
        head: link("head_number", "head_hash")?,
        anchor: link("anchor_number", "anchor_hash")?,
        unnumbered: column(row, "unnumbered").map(from_sql)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> AuditRow {
        AuditRow {
            workspace: WorkspaceId("default".into()),
            at_ns: 1_700_000_000_123_456_789,
            request_id: "r".into(),
            method: "POST".into(),
            route: "/v1/sandboxes".into(),
            path: "/v1/sandboxes".into(),
            status: 201,
            duration_ms: 5,
            key_prefix: "pds_00000000".into(),
            actor: "key:pds_00000000".into(),
            actor_email: String::new(),
            address: "192.0.2.1".into(),
        }
    }

    #[test]
    fn the_hash_is_the_documented_one() {
        // Computed with the program in docs/audit.md.
        let made = ChainedEntry::after(&ChainLink::default(), "i", &entry());
        assert_eq!(made.hash, "2b46d575ce3b3b094a8ac4d95cd666ea859951e95d62b5a7c05c0e1b4310e92e");
    }

    #[test]
    fn text_cannot_move_from_one_field_to_the_next() {
        let moved = AuditRow { request_id: "rP".into(), method: "OST".into(), ..entry() };
        let hash = |entry: &AuditRow| ChainedEntry::after(&ChainLink::default(), "i", entry).hash;
        assert_ne!(hash(&moved), hash(&entry()));
    }
}
