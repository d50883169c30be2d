//! Bills, usage reports, budgets, and what Stripe tells about subscriptions.

use pandastack_billing::{
    Budget, BudgetState, CalendarWindow, MonthCost, OveragePolicy, PicoDollars, PlanName, PlanPrices, Standing,
    StripeClient, StripeEvent, UsageTotals, UtcDay, UtcHour, UtcMonth, budget_state,
    calendar::SECOND_NS,
    limits::{GRACE_DEFAULT, WEBHOOK_EVENT_BYTES_MAX},
    month_cost,
    stripe::{BillingInterval, NewCheckout, NewCustomer, StripeCallError},
    stripe_events::verify_signature,
};
use pandastack_model::{Fault, FaultKind, Role};
use pandastack_wire_fleet::{CallerUser, FIRST_WORKSPACE, WorkspaceId};
use pandastack_wire_public::{BuyPlan, MeterFlush, WorkspaceBudget};

use crate::{
    Control,
    limits::{BUDGET_USD_MAX, USAGE_REPORT_DAYS_MAX, USAGE_REPORT_ROWS_MAX},
    store::{BillingAccount, MeterQueue, OrgRow, StoredBudget, StripeEventEffect, UsageSlice, UsageSplit},
};

/// What a workspace used and costs in this month.
#[derive(Clone, Debug)]
pub(crate) struct MonthBill {
    pub month: UtcMonth,
    pub plan: PlanName,
    pub prices: PlanPrices,
    pub used: UsageTotals,
    pub cost: MonthCost,
    /// The part of the cost that is charged.
    pub charged: PicoDollars,
    pub account: BillingAccount,
    pub standing: Standing,
    /// Code and text of the reason why nothing new may start.
    pub hold: Option<(String, String)>,
    pub queue: MeterQueue,
}

/// Usage in some days.
#[derive(Clone, Debug)]
pub(crate) struct DaysUsage {
    pub from: UtcDay,
    pub to: UtcDay,
    pub split: UsageSplit,
    pub rows: Vec<UsageSlice>,
    pub total: UsageTotals,
    pub prices: PlanPrices,
}

/// The days and the split that a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsageQuestion {
    pub split: UsageSplit,
    /// The first of this month by default.
    pub from: Option<UtcDay>,
    /// Today by default.
    pub to: Option<UtcDay>,
}

impl Control {
    /// Makes the bill of a workspace for this month.
    pub(crate) async fn bill(&self, workspace: &WorkspaceId) -> Result<MonthBill, Fault> {
        let now_ns = self.clock.now_ns();
        let month = UtcMonth::of(now_ns);
        let (limits, account) = (self.limits_of(workspace).await?, self.store.billing_account(workspace).await?);
        let prices = self.settings.plans.get(limits.plan).prices;
        let used = self.store.usage_between(workspace, (month.start_ns(), month.end_ns())).await?;
        let cost = month_cost(&prices, &used, month);
        let charged = self.charged(workspace, &account, &prices, month).await?;
        let hold = self.store.workspace_hold(workspace).await?;
        Ok(MonthBill {
            month,
            plan: limits.plan,
            prices,
            used,
            cost,
            charged,
            standing: standing_of(&account, now_ns),
            hold: Some((hold.code, hold.reason)).filter(|(code, _)| !code.is_empty()),
            queue: self.store.meter_queue(workspace).await?,
            account,
        })
    }

    /// Returns what is charged for a month: only usage since the subscription began.
    async fn charged(
        &self,
        workspace: &WorkspaceId,
        account: &BillingAccount,
        prices: &PlanPrices,
        month: UtcMonth,
    ) -> Result<PicoDollars, Fault> {
        let range = (charged_from(account, month), month.end_ns());
        let used = self.store.usage_between(workspace, range).await?;
        Ok(month_cost(prices, &used, month).net)
    }

    /// Tells how far a workspace has used its budget, and what it is charged in this month.
    pub(crate) async fn budget_of(
        &self,
        workspace: &WorkspaceId,
        account: &BillingAccount,
    ) -> Result<(BudgetState, PicoDollars), Fault> {
        let month = UtcMonth::of(self.clock.now_ns());
        let limits = self.limits_of(workspace).await?;
        let prices = self.settings.plans.get(limits.plan).prices;
        let used = self.store.usage_between(workspace, (month.start_ns(), month.end_ns())).await?;
        let cost = month_cost(&prices, &used, month);
        // The operator's own workspace has a budget only if it was given one.
        if workspace.0 == FIRST_WORKSPACE && !limits.is_given && account.budget.is_none() {
            return Ok((BudgetState::Ok, cost.net));
        }
        Ok((budget_state(&cost, &prices, account.budget.map(budget).as_ref()), cost.net))
    }

    /// Reports the usage of a workspace.
    pub(crate) async fn usage_report(&self, workspace: &WorkspaceId, asked: UsageQuestion) -> Result<DaysUsage, Fault> {
        let now_ns = self.clock.now_ns();
        let from = asked.from.unwrap_or_else(|| UtcDay::of(UtcMonth::of(now_ns).start_ns()));
        let to = asked.to.unwrap_or_else(|| UtcDay::of(now_ns));
        let days = to.number().saturating_sub(from.number()).saturating_add(1);
        if to < from || days > USAGE_REPORT_DAYS_MAX {
            let text = format!("a report has 1 to {USAGE_REPORT_DAYS_MAX} days; choose from and to accordingly");
            return Err(Fault::new(FaultKind::Caller, "usage.bad_range", text));
        }
        let range = (from.number(), to.number());
        let mut rows = self.store.usage_report(workspace, asked.split, range, USAGE_REPORT_ROWS_MAX).await?;
        if asked.split == UsageSplit::Day {
            for row in &mut rows {
                let day = row.key.parse().ok().and_then(UtcDay::numbered).ok_or_else(|| Fault::bug("no day"))?;
                row.key = day.to_string();
            }
            rows.sort_by(|one, other| one.key.cmp(&other.key));
        }
        let total = self.store.usage_of_days(workspace, range).await?;
        let plan = self.limits_of(workspace).await?.plan;
        Ok(DaysUsage { from, to, split: asked.split, rows, total, prices: self.settings.plans.get(plan).prices })
    }

    /// Sets or removes the budget of an organisation. It counts at once.
    pub(crate) async fn set_budget(
        &self,
        user: &CallerUser,
        org: &str,
        wanted: Option<WorkspaceBudget>,
    ) -> Result<(), Fault> {
        let org = self.org_as(user, org, Role::Admin).await?;
        let stored = wanted.map(checked_budget).transpose()?;
        self.store.put_budget(&org.workspace, stored.as_ref(), self.clock.now_ns()).await?;
        self.check_budget(&org.workspace).await
    }

    /// Makes a page at Stripe on which a plan can be bought.
    pub(crate) async fn buy_plan(
        &self,
        user: &CallerUser,
        org: &str,
        (ask, base): (BuyPlan, &str),
    ) -> Result<String, Fault> {
        let org = self.org_as(user, org, Role::Owner).await?;
        let stripe = self.stripe()?;
        let bad = |text: &str| Fault::new(FaultKind::Caller, "billing.bad_plan", text);
        let plan = ask.plan.parse::<PlanName>().map_err(|error| bad(&error.to_string()))?;
        let interval = match ask.interval.as_deref() {
            None | Some("" | "month") => BillingInterval::Month,
            Some("year") => BillingInterval::Year,
            Some(_) => return Err(bad("interval must be month or year")),
        };
        let account = self.store.billing_account(&org.workspace).await?;
        if standing_of(&account, self.clock.now_ns()) != Standing::Free {
            let text = "the organisation has a subscription; change it on the page of \"billing portal\"";
            return Err(Fault::new(FaultKind::Conflict, "billing.subscribed", text));
        }
        let customer = self.customer(stripe, user, &org, account).await?;
        let (success_url, cancel_url) = (format!("{base}/billing?paid=1"), format!("{base}/billing"));
        let checkout = NewCheckout {
            org: &org.id,
            customer: &customer,
            plan,
            interval,
            success_url: &success_url,
            cancel_url: &cancel_url,
        };
        Ok(stripe.create_checkout(checkout).await.map_err(failed_call)?.url)
    }

    /// Makes a page at Stripe on which the subscription can be managed.
    pub(crate) async fn billing_portal(&self, user: &CallerUser, org: &str, base: &str) -> Result<String, Fault> {
        let org = self.org_as(user, org, Role::Owner).await?;
        let stripe = self.stripe()?;
        let account = self.store.billing_account(&org.workspace).await?;
        let customer = account.customer.ok_or_else(|| {
            let text = "the organisation has never bought a plan; buy one first";
            Fault::new(FaultKind::Conflict, "billing.no_customer", text)
        })?;
        Ok(stripe.create_portal(&customer, &format!("{base}/billing")).await.map_err(failed_call)?.url)
    }

    async fn customer(
        &self,
        stripe: &StripeClient,
        user: &CallerUser,
        org: &OrgRow,
        account: BillingAccount,
    ) -> Result<String, Fault> {
        if let Some(customer) = account.customer {
            return Ok(customer);
        }
        let email = Some(user.email.as_str()).filter(|email| !email.is_empty());
        let new = NewCustomer { org: &org.id, name: &org.name, email };
        let made = stripe.create_customer(new).await.map_err(failed_call)?;
        // Another request may have made one at the same time. One counts, the other stays unused.
        Ok(self.store.put_customer(&org.workspace, &made, self.clock.now_ns()).await?)
    }

    /// Brings the usage of a workspace to Stripe now.
    pub(crate) async fn flush_usage(&self, workspace: &WorkspaceId) -> Result<MeterFlush, Fault> {
        self.read_usage().await?;
        self.store.mark_usage_due(workspace).await?;
        self.count_usage().await?;
        self.check_budget(workspace).await?;
        let posted = match &self.stripe {
            Some(stripe) => {
                self.enqueue_usage(stripe, workspace).await?;
                self.post_usage(stripe, Some(workspace)).await?
            }
            None => 0,
        };
        Ok(MeterFlush { posted, pending: self.store.meter_queue(workspace).await?.pending })
    }

    /// Applies an event of Stripe.
    pub(crate) async fn stripe_event(&self, signature: &str, body: &[u8]) -> Result<(), Fault> {
        let stripe = self.stripe()?;
        let settings = stripe.settings();
        let secret = settings.webhook_secret.as_ref().ok_or_else(|| {
            let text = "this server has no secret for events of Stripe; set STRIPE_WEBHOOK_SECRET";
            Fault::new(FaultKind::Conflict, "billing.no_webhook_secret", text)
        })?;
        let bad = |text: String| Fault::new(FaultKind::Caller, "billing.bad_event", text);
        verify_signature(signature, body, secret, self.now_s()).map_err(|error| bad(error.to_string()))?;
        let event = StripeEvent::parse(body).map_err(|error| bad(error.to_string()))?;
        if event.mode != settings.mode {
            tracing::warn!(event = event.id, "ignored an event of Stripe's other mode");
            return Ok(());
        }
        match self.store.apply_stripe_event(&event, &settings.prices, self.clock.now_ns()).await? {
            StripeEventEffect::Applied => {
                if let Some(workspace) = self.store.payer(&event).await? {
                    self.check_budget(&workspace).await?;
                }
            }
            StripeEventEffect::Repeated => tracing::debug!(event = event.id, "an event of Stripe came again"),
            StripeEventEffect::Unknown => tracing::debug!(event = event.id, "an event of Stripe names no workspace"),
        }
        Ok(())
    }

    fn stripe(&self) -> Result<&StripeClient, Fault> {
        self.stripe.as_ref().ok_or_else(|| {
            let text = "billing is not set up on this server; its operator can set STRIPE_SECRET_KEY";
            Fault::new(FaultKind::Conflict, "billing.off", text)
        })
    }
}

/// Longest body of an event of Stripe.
pub(crate) const STRIPE_EVENT_BYTES_MAX: usize = WEBHOOK_EVENT_BYTES_MAX;

/// Tells what an account may do now.
pub(crate) fn standing_of(account: &BillingAccount, now_ns: u64) -> Standing {
    account.subscription.standing(now_ns / SECOND_NS, GRACE_DEFAULT)
}

/// Returns the moment in a month from which usage is charged. Usage before the subscription is not.
pub(crate) fn charged_from(account: &BillingAccount, month: UtcMonth) -> u64 {
    match account.subscription.started_s {
        0 => month.start_ns(),
        started_s => month.start_ns().max(UtcHour::of(started_s.saturating_mul(SECOND_NS) - 1).end_ns()),
    }
}

/// Prices usage without credit and included storage.
pub(crate) fn list_price(prices: &PlanPrices, used: &UsageTotals, month: UtcMonth) -> PicoDollars {
    month_cost(&PlanPrices { storage_included_gib: 0, ..*prices }, used, month).gross
}

/// Returns dollars as a number for people. Bills are made from exact amounts.
pub(crate) fn dollars(amount: PicoDollars) -> f64 {
    amount.to_micros() as f64 / 1e6
}

fn budget(stored: StoredBudget) -> Budget {
    Budget {
        monthly: PicoDollars::from_micros(stored.monthly_micros),
        alert_percent: stored.alert_percent,
        at_limit: if stored.hard_cap { OveragePolicy::Stop } else { OveragePolicy::Bill },
    }
}

fn checked_budget(wanted: WorkspaceBudget) -> Result<StoredBudget, Fault> {
    let bad = |text: String| Fault::new(FaultKind::Caller, "billing.bad_budget", text);
    if !(0.0..=BUDGET_USD_MAX).contains(&wanted.monthly_usd) {
        return Err(bad(format!("monthly_usd must be between 0 and {BUDGET_USD_MAX}")));
    }
    if !(1..=100).contains(&wanted.alert_percent) {
        return Err(bad("alert_percent must be between 1 and 100".to_owned()));
    }
    let monthly_micros = (wanted.monthly_usd * 1e6).round() as u64;
    Ok(StoredBudget { monthly_micros, alert_percent: wanted.alert_percent, hard_cap: wanted.hard_cap })
}

fn failed_call(error: StripeCallError) -> Fault {
    let text = error.to_string();
    match error {
        StripeCallError::NotSold { .. } => Fault::new(FaultKind::Caller, "billing.bad_plan", text),
        StripeCallError::NoPrice { .. } => Fault::new(FaultKind::Conflict, "billing.no_price", text),
        StripeCallError::Retry(_) => {
            let public = "Stripe does not answer now; try again in a minute";
            Fault::new(FaultKind::Unavailable, "billing.stripe_unavailable", public).with_detail(text)
        }
        StripeCallError::Refused(_) | StripeCallError::Unreadable { .. } | StripeCallError::BadValue { .. } => {
            let public = "Stripe refused the request; the operator finds the reason in the server's log";
            Fault::new(FaultKind::Unavailable, "billing.stripe_refused", public).with_detail(text)
        }
    }
}
