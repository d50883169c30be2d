//! Usage of sandboxes and volumes: facts, and what they add up to. Facts are stored once however
//! often they are told. A subject is counted from its facts again and again; only the difference to
//! what was counted before is added to the sums.

use std::collections::{BTreeMap, BTreeSet};

use pandastack_billing::{CalendarWindow, calendar::HOUR_NS};
use pandastack_billing::{
    FactKind, StorageFact, UsageFact, UsageInterval, UsageTotals, UtcDay, UtcHour, fold_storage, fold_usage, split_by,
};
use pandastack_database::{Transaction, WriteLock, query, query_as, query_scalar};
use pandastack_model::{ByteSize, SandboxId, VolumeId};
use pandastack_wire_fleet::{Caller, UsageCursor, WorkspaceId};

use super::{Intent, Store, StoreError, failed, from_sql, to_sql, volumes::VolumeRow};
use crate::limits::{USAGE_COUNT_BATCH, USAGE_SETTLED_AFTER};

const MS_NS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
/// `count_at` of a subject that is over.
const NEVER: i64 = i64::MAX;

/// A fact of a host about a sandbox.
pub type SandboxFact = (SandboxId, UsageFact);

/// Amounts of usage in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageAmounts {
    pub vcpu_ms: i64,
    pub memory_mib_ms: i64,
    pub storage_mib_ms: i64,
}

impl UsageAmounts {
    /// Returns the same amounts in the units of bills.
    pub fn totals(self) -> UsageTotals {
        let ns = |amount: i64| u128::from(from_sql(amount)) * u128::from(MS_NS);
        UsageTotals {
            vcpu_ns: ns(self.vcpu_ms),
            memory_mib_ns: ns(self.memory_mib_ms),
            storage_byte_ns: ns(self.storage_mib_ms) * u128::from(MIB),
        }
    }

    fn of(interval: &UsageInterval) -> Self {
        let ms = to_sql((interval.to_ns - interval.from_ns) / MS_NS);
        Self {
            vcpu_ms: ms.saturating_mul(i64::from(interval.vcpus)),
            memory_mib_ms: ms.saturating_mul(to_sql(interval.memory_mib)),
            storage_mib_ms: ms.saturating_mul(to_sql(interval.storage_bytes / MIB)),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            vcpu_ms: self.vcpu_ms.saturating_add(other.vcpu_ms),
            memory_mib_ms: self.memory_mib_ms.saturating_add(other.memory_mib_ms),
            storage_mib_ms: self.storage_mib_ms.saturating_add(other.storage_mib_ms),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            vcpu_ms: self.vcpu_ms.saturating_sub(other.vcpu_ms),
            memory_mib_ms: self.memory_mib_ms.saturating_sub(other.memory_mib_ms),
            storage_mib_ms: self.storage_mib_ms.saturating_sub(other.storage_mib_ms),
        }
    }
}

impl Store {
    /// Returns how far the last read ledger was read. The default if none was.
    pub async fn usage_cursor(&self) -> Result<UsageCursor, StoreError> {
        let sql = "SELECT ledger, revision FROM usage_cursor ORDER BY read_at DESC, ledger LIMIT 1";
        let found: Option<(String, i64)> =
            query_as(sql).fetch_optional(&self.database).await.map_err(failed("find how far usage was read"))?;
        Ok(found.map_or_else(UsageCursor::default, |(ledger, revision)| UsageCursor {
            ledger,
            revision: from_sql(revision),
        }))
    }

    /// Stores facts of a host and how far its ledger was read, together. Facts about sandboxes that
    /// are not billed are dropped.
    pub async fn store_facts(
        &self,
        facts: &[SandboxFact],
        cursor: &UsageCursor,
        now_ns: u64,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin_usage("begin to store usage").await?;
        let touched: BTreeSet<String> = facts.iter().map(|(id, _)| id.to_string()).collect();
        let mut known = BTreeSet::new();
        for id in touched {
            let sql = "UPDATE usage_subject SET count_at = 0 WHERE id = ? AND count_at < ?";
            let marked = query(sql).bind(&id).bind(NEVER).execute(&mut tx).await;
            if marked.map_err(failed("mark usage for counting"))? > 0 {
                known.insert(id);
            }
        }
        for (id, fact) in facts {
            let id = id.to_string();
            if known.contains(&id) {
                put_fact(&mut tx, &id, &fact.received_at(now_ns)).await?;
            }
        }
        let sql = "INSERT INTO usage_cursor (ledger, revision, read_at) VALUES (?1, ?2, ?3)
                   ON CONFLICT (ledger) DO UPDATE SET revision = ?2, read_at = ?3";
        query(sql)
            .bind(&cursor.ledger)
            .bind(to_sql(cursor.revision))
            .bind(to_sql(now_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("store how far usage was read"))?;
        tx.commit().await.map_err(failed("commit usage"))
    }

    /// Lets everything of a workspace be counted now, sleeping sandboxes and volumes included.
    pub async fn mark_usage_due(&self, workspace: &WorkspaceId) -> Result<(), StoreError> {
        query("UPDATE usage_subject SET count_at = 0 WHERE workspace = ? AND count_at < ?")
            .bind(&workspace.0)
            .bind(NEVER)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("mark usage for counting"))
    }

    /// Counts the usage of some subjects that are due. Returns how many; 0 if none is due.
    pub async fn count_usage(&self, now_ns: u64) -> Result<usize, StoreError> {
        let mut tx = self.begin_usage("begin to count usage").await?;
        let sql = "SELECT id, kind, workspace, ended_at, settled_ns FROM usage_subject
                   WHERE count_at <= ? ORDER BY count_at LIMIT ?";
        let due: Vec<(String, String, String, Option<i64>, i64)> = query_as(sql)
            .bind(to_sql(now_ns))
            .bind(to_sql(USAGE_COUNT_BATCH))
            .fetch_all(&mut tx)
            .await
            .map_err(failed("list usage to count"))?;
        let sql = "SELECT CAST(COALESCE(MAX(read_at), 0) AS BIGINT) FROM usage_cursor";
        let read_at: i64 = query_scalar(sql).fetch_one(&mut tx).await.map_err(failed("find when usage was read"))?;
        for (id, kind, workspace, ended_at, settled_ns) in &due {
            let is_volume = kind == "volume";
            let subject = CountedSubject {
                id,
                is_volume,
                workspace,
                known_ns: if is_volume { now_ns } else { now_ns.min(from_sql(read_at)) },
                ended_ns: ended_at.map(from_sql),
                settled_ns: from_sql(*settled_ns),
            };
            subject.count(&mut tx, now_ns).await?;
        }
        tx.commit().await.map_err(failed("commit counted usage"))?;
        Ok(due.len())
    }

    /// Sums the usage of a workspace from one moment to another, both at full hours.
    pub async fn usage_between(
        &self,
        workspace: &WorkspaceId,
        (from_ns, to_ns): (u64, u64),
    ) -> Result<UsageTotals, StoreError> {
        let sql = "SELECT vcpu_ms, memory_mib_ms, storage_mib_ms FROM usage_total
                   WHERE workspace = ? AND hour >= ? AND hour < ?";
        let rows: Vec<(i64, i64, i64)> = query_as(sql)
            .bind(&workspace.0)
            .bind(to_sql(from_ns / HOUR_NS))
            .bind(to_sql(to_ns / HOUR_NS))
            .fetch_all(&self.database)
            .await
            .map_err(failed("sum usage"))?;
        Ok(rows.into_iter().map(|row| amounts(row).totals()).sum())
    }

    /// Lists the workspaces with usage since a moment.
    pub async fn workspaces_with_usage(&self, since_ns: u64) -> Result<Vec<WorkspaceId>, StoreError> {
        let sql = "SELECT id FROM workspace WHERE EXISTS
                       (SELECT 1 FROM usage_total WHERE usage_total.workspace = workspace.id AND hour >= ?)
                   ORDER BY id";
        let rows: Vec<String> = query_scalar(sql)
            .bind(to_sql(since_ns / HOUR_NS))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list workspaces with usage"))?;
        Ok(rows.into_iter().map(WorkspaceId).collect())
    }

    /// Removes sums that are older than a moment, and subjects that ended before it.
    pub async fn prune_usage(&self, before_ns: u64) -> Result<(), StoreError> {
        let forgotten = failed("remove old usage");
        let (hour, day) = (to_sql(before_ns / HOUR_NS), to_sql(UtcDay::of(before_ns).number()));
        query("DELETE FROM usage_total WHERE hour < ?").bind(hour).execute(&self.database).await.map_err(&forgotten)?;
        query("DELETE FROM usage_day WHERE day < ?").bind(day).execute(&self.database).await.map_err(&forgotten)?;
        query("DELETE FROM usage_subject WHERE count_at = ? AND ended_at < ?")
            .bind(NEVER)
            .bind(to_sql(before_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(forgotten)
    }

    /// Only one transaction at a time changes what was counted.
    async fn begin_usage(&self, attempted: &'static str) -> Result<Transaction, StoreError> {
        self.database.begin_write(WriteLock::on_all("usage")).await.map_err(failed(attempted))
    }
}

/// A sandbox or volume whose usage is counted.
pub(super) enum UsageSubject<'a> {
    Sandbox(&'a Intent),
    Volume(&'a VolumeRow),
}

/// Begins to count usage of a sandbox or volume, in the transaction that makes it.
pub(super) async fn add_subject(
    tx: &mut Transaction,
    caller: &Caller,
    subject: UsageSubject<'_>,
) -> Result<(), StoreError> {
    let (kind, id, template, of_sandbox, now_ns) = match subject {
        UsageSubject::Sandbox(Intent { id, spec, created_at_ns, .. }) => {
            ("sandbox", id.to_string(), spec.template.as_str(), None, *created_at_ns)
        }
        UsageSubject::Volume(VolumeRow { id, name, sandbox, created_at_ns, .. }) => {
            ("volume", id.to_string(), name.as_str(), *sandbox, *created_at_ns)
        }
    };
    let sql = "INSERT INTO usage_subject
                   (id, kind, workspace, template, member, created_at, settled_ns, count_at, of_sandbox)
               VALUES (?1, ?2, ?3, ?4, COALESCE(?5, (SELECT created_by FROM api_key WHERE id = ?6), ''), ?7, 0, ?8, ?9)
               ON CONFLICT (id) DO NOTHING";
    query(sql)
        .bind(id)
        .bind(kind)
        .bind(caller.workspace.0.clone())
        .bind(template.to_owned())
        .bind(caller.user.as_ref().map(|user| user.id.clone()))
        .bind(caller.key.id().map(str::to_owned))
        .bind(to_sql(now_ns))
        .bind(to_sql(UtcHour::of(now_ns).end_ns()))
        .bind(of_sandbox.map(|sandbox| sandbox.to_string()))
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("begin to count usage"))
}

/// Ends the usage of a sandbox or volume that is deleted, in the transaction that deletes it.
pub(super) async fn end_subject(tx: &mut Transaction, id: &str, now_ns: u64) -> Result<(), StoreError> {
    query("UPDATE usage_subject SET ended_at = ?1, count_at = 0 WHERE id = ?2 AND ended_at IS NULL")
        .bind(to_sql(now_ns))
        .bind(id)
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("end usage"))
}

/// Ends the usage of a sandbox whose creation failed. Nothing of it is billed.
pub(super) async fn drop_subject(tx: &mut Transaction, id: &str) -> Result<(), StoreError> {
    query("UPDATE usage_subject SET ended_at = created_at, count_at = 0 WHERE id = ?")
        .bind(id)
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("forget usage"))
}

/// Notes the size of a volume from now on, in the transaction that changes it.
pub(super) async fn note_volume_size(
    tx: &mut Transaction,
    id: VolumeId,
    size: ByteSize,
    now_ns: u64,
) -> Result<(), StoreError> {
    let sql = "SELECT sequence, storage_mib FROM usage_fact WHERE subject = ? ORDER BY sequence DESC LIMIT 1";
    let last: Option<(i64, i64)> =
        query_as(sql).bind(id.to_string()).fetch_optional(&mut *tx).await.map_err(failed("find a volume's size"))?;
    let mib = size.get().div_ceil(MIB);
    if last.is_some_and(|(_, known)| from_sql(known) >= mib) {
        return Ok(());
    }
    let fact = UsageFact {
        epoch: 0,
        sequence: last.map_or(0, |(sequence, _)| from_sql(sequence) + 1),
        kind: FactKind::Resized,
        vcpus: 0,
        memory_mib: 0,
        storage_bytes: mib * MIB,
        at_ns: now_ns,
        seen_ns: now_ns,
    };
    put_fact(tx, &id.to_string(), &fact).await
}

/// Stores a fact, or what a repeated report of it adds. Times are whole milliseconds.
async fn put_fact(tx: &mut Transaction, subject: &str, fact: &UsageFact) -> Result<(), StoreError> {
    let whole = |ns: u64| to_sql(ns / MS_NS * MS_NS);
    let sql = "INSERT INTO usage_fact (subject, epoch, sequence, kind, vcpus, memory_mib, storage_mib, at_ns, seen_ns)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
               ON CONFLICT (subject, epoch, sequence) DO UPDATE SET
                   at_ns = CASE WHEN usage_fact.at_ns > ?8 THEN usage_fact.at_ns ELSE ?8 END,
                   seen_ns = CASE WHEN usage_fact.seen_ns > ?9 THEN usage_fact.seen_ns ELSE ?9 END";
    query(sql)
        .bind(subject)
        .bind(i64::from(fact.epoch))
        .bind(to_sql(fact.sequence))
        .bind(fact.kind.as_str())
        .bind(i64::from(fact.vcpus))
        .bind(to_sql(fact.memory_mib))
        .bind(to_sql(fact.storage_bytes.div_ceil(MIB)))
        .bind(whole(fact.at_ns))
        .bind(whole(fact.seen_ns))
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("store a fact of usage"))
}

/// A subject that is being counted.
struct CountedSubject<'a> {
    id: &'a str,
    is_volume: bool,
    workspace: &'a str,
    ended_ns: Option<u64>,
    settled_ns: u64,
    /// Everything up to this moment was told.
    known_ns: u64,
}

impl CountedSubject<'_> {
    async fn count(&self, tx: &mut Transaction, now_ns: u64) -> Result<(), StoreError> {
        if self.is_volume {
            self.take_over_volume(tx, now_ns).await?;
        }
        let facts = self.facts(tx).await?;
        let counted = self.counted(&facts, now_ns);
        let before = self.hours(tx).await?;
        let hours: BTreeSet<i64> = counted.keys().chain(before.keys()).copied().collect();
        for hour in hours {
            let (new, old) = (counted.get(&hour), before.get(&hour));
            let (new, old) = (new.copied().unwrap_or_default(), old.copied().unwrap_or_default());
            if new != old {
                self.put_hour(tx, hour, new).await?;
                self.add(tx, hour, new.minus(old)).await?;
            }
        }
        self.settle(tx, &facts, now_ns).await
    }

    /// Gives a volume that is older than metering its first fact.
    async fn take_over_volume(&self, tx: &mut Transaction, now_ns: u64) -> Result<(), StoreError> {
        let size: Option<i64> = query_scalar("SELECT size_bytes FROM volume WHERE id = ? AND status = 'ready'")
            .bind(self.id)
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed("find a volume's size"))?;
        match (size, self.id.parse()) {
            (Some(size), Ok(id)) => note_volume_size(tx, id, ByteSize::new(from_sql(size)), now_ns).await,
            _ => Ok(()),
        }
    }

    async fn facts(&self, tx: &mut Transaction) -> Result<Vec<UsageFact>, StoreError> {
        let sql = "SELECT epoch, sequence, kind, vcpus, memory_mib, storage_mib, at_ns, seen_ns FROM usage_fact
                   WHERE subject = ? ORDER BY epoch, sequence";
        let rows: Vec<FactColumns> =
            query_as(sql).bind(self.id).fetch_all(&mut *tx).await.map_err(failed("list facts of usage"))?;
        let one = |(epoch, sequence, kind, vcpus, memory_mib, storage_mib, at_ns, seen_ns): FactColumns| {
            let corrupt = |field| StoreError::Corrupt { id: self.id.to_owned(), field };
            Ok(UsageFact {
                epoch: u32::try_from(epoch).map_err(|_| corrupt("epoch"))?,
                sequence: from_sql(sequence),
                kind: kind.parse().map_err(|_| corrupt("kind"))?,
                vcpus: u32::try_from(vcpus).map_err(|_| corrupt("vcpus"))?,
                memory_mib: from_sql(memory_mib),
                storage_bytes: from_sql(storage_mib).saturating_mul(MIB),
                at_ns: from_sql(at_ns),
                seen_ns: from_sql(seen_ns),
            })
        };
        rows.into_iter().map(one).collect()
    }

    /// Returns the usage of each hour that is not final.
    fn counted(&self, facts: &[UsageFact], now_ns: u64) -> BTreeMap<i64, UsageAmounts> {
        let end_ns = self.ended_ns.unwrap_or(u64::MAX).min(now_ns) / MS_NS * MS_NS;
        let intervals = match self.is_volume {
            true => fold_storage(facts.iter().map(size_of), end_ns),
            false => fold_usage(facts.iter().copied(), end_ns),
        };
        let mut hours: BTreeMap<i64, UsageAmounts> = BTreeMap::new();
        let parts = intervals.into_iter().filter_map(|one| one.until(end_ns)?.since(self.settled_ns));
        for (hour, part) in parts.flat_map(split_by::<UtcHour>) {
            let slot = hours.entry(to_sql(hour.start_ns() / HOUR_NS)).or_default();
            *slot = slot.plus(UsageAmounts::of(&part));
        }
        hours
    }

    async fn hours(&self, tx: &mut Transaction) -> Result<BTreeMap<i64, UsageAmounts>, StoreError> {
        let sql = "SELECT hour, vcpu_ms, memory_mib_ms, storage_mib_ms FROM usage_hour WHERE subject = ?";
        let rows: Vec<(i64, i64, i64, i64)> =
            query_as(sql).bind(self.id).fetch_all(&mut *tx).await.map_err(failed("list counted usage"))?;
        Ok(rows.into_iter().map(|(hour, vcpu, memory, storage)| (hour, amounts((vcpu, memory, storage)))).collect())
    }

    async fn put_hour(&self, tx: &mut Transaction, hour: i64, now: UsageAmounts) -> Result<(), StoreError> {
        let sql = "INSERT INTO usage_hour (subject, hour, vcpu_ms, memory_mib_ms, storage_mib_ms)
                   VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (subject, hour) DO UPDATE SET
                       vcpu_ms = ?3, memory_mib_ms = ?4, storage_mib_ms = ?5";
        query(sql)
            .bind(self.id)
            .bind(hour)
            .bind(now.vcpu_ms)
            .bind(now.memory_mib_ms)
            .bind(now.storage_mib_ms)
            .execute(&mut *tx)
            .await
            .map(drop)
            .map_err(failed("store counted usage"))
    }

    /// Adds a difference to the sums of the workspace's hour and the subject's day.
    async fn add(&self, tx: &mut Transaction, hour: i64, more: UsageAmounts) -> Result<(), StoreError> {
        let total = "INSERT INTO usage_total (workspace, hour, vcpu_ms, memory_mib_ms, storage_mib_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (workspace, hour) DO UPDATE SET
                         vcpu_ms = usage_total.vcpu_ms + ?3, memory_mib_ms = usage_total.memory_mib_ms + ?4,
                         storage_mib_ms = usage_total.storage_mib_ms + ?5";
        let day = "INSERT INTO usage_day (workspace, day, vcpu_ms, memory_mib_ms, storage_mib_ms, subject)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (workspace, day, subject) DO UPDATE SET
                       vcpu_ms = usage_day.vcpu_ms + ?3, memory_mib_ms = usage_day.memory_mib_ms + ?4,
                       storage_mib_ms = usage_day.storage_mib_ms + ?5";
        let in_window = |sql, window: i64| {
            let bound = query(sql).bind(self.workspace).bind(window).bind(more.vcpu_ms);
            bound.bind(more.memory_mib_ms).bind(more.storage_mib_ms)
        };
        in_window(total, hour).execute(&mut *tx).await.map_err(failed("add usage of a workspace"))?;
        let by_day = in_window(day, hour / HOURS_PER_DAY).bind(self.id);
        by_day.execute(&mut *tx).await.map(drop).map_err(failed("add usage of a day"))
    }

    /// Makes old hours final, and removes what is no longer needed to count.
    async fn settle(&self, tx: &mut Transaction, facts: &[UsageFact], now_ns: u64) -> Result<(), StoreError> {
        let lag_ns = USAGE_SETTLED_AFTER.as_nanos() as u64;
        let is_over = self.ended_ns.is_some_and(|ended_ns| ended_ns.saturating_add(lag_ns) <= self.known_ns);
        let settled_ns = match is_over {
            true => UtcHour::of(now_ns).end_ns(),
            false => {
                let known_ns = self.known_ns.min(told_until(facts));
                UtcHour::of(known_ns.saturating_sub(lag_ns)).start_ns().max(self.settled_ns)
            }
        };
        let count_at = match (is_over, self.ended_ns) {
            (true, _) => NEVER,
            (false, Some(ended_ns)) => to_sql(ended_ns.saturating_add(lag_ns).max(now_ns + 1)),
            // The state lasts without a report, if it sleeps.
            (false, None) => to_sql(UtcHour::of(now_ns).end_ns()),
        };
        let settled = failed("settle usage");
        if settled_ns > self.settled_ns {
            query("DELETE FROM usage_hour WHERE subject = ? AND hour < ?")
                .bind(self.id)
                .bind(to_sql(settled_ns / HOUR_NS))
                .execute(&mut *tx)
                .await
                .map_err(&settled)?;
            for fact in settled_facts(facts, settled_ns, is_over) {
                query("DELETE FROM usage_fact WHERE subject = ? AND epoch = ? AND sequence = ?")
                    .bind(self.id)
                    .bind(i64::from(fact.epoch))
                    .bind(to_sql(fact.sequence))
                    .execute(&mut *tx)
                    .await
                    .map_err(&settled)?;
            }
        }
        query("UPDATE usage_subject SET settled_ns = ?, count_at = ? WHERE id = ?")
            .bind(to_sql(settled_ns))
            .bind(count_at)
            .bind(self.id)
            .execute(&mut *tx)
            .await
            .map(drop)
            .map_err(settled)
    }
}

type FactColumns = (i64, i64, String, i64, i64, i64, i64, i64);

/// Hours in a day.
const HOURS_PER_DAY: i64 = 24;

/// Returns the moment up to which a state is confirmed. A machine that is silent may be confirmed
/// later; a sleeping sandbox needs no sign of life.
fn told_until(facts: &[UsageFact]) -> u64 {
    match facts.last() {
        Some(fact) if !matches!(fact.kind, FactKind::Hibernated | FactKind::Ended) && fact.vcpus > 0 => fact.seen_ns,
        _ => u64::MAX,
    }
}

/// Returns the first facts, as far as nothing after the settled moment depends on them.
fn settled_facts(facts: &[UsageFact], settled_ns: u64, is_over: bool) -> &[UsageFact] {
    if is_over {
        return facts;
    }
    let needed = facts.windows(2).take_while(|pair| {
        let last_ns = pair[0].at_ns.max(pair[0].seen_ns).max(pair[1].at_ns);
        last_ns <= settled_ns
    });
    &facts[..needed.count()]
}

fn size_of(fact: &UsageFact) -> StorageFact {
    StorageFact { sequence: fact.sequence, at_ns: fact.at_ns, bytes: fact.storage_bytes }
}

fn amounts((vcpu_ms, memory_mib_ms, storage_mib_ms): (i64, i64, i64)) -> UsageAmounts {
    UsageAmounts { vcpu_ms, memory_mib_ms, storage_mib_ms }
}
