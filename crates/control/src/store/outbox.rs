//! The outbox: pending deliveries to webhooks. A row is written in the same transaction as the
//! change that it announces, so that a crash loses nothing. After the commit the same event goes to
//! the sandbox's event stream.

use pandastack_database::{DatabaseRow, Target, Transaction, query, query_scalar};
use pandastack_kit::trace;
use pandastack_model::{DeliveryId, EventAudience, EventId, EventKind, SandboxId, WebhookId};
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::{EventPattern, MachineKind, WebhookEvent};
use serde_json::json;

use super::{Store, StoreError, failed, from_sql, intent::column, shown::kind_of, to_sql};
use crate::{
    events::{EventDetails, LastingState, SandboxEvent, state_events},
    limits::{WEBHOOK_NOISE_PENDING_MAX, WEBHOOK_PENDING_MAX},
    workspace_events::WorkspaceChange,
};

impl Store {
    /// Records an event that changes no row.
    pub async fn tell(&self, id: SandboxId, event: SandboxEvent) -> Result<(), StoreError> {
        let queued = self.queue(id, &event).await;
        let home = self.home_of(id).await.ok().flatten();
        // The stream gets the event even if the database is not writable.
        self.record(id, home.as_ref(), vec![event]);
        self.wake(queued?);
        Ok(())
    }

    async fn queue(&self, id: SandboxId, event: &SandboxEvent) -> Result<SubscriberFound, StoreError> {
        // Most workspaces have no webhook, and a read is cheaper than a write transaction.
        if subscribers(&self.database, id, event.kind).await?.is_empty() {
            return Ok(SubscriberFound::Nothing);
        }
        let mut tx = self.begin_for(id, "begin an event").await?;
        let posted = post(&mut tx, id, event).await?;
        tx.commit().await.map_err(failed("commit an event"))?;
        Ok(posted)
    }

    /// Wakes the delivery loop if an event had subscribers.
    pub(super) fn wake(&self, posted: SubscriberFound) {
        if posted == SubscriberFound::Some {
            self.outbox.notify_one();
        }
    }

    /// Sends committed events to the stream and wakes the delivery loop.
    pub(super) fn publish(&self, id: SandboxId, announced: PendingEvents) {
        self.wake(announced.posted);
        self.record(id, announced.home.as_ref(), announced.events);
    }

    fn record(&self, id: SandboxId, home: Option<&EventHome>, events: Vec<SandboxEvent>) {
        for event in &events {
            self.tell_workspace(home, id, event);
        }
        self.events.record(id, events);
    }

    /// Adds an event of a sandbox to the events of its workspace.
    pub(super) fn tell_workspace(&self, home: Option<&EventHome>, id: SandboxId, event: &SandboxEvent) {
        if let Some(EventHome { workspace, machine }) = home {
            self.workspace_events.record(workspace, WorkspaceChange::of((id, *machine), event));
        }
    }

    async fn home_of(&self, id: SandboxId) -> Result<Option<EventHome>, StoreError> {
        Ok(announced(&self.database, id).await?.map(|found| found.home))
    }
}

/// Whether an event had subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SubscriberFound {
    #[default]
    Nothing,
    Some,
}

/// The events of a change of state, to be published after the commit of their transaction.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    events: Vec<SandboxEvent>,
    posted: SubscriberFound,
    home: Option<EventHome>,
}

/// Where the events of a sandbox are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventHome {
    pub workspace: WorkspaceId,
    pub machine: MachineKind,
}

impl PendingEvents {
    /// The kind of the change.
    pub fn kind(&self) -> Option<EventKind> {
        self.events.first().map(|event| event.kind)
    }
}

/// Makes the events of a new state. Compares it with the last announced state and replaces that, in
/// the caller's transaction.
pub(super) async fn announce(
    tx: &mut Transaction,
    id: SandboxId,
    now: LastingState,
    details: EventDetails<'_>,
    at_ns: u64,
) -> Result<PendingEvents, StoreError> {
    let last = announced(&mut *tx, id).await?;
    let home = last.as_ref().map(|last| last.home.clone());
    let events = state_events(now, last.and_then(|last| last.state), details, at_ns);
    if events.is_empty() {
        return Ok(PendingEvents::default());
    }
    query("UPDATE sandbox SET announced = ? WHERE id = ?")
        .bind(now.as_str())
        .bind(id.to_string())
        .execute(&mut *tx)
        .await
        .map_err(failed("record the announced state"))?;
    let mut posted = SubscriberFound::Nothing;
    for event in &events {
        if post(tx, id, event).await? == SubscriberFound::Some {
            posted = SubscriberFound::Some;
        }
    }
    Ok(PendingEvents { events, posted, home })
}

/// Makes the last event of a sandbox. Webhooks do not get it if the sandbox never ran.
pub(super) async fn announce_end(
    tx: &mut Transaction,
    id: SandboxId,
    at_ns: u64,
    reason: Option<&'static str>,
) -> Result<EndEvent, StoreError> {
    let payload = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let event = SandboxEvent::new(EventKind::Deleted, at_ns, payload);
    let last = announced(&mut *tx, id).await?;
    let posted = match last.as_ref().and_then(|last| last.state) {
        Some(_) => post(tx, id, &event).await?,
        None => SubscriberFound::Nothing,
    };
    Ok(EndEvent { event, posted, home: last.map(|last| last.home) })
}

/// The last event of a sandbox, to be published after the commit of its transaction.
pub(super) struct EndEvent {
    pub event: SandboxEvent,
    pub posted: SubscriberFound,
    pub home: Option<EventHome>,
}

/// Where the events of a sandbox are told, and its last announced state.
struct Announced {
    home: EventHome,
    state: Option<LastingState>,
}

async fn announced(on: impl Into<Target<'_>>, id: SandboxId) -> Result<Option<Announced>, StoreError> {
    let sql = "SELECT announced, sandbox.workspace, managed_database.id AS database_id
               FROM sandbox LEFT JOIN managed_database ON managed_database.id = sandbox.id WHERE sandbox.id = ?";
    let row = query(sql).bind(id.to_string()).fetch_optional(on).await.map_err(failed("read the announced state"))?;
    let Some(row) = row else { return Ok(None) };
    let (word, workspace): (Option<String>, String) = (column(&row, "announced")?, column(&row, "workspace")?);
    let state = word.and_then(|word| LastingState::from_name(&word));
    let home = EventHome { workspace: WorkspaceId(workspace), machine: kind_of(&row)? };
    Ok(Some(Announced { home, state }))
}

/// Queues a delivery for every webhook that subscribed to this event.
async fn post(tx: &mut Transaction, id: SandboxId, event: &SandboxEvent) -> Result<SubscriberFound, StoreError> {
    let subscribers = subscribers(&mut *tx, id, event.kind).await?;
    queue(tx, &subscribers, event, &id.to_string()).await
}

/// Queues an event about a whole workspace.
pub(super) async fn post_in(
    tx: &mut Transaction,
    workspace: &WorkspaceId,
    event: &SandboxEvent,
) -> Result<SubscriberFound, StoreError> {
    let sql = "SELECT id, workspace, events FROM webhook WHERE workspace = ? AND enabled";
    let rows = query(sql).bind(&workspace.0).fetch_all(&mut *tx).await.map_err(failed("find subscribers"))?;
    queue(tx, &matching(&rows, event.kind)?, event, "").await
}

async fn queue(
    tx: &mut Transaction,
    subscribers: &[(WebhookId, String)],
    event: &SandboxEvent,
    sandbox: &str,
) -> Result<SubscriberFound, StoreError> {
    let Some((_, workspace)) = subscribers.first() else { return Ok(SubscriberFound::Nothing) };
    let event_id = EventId::random();
    let sequence = next_sequence(tx, workspace).await?;
    let body = render(sandbox, workspace, (event_id, sequence), event);
    let cause = trace::here().map(|here| here.trace().to_string());
    for (webhook, workspace) in subscribers {
        if is_full(tx, *webhook, event.kind).await? {
            count_dropped(tx, *webhook).await?;
            continue;
        }
        let sql = "INSERT INTO webhook_delivery (id, webhook, workspace, event_id, kind, sequence, body, status, tries,
                       next_at, created_at, attempts, cause) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', 0, ?, ?, '[]', ?)";
        query(sql)
            .bind(DeliveryId::random().to_string())
            .bind(webhook.to_string())
            .bind(workspace)
            .bind(event_id.to_string())
            .bind(event.kind.as_str())
            .bind(sequence)
            .bind(&body)
            .bind(to_sql(event.at_ns))
            .bind(to_sql(event.at_ns))
            .bind(&cause)
            .execute(&mut *tx)
            .await
            .map_err(failed("queue a delivery"))?;
    }
    Ok(SubscriberFound::Some)
}

async fn subscribers(
    on: impl Into<Target<'_>>,
    id: SandboxId,
    kind: EventKind,
) -> Result<Vec<(WebhookId, String)>, StoreError> {
    if kind.audience() == EventAudience::Stream {
        return Ok(Vec::new());
    }
    let sql = "SELECT webhook.id, webhook.workspace, webhook.events FROM webhook
               JOIN sandbox ON sandbox.workspace = webhook.workspace WHERE sandbox.id = ? AND webhook.enabled";
    let rows = query(sql).bind(id.to_string()).fetch_all(on).await.map_err(failed("find subscribers"))?;
    matching(&rows, kind)
}

/// Returns the webhooks that subscribed to a kind of event.
fn matching(rows: &[DatabaseRow], kind: EventKind) -> Result<Vec<(WebhookId, String)>, StoreError> {
    let mut found = Vec::new();
    for row in rows {
        let id: String = column(row, "id")?;
        let patterns = read_patterns(row, &id)?;
        if patterns.iter().any(|pattern| pattern.matches(kind.as_str())) {
            let webhook = id.parse().map_err(|_| StoreError::Corrupt { id, field: "id" })?;
            found.push((webhook, column(row, "workspace")?));
        }
    }
    Ok(found)
}

/// Reads the patterns of a row. A pattern that this version does not know is ignored.
pub(super) fn read_patterns(row: &DatabaseRow, id: &str) -> Result<Vec<EventPattern>, StoreError> {
    let text: String = column(row, "events")?;
    let list: Vec<String> =
        serde_json::from_str(&text).map_err(|_| StoreError::Corrupt { id: id.to_owned(), field: "events" })?;
    Ok(list.iter().filter_map(|text| text.parse().ok()).collect())
}

async fn next_sequence(tx: &mut Transaction, workspace: &str) -> Result<i64, StoreError> {
    let sql = "INSERT INTO webhook_sequence (workspace, last) VALUES (?, 1)
               ON CONFLICT (workspace) DO UPDATE SET last = webhook_sequence.last + 1 RETURNING last";
    let row = query(sql).bind(workspace).fetch_one(tx).await.map_err(failed("number an event"))?;
    row.try_get("last").map_err(failed("number an event"))
}

async fn is_full(tx: &mut Transaction, webhook: WebhookId, kind: EventKind) -> Result<bool, StoreError> {
    let waiting: i64 = query_scalar("SELECT COUNT(*) FROM webhook_delivery WHERE webhook = ? AND status = 'pending'")
        .bind(webhook.to_string())
        .fetch_one(tx)
        .await
        .map_err(failed("count deliveries"))?;
    // A guest can cause this kind of event as often as it wants.
    let most = if kind == EventKind::EgressDenied { WEBHOOK_NOISE_PENDING_MAX } else { WEBHOOK_PENDING_MAX };
    Ok(from_sql(waiting) >= most)
}

async fn count_dropped(tx: &mut Transaction, webhook: WebhookId) -> Result<(), StoreError> {
    query("UPDATE webhook SET dropped = dropped + 1 WHERE id = ?")
        .bind(webhook.to_string())
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("count a dropped event"))
}

/// Renders the body once for all receivers and all tries, so that a repeat is identical.
fn render(sandbox: &str, workspace: &str, (event_id, sequence): (EventId, i64), event: &SandboxEvent) -> String {
    let body = WebhookEvent {
        id: event_id.to_string(),
        sequence: from_sql(sequence),
        workspace: workspace.to_owned(),
        event: event.clone().render(sandbox),
    };
    serde_json::to_string(&body).expect("texts, numbers and maps of them are always JSON")
}
