//! Webhooks: their addresses, subscribed events and secrets.

use pandastack_database::{DatabaseRow, WriteLock, query, query_scalar};
use pandastack_kit::Secret;
use pandastack_model::WebhookId;
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::EventPattern;

use super::{Store, StoreError, failed, from_sql, intent::column, outbox::read_patterns, to_sql};

/// Bytes of a webhook's secret.
pub const WEBHOOK_SECRET_BYTES: usize = 32;

/// The secret that signs deliveries.
pub type WebhookSecret = Secret<[u8; WEBHOOK_SECRET_BYTES]>;

/// A webhook as it is stored.
#[derive(Clone)]
pub struct WebhookRow {
    pub id: WebhookId,
    pub workspace: WorkspaceId,
    pub url: String,
    pub events: Vec<EventPattern>,
    pub description: String,
    pub enabled: bool,
    pub disabled_reason: Option<String>,
    pub secret: WebhookSecret,
    /// The previous secret, and until when it also signs.
    pub old_secret: Option<(WebhookSecret, u64)>,
    pub failing_since_ns: Option<u64>,
    pub dropped: u64,
    pub created_at_ns: u64,
    pub updated_at_ns: u64,
}

/// Whether a webhook's row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookAdded {
    Yes,
    /// The workspace reached its limit.
    Full,
}

impl Store {
    /// Stores a new webhook.
    pub async fn add_webhook(&self, webhook: &WebhookRow, webhooks_max: u64) -> Result<WebhookAdded, StoreError> {
        let mut tx = self.begin_in(&webhook.workspace, "begin a webhook").await?;
        let held: i64 = query_scalar("SELECT COUNT(*) FROM webhook WHERE workspace = ?")
            .bind(&webhook.workspace.0)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("count webhooks"))?;
        if from_sql(held) >= webhooks_max {
            return Ok(WebhookAdded::Full);
        }
        let sql = "INSERT INTO webhook (id, workspace, url, events, description, enabled, secret, dropped, created_at,
                       updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?)";
        query(sql)
            .bind(webhook.id.to_string())
            .bind(&webhook.workspace.0)
            .bind(&webhook.url)
            .bind(patterns_to_sql(&webhook.events))
            .bind(&webhook.description)
            .bind(webhook.enabled)
            .bind(webhook.secret.reveal().to_vec())
            .bind(to_sql(webhook.created_at_ns))
            .bind(to_sql(webhook.updated_at_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("store a webhook"))?;
        tx.commit().await.map_err(failed("commit a webhook"))?;
        Ok(WebhookAdded::Yes)
    }

    /// Lists a workspace's webhooks, newest first.
    pub async fn list_webhooks(&self, workspace: &WorkspaceId) -> Result<Vec<WebhookRow>, StoreError> {
        let rows = query("SELECT * FROM webhook WHERE workspace = ? ORDER BY created_at DESC, id")
            .bind(&workspace.0)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list webhooks"))?;
        rows.iter().map(read).collect()
    }

    /// Finds one webhook of a workspace.
    pub async fn find_webhook(&self, workspace: &WorkspaceId, id: WebhookId) -> Result<Option<WebhookRow>, StoreError> {
        Ok(self.any_webhook(id).await?.filter(|webhook| webhook.workspace == *workspace))
    }

    /// Finds a webhook in any workspace, for a delivery.
    pub async fn any_webhook(&self, id: WebhookId) -> Result<Option<WebhookRow>, StoreError> {
        let row = query("SELECT * FROM webhook WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a webhook"))?;
        row.as_ref().map(read).transpose()
    }

    /// Stores a caller's changes. If the webhook is not failing, its pending deliveries become due
    /// at once.
    pub async fn change_webhook(&self, webhook: &WebhookRow) -> Result<(), StoreError> {
        let lock = webhook.id.to_string();
        let mut tx = self
            .database
            .begin_write(WriteLock::on("webhook", &lock))
            .await
            .map_err(failed("begin a webhook's change"))?;
        let sql = "UPDATE webhook SET url = ?, events = ?, description = ?, enabled = ?, disabled_reason = ?,
                       failing_since = ?, updated_at = ? WHERE id = ?";
        query(sql)
            .bind(&webhook.url)
            .bind(patterns_to_sql(&webhook.events))
            .bind(&webhook.description)
            .bind(webhook.enabled)
            .bind(&webhook.disabled_reason)
            .bind(webhook.failing_since_ns.map(to_sql))
            .bind(to_sql(webhook.updated_at_ns))
            .bind(webhook.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("change a webhook"))?;
        if webhook.failing_since_ns.is_some() {
            tx.commit().await.map_err(failed("commit a webhook's change"))?;
            return Ok(());
        }
        let due = "UPDATE webhook_delivery SET next_at = CASE WHEN next_at > ?1 THEN ?1 ELSE next_at END
                   WHERE webhook = ?2 AND status = 'pending'";
        query(due)
            .bind(to_sql(webhook.updated_at_ns))
            .bind(webhook.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("make a webhook's deliveries due"))?;
        tx.commit().await.map_err(failed("commit a webhook's change"))?;
        self.outbox.notify_one();
        Ok(())
    }

    /// Replaces the secret. The current one becomes the old one.
    pub async fn rotate_webhook(
        &self,
        id: WebhookId,
        fresh: &WebhookSecret,
        (until_ns, now_ns): (u64, u64),
    ) -> Result<(), StoreError> {
        let sql =
            "UPDATE webhook SET old_secret = secret, old_secret_until = ?, secret = ?, updated_at = ? WHERE id = ?";
        query(sql)
            .bind(to_sql(until_ns))
            .bind(fresh.reveal().to_vec())
            .bind(to_sql(now_ns))
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("rotate a secret"))
    }

    /// Deletes a webhook of a workspace with its deliveries. Returns false if there is none.
    pub async fn drop_webhook(&self, workspace: &WorkspaceId, id: WebhookId) -> Result<bool, StoreError> {
        let done = query("DELETE FROM webhook WHERE id = ? AND workspace = ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .execute(&self.database)
            .await
            .map_err(failed("delete a webhook"))?;
        Ok(done == 1)
    }
}

fn patterns_to_sql(patterns: &[EventPattern]) -> String {
    let list: Vec<_> = patterns.iter().map(ToString::to_string).collect();
    serde_json::to_string(&list).expect("a list of texts is always JSON")
}

fn read(row: &DatabaseRow) -> Result<WebhookRow, StoreError> {
    let id: String = column(row, "id")?;
    let corrupt = |field| StoreError::Corrupt { id: id.clone(), field };
    let secret = |bytes: Vec<u8>| bytes.try_into().map(Secret::new).map_err(|_| corrupt("secret"));
    let time = |name| column::<Option<i64>>(row, name).map(|time| time.map(from_sql));
    let old: Option<Vec<u8>> = column(row, "old_secret")?;
    let old = old.map(secret).transpose()?;
    Ok(WebhookRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        workspace: WorkspaceId(column(row, "workspace")?),
        url: column(row, "url")?,
        events: read_patterns(row, &id)?,
        description: column(row, "description")?,
        enabled: column(row, "enabled")?,
        disabled_reason: column(row, "disabled_reason")?,
        secret: secret(column(row, "secret")?)?,
        old_secret: old.zip(time("old_secret_until")?),
        failing_since_ns: time("failing_since")?,
        dropped: column(row, "dropped").map(from_sql)?,
        created_at_ns: column(row, "created_at").map(from_sql)?,
        updated_at_ns: column(row, "updated_at").map(from_sql)?,
    })
}
