//! Delivers events: makes one try and records the result, retries on request, and sends pings.

use std::time::Instant;

use hyper::header::HeaderValue;
use pandastack_kit::{random_bytes, trace};
use pandastack_model::{DeliveryId, EventId, Fault, FaultKind, WebhookId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{PING_KIND, rfc3339};
use serde_json::json;

use crate::{
    Control,
    hooks::{DeliveryInFlight, HttpTarget, WebhookRequest, WebhookResponse, signatures},
    limits::WEBHOOK_LOOK_EVERY,
    plan,
    store::{DeliveryRow, DeliveryStage, StoreError, TryRow, WebhookRow},
};

impl Control {
    /// Tries a delivery. It stays in the outbox until the result is recorded, so a crash leads to
    /// another try.
    pub(crate) async fn deliver(&self, id: DeliveryId, _flight: DeliveryInFlight) {
        match self.try_delivery(id).await {
            Ok(()) => {}
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(delivery = %id, %error, ?cause, "could not record a delivery attempt");
                // The delivery is still due. Without a pause it would be sent in a tight loop.
                self.scope.token().run_until_cancelled(tokio::time::sleep(WEBHOOK_LOOK_EVERY)).await;
            }
        }
    }

    async fn try_delivery(&self, id: DeliveryId) -> Result<(), StoreError> {
        // Another flight may have delivered it and recorded the result after this one was listed
        // and before it started.
        let Some(delivery) = self.store.due_delivery(id, self.clock.now_ns()).await? else { return Ok(()) };
        let Some(webhook) = self.store.any_webhook(delivery.webhook).await? else { return Ok(()) };
        let send = self.attempt(&webhook, delivery.event_id, &delivery.body, delivery.cause.as_deref());
        // Interrupted by a shutdown: the next start tries again.
        let Some(attempt) = self.scope.token().run_until_cancelled(send).await else { return Ok(()) };
        let [one, two] = random_bytes();
        let verdict = plan::after(plan::DeliveryTry {
            delivered: attempt.error.is_none(),
            status: attempt.status,
            tries: delivery.tries,
            failing_since_ns: webhook.failing_since_ns,
            now_ns: self.clock.now_ns(),
            dice: u16::from_be_bytes([one, two]),
        });
        if let Some(reason) = &verdict.disable {
            tracing::info!(webhook = %webhook.id, %reason, "webhook disabled");
        }
        self.store.record_attempt(&delivery, attempt, &verdict).await
    }

    /// Sends one event once.
    async fn attempt(&self, webhook: &WebhookRow, id: EventId, body: &str, cause: Option<&str>) -> TryRow {
        let (at_ns, started) = (self.clock.now_ns(), Instant::now());
        let WebhookResponse { status, error, answer } =
            match HttpTarget::parse(&webhook.url, self.webhooks.sender.reach()) {
                Ok(target) => {
                    let letter = WebhookRequest {
                        target: &target,
                        id: id.to_string(),
                        seconds: at_ns / 1_000_000_000,
                        signatures: signatures(webhook, id, at_ns, body),
                        body,
                        cause: cause.and_then(|cause| HeaderValue::from_str(cause).ok()),
                    };
                    self.webhooks.sender.send(letter).await
                }
                // The operator may have restricted the allowed addresses since.
                Err(fault) => WebhookResponse { error: Some(fault.text), ..WebhookResponse::default() },
            };
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        TryRow { at_ns, took_ms, status, error, answer }
    }

    /// Sends a test event at once, even if the webhook is disabled or did not subscribe to it. The
    /// result is not stored.
    pub(crate) async fn ping(&self, caller: &Caller, id: WebhookId) -> Result<(EventId, TryRow), Fault> {
        let webhook = self.webhook(caller, id).await?;
        let place = (webhook.id, DeliveryId::random());
        let flight = self.webhooks.flights.start(self.store.outbox(), &caller.workspace, place).ok_or_else(|| {
            let text = "too many deliveries are in progress; try again later";
            Fault::new(FaultKind::Busy, "webhook.busy", text)
        })?;
        let (event, control) = (EventId::random(), self.clone());
        let time = rfc3339(self.clock.now_ns());
        let payload = json!({ "webhook_id": webhook.id.to_string() });
        let body = json!({
            "id": event.to_string(), "sequence": 0, "workspace": webhook.workspace.0, "type": PING_KIND,
            "time": time, "ts": time, "sandbox_id": "", "payload": payload, "metadata": payload,
        });
        let send = async move {
            let cause = trace::here().map(|here| here.trace().to_string());
            let attempt = control.attempt(&webhook, event, &body.to_string(), cause.as_deref()).await;
            drop(flight);
            attempt
        };
        let attempt = self.scope.run("ping webhook", send).await.map_err(Fault::bug)?;
        Ok((event, attempt))
    }

    /// Finds a delivery of the caller.
    pub(crate) async fn delivery(&self, caller: &Caller, id: DeliveryId) -> Result<DeliveryRow, Fault> {
        self.store.find_delivery(&caller.workspace, id).await?.ok_or_else(no_delivery)
    }

    /// Delivers again, whatever the earlier result. A pending delivery becomes due at once.
    pub(crate) async fn replay(&self, caller: &Caller, id: DeliveryId) -> Result<DeliveryRow, Fault> {
        let delivery = self.delivery(caller, id).await?;
        let webhook = self.webhook(caller, delivery.webhook).await?;
        if !webhook.enabled {
            let text = "the webhook is disabled; enable it first";
            return Err(Fault::new(FaultKind::Conflict, "webhook.disabled", text));
        }
        let now_ns = self.clock.now_ns();
        self.store.requeue(id, now_ns).await?;
        Ok(DeliveryRow {
            stage: DeliveryStage::Pending,
            tries: 0,
            next_at_ns: now_ns,
            finished_at_ns: None,
            ..delivery
        })
    }
}

/// The fault for a delivery that does not exist or belongs to another workspace.
pub(crate) fn no_delivery() -> Fault {
    Fault::new(FaultKind::Missing, "delivery.not_found", "delivery not found; only the most recent deliveries are kept")
}
