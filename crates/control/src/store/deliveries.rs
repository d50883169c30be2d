//! Deliveries: the pending ones, their results, and a bounded history.

use pandastack_database::{DatabaseRow, Transaction, WriteLock, query, query_scalar};
use pandastack_model::{DeliveryId, EventId, WebhookId};
use pandastack_wire_fleet::WorkspaceId;
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, failed, from_sql, intent::column, to_sql};
use crate::limits::{WEBHOOK_ATTEMPTS_KEPT_MAX, WEBHOOK_DEAD_KEPT_MAX, WEBHOOK_DELIVERED_KEPT_MAX};

/// The delivery of one event to one webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRow {
    pub id: DeliveryId,
    pub webhook: WebhookId,
    pub event_id: EventId,
    pub kind: String,
    pub sequence: u64,
    pub body: String,
    pub stage: DeliveryStage,
    /// Failed tries since it was queued or replayed.
    pub tries: u32,
    pub next_at_ns: u64,
    pub created_at_ns: u64,
    pub finished_at_ns: Option<u64>,
    pub attempts: Vec<TryRow>,
    /// The trace of the request that caused the event, as a `traceparent`.
    pub cause: Option<String>,
}

/// Progress of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    Pending,
    Delivered,
    Dead,
}

/// One try, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryRow {
    pub at_ns: u64,
    pub took_ms: u64,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub answer: String,
}

/// Which deliveries a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryFilter {
    All,
    /// Never tried.
    Fresh,
    /// Tried without success, and still pending.
    Failed,
    Delivered,
    Dead,
}

/// A webhook with due deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueWebhook {
    pub id: WebhookId,
    pub workspace: WorkspaceId,
    /// Whether its last try failed.
    pub failing: bool,
}

/// The effect of a try, decided by `plan::after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryEffect {
    pub stage: DeliveryStage,
    pub tries: u32,
    pub next_at_ns: u64,
    pub failing_since_ns: Option<u64>,
    /// Why the webhook is disabled from now on.
    pub disable: Option<String>,
}

impl Store {
    /// Lists the webhooks with due deliveries.
    pub async fn due_webhooks(&self, now_ns: u64) -> Result<Vec<DueWebhook>, StoreError> {
        let sql = "SELECT id, workspace, failing_since FROM webhook WHERE enabled AND EXISTS (
                       SELECT 1 FROM webhook_delivery AS due
                       WHERE due.webhook = webhook.id AND due.status = 'pending' AND due.next_at <= ?)";
        let rows = query(sql)
            .bind(to_sql(now_ns))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list webhooks with deliveries"))?;
        let due = |row: &DatabaseRow| {
            let id: String = column(row, "id")?;
            Ok(DueWebhook {
                id: id.parse().map_err(|_| StoreError::Corrupt { id, field: "id" })?,
                workspace: WorkspaceId(column(row, "workspace")?),
                failing: column::<Option<i64>>(row, "failing_since")?.is_some(),
            })
        };
        rows.iter().map(due).collect()
    }

    /// Lists the due deliveries of a webhook, ordered by due time and then by event. An entry may
    /// be outdated, so the caller reads it again with [`Self::due_delivery`] once its flight has
    /// started.
    pub async fn due_deliveries(
        &self,
        webhook: WebhookId,
        now_ns: u64,
        count: usize,
    ) -> Result<Vec<DeliveryId>, StoreError> {
        let sql = "SELECT id FROM webhook_delivery WHERE webhook = ? AND status = 'pending' AND next_at <= ?
                   ORDER BY next_at, sequence LIMIT ?";
        let ids: Vec<String> = query_scalar(sql)
            .bind(webhook.to_string())
            .bind(to_sql(now_ns))
            .bind(to_sql(count as u64))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list due deliveries"))?;
        ids.into_iter().map(|id| id.parse().map_err(|_| StoreError::Corrupt { id, field: "id" })).collect()
    }

    /// Reads a delivery if it is still due.
    pub async fn due_delivery(&self, id: DeliveryId, now_ns: u64) -> Result<Option<DeliveryRow>, StoreError> {
        let row = query("SELECT * FROM webhook_delivery WHERE id = ? AND status = 'pending' AND next_at <= ?")
            .bind(id.to_string())
            .bind(to_sql(now_ns))
            .fetch_optional(&self.database)
            .await
            .map_err(failed("read a due delivery"))?;
        row.as_ref().map(read).transpose()
    }

    /// Records a try and its effect. Does nothing if the webhook and its deliveries were deleted
    /// meanwhile.
    pub async fn record_attempt(
        &self,
        delivery: &DeliveryRow,
        attempt: TryRow,
        verdict: &TryEffect,
    ) -> Result<(), StoreError> {
        let at_ns = attempt.at_ns.saturating_add(attempt.took_ms.saturating_mul(1_000_000));
        let mut attempts = delivery.attempts.clone();
        attempts.push(attempt);
        attempts.drain(..attempts.len().saturating_sub(WEBHOOK_ATTEMPTS_KEPT_MAX));
        let mut tx = self
            .database
            .begin_write(WriteLock::on("webhook", &delivery.webhook.to_string()))
            .await
            .map_err(failed("begin an attempt"))?;
        let finished = (verdict.stage != DeliveryStage::Pending).then(|| to_sql(at_ns));
        let sql = "UPDATE webhook_delivery SET status = ?, tries = ?, next_at = ?, finished_at = ?, attempts = ?
                   WHERE id = ?";
        query(sql)
            .bind(word(verdict.stage))
            .bind(i64::from(verdict.tries))
            .bind(to_sql(verdict.next_at_ns))
            .bind(finished)
            .bind(serde_json::to_string(&attempts).expect("plain values are always JSON"))
            .bind(delivery.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record an attempt"))?;
        query("UPDATE webhook SET failing_since = ? WHERE id = ?")
            .bind(verdict.failing_since_ns.map(to_sql))
            .bind(delivery.webhook.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record a webhook's health"))?;
        if let Some(reason) = &verdict.disable {
            disable(&mut tx, delivery.webhook, reason, at_ns).await?;
        }
        if verdict.stage != DeliveryStage::Pending {
            prune(&mut tx, delivery.webhook).await?;
        }
        tx.commit().await.map_err(failed("commit an attempt"))
    }

    /// Lists deliveries of a workspace, optionally of one webhook, newest first.
    pub async fn list_deliveries(
        &self,
        workspace: &WorkspaceId,
        webhook: Option<WebhookId>,
        shown: DeliveryFilter,
        count: usize,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        let sql = "SELECT * FROM webhook_delivery WHERE workspace = ?1 AND (?2 IS NULL OR webhook = ?2)
                       AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR (tries > 0) = ?4)
                   ORDER BY sequence DESC, id LIMIT ?5";
        let (status, tried) = match shown {
            DeliveryFilter::All => (None, None),
            DeliveryFilter::Fresh => (Some(DeliveryStage::Pending), Some(false)),
            DeliveryFilter::Failed => (Some(DeliveryStage::Pending), Some(true)),
            DeliveryFilter::Delivered => (Some(DeliveryStage::Delivered), None),
            DeliveryFilter::Dead => (Some(DeliveryStage::Dead), None),
        };
        let rows = query(sql)
            .bind(&workspace.0)
            .bind(webhook.map(|webhook| webhook.to_string()))
            .bind(status.map(word))
            .bind(tried)
            .bind(to_sql(count as u64))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list deliveries"))?;
        rows.iter().map(read).collect()
    }

    /// Finds one delivery of a workspace.
    pub async fn find_delivery(
        &self,
        workspace: &WorkspaceId,
        id: DeliveryId,
    ) -> Result<Option<DeliveryRow>, StoreError> {
        let row = query("SELECT * FROM webhook_delivery WHERE id = ? AND workspace = ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a delivery"))?;
        row.as_ref().map(read).transpose()
    }

    /// Puts a delivery back into the outbox. The history of its tries stays.
    pub async fn requeue(&self, id: DeliveryId, now_ns: u64) -> Result<(), StoreError> {
        let sql =
            "UPDATE webhook_delivery SET status = 'pending', tries = 0, next_at = ?, finished_at = NULL WHERE id = ?";
        query(sql)
            .bind(to_sql(now_ns))
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map_err(failed("queue a delivery again"))?;
        self.outbox.notify_one();
        Ok(())
    }
}

/// Disables a webhook and marks its pending deliveries dead. They can be listed and replayed later.
async fn disable(tx: &mut Transaction, webhook: WebhookId, reason: &str, at_ns: u64) -> Result<(), StoreError> {
    query("UPDATE webhook SET enabled = FALSE, disabled_reason = ?, updated_at = ? WHERE id = ?")
        .bind(reason)
        .bind(to_sql(at_ns))
        .bind(webhook.to_string())
        .execute(&mut *tx)
        .await
        .map_err(failed("disable a webhook"))?;
    let dead = "UPDATE webhook_delivery SET status = 'dead', finished_at = ? WHERE webhook = ? AND status = 'pending'";
    query(dead)
        .bind(to_sql(at_ns))
        .bind(webhook.to_string())
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("mark a webhook's deliveries as dead"))
}

/// Removes the oldest ended deliveries. Dead ones have a limit of their own, so that successful
/// deliveries do not displace them.
async fn prune(tx: &mut Transaction, webhook: WebhookId) -> Result<(), StoreError> {
    let kept = [(DeliveryStage::Delivered, WEBHOOK_DELIVERED_KEPT_MAX), (DeliveryStage::Dead, WEBHOOK_DEAD_KEPT_MAX)];
    for (stage, most) in kept {
        let sql = "DELETE FROM webhook_delivery WHERE id IN (
                       SELECT id FROM webhook_delivery WHERE webhook = ? AND status = ?
                       ORDER BY finished_at DESC, sequence DESC LIMIT 1000000000 OFFSET ?)";
        query(sql)
            .bind(webhook.to_string())
            .bind(word(stage))
            .bind(to_sql(most))
            .execute(&mut *tx)
            .await
            .map_err(failed("delete old deliveries"))?;
    }
    Ok(())
}

fn word(stage: DeliveryStage) -> &'static str {
    match stage {
        DeliveryStage::Pending => "pending",
        DeliveryStage::Delivered => "delivered",
        DeliveryStage::Dead => "dead",
    }
}

fn read(row: &DatabaseRow) -> Result<DeliveryRow, StoreError> {
    let id: String = column(row, "id")?;
    let corrupt = |field| StoreError::Corrupt { id: id.clone(), field };
    let text = |name| column::<String>(row, name);
    let number = |name| column::<i64>(row, name).map(from_sql);
    let stage = match text("status")?.as_str() {
        "pending" => DeliveryStage::Pending,
        "delivered" => DeliveryStage::Delivered,
        "dead" => DeliveryStage::Dead,
        _ => return Err(corrupt("status")),
    };
    Ok(DeliveryRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        webhook: text("webhook")?.parse().map_err(|_| corrupt("webhook"))?,
        event_id: text("event_id")?.parse().map_err(|_| corrupt("event_id"))?,
        kind: text("kind")?,
        sequence: number("sequence")?,
        body: text("body")?,
        stage,
        tries: u32::try_from(number("tries")?).unwrap_or(u32::MAX),
        next_at_ns: number("next_at")?,
        created_at_ns: number("created_at")?,
        finished_at_ns: column::<Option<i64>>(row, "finished_at")?.map(from_sql),
        attempts: serde_json::from_str(&text("attempts")?).map_err(|_| corrupt("attempts"))?,
        cause: column(row, "cause")?,
    })
}
