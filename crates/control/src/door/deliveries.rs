//! Deliveries of webhooks: history, dead letters and replay.

use axum::{
    Json,
    extract::{FromRequestParts, Path, State},
    http::{StatusCode, Uri, request::Parts},
};
use pandastack_door::http::{Answer, Refused, query_value};
use pandastack_model::{DeliveryId, Fault, FaultKind, WebhookId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{Delivery, rfc3339};

use super::{
    caller::Authenticated,
    webhooks::{WebhookPath, render_attempt},
};
use crate::{
    Control,
    app::no_delivery,
    limits::{WEBHOOK_LIST_DEFAULT, WEBHOOK_LIST_MAX},
    store::{self, DeliveryFilter, DeliveryStage},
};

/// The `{delivery}` of a route.
pub struct DeliveryPath(pub DeliveryId);

impl<S: Send + Sync> FromRequestParts<S> for DeliveryPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let id = path.ok().and_then(|Path(id)| id.parse().ok());
        id.map(Self).ok_or_else(|| no_delivery().into())
    }
}

/// Lists a webhook's deliveries, newest first. `status` selects those of one status.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    WebhookPath(id): WebhookPath,
    uri: Uri,
) -> Answer<Json<Vec<Delivery>>> {
    control.webhook(&caller, id).await?;
    let shown = shown(query_value(&uri, "status").as_deref())?;
    Ok(Json(found(&control, &caller, Some(id), shown, &uri).await?))
}

/// Lists the dead letters of all the caller's webhooks, newest first.
pub async fn dead(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<Vec<Delivery>>> {
    Ok(Json(found(&control, &caller, None, DeliveryFilter::Dead, &uri).await?))
}

/// Shows one delivery.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DeliveryPath(id): DeliveryPath,
) -> Answer<Json<Delivery>> {
    Ok(Json(render(control.delivery(&caller, id).await?)))
}

/// Delivers again.
pub async fn replay(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DeliveryPath(id): DeliveryPath,
) -> Answer<(StatusCode, Json<Delivery>)> {
    Ok((StatusCode::ACCEPTED, Json(render(control.replay(&caller, id).await?))))
}

async fn found(
    control: &Control,
    caller: &Caller,
    webhook: Option<WebhookId>,
    shown: DeliveryFilter,
    uri: &Uri,
) -> Result<Vec<Delivery>, Fault> {
    let count = query_value(uri, "limit").map_or(Ok(WEBHOOK_LIST_DEFAULT), |text| {
        let refused = || bad(format!("limit must be 1 to {WEBHOOK_LIST_MAX}"));
        text.parse().ok().filter(|count| (1..=WEBHOOK_LIST_MAX).contains(count)).ok_or_else(refused)
    })?;
    let found = control.store.list_deliveries(&caller.workspace, webhook, shown, count).await?;
    Ok(found.into_iter().map(render).collect())
}

fn shown(text: Option<&str>) -> Result<DeliveryFilter, Fault> {
    match text {
        None | Some("") => Ok(DeliveryFilter::All),
        Some("pending") => Ok(DeliveryFilter::Fresh),
        Some("failed") => Ok(DeliveryFilter::Failed),
        Some("delivered") => Ok(DeliveryFilter::Delivered),
        Some("dead") => Ok(DeliveryFilter::Dead),
        Some(_) => Err(bad("status must be pending, failed, delivered or dead")),
    }
}

fn bad(text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Caller, "webhook.bad_query", text)
}

fn render(delivery: store::DeliveryRow) -> Delivery {
    let store::DeliveryRow { id, webhook, event_id, kind, sequence, body, stage, tries, .. } = delivery;
    let status = match stage {
        DeliveryStage::Pending if tries == 0 => "pending",
        DeliveryStage::Pending => "failed",
        DeliveryStage::Delivered => "delivered",
        DeliveryStage::Dead => "dead",
    };
    Delivery {
        id: id.to_string(),
        webhook_id: webhook.to_string(),
        event_id: event_id.to_string(),
        kind,
        sequence,
        status: status.to_owned(),
        created_at: rfc3339(delivery.created_at_ns),
        next_attempt_at: (stage == DeliveryStage::Pending).then(|| rfc3339(delivery.next_at_ns)),
        finished_at: delivery.finished_at_ns.map(rfc3339),
        attempts: delivery.attempts.into_iter().map(render_attempt).collect(),
        event: serde_json::from_str(&body).unwrap_or_default(),
    }
}
