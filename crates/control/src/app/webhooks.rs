//! Creates, changes and deletes webhooks, and rotates their secrets.

use std::time::Duration;

use pandastack_kit::{Secret, random_bytes};
use pandastack_model::{Fault, FaultKind, WebhookId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{ChangeWebhook, CreateWebhook, checked_description, checked_events};

use crate::{
    Control,
    hooks::HttpTarget,
    limits::WEBHOOKS_PER_WORKSPACE_MAX,
    store::{ResourceKind, WebhookAdded, WebhookRow, WebhookSecret},
};

impl Control {
    /// Creates a webhook.
    pub(crate) async fn subscribe(&self, caller: &Caller, ask: CreateWebhook) -> Result<WebhookRow, Fault> {
        let CreateWebhook { url, events, description, enabled } = ask;
        let now_ns = self.clock.now_ns();
        let webhook = WebhookRow {
            id: WebhookId::random(),
            workspace: caller.workspace.clone(),
            url: HttpTarget::parse(&url, self.webhooks.sender.reach())?.as_str().to_owned(),
            events: checked_events(events)?,
            description: checked_description(description.unwrap_or_default())?,
            enabled: enabled.unwrap_or(true),
            disabled_reason: None,
            secret: fresh_secret(),
            old_secret: None,
            failing_since_ns: None,
            dropped: 0,
            created_at_ns: now_ns,
            updated_at_ns: now_ns,
        };
        self.note_made(caller, ResourceKind::Webhook, &[webhook.id.to_string()]).await?;
        match self.store.add_webhook(&webhook, WEBHOOKS_PER_WORKSPACE_MAX).await? {
            WebhookAdded::Yes => Ok(webhook),
            WebhookAdded::Full => {
                let text = format!("a workspace has at most {WEBHOOKS_PER_WORKSPACE_MAX} webhooks; delete one first");
                Err(Fault::new(FaultKind::Quota, "quota.webhooks", text))
            }
        }
    }

    /// Finds a webhook of the caller.
    pub(crate) async fn webhook(&self, caller: &Caller, id: WebhookId) -> Result<WebhookRow, Fault> {
        self.store.find_webhook(&caller.workspace, id).await?.ok_or_else(no_webhook)
    }

    /// Changes a webhook of the caller. A new address or enabling it resets its failures.
    pub(crate) async fn change_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
        ask: ChangeWebhook,
    ) -> Result<WebhookRow, Fault> {
        let mut webhook = self.webhook(caller, id).await?;
        let ChangeWebhook { url, events, description, enabled } = ask;
        if let Some(url) = url {
            let url = HttpTarget::parse(&url, self.webhooks.sender.reach())?.as_str().to_owned();
            if url != webhook.url {
                (webhook.url, webhook.failing_since_ns) = (url, None);
            }
        }
        if let Some(events) = events {
            webhook.events = checked_events(events)?;
        }
        if let Some(description) = description {
            webhook.description = checked_description(description)?;
        }
        if let Some(enabled) = enabled {
            if enabled && !webhook.enabled {
                webhook.failing_since_ns = None;
            }
            (webhook.enabled, webhook.disabled_reason) = (enabled, None);
        }
        webhook.updated_at_ns = self.clock.now_ns();
        self.store.change_webhook(&webhook).await?;
        Ok(webhook)
    }

    /// Gives a webhook of the caller a new secret. The old one also signs during the grace period.
    pub(crate) async fn rotate_secret(
        &self,
        caller: &Caller,
        id: WebhookId,
        grace: Duration,
    ) -> Result<WebhookRow, Fault> {
        self.webhook(caller, id).await?;
        let now_ns = self.clock.now_ns();
        let until_ns = now_ns.saturating_add(u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX));
        self.store.rotate_webhook(id, &fresh_secret(), (until_ns, now_ns)).await?;
        self.webhook(caller, id).await
    }

    /// Deletes a webhook of the caller and its deliveries.
    pub(crate) async fn unsubscribe(&self, caller: &Caller, id: WebhookId) -> Result<(), Fault> {
        match self.store.drop_webhook(&caller.workspace, id).await? {
            true => Ok(()),
            false => Err(no_webhook()),
        }
    }
}

/// The fault for a webhook that does not exist or belongs to another workspace.
pub(crate) fn no_webhook() -> Fault {
    Fault::new(FaultKind::Missing, "webhook.not_found", "webhook not found")
}

fn fresh_secret() -> WebhookSecret {
    Secret::new(random_bytes())
}
