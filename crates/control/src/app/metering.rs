//! Reads usage from the host, counts it, and posts it to Stripe. Every step can be repeated: a
//! crash between two steps bills nothing twice and loses nothing.

use futures_util::stream::{self, StreamExt};
use pandastack_billing::{
    BeforePosting, BudgetState, CalendarWindow, FactKind, PostingPlan, Standing, StripeClient, UsageFact, UtcHour,
    UtcMonth,
    calendar::{HOUR_NS, SECOND_NS},
    check_standing,
    limits::METER_SETTLE,
    month_cost, next_meter_value,
    stripe::MeterEvent,
};
use pandastack_kit::random_bytes;
use pandastack_model::{EventKind, Fault, SandboxState};
use pandastack_wire_fleet::{Caller, MachineEvent, MachineFact, WorkspaceId};
use serde_json::json;

use super::billing::{charged_from, standing_of};
use crate::{
    Control,
    events::SandboxEvent,
    limits::{
        CAP_SLEEPS_AT_ONCE, METER_CLAIM, METER_POSTS_MAX, STRIPE_EVENTS_KEPT, USAGE_COUNT_BATCH, USAGE_FACTS_BATCH,
        USAGE_KEPT,
    },
    store::{BillingAccount, ClaimParams, SandboxFact, WorkspaceHold},
    turns::HeldTask,
};

impl Control {
    /// Does one turn of the metering worker, and waits until the sandboxes of held workspaces
    /// sleep. The worker itself does not wait for them.
    pub async fn meter_usage(&self) -> Result<(), Fault> {
        self.meter_turn().await?;
        self.locks.held.idle().await;
        Ok(())
    }

    /// Does one turn of the metering worker: reads, counts, checks budgets, queues and posts.
    pub async fn meter_turn(&self) -> Result<(), Fault> {
        self.read_usage().await?;
        self.count_usage().await?;
        self.check_budgets().await?;
        if let Some(stripe) = &self.stripe {
            for workspace in self.store.billed_workspaces().await? {
                self.enqueue_usage(stripe, &workspace).await?;
            }
            self.post_usage(stripe, None).await?;
        }
        Ok(())
    }

    /// Removes what is older than it is kept.
    pub(crate) async fn prune_usage(&self) -> Result<(), Fault> {
        let before = |kept: std::time::Duration| self.clock.now_ns().saturating_sub(kept.as_nanos() as u64);
        self.store.prune_usage(before(USAGE_KEPT)).await?;
        self.store.prune_meter_events(before(USAGE_KEPT)).await?;
        Ok(self.store.prune_stripe_events(before(STRIPE_EVENTS_KEPT)).await?)
    }

    /// Reads the host's facts since the last read.
    pub(crate) async fn read_usage(&self) -> Result<(), Fault> {
        // The server with the host reads its facts.
        if !self.host.is_here() {
            return Ok(());
        }
        loop {
            let cursor = self.store.usage_cursor().await?;
            let page = self.host.usage_facts(&cursor, USAGE_FACTS_BATCH).await?;
            let facts: Vec<SandboxFact> =
                page.facts.into_iter().map(|fact| (fact.sandbox, usage_fact(&fact))).collect();
            self.store.store_facts(&facts, &page.cursor, self.clock.now_ns()).await?;
            if !page.more || page.cursor == cursor {
                return Ok(());
            }
        }
    }

    /// Counts everything that is due.
    pub(crate) async fn count_usage(&self) -> Result<(), Fault> {
        let now_ns = self.clock.now_ns();
        while self.store.count_usage(now_ns).await? as u64 == USAGE_COUNT_BATCH {}
        Ok(())
    }

    /// Holds the workspaces that may not start anything, releases others, and sends alerts.
    async fn check_budgets(&self) -> Result<(), Fault> {
        let month = UtcMonth::of(self.clock.now_ns());
        let mut workspaces = self.store.workspaces_with_usage(month.start_ns()).await?;
        workspaces.extend(self.store.held_workspaces().await?);
        workspaces.extend(self.store.billed_workspaces().await?);
        workspaces.sort();
        workspaces.dedup();
        for workspace in workspaces {
            self.check_budget(&workspace).await?;
        }
        Ok(())
    }

    /// Holds or releases a workspace by its budget and its subscription.
    pub(crate) async fn check_budget(&self, workspace: &WorkspaceId) -> Result<(), Fault> {
        let account = self.store.billing_account(workspace).await?;
        let (state, cost) = self.budget_of(workspace, &account).await?;
        let standing = standing_of(&account, self.clock.now_ns());
        let hold = match check_standing(standing, state) {
            Ok(()) => WorkspaceHold::default(),
            Err(refusal) => WorkspaceHold { code: refusal.rule.code().to_owned(), reason: refusal.message },
        };
        let is_held = !hold.code.is_empty();
        self.store.put_hold(workspace, &hold).await?;
        self.alert(workspace, state, &cost.to_string()).await?;
        if is_held {
            self.put_all_to_sleep(workspace);
        }
        Ok(())
    }

    async fn alert(&self, workspace: &WorkspaceId, state: BudgetState, cost: &str) -> Result<(), Fault> {
        let month = UtcMonth::of(self.clock.now_ns());
        let (kind, word, payload) = match state {
            BudgetState::Ok => return Ok(()),
            BudgetState::Alert { percent } if percent < 100 => (
                EventKind::BudgetAlert,
                "alert",
                json!({"month": month.to_string(), "percent": percent, "cost_usd": cost}),
            ),
            BudgetState::Alert { .. } => {
                (EventKind::BudgetUsedUp, "over", json!({"month": month.to_string(), "cost_usd": cost}))
            }
            BudgetState::OverCap { cap } => {
                let payload = json!({"month": month.to_string(), "cost_usd": cost, "cap_usd": cap.to_string()});
                (EventKind::BudgetUsedUp, "cap", payload)
            }
        };
        let event = SandboxEvent::new(kind, self.clock.now_ns(), payload);
        if self.store.alert_budget(workspace, (&month.to_string(), word), &event).await?
            && let Err(fault) = self.mail_alert(workspace, state, cost).await
        {
            tracing::warn!(%fault, "could not mail an alert about a budget");
        }
        Ok(())
    }

    /// Stops what costs money in a workspace that may not cost more, in a task of its own: many
    /// sandboxes of one workspace must not delay the metering of others.
    fn put_all_to_sleep(&self, workspace: &WorkspaceId) {
        // The server with the host does it at its next turn.
        if !self.host.is_here() {
            return;
        }
        let Some(task) = self.locks.held.begin(workspace) else { return };
        let (control, token) = (self.clone(), self.scope.token());
        self.scope.start("hold a workspace", async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = control.sleep_through(&task) => {}
            }
        });
    }

    async fn sleep_through(&self, task: &HeldTask) {
        let Some(_turn) = task.turn().await else { return };
        let workspace = task.workspace();
        let running = match self.store.list(workspace).await {
            Ok(found) => found.into_iter(),
            Err(error) => {
                tracing::warn!(workspace = workspace.0, %error, "could not list the sandboxes of a held workspace");
                return;
            }
        };
        let running = running.filter(|intent| matches!(intent.state, SandboxState::Running | SandboxState::Paused));
        let caller = Caller::of(workspace.clone());
        stream::iter(running.map(|intent| intent.id))
            .for_each_concurrent(CAP_SLEEPS_AT_ONCE, async |id| {
                // The hold may have ended in between.
                match self.store.workspace_hold(workspace).await {
                    Ok(hold) if hold.code.is_empty() => return,
                    Ok(_) => {}
                    Err(error) => return tracing::warn!(%error, "could not find out whether a workspace is held"),
                }
                if let Err(fault) = self.sleep(&caller, id).await {
                    tracing::warn!(sandbox = %id, %fault, "could not hibernate a sandbox above its budget");
                }
            })
            .await;
    }

    /// Queues the usage of a workspace up to the last hour that is complete.
    pub(crate) async fn enqueue_usage(&self, stripe: &StripeClient, workspace: &WorkspaceId) -> Result<(), Fault> {
        let settled_ns = self.clock.now_ns().saturating_sub(METER_SETTLE.as_nanos() as u64);
        let Some(last_ns) = UtcHour::of(settled_ns).start_ns().checked_sub(HOUR_NS) else { return Ok(()) };
        let last = UtcHour::of(last_ns);
        loop {
            let account = self.store.billing_account(workspace).await?;
            let Some(enqueued) = account.enqueued.filter(|enqueued| *enqueued < last) else { return Ok(()) };
            // Each month has an event of its own for its end.
            let month = UtcMonth::of(enqueued.end_ns());
            let hour = last.min(UtcHour::of(month.end_ns() - 1));
            let event = self.event_of(stripe, (workspace, &account), (month, hour)).await?;
            let place = (enqueued, hour);
            if !self.store.enqueue_hour(workspace, place, event.as_ref()).await? {
                // Another server did it.
                return Ok(());
            }
        }
    }

    /// Returns the event with the month's cost up to an hour. `None` if there is nothing to charge.
    async fn event_of(
        &self,
        stripe: &StripeClient,
        (workspace, account): (&WorkspaceId, &BillingAccount),
        (month, hour): (UtcMonth, UtcHour),
    ) -> Result<Option<MeterEvent>, Fault> {
        let Some(customer) = &account.customer else { return Ok(None) };
        if standing_of(account, self.clock.now_ns()) == Standing::Free {
            return Ok(None);
        }
        let from_ns = charged_from(account, month);
        let used = self.store.usage_between(workspace, (from_ns, hour.end_ns())).await?;
        let plan = self.limits_of(workspace).await?.plan;
        let cost = month_cost(&self.settings.plans.get(plan).prices, &used, month);
        let value = next_meter_value(cost.net, self.store.enqueued_micros(workspace, month).await?);
        if value == 0 {
            return Ok(None);
        }
        let name = &stripe.settings().meter_event_name;
        MeterEvent::new(&workspace.0, name, customer, hour, value).map(Some).map_err(Fault::bug)
    }

    /// Posts the events that are due, those of one workspace or all. Returns how many were posted.
    pub(crate) async fn post_usage(&self, stripe: &StripeClient, of: Option<&WorkspaceId>) -> Result<u64, Fault> {
        let mut posted = 0;
        for _ in 0..METER_POSTS_MAX {
            let now_s = self.now_s();
            let ask = ClaimParams { workspace: of, now_s, until_s: now_s + METER_CLAIM.as_secs() };
            let Some(claimed) = self.store.claim_meter_event(ask).await? else { break };
            let (row, event) = (claimed.row, claimed.event);
            let unsure_since_s = row.unsure_since_s;
            let plan = match row.before(now_s) {
                BeforePosting::Post => {
                    let outcome = stripe.post_meter_event(&event, row.key_turn, now_s).await;
                    row.after(outcome, self.now_s(), u16::from_ne_bytes(random_bytes()))
                }
                BeforePosting::Wait { until_s } => PostingPlan::Later { next_try_s: until_s, unsure_since_s },
                BeforePosting::Dead(reason) => PostingPlan::Dead { reason, unsure_since_s },
            };
            match &plan {
                PostingPlan::Posted { .. } => posted += 1,
                PostingPlan::Again { reason, tries, .. } => {
                    tracing::warn!(event = event.identifier, %reason, tries, "could not post usage to Stripe yet");
                }
                PostingPlan::Dead { reason, .. } => {
                    tracing::error!(event = event.identifier, %reason, "usage is not posted to Stripe");
                }
                PostingPlan::Later { .. } => {}
            }
            self.store.settle_meter_event(&event.identifier, &plan).await?;
        }
        Ok(posted)
    }

    pub(crate) fn now_s(&self) -> u64 {
        self.clock.now_ns() / SECOND_NS
    }
}

/// Takes over a fact of a host.
pub fn usage_fact(fact: &MachineFact) -> UsageFact {
    UsageFact {
        epoch: fact.epoch,
        sequence: fact.sequence,
        kind: match fact.change {
            MachineEvent::Started => FactKind::Started,
            MachineEvent::Paused => FactKind::Paused,
            MachineEvent::Resumed => FactKind::Resumed,
            MachineEvent::Hibernated => FactKind::Hibernated,
            MachineEvent::Woken => FactKind::Woken,
            MachineEvent::Ended => FactKind::Ended,
        },
        vcpus: fact.vcpus.into(),
        memory_mib: fact.memory_mib,
        storage_bytes: fact.disk_bytes,
        at_ns: fact.at_ns,
        seen_ns: fact.seen_ns,
    }
}
