//! Usage on its way to Stripe. A row is written with the sum that it carries, claimed before it is
//! posted, and marked after it. See `pandastack_billing::posting` for what each step stores.

use pandastack_billing::{CalendarWindow, calendar::HOUR_NS};
use pandastack_billing::{ClaimedRow, PostingPlan, UtcHour, UtcMonth, stripe::MeterEvent};
use pandastack_database::{DatabaseRow, WriteLock, query, query_as, query_built, query_scalar};
use pandastack_wire_fleet::WorkspaceId;

use super::{Store, StoreError, failed, from_sql, intent::column, to_sql};

/// A claimed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedEvent {
    pub event: MeterEvent,
    pub row: ClaimedRow,
}

/// An event that is not sent any more unless the operator queues it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadMeterEvent {
    pub workspace: String,
    pub identifier: String,
    /// The last hour of the usage.
    pub hour: UtcHour,
    /// Micro-dollars.
    pub value: u64,
    /// Stable code.
    pub reason: String,
    pub text: String,
    pub row: ClaimedRow,
}

/// Which dead events are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadFilter {
    All,
    Workspace(String),
    Identifier(String),
}

/// How many events wait, and how many need the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterQueue {
    pub pending: u64,
    pub dead: u64,
}

/// Which events to claim.
#[derive(Clone, Copy, Debug)]
pub struct ClaimParams<'a> {
    /// Only of this workspace.
    pub workspace: Option<&'a WorkspaceId>,
    pub now_s: u64,
    /// When the claim ends by itself.
    pub until_s: u64,
}

impl Store {
    /// Sums what the events of a month carry, in micro-dollars.
    pub async fn enqueued_micros(&self, workspace: &WorkspaceId, month: UtcMonth) -> Result<u64, StoreError> {
        let sql = "SELECT CAST(COALESCE(SUM(value), 0) AS BIGINT) FROM pending_meter_events
                   WHERE workspace = ? AND month = ?";
        query_scalar::<i64>(sql)
            .bind(&workspace.0)
            .bind(to_sql(month.start_ns() / HOUR_NS))
            .fetch_one(&self.database)
            .await
            .map(from_sql)
            .map_err(failed("sum meter events"))
    }

    /// Queues an event, and records that the usage up to its hour is queued. Both or nothing.
    /// `event` is `None` if there is nothing to charge. Returns false if `from` is no longer the
    /// last hour that is queued: the event would have a wrong value.
    pub async fn enqueue_hour(
        &self,
        workspace: &WorkspaceId,
        (from, hour): (UtcHour, UtcHour),
        event: Option<&MeterEvent>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin_in(workspace, "begin a meter event").await?;
        let number = to_sql(hour.start_ns() / HOUR_NS);
        let sql = "UPDATE billing_account SET enqueued_hour = ? WHERE workspace = ? AND enqueued_hour = ?";
        let from = to_sql(from.start_ns() / HOUR_NS);
        let moved = query(sql).bind(number).bind(&workspace.0).bind(from).execute(&mut tx).await;
        if moved.map_err(failed("record queued usage"))? == 0 {
            return Ok(false);
        }
        if let Some(event) = event {
            let month = UtcMonth::of(hour.start_ns());
            let sql = "INSERT INTO pending_meter_events (identifier, workspace, month, hour, event_name, customer,
                           value, timestamp_s, tries, key_turn, next_try_s, claimed_until, note)
                       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, '')";
            query(sql)
                .bind(&event.identifier)
                .bind(&workspace.0)
                .bind(to_sql(month.start_ns() / HOUR_NS))
                .bind(number)
                .bind(&event.event_name)
                .bind(&event.customer)
                .bind(to_sql(event.value))
                .bind(to_sql(event.timestamp_s))
                .execute(&mut tx)
                .await
                .map_err(failed("queue a meter event"))?;
        }
        tx.commit().await.map_err(failed("commit a meter event"))?;
        Ok(true)
    }

    /// Claims the next event that is due. The claim stores that Stripe may have the event.
    pub async fn claim_meter_event(&self, ask: ClaimParams<'_>) -> Result<Option<ClaimedEvent>, StoreError> {
        // Servers that claim at the same time pass each other's rows. SQLite has one writer.
        let (begun, skip) = match self.database.is_server() {
            true => (self.database.begin().await, " FOR UPDATE SKIP LOCKED"),
            false => (self.database.begin_write(WriteLock::on_all("meter events")).await, ""),
        };
        let mut tx = begun.map_err(failed("begin a claim"))?;
        let of = if ask.workspace.is_some() { " AND workspace = ?3" } else { "" };
        let sql = format!(
            "SELECT * FROM pending_meter_events WHERE posted_at_s IS NULL AND dead IS NULL AND next_try_s <= ?1
                 AND claimed_until <= ?2{of} ORDER BY hour, identifier LIMIT 1{skip}"
        );
        let mut due = query_built(sql).bind(to_sql(ask.now_s)).bind(to_sql(ask.now_s));
        if let Some(workspace) = ask.workspace {
            due = due.bind(&workspace.0);
        }
        let found = due.fetch_optional(&mut tx).await.map_err(failed("find a meter event"))?;
        let Some(claimed) = found.as_ref().map(read).transpose()? else { return Ok(None) };
        // The condition also holds back a server that read the row before another one claimed it.
        let sql = "UPDATE pending_meter_events SET claimed_until = ?1, unsure_since_s = ?2
                   WHERE identifier = ?3 AND claimed_until <= ?4 AND posted_at_s IS NULL AND dead IS NULL";
        let taken = query(sql)
            .bind(to_sql(ask.until_s))
            .bind(to_sql(claimed.row.claim_mark(ask.now_s)))
            .bind(&claimed.event.identifier)
            .bind(to_sql(ask.now_s))
            .execute(&mut tx)
            .await
            .map_err(failed("claim a meter event"))?;
        tx.commit().await.map_err(failed("commit a claim"))?;
        Ok((taken > 0).then_some(claimed))
    }

    /// Stores what became of a claimed event, and ends the claim.
    pub async fn settle_meter_event(&self, identifier: &str, plan: &PostingPlan) -> Result<(), StoreError> {
        let sql = "UPDATE pending_meter_events SET claimed_until = 0, posted_at_s = ?1, dead = ?2, note = ?3,
                       next_try_s = ?4, unsure_since_s = ?5, tries = COALESCE(?6, tries),
                       key_turn = COALESCE(?7, key_turn)
                   WHERE identifier = ?8 AND posted_at_s IS NULL";
        let none = None::<i64>;
        let (posted, dead, note, next, unsure, tries, turn) = match plan {
            PostingPlan::Posted { at_s } => (Some(to_sql(*at_s)), None, String::new(), 0, none, none, none),
            PostingPlan::Again { next_try_s, tries, key_turn, unsure_since_s, reason } => (
                None,
                None,
                reason.to_string(),
                *next_try_s,
                unsure_since_s.map(to_sql),
                Some(i64::from(*tries)),
                Some(i64::from(*key_turn)),
            ),
            PostingPlan::Later { next_try_s, unsure_since_s } => {
                (None, None, String::new(), *next_try_s, unsure_since_s.map(to_sql), none, none)
            }
            PostingPlan::Dead { reason, unsure_since_s } => {
                (None, Some(reason.code()), reason.to_string(), 0, unsure_since_s.map(to_sql), none, none)
            }
        };
        query(sql)
            .bind(posted)
            .bind(dead)
            .bind(note)
            .bind(to_sql(next))
            .bind(unsure)
            .bind(tries)
            .bind(turn)
            .bind(identifier)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("store the result of a meter event"))
    }

    /// Counts the events of a workspace that are not posted.
    pub async fn meter_queue(&self, workspace: &WorkspaceId) -> Result<MeterQueue, StoreError> {
        let sql = "SELECT COUNT(*), CAST(COALESCE(SUM(CASE WHEN dead IS NULL THEN 0 ELSE 1 END), 0) AS BIGINT)
                   FROM pending_meter_events WHERE workspace = ? AND posted_at_s IS NULL";
        let (all, dead): (i64, i64) =
            query_as(sql).bind(&workspace.0).fetch_one(&self.database).await.map_err(failed("count meter events"))?;
        Ok(MeterQueue { pending: from_sql(all - dead), dead: from_sql(dead) })
    }

    /// Lists dead events, the oldest first.
    pub async fn dead_meter_events(&self, filter: &DeadFilter) -> Result<Vec<DeadMeterEvent>, StoreError> {
        let (and, of) = match filter {
            DeadFilter::All => ("", None),
            DeadFilter::Workspace(workspace) => (" AND workspace = ?", Some(workspace)),
            DeadFilter::Identifier(identifier) => (" AND identifier = ?", Some(identifier)),
        };
        let sql = format!(
            "SELECT * FROM pending_meter_events WHERE posted_at_s IS NULL AND dead IS NOT NULL{and}
             ORDER BY hour, identifier"
        );
        let mut dead = query_built(sql);
        if let Some(of) = of {
            dead = dead.bind(of);
        }
        let rows = dead.fetch_all(&self.database).await.map_err(failed("list dead meter events"))?;
        rows.iter().map(read_dead).collect()
    }

    /// Queues a dead event again. Returns false if it is not the same any more.
    pub async fn requeue_meter_event(&self, dead: &DeadMeterEvent) -> Result<bool, StoreError> {
        let next = dead.row.requeued();
        let sql = "UPDATE pending_meter_events SET dead = NULL, note = '', tries = ?1, key_turn = ?2,
                       unsure_since_s = ?3, next_try_s = 0, claimed_until = 0
                   WHERE identifier = ?4 AND key_turn = ?5 AND dead IS NOT NULL AND posted_at_s IS NULL";
        let queued = query(sql)
            .bind(i64::from(next.tries))
            .bind(i64::from(next.key_turn))
            .bind(next.unsure_since_s.map(to_sql))
            .bind(&dead.identifier)
            .bind(i64::from(dead.row.key_turn))
            .execute(&self.database)
            .await
            .map_err(failed("queue a meter event again"))?;
        Ok(queued > 0)
    }

    /// Removes posted events of months before a moment.
    pub async fn prune_meter_events(&self, before_ns: u64) -> Result<(), StoreError> {
        query("DELETE FROM pending_meter_events WHERE posted_at_s IS NOT NULL AND hour < ?")
            .bind(to_sql(before_ns / HOUR_NS))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("remove old meter events"))
    }
}

fn read_dead(row: &DatabaseRow) -> Result<DeadMeterEvent, StoreError> {
    let ClaimedEvent { event, row: claimed } = read(row)?;
    let hour: i64 = column(row, "hour")?;
    Ok(DeadMeterEvent {
        workspace: column(row, "workspace")?,
        identifier: event.identifier,
        hour: UtcHour::of(from_sql(hour).saturating_mul(HOUR_NS)),
        value: event.value,
        reason: column(row, "dead")?,
        text: column(row, "note")?,
        row: claimed,
    })
}

fn read(row: &DatabaseRow) -> Result<ClaimedEvent, StoreError> {
    let number = |name| column::<i64>(row, name).map(from_sql);
    let unsure: Option<i64> = column(row, "unsure_since_s")?;
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let timestamp_s = number("timestamp_s")?;
    Ok(ClaimedEvent {
        event: MeterEvent {
            event_name: column(row, "event_name")?,
            customer: column(row, "customer")?,
            value: number("value")?,
            identifier: column(row, "identifier")?,
            timestamp_s,
        },
        row: ClaimedRow {
            tries: small(number("tries")?),
            key_turn: small(number("key_turn")?),
            unsure_since_s: unsure.map(from_sql),
            timestamp_s,
        },
    })
}
