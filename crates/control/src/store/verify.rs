//! Checks the audit chain of a workspace against its entries.

use pandastack_database::{Transaction, query, query_scalar};
use pandastack_wire_fleet::WorkspaceId;

use super::{
    Store, StoreError,
    chain::{self, ChainEnds, ChainLink, ChainedEntry},
    failed, from_sql, to_sql,
};
use crate::limits::{AUDIT_DEFECTS_LISTED_MAX, AUDIT_PAGE};

/// What is wrong with a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefectKind {
    /// An entry is not as it was written.
    Changed,
    /// Entries before the newest one are missing.
    Removed,
    /// An entry does not belong to the chain.
    Inserted,
    /// The newest entries are missing.
    CutTail,
}

/// One defect of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainDefect {
    pub kind: DefectKind,
    /// The entry, or the first one of several. 0 if it has no number.
    pub number: u64,
    pub text: String,
}

/// The state of a workspace's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    pub workspace: WorkspaceId,
    /// Entries in the chain.
    pub rows: u64,
    /// Entries of versions without a chain. Nothing protects them.
    pub unnumbered: u64,
    pub head: ChainLink,
    /// The newest entry that was removed because of its age.
    pub anchor: ChainLink,
    /// The number of defects, of which only some are listed.
    pub defects_found: u64,
    pub defects: Vec<ChainDefect>,
}

impl Store {
    /// Checks every entry of a workspace.
    pub async fn verify_chain(&self, workspace: &WorkspaceId) -> Result<ChainReport, StoreError> {
        let tx = self.database.begin().await.map_err(failed("begin to read the audit trail"))?;
        let report = verify(tx, workspace).await?;
        if report.defects_found == 0 {
            return Ok(report);
        }
        // Servers may have written meanwhile. Only what is wrong while they wait is a defect.
        verify(self.begin_chain(&workspace.0).await?, workspace).await
    }
}

async fn verify(mut tx: Transaction, workspace: &WorkspaceId) -> Result<ChainReport, StoreError> {
    let ends = chain::ends(&mut tx, &workspace.0).await?;
    let unnumbered: i64 = query_scalar("SELECT COUNT(*) FROM audit WHERE workspace = ? AND number IS NULL")
        .bind(&workspace.0)
        .fetch_one(&mut tx)
        .await
        .map_err(failed("count audit entries"))?;
    let mut walk = Walk::new(workspace.clone(), ends, from_sql(unnumbered));
    let mut at = (i64::MIN, String::new());
    loop {
        let sql = "SELECT * FROM audit WHERE workspace = ?1 AND (number > ?2 OR (number = ?2 AND id > ?3))
                   ORDER BY number, id LIMIT ?4";
        let rows = query(sql)
            .bind(&workspace.0)
            .bind(at.0)
            .bind(at.1.as_str())
            .bind(to_sql(AUDIT_PAGE))
            .fetch_all(&mut tx)
            .await
            .map_err(failed("read the audit trail"))?;
        for row in &rows {
            // Not the number of the entry: that is never negative.
            at = (super::intent::column(row, "number")?, super::intent::column(row, "id")?);
            walk.step(&chain::read(row)?);
        }
        if (rows.len() as u64) < AUDIT_PAGE {
            return Ok(walk.end());
        }
    }
}

/// A walk along a chain, from its anchor to its head.
struct Walk {
    report: ChainReport,
    /// The last entry that was seen, and whether it is as it was written.
    last: ChainLink,
    is_sound: bool,
}

impl Walk {
    fn new(workspace: WorkspaceId, ends: Option<ChainEnds>, unnumbered: u64) -> Self {
        let allowed = ends.as_ref().map_or(0, |ends| ends.unnumbered);
        let ChainEnds { head, anchor, .. } = ends.unwrap_or_default();
        let (rows, defects_found, defects) = (0, 0, Vec::new());
        let last = anchor.clone();
        let report = ChainReport { workspace, rows, unnumbered, head, anchor, defects_found, defects };
        let mut walk = Self { report, last, is_sound: true };
        if unnumbered > allowed {
            let text = format!("{} entries without a number were added", unnumbered - allowed);
            walk.defect(DefectKind::Inserted, 0, text);
        }
        walk
    }

    fn step(&mut self, entry: &ChainedEntry) {
        let (number, next) = (entry.number.unwrap_or_default(), self.last.number + 1);
        self.report.rows += 1;
        if number < next || number > self.report.head.number {
            let text = format!("entry {number} (id {}) does not belong to the chain", entry.id);
            return self.defect(DefectKind::Inserted, number, text);
        }
        if number > next {
            self.defect(DefectKind::Removed, next, format!("missing: {}", span(next, number - 1)));
        }
        let follows = number > next || !self.is_sound || entry.previous_hash == self.last.hash;
        self.is_sound = entry.computed_hash() == entry.hash;
        if !self.is_sound {
            self.defect(DefectKind::Changed, number, format!("entry {number} is not as it was written"));
        } else if !follows {
            let text = format!("entry {number} was not written after the present entry {}", number - 1);
            self.defect(DefectKind::Changed, number, text);
        }
        self.last = entry.link();
    }

    fn end(mut self) -> ChainReport {
        let (head, last) = (self.report.head.clone(), self.last.clone());
        if last.number < head.number {
            let text = format!("missing at the end: {}", span(last.number + 1, head.number));
            self.defect(DefectKind::CutTail, last.number + 1, text);
        } else if last != head {
            let text = format!("the newest entry {} is not the one that was written last", last.number);
            self.defect(DefectKind::Changed, last.number, text);
        }
        self.report
    }

    fn defect(&mut self, kind: DefectKind, number: u64, text: String) {
        self.report.defects_found += 1;
        if self.report.defects.len() < AUDIT_DEFECTS_LISTED_MAX {
            self.report.defects.push(ChainDefect { kind, number, text });
        }
    }
}

fn span(first: u64, last: u64) -> String {
    if first == last { format!("entry {first}") } else { format!("entries {first} to {last}") }
}
