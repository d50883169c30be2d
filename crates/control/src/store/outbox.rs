//! The outbox: what subscribers are still to be told. A row is written in the same transaction as what it tells of, so that a
//! crash loses nothing; delivering is somebody else's work.

use pandastack_kit::trace;
use pandastack_model::{DeliveryId, EventId, SandboxId, SandboxState, WebhookId};
use pandastack_wire_public::{Event, EventPattern, WebhookEvent, rfc3339};
use serde_json::{Map, Value, json};
use sqlx::{Row, SqliteConnection};

use super::{Observed, Store, StoreError, failed, from_sql, intent::column, to_sql};
use crate::{
    events::Lasting,
    limits::{WEBHOOK_NOISE_PENDING_MAX, WEBHOOK_PENDING_MAX},
};

/// The kind that a guest causes by itself, as often as it likes.
const NOISE: &str = "egress.denied";

/// Something to tell about a sandbox.
#[derive(Clone, Debug)]
pub struct News {
    pub kind: &'static str,
    pub at_ns: u64,
    pub payload: Value,
}

/// What a row says that was told last.
const RUNNING: &str = "running";
const PAUSED: &str = "paused";
const ASLEEP: &str = "asleep";
const DEAD: &str = "failed";

impl Store {
    /// Tells of something that changes no row.
    pub async fn tell(&self, id: SandboxId, news: &News) -> Result<(), StoreError> {
        // Most workspaces have nobody to tell, and a look is cheaper than a writer's turn.
        let mut look = self.pool.acquire().await.map_err(failed("look for subscribers"))?;
        if subscribers(&mut look, id, news.kind).await?.is_empty() {
            return Ok(());
        }
        drop(look);
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin news"))?;
        let posted = post(&mut tx, id, news).await?;
        tx.commit().await.map_err(failed("commit news"))?;
        self.wake(posted);
        Ok(())
    }

    /// Wakes who delivers, if there is something to do.
    pub(super) fn wake(&self, posted: Posted) {
        if posted == Posted::Some {
            self.outbox.notify_one();
        }
    }
}

/// Whether anybody is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    Nothing,
    Some,
}

/// Tells of a state if it is news: what was told last is compared and replaced in the caller's transaction.
pub(super) async fn announce(
    tx: &mut SqliteConnection,
    id: SandboxId,
    state: &SandboxState,
    observed: &Observed,
    at_ns: u64,
) -> Result<Posted, StoreError> {
    let told = told(tx, id).await?;
    let (word, news) = match (state, Lasting::of(state)) {
        (SandboxState::Failed { reason }, _) => {
            let news = told.is_some_and(|told| told != Told::Dead).then(|| ("vm.died", json!({ "reason": reason })));
            (DEAD, news)
        }
        (_, Some(now)) => {
            let last = match told {
                Some(Told::Alive(last)) => Some(last),
                Some(Told::Dead) | None => None,
            };
            let payload = now.payload(observed.boot_ms, &observed.boot_mode);
            (word(now), now.since(last).map(|kind| (kind, payload)))
        }
        (_, None) => return Ok(Posted::Nothing),
    };
    let Some((kind, payload)) = news else { return Ok(Posted::Nothing) };
    sqlx::query("UPDATE sandbox SET announced = ? WHERE id = ?")
        .bind(word)
        .bind(id.to_string())
        .execute(&mut *tx)
        .await
        .map_err(failed("record what was told"))?;
    post(tx, id, &News { kind, at_ns, payload }).await
}

/// Tells that a sandbox is about to go. One that never came up was never told of.
pub(super) async fn announce_end(
    tx: &mut SqliteConnection,
    id: SandboxId,
    at_ns: u64,
    reason: Option<&'static str>,
) -> Result<Posted, StoreError> {
    if told(tx, id).await?.is_none() {
        return Ok(Posted::Nothing);
    }
    let payload = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    post(tx, id, &News { kind: "sandbox.deleted", at_ns, payload }).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Alive(Lasting),
    Dead,
}

fn word(state: Lasting) -> &'static str {
    match state {
        Lasting::Running => RUNNING,
        Lasting::Paused => PAUSED,
        Lasting::Asleep => ASLEEP,
    }
}

async fn told(tx: &mut SqliteConnection, id: SandboxId) -> Result<Option<Told>, StoreError> {
    let found: Option<Option<String>> = sqlx::query_scalar("SELECT announced FROM sandbox WHERE id = ?")
        .bind(id.to_string())
        .fetch_optional(tx)
        .await
        .map_err(failed("read what was told"))?;
    Ok(found.flatten().and_then(|word| match word.as_str() {
        RUNNING => Some(Told::Alive(Lasting::Running)),
        PAUSED => Some(Told::Alive(Lasting::Paused)),
        ASLEEP => Some(Told::Alive(Lasting::Asleep)),
        DEAD => Some(Told::Dead),
        _ => None,
    }))
}

/// Puts one delivery into the outbox for every webhook that asked for this.
async fn post(tx: &mut SqliteConnection, id: SandboxId, news: &News) -> Result<Posted, StoreError> {
    let subscribers = subscribers(tx, id, news.kind).await?;
    let Some((_, workspace)) = subscribers.first() else { return Ok(Posted::Nothing) };
    let event_id = EventId::random();
    let sequence = next_sequence(tx, workspace).await?;
    let body = render(id, workspace, (event_id, sequence), news);
    let cause = trace::here().map(|here| here.trace().to_string());
    for (webhook, workspace) in &subscribers {
        if is_full(tx, *webhook, news.kind).await? {
            count_dropped(tx, *webhook).await?;
            continue;
        }
        let sql = "INSERT INTO webhook_delivery (id, webhook, workspace, event_id, kind, sequence, body, status, tries,
                       next_at, created_at, attempts, cause) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', 0, ?, ?, '[]', ?)";
        sqlx::query(sql)
            .bind(DeliveryId::random().to_string())
            .bind(webhook.to_string())
            .bind(workspace)
            .bind(event_id.to_string())
            .bind(news.kind)
            .bind(sequence)
            .bind(&body)
            .bind(to_sql(news.at_ns))
            .bind(to_sql(news.at_ns))
            .bind(&cause)
            .execute(&mut *tx)
            .await
            .map_err(failed("queue a delivery"))?;
    }
    Ok(Posted::Some)
}

async fn subscribers(
    tx: &mut SqliteConnection,
    id: SandboxId,
    kind: &str,
) -> Result<Vec<(WebhookId, String)>, StoreError> {
    let sql = "SELECT webhook.id, webhook.workspace, webhook.events FROM webhook
               JOIN sandbox ON sandbox.workspace = webhook.workspace WHERE sandbox.id = ? AND webhook.enabled";
    let rows = sqlx::query(sql).bind(id.to_string()).fetch_all(tx).await.map_err(failed("find subscribers"))?;
    let mut found = Vec::new();
    for row in &rows {
        let id: String = column(row, "id")?;
        let patterns = read_patterns(row, &id)?;
        if patterns.iter().any(|pattern| pattern.matches(kind)) {
            let webhook = id.parse().map_err(|_| StoreError::Corrupt { id, field: "id" })?;
            found.push((webhook, column(row, "workspace")?));
        }
    }
    Ok(found)
}

/// Reads the patterns of a row. One that an older or newer program knew and this one does not matches nothing.
pub(super) fn read_patterns(row: &sqlx::sqlite::SqliteRow, id: &str) -> Result<Vec<EventPattern>, StoreError> {
    let text: String = column(row, "events")?;
    let list: Vec<String> =
        serde_json::from_str(&text).map_err(|_| StoreError::Corrupt { id: id.to_owned(), field: "events" })?;
    Ok(list.iter().filter_map(|text| text.parse().ok()).collect())
}

async fn next_sequence(tx: &mut SqliteConnection, workspace: &str) -> Result<i64, StoreError> {
    let sql = "INSERT INTO webhook_sequence (workspace, last) VALUES (?, 1)
               ON CONFLICT (workspace) DO UPDATE SET last = last + 1 RETURNING last";
    let row = sqlx::query(sql).bind(workspace).fetch_one(tx).await.map_err(failed("number an event"))?;
    row.try_get("last").map_err(failed("number an event"))
}

async fn is_full(tx: &mut SqliteConnection, webhook: WebhookId, kind: &str) -> Result<bool, StoreError> {
    let waiting: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM webhook_delivery WHERE webhook = ? AND status = 'pending'")
            .bind(webhook.to_string())
            .fetch_one(tx)
            .await
            .map_err(failed("count deliveries"))?;
    let most = if kind == NOISE { WEBHOOK_NOISE_PENDING_MAX } else { WEBHOOK_PENDING_MAX };
    Ok(from_sql(waiting) >= most)
}

async fn count_dropped(tx: &mut SqliteConnection, webhook: WebhookId) -> Result<(), StoreError> {
    sqlx::query("UPDATE webhook SET dropped = dropped + 1 WHERE id = ?")
        .bind(webhook.to_string())
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("count a dropped event"))
}

/// Renders once what every receiver gets, every time: a repeat is the same to the byte.
fn render(id: SandboxId, workspace: &str, (event_id, sequence): (EventId, i64), news: &News) -> String {
    let payload: Map<String, Value> = news.payload.as_object().cloned().unwrap_or_default();
    let time = rfc3339(news.at_ns);
    let body = WebhookEvent {
        id: event_id.to_string(),
        sequence: from_sql(sequence),
        workspace: workspace.to_owned(),
        event: Event {
            ts: time.clone(),
            time,
            sandbox_id: id.to_string(),
            kind: news.kind.to_owned(),
            metadata: payload.clone(),
            payload,
        },
    };
    serde_json::to_string(&body).expect("texts, numbers and maps of them are always JSON")
}
