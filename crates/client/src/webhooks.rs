//! Webhooks and their deliveries.

use pandastack_wire_public::{ChangeWebhook, CreateWebhook, Delivery, Ping, RotateSecret, Webhook};
use reqwest::Method;

use crate::{Client, ClientError, client::ANSWER_MAX};

impl Client {
    /// Subscribes a URL to events. Only this response and that of a rotation contain the secret.
    pub async fn create_webhook(&self, ask: &CreateWebhook) -> Result<Webhook, ClientError> {
        self.json(self.request(Method::POST, &["webhooks"])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Lists webhooks, newest first.
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, ClientError> {
        self.json(self.request(Method::GET, &["webhooks"])?.timeout(ANSWER_MAX)).await
    }

    /// Shows one webhook.
    pub async fn get_webhook(&self, id: &str) -> Result<Webhook, ClientError> {
        self.json(self.request(Method::GET, &["webhooks", id])?.timeout(ANSWER_MAX)).await
    }

    /// Changes, enables or disables a webhook.
    pub async fn change_webhook(&self, id: &str, ask: &ChangeWebhook) -> Result<Webhook, ClientError> {
        self.json(self.request(Method::PATCH, &["webhooks", id])?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Deletes a webhook and its deliveries.
    pub async fn delete_webhook(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["webhooks", id])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Creates a new secret. The old one stays valid for a while.
    pub async fn rotate_webhook(&self, id: &str, ask: &RotateSecret) -> Result<Webhook, ClientError> {
        let path = ["webhooks", id, "rotate-secret"];
        self.json(self.request(Method::POST, &path)?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Sends a test event and returns the receiver's answer.
    pub async fn ping_webhook(&self, id: &str) -> Result<Ping, ClientError> {
        self.json(self.request(Method::POST, &["webhooks", id, "ping"])?.timeout(ANSWER_MAX)).await
    }

    /// Lists a webhook's deliveries, newest first; only those of one status if it is given.
    pub async fn deliveries(&self, id: &str, status: Option<&str>) -> Result<Vec<Delivery>, ClientError> {
        let values: Vec<_> = status.map(|status| ("status", status)).into_iter().collect();
        let path = ["webhooks", id, "deliveries"];
        self.json(self.query_request(Method::GET, &path, &values)?.timeout(ANSWER_MAX)).await
    }

    /// Lists the deliveries of all webhooks that are no longer retried, newest first.
    pub async fn dead_letters(&self) -> Result<Vec<Delivery>, ClientError> {
        self.json(self.request(Method::GET, &["webhooks", "dead-letters"])?.timeout(ANSWER_MAX)).await
    }

    /// Delivers an event again.
    pub async fn replay(&self, delivery: &str) -> Result<Delivery, ClientError> {
        let path = ["webhooks", "deliveries", delivery, "replay"];
        self.json(self.request(Method::POST, &path)?.timeout(ANSWER_MAX)).await
    }
}
