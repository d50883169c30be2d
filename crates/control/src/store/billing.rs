//! Who pays for a workspace: customer, subscription, budget, and why a workspace is held.

use pandastack_billing::{CalendarWindow, StripeEvent, Subscription, UtcHour, calendar::HOUR_NS, stripe::StripePrices};
use pandastack_database::{Transaction, query, query_as, query_scalar};
use pandastack_wire_fleet::WorkspaceId;
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, failed, from_sql, outbox::post_in, to_sql};
use crate::events::SandboxEvent;

/// A budget as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBudget {
    pub monthly_micros: u64,
    pub alert_percent: u8,
    pub hard_cap: bool,
}

/// The account of a workspace. The default has no customer and no budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BillingAccount {
    /// Stripe's id of the customer.
    pub customer: Option<String>,
    pub subscription: Subscription,
    pub budget: Option<StoredBudget>,
    /// The last hour whose usage is in a meter event. `None` if there is no account.
    pub enqueued: Option<UtcHour>,
    /// The month of the last alert, and the states for which there was one.
    pub alerted: String,
}

/// Why nothing new may start in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceHold {
    /// Stable code. Empty if there is no hold.
    pub code: String,
    pub reason: String,
}

/// What became of an event of Stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeEventEffect {
    Applied,
    /// It was applied before.
    Repeated,
    /// It names no workspace of this server.
    Unknown,
}

impl Store {
    /// Returns the account of a workspace.
    pub async fn billing_account(&self, workspace: &WorkspaceId) -> Result<BillingAccount, StoreError> {
        let sql = "SELECT customer, subscription, budget, enqueued_hour, alerted FROM billing_account
                   WHERE workspace = ?";
        let found: Option<AccountColumns> = query_as(sql)
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a billing account"))?;
        found.map_or_else(|| Ok(BillingAccount::default()), |row| read(&workspace.0, row))
    }

    /// Lists the workspaces that have an account.
    pub async fn billed_workspaces(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let rows: Vec<String> = query_scalar("SELECT workspace FROM billing_account ORDER BY workspace")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list billing accounts"))?;
        Ok(rows.into_iter().map(WorkspaceId).collect())
    }

    /// Stores the customer of a workspace, unless it has one. Returns the customer that counts.
    pub async fn put_customer(
        &self,
        workspace: &WorkspaceId,
        customer: &str,
        now_ns: u64,
    ) -> Result<String, StoreError> {
        let mut tx = self.begin_in(workspace, "begin a customer").await?;
        open_account(&mut tx, workspace, now_ns).await?;
        query("UPDATE billing_account SET customer = ? WHERE workspace = ? AND customer = ''")
            .bind(customer)
            .bind(&workspace.0)
            .execute(&mut tx)
            .await
            .map_err(failed("store a customer"))?;
        let kept: String = query_scalar("SELECT customer FROM billing_account WHERE workspace = ?")
            .bind(&workspace.0)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("find a customer"))?;
        tx.commit().await.map_err(failed("commit a customer"))?;
        Ok(kept)
    }

    /// Sets or removes the budget of a workspace.
    pub async fn put_budget(
        &self,
        workspace: &WorkspaceId,
        budget: Option<&StoredBudget>,
        now_ns: u64,
    ) -> Result<(), StoreError> {
        let text = budget.map(|budget| serde_json::to_string(budget).expect("a budget is always JSON"));
        let mut tx = self.begin_in(workspace, "begin a budget").await?;
        open_account(&mut tx, workspace, now_ns).await?;
        // A changed budget has alerts of its own.
        let sql = "UPDATE billing_account SET budget = ?1, alerted = CASE WHEN budget = ?1 THEN alerted ELSE '' END
                   WHERE workspace = ?2";
        query(sql)
            .bind(text.unwrap_or_default())
            .bind(&workspace.0)
            .execute(&mut tx)
            .await
            .map_err(failed("store a budget"))?;
        tx.commit().await.map_err(failed("commit a budget"))
    }

    /// Queues an alert for webhooks, once for each month and state. Returns false if it was queued
    /// before.
    pub async fn alert_budget(
        &self,
        workspace: &WorkspaceId,
        (month, state): (&str, &str),
        event: &SandboxEvent,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin_in(workspace, "begin a budget alert").await?;
        open_account(&mut tx, workspace, event.at_ns).await?;
        let alerted: String = query_scalar("SELECT alerted FROM billing_account WHERE workspace = ?")
            .bind(&workspace.0)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("find budget alerts"))?;
        let Some(alerted) = with_alert(&alerted, month, state) else { return Ok(false) };
        query("UPDATE billing_account SET alerted = ? WHERE workspace = ?")
            .bind(alerted)
            .bind(&workspace.0)
            .execute(&mut tx)
            .await
            .map_err(failed("record a budget alert"))?;
        let posted = post_in(&mut tx, workspace, event).await?;
        tx.commit().await.map_err(failed("commit a budget alert"))?;
        self.wake(posted);
        Ok(true)
    }

    /// Returns why nothing new may start in a workspace.
    pub async fn workspace_hold(&self, workspace: &WorkspaceId) -> Result<WorkspaceHold, StoreError> {
        let found: Option<(String, String)> = query_as("SELECT hold, hold_reason FROM workspace WHERE id = ?")
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find the hold of a workspace"))?;
        Ok(found.map(|(code, reason)| WorkspaceHold { code, reason }).unwrap_or_default())
    }

    /// Lists the workspaces in which nothing new may start.
    pub async fn held_workspaces(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let rows: Vec<String> = query_scalar("SELECT id FROM workspace WHERE hold <> '' ORDER BY id")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list held workspaces"))?;
        Ok(rows.into_iter().map(WorkspaceId).collect())
    }

    /// Changes the hold of a workspace. Returns false if it was the same before.
    pub async fn put_hold(&self, workspace: &WorkspaceId, hold: &WorkspaceHold) -> Result<bool, StoreError> {
        let sql = "UPDATE workspace SET hold = ?1, hold_reason = ?2
                   WHERE id = ?3 AND (hold <> ?1 OR hold_reason <> ?2)";
        let changed = query(sql)
            .bind(&hold.code)
            .bind(&hold.reason)
            .bind(&workspace.0)
            .execute(&self.database)
            .await
            .map_err(failed("hold a workspace"))?;
        Ok(changed > 0)
    }

    /// Applies an event of Stripe once.
    pub async fn apply_stripe_event(
        &self,
        event: &StripeEvent,
        prices: &StripePrices,
        now_ns: u64,
    ) -> Result<StripeEventEffect, StoreError> {
        let Some(workspace) = self.payer(event).await? else { return Ok(StripeEventEffect::Unknown) };
        let mut tx = self.begin_in(&workspace, "begin an event of Stripe").await?;
        let sql = "INSERT INTO processed_stripe_events (id, processed_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING";
        let new = query(sql).bind(&event.id).bind(to_sql(now_ns)).execute(&mut tx).await;
        if new.map_err(failed("record an event of Stripe"))? == 0 {
            return Ok(StripeEventEffect::Repeated);
        }
        open_account(&mut tx, &workspace, now_ns).await?;
        let sql = "SELECT customer, subscription, budget, enqueued_hour, alerted FROM billing_account
                   WHERE workspace = ?";
        let row: AccountColumns =
            query_as(sql).bind(&workspace.0).fetch_one(&mut tx).await.map_err(failed("find a billing account"))?;
        let account = read(&workspace.0, row)?;
        let next = account.subscription.after(event, prices);
        if next != account.subscription {
            let customer = account.customer.or_else(|| next.customer.clone()).unwrap_or_default();
            let text = serde_json::to_string(&next).expect("a subscription is always JSON");
            query("UPDATE billing_account SET subscription = ?, customer = ? WHERE workspace = ?")
                .bind(text)
                .bind(customer)
                .bind(&workspace.0)
                .execute(&mut tx)
                .await
                .map_err(failed("store a subscription"))?;
        }
        tx.commit().await.map_err(failed("commit an event of Stripe"))?;
        Ok(StripeEventEffect::Applied)
    }

    /// Removes the ids of events of Stripe that were applied before a moment.
    pub async fn prune_stripe_events(&self, before_ns: u64) -> Result<(), StoreError> {
        query("DELETE FROM processed_stripe_events WHERE processed_at < ?")
            .bind(to_sql(before_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("remove old events of Stripe"))
    }

    /// Finds the workspace that an event of Stripe is about: by its customer, or by the org in its
    /// metadata.
    pub async fn payer(&self, event: &StripeEvent) -> Result<Option<WorkspaceId>, StoreError> {
        if let Some(customer) = event.customer().filter(|customer| !customer.is_empty()) {
            let found: Option<String> = query_scalar("SELECT workspace FROM billing_account WHERE customer = ?")
                .bind(customer)
                .fetch_optional(&self.database)
                .await
                .map_err(failed("find a customer's workspace"))?;
            if found.is_some() {
                return Ok(found.map(WorkspaceId));
            }
        }
        let Some(org) = event.org() else { return Ok(None) };
        let sql = "SELECT workspace FROM org WHERE id = ? AND NOT EXISTS (SELECT 1 FROM billing_account
                       WHERE billing_account.workspace = org.workspace AND customer <> '')";
        let found: Option<String> = query_scalar(sql)
            .bind(org)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find the workspace of an org"))?;
        Ok(found.map(WorkspaceId))
    }
}

/// Adds an alert to those of its month. `None` if there was one for this state.
fn with_alert(alerted: &str, month: &str, state: &str) -> Option<String> {
    let mut words = alerted.split_whitespace();
    if words.next() != Some(month) {
        return Some(format!("{month} {state}"));
    }
    words.all(|word| word != state).then(|| format!("{alerted} {state}"))
}

type AccountColumns = (String, String, String, i64, String);

/// Makes an account, if there is none. Usage counts from this hour on.
async fn open_account(tx: &mut Transaction, workspace: &WorkspaceId, now_ns: u64) -> Result<(), StoreError> {
    let sql = "INSERT INTO billing_account (workspace, customer, subscription, budget, enqueued_hour, alerted)
               VALUES (?, '', '', '', ?, '') ON CONFLICT (workspace) DO NOTHING";
    query(sql)
        .bind(&workspace.0)
        .bind(to_sql((UtcHour::of(now_ns).start_ns() / HOUR_NS).saturating_sub(1)))
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(failed("open a billing account"))
}

fn read(
    id: &str,
    (customer, subscription, budget, hour, alerted): AccountColumns,
) -> Result<BillingAccount, StoreError> {
    let corrupt = |field| StoreError::Corrupt { id: id.to_owned(), field };
    let subscription = match subscription.is_empty() {
        true => Subscription::default(),
        false => serde_json::from_str(&subscription).map_err(|_| corrupt("subscription"))?,
    };
    let budget = match budget.is_empty() {
        true => None,
        false => Some(serde_json::from_str(&budget).map_err(|_| corrupt("budget"))?),
    };
    Ok(BillingAccount {
        customer: Some(customer).filter(|customer| !customer.is_empty()),
        subscription,
        budget,
        enqueued: Some(UtcHour::of(from_sql(hour).saturating_mul(HOUR_NS))),
        alerted,
    })
}
