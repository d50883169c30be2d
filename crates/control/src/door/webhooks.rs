//! Webhooks: subscribe, list, get, change, delete, rotate the secret, ping.

use std::time::Duration;

use axum::{
    Json,
    body::Body,
    extract::{FromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
};
use pandastack_door::http::{Answer, Refused, json_body, optional_json_body};
use pandastack_model::{Fault, WebhookId};
use pandastack_wire_public::{ChangeWebhook, CreateWebhook, DeliveryAttempt, Ping, RotateSecret, Webhook, rfc3339};

use super::caller::Authenticated;
use crate::{Control, app::no_webhook, hooks::secret_text, store};

/// The `{webhook}` of a route. Text that is not an id matches no webhook.
pub struct WebhookPath(pub WebhookId);

impl<S: Send + Sync> FromRequestParts<S> for WebhookPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let id = path.ok().and_then(|Path(id)| id.parse().ok());
        id.map(Self).ok_or_else(|| no_webhook().into())
    }
}

/// Subscribes a URL. Only this answer and that of a rotation show the secret.
pub async fn create(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    body: Body,
) -> Answer<(StatusCode, Json<Webhook>)> {
    let made = control.subscribe(&caller, json_body::<CreateWebhook>(body).await?).await?;
    Ok((StatusCode::CREATED, Json(render_with_secret(made))))
}

/// Lists the caller's webhooks, newest first.
pub async fn list(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Vec<Webhook>>> {
    let found = control.store.list_webhooks(&caller.workspace).await.map_err(Fault::from)?;
    Ok(Json(found.into_iter().map(render).collect()))
}

/// Shows one webhook.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    WebhookPath(id): WebhookPath,
) -> Answer<Json<Webhook>> {
    Ok(Json(render(control.webhook(&caller, id).await?)))
}

/// Changes a webhook.
pub async fn change(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    WebhookPath(id): WebhookPath,
    body: Body,
) -> Answer<Json<Webhook>> {
    let ask = json_body::<ChangeWebhook>(body).await?;
    Ok(Json(render(control.change_webhook(&caller, id, ask).await?)))
}

/// Deletes a webhook.
pub async fn delete(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    WebhookPath(id): WebhookPath,
) -> Answer<StatusCode> {
    control.unsubscribe(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a new secret and shows it.
pub async fn rotate(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    WebhookPath(id): WebhookPath,
    body: Body,
) -> Answer<Json<Webhook>> {
    let grace = optional_json_body::<RotateSecret>(body).await?.grace_seconds()?;
    Ok(Json(render_with_secret(control.rotate_secret(&caller, id, Duration::from_secs(grace)).await?)))
}

/// Sends a test event and returns the receiver's answer.
pub async fn ping(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    WebhookPath(id): WebhookPath,
) -> Answer<Json<Ping>> {
    let (event, attempt) = control.ping(&caller, id).await?;
    Ok(Json(Ping { delivered: attempt.error.is_none(), event_id: event.to_string(), attempt: render_attempt(attempt) }))
}

pub(super) fn render_attempt(attempt: store::TryRow) -> DeliveryAttempt {
    let store::TryRow { at_ns, took_ms, status, error, answer } = attempt;
    DeliveryAttempt { at: rfc3339(at_ns), latency_ms: took_ms, status, error, answer }
}

fn render_with_secret(webhook: store::WebhookRow) -> Webhook {
    let secret = Some(secret_text(&webhook.secret));
    Webhook { secret, ..render(webhook) }
}

fn render(webhook: store::WebhookRow) -> Webhook {
    let store::WebhookRow { id, workspace: _, url, events, description, enabled, disabled_reason, .. } = webhook;
    Webhook {
        id: id.to_string(),
        url,
        events: events.iter().map(ToString::to_string).collect(),
        description,
        enabled,
        disabled_reason,
        created_at: rfc3339(webhook.created_at_ns),
        updated_at: rfc3339(webhook.updated_at_ns),
        failing_since: webhook.failing_since_ns.map(rfc3339),
        dropped: webhook.dropped,
        old_secret_expires_at: webhook.old_secret.map(|(_, until_ns)| rfc3339(until_ns)),
        secret: None,
    }
}
