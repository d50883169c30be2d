//! Usage facts: what bills are made from. A fact is written by the same statement as the state that
//! it follows from, so there is never one without the other.
//!
//! ```text
//! usage_facts     one row per change of a sandbox's machine; the last one is confirmed by heartbeats
//! usage_ledger    one row: the ledger's name, the clock's anchor, the last number that was given up
//! usage_changes   takes the state of a sandbox; its trigger adds a fact if the last one tells another state
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use pandastack_layers::Manifest;
use pandastack_model::{SandboxId, SandboxState};
use pandastack_wire_fleet::{MachineEvent, MachineFact, UsageCursor, UsagePage};
use sqlx::{Row, Sqlite, SqlitePool, Transaction, sqlite::SqliteRow};

use super::{Ledger, LedgerError, durably, sql};
use crate::steady::{ClockSource, SteadyClock};

/// A fact gets the next number twice: as its sequence for ever, and as its revision until a
/// heartbeat gives it a later one. `floor` keeps numbers of deleted facts from being used again.
pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS usage_ledger (
    id        INTEGER PRIMARY KEY CHECK (id = 0),
    name      TEXT NOT NULL,
    boot      TEXT NOT NULL,
    anchor_ns INTEGER NOT NULL,
    floor     INTEGER NOT NULL
) STRICT;
INSERT INTO usage_ledger SELECT 0, lower(hex(randomblob(16))), '', 0, 0
    WHERE NOT EXISTS (SELECT 1 FROM usage_ledger);
CREATE TABLE IF NOT EXISTS usage_facts (
    sequence   INTEGER PRIMARY KEY,
    revision   INTEGER NOT NULL UNIQUE,
    sandbox    TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    change     TEXT NOT NULL,
    vcpus      INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    disk_bytes INTEGER NOT NULL,
    at_ns      INTEGER NOT NULL,
    seen_ns    INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS usage_facts_of_sandbox ON usage_facts (sandbox, sequence);
CREATE VIEW IF NOT EXISTS usage_changes AS
    SELECT sandbox, change AS state, vcpus, memory_mib, disk_bytes, at_ns, 0 AS lost FROM usage_facts;
CREATE TRIGGER IF NOT EXISTS usage_changes_add INSTEAD OF INSERT ON usage_changes BEGIN
    INSERT INTO usage_facts
        (sequence, revision, sandbox, epoch, change, vcpus, memory_mib, disk_bytes, at_ns, seen_ns)
    SELECT number, number, NEW.sandbox, epoch, change, vcpus, memory_mib, disk_bytes, NEW.at_ns, NEW.at_ns FROM (
        SELECT
            (SELECT max(floor, coalesce((SELECT max(revision) FROM usage_facts), 0)) + 1 FROM usage_ledger) AS number,
            CASE NEW.state
                WHEN 'running' THEN CASE coalesce(last.change, 'ended')
                    WHEN 'ended' THEN 'started' WHEN 'hibernated' THEN 'woken' WHEN 'paused' THEN 'resumed' END
                WHEN 'paused' THEN iif(last.change = 'paused', NULL, 'paused')
                WHEN 'hibernated' THEN iif(last.change = 'hibernated', NULL, 'hibernated')
                WHEN 'ended' THEN iif(coalesce(last.change, 'ended') = 'ended', NULL, 'ended')
            END AS change,
            -- A machine that follows none is another one. So is whatever follows a lost one: when
            -- that ended is unknown.
            coalesce(last.epoch + (NEW.lost OR (NEW.state IN ('running', 'paused')
                AND last.change IN ('hibernated', 'ended'))), 0) AS epoch,
            coalesce(NEW.vcpus, last.vcpus, 0) AS vcpus,
            coalesce(NEW.memory_mib, last.memory_mib, 0) AS memory_mib,
            coalesce(NEW.disk_bytes, last.disk_bytes, 0) AS disk_bytes
        FROM (SELECT 1) LEFT JOIN usage_facts AS last
            ON last.sequence = (SELECT max(sequence) FROM usage_facts WHERE sandbox = NEW.sandbox)
    ) WHERE change IS NOT NULL;
END;";

/// Most facts in one page.
pub const PAGE_MAX: usize = 1000;

/// Most facts that are kept if nobody reads them.
const FACTS_MAX: i64 = 1_000_000;

/// A power cut may lose the last numbers although they were read. After a boot so many are skipped.
const LOST_MAX: i64 = 1_000_000;

/// The size of a machine, as it is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BilledSize {
    pub vcpus: u8,
    pub memory_mib: u64,
    pub disk_bytes: u64,
}

impl BilledSize {
    /// Size of every machine that is made from a layer.
    pub fn of(manifest: &Manifest) -> Self {
        Self { vcpus: manifest.cpus, memory_mib: manifest.memory.as_mib(), disk_bytes: manifest.disk.get() }
    }
}

/// The part of the open ledger that meters.
#[derive(Clone, Debug)]
pub(super) struct LedgerMeter {
    clock: Arc<SteadyClock>,
    /// Whether it was logged that facts were dropped.
    is_full: Arc<AtomicBool>,
}

impl LedgerMeter {
    /// Continues with the anchor of an earlier process of this boot, or makes a new one.
    pub async fn open(pool: &SqlitePool, source: ClockSource) -> Result<Self, LedgerError> {
        let row = sqlx::query("SELECT boot, anchor_ns FROM usage_ledger").fetch_one(pool).await;
        let row = row.map_err(sql("read the clock's anchor"))?;
        let boot: String = row.try_get("boot").map_err(sql("read the clock's anchor"))?;
        let mut anchor_ns: i64 = row.try_get("anchor_ns").map_err(sql("read the clock's anchor"))?;
        if boot != source.boot() || boot.is_empty() {
            anchor_ns = source.anchor_now();
            let skipped = "UPDATE usage_ledger SET boot = ?, anchor_ns = ?,
                           floor = max(floor, coalesce((SELECT max(revision) FROM usage_facts), 0)) + ?";
            // Durable before any of its numbers is read: a second cut would lose the skip too.
            durably(pool, "write the clock's anchor", async |connection| {
                let bound = sqlx::query(skipped).bind(source.boot()).bind(anchor_ns).bind(LOST_MAX);
                bound.execute(connection).await.map(drop)
            })
            .await?;
        }
        Ok(Self { clock: Arc::new(SteadyClock::anchored(source, anchor_ns)), is_full: Arc::default() })
    }

    /// Returns the time of facts. Call it with the ledger's connection in hand: facts are then in
    /// the order of their times, and the clock is not replaced meanwhile.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }
}

/// What a sandbox's state means for its usage; `None` if the state before goes on.
pub(super) fn billed_state(state: &SandboxState) -> Option<&'static str> {
    match state {
        SandboxState::Running => Some("running"),
        SandboxState::Paused => Some("paused"),
        SandboxState::Asleep => Some("hibernated"),
        SandboxState::Failed { .. } => Some("ended"),
        // A machine runs until it is sealed or gone, and a wake is billed once the guest answers.
        SandboxState::Creating | SandboxState::FallingAsleep | SandboxState::Waking | SandboxState::Stopping => None,
    }
}

impl Ledger {
    /// Adds a fact about a sandbox that an earlier version of the ledger did not meter. Does
    /// nothing if its last fact tells the same.
    pub async fn meter(&self, id: SandboxId, state: &SandboxState, size: BilledSize) -> Result<(), LedgerError> {
        let Some(state) = billed_state(state) else { return Ok(()) };
        let mut connection = self.pool.acquire().await.map_err(sql("record usage"))?;
        let change = "INSERT INTO usage_changes (sandbox, state, vcpus, memory_mib, disk_bytes, at_ns, lost)
                      VALUES (?, ?, ?, ?, ?, ?, 0)";
        sqlx::query(change)
            .bind(id.to_string())
            .bind(state)
            .bind(i64::from(size.vcpus))
            .bind(whole(size.memory_mib))
            .bind(whole(size.disk_bytes))
            .bind(self.meter.now_ns())
            .execute(&mut *connection)
            .await
            .map_err(sql("record usage"))?;
        Ok(())
    }

    /// Confirms that these sandboxes still have their machines. Then checks the clock and the
    /// number of facts.
    pub async fn heartbeat(&self, living: &[SandboxId]) -> Result<(), LedgerError> {
        // Begun as a writer, because a reader cannot always become one.
        let begun = self.pool.begin_with("BEGIN IMMEDIATE").await;
        let mut work = begun.map_err(sql("begin a heartbeat"))?;
        if !living.is_empty() {
            confirm(&mut work, living, self.meter.now_ns()).await.map_err(sql("confirm usage"))?;
        }
        let clock = &self.meter.clock;
        let new = clock.stepped();
        if let Some(anchor_ns) = new {
            let (before_ns, now_ns) = (clock.now_ns(), clock.now_by(anchor_ns));
            tracing::warn!(before_ns, now_ns, "the clock of the host was set; usage is metered by the new time");
            begin_again(&mut work, anchor_ns, now_ns).await.map_err(sql("meter by the new time"))?;
        }
        let dropped = drop_oldest(&mut work, FACTS_MAX).await.map_err(sql("limit usage facts"))?;
        // Replaced before others can write.
        let old = new.map(|anchor_ns| clock.replace_anchor(anchor_ns));
        if let Err(error) = work.commit().await {
            old.map(|anchor_ns| clock.replace_anchor(anchor_ns));
            return Err(sql("finish a heartbeat")(error));
        }
        if dropped > 0 && !self.meter.is_full.swap(true, Ordering::Relaxed) {
            tracing::error!(dropped, "nobody reads the usage facts of this host; the oldest are dropped, unbilled");
        }
        Ok(())
    }

    /// Returns facts after a cursor, and forgets the ones up to it that are over.
    pub async fn usage_facts(&self, after: &UsageCursor, most: usize) -> Result<UsagePage, LedgerError> {
        let begun = self.pool.begin_with("BEGIN IMMEDIATE").await;
        let mut work = begun.map_err(sql("begin to read usage"))?;
        let page = page(&mut work, after, most.clamp(1, PAGE_MAX)).await?;
        work.commit().await.map_err(sql("forget usage"))?;
        Ok(page)
    }
}

type Work<'a> = Transaction<'a, Sqlite>;

/// Gives the last fact of each of these sandboxes a later time and a new revision.
async fn confirm(work: &mut Work<'_>, living: &[SandboxId], now_ns: i64) -> Result<(), sqlx::Error> {
    let ids: Vec<String> = living.iter().map(ToString::to_string).collect();
    let ids = serde_json::Value::from(ids).to_string();
    let confirmed = "UPDATE usage_facts SET seen_ns = max(seen_ns, ?1), revision = beat.revision FROM (
                         SELECT last.sequence, row_number() OVER (ORDER BY last.sequence)
                             + (SELECT max(floor, (SELECT max(revision) FROM usage_facts)) FROM usage_ledger)
                             AS revision
                         FROM json_each(?2) AS living JOIN usage_facts AS last ON last.sequence
                             = (SELECT max(sequence) FROM usage_facts WHERE sandbox = living.value)
                         WHERE last.change NOT IN ('hibernated', 'ended')
                     ) AS beat WHERE usage_facts.sequence = beat.sequence";
    sqlx::query(confirmed).bind(now_ns).bind(ids).execute(&mut **work).await.map(drop)
}

/// Replaces the clock's anchor. Every machine goes on with a new epoch at the new time, so that the
/// step is not billed.
async fn begin_again(work: &mut Work<'_>, anchor_ns: i64, now_ns: i64) -> Result<(), sqlx::Error> {
    let again = "INSERT INTO usage_facts
                     (sequence, revision, sandbox, epoch, change, vcpus, memory_mib, disk_bytes, at_ns, seen_ns)
                 SELECT number, number, sandbox, epoch + 1, iif(change = 'paused', 'paused', 'started'),
                     vcpus, memory_mib, disk_bytes, ?1, ?1
                 FROM (
                     SELECT *, row_number() OVER (ORDER BY sequence)
                         + (SELECT max(floor, (SELECT max(revision) FROM usage_facts)) FROM usage_ledger) AS number
                     FROM usage_facts WHERE change NOT IN ('hibernated', 'ended')
                         AND sequence IN (SELECT max(sequence) FROM usage_facts GROUP BY sandbox)
                 )";
    sqlx::query(again).bind(now_ns).execute(&mut **work).await?;
    let anchored = sqlx::query("UPDATE usage_ledger SET anchor_ns = ?").bind(anchor_ns);
    anchored.execute(&mut **work).await.map(drop)
}

/// A fact is over if it is not the last one of a sandbox that still exists.
macro_rules! over {
    () => {
        "NOT (sequence = (SELECT max(sequence) FROM usage_facts AS later WHERE later.sandbox = usage_facts.sandbox)
              AND EXISTS (SELECT 1 FROM sandboxes WHERE id = usage_facts.sandbox))"
    };
}

/// Drops the oldest facts that are over if there are more than `most`. Nobody pays for them, but
/// the host must not fill its disk because control is gone.
pub(super) async fn drop_oldest(work: &mut Work<'_>, most: i64) -> Result<u64, sqlx::Error> {
    let held: i64 = sqlx::query_scalar("SELECT count(*) FROM usage_facts").fetch_one(&mut **work).await?;
    if held <= most {
        return Ok(0);
    }
    raise_floor(work).await?;
    let oldest = concat!(
        "DELETE FROM usage_facts WHERE sequence IN (SELECT sequence FROM usage_facts WHERE ",
        over!(),
        " ORDER BY sequence LIMIT ?)"
    );
    let dropped = sqlx::query(oldest).bind(held - most).execute(&mut **work).await?;
    Ok(dropped.rows_affected())
}

/// Keeps the numbers of facts that are about to be deleted from being used again.
async fn raise_floor(work: &mut Work<'_>) -> Result<(), sqlx::Error> {
    let raised = "UPDATE usage_ledger SET floor = max(floor, (SELECT max(revision) FROM usage_facts))
                  WHERE floor < (SELECT max(revision) FROM usage_facts)";
    sqlx::query(raised).execute(&mut **work).await.map(drop)
}

async fn page(work: &mut Work<'_>, after: &UsageCursor, most: usize) -> Result<UsagePage, LedgerError> {
    let of_ledger = "SELECT name, max(floor, coalesce((SELECT max(revision) FROM usage_facts), 0)) AS told
                     FROM usage_ledger";
    let row = sqlx::query(of_ledger).fetch_one(&mut **work).await.map_err(sql("read the ledger's name"))?;
    let name: String = row.try_get("name").map_err(sql("read the ledger's name"))?;
    let told: i64 = row.try_get("told").map_err(sql("read the ledger's name"))?;
    // A cursor beyond the last number is of a ledger that was replaced by an old copy of itself.
    let read = if after.ledger == name { whole(after.revision) } else { 0 };
    let read = if read > told { 0 } else { read };
    if read > 0 {
        forget(work, read).await.map_err(sql("forget usage"))?;
    }
    let rows = sqlx::query("SELECT * FROM usage_facts WHERE revision > ? ORDER BY revision LIMIT ?")
        .bind(read)
        .bind(whole(most as u64) + 1)
        .fetch_all(&mut **work)
        .await
        .map_err(sql("read usage"))?;
    let page = &rows[..rows.len().min(most)];
    let revision = match page.last() {
        Some(row) => row.try_get::<i64, _>("revision").map_err(sql("read usage"))?,
        None => read,
    };
    Ok(UsagePage {
        facts: page.iter().map(fact).collect::<Result<_, _>>()?,
        cursor: UsageCursor { ledger: name, revision: revision.unsigned_abs() },
        more: rows.len() > most,
    })
}

/// Forgets the facts up to a revision that are over.
async fn forget(work: &mut Work<'_>, revision: i64) -> Result<(), sqlx::Error> {
    let is_over = concat!("SELECT EXISTS (SELECT 1 FROM usage_facts WHERE revision <= ? AND ", over!(), ")");
    if !sqlx::query_scalar::<_, bool>(is_over).bind(revision).fetch_one(&mut **work).await? {
        return Ok(());
    }
    raise_floor(work).await?;
    let forgotten = concat!("DELETE FROM usage_facts WHERE revision <= ? AND ", over!());
    sqlx::query(forgotten).bind(revision).execute(&mut **work).await.map(drop)
}

fn fact(row: &SqliteRow) -> Result<MachineFact, LedgerError> {
    let broken = || sql("read usage");
    let text = |name| row.try_get::<String, _>(name).map_err(broken());
    let number = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs).map_err(broken());
    let id = text("sandbox")?;
    let corrupt = |field| LedgerError::Corrupt { id: id.clone(), field };
    Ok(MachineFact {
        sandbox: id.parse().map_err(|_| corrupt("id"))?,
        epoch: u32::try_from(number("epoch")?).map_err(|_| corrupt("epoch"))?,
        sequence: number("sequence")?,
        change: MachineEvent::from_name(&text("change")?).ok_or_else(|| corrupt("change"))?,
        vcpus: u8::try_from(number("vcpus")?).map_err(|_| corrupt("vcpus"))?,
        memory_mib: number("memory_mib")?,
        disk_bytes: number("disk_bytes")?,
        at_ns: number("at_ns")?,
        seen_ns: number("seen_ns")?,
    })
}

/// Fits a number into the ledger's integers.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
