//! Limits of workspaces: those of their plan, replaced by their own where they have some.

use pandastack_billing::{
    PlanLimits, PlanName, QuotaLimit, QuotaOverrides, QuotaRefusal, QuotaRequest, QuotaRule, QuotaUsage, Standing,
    limits::GRACE_DEFAULT,
};
use pandastack_database::DatabaseAddress;
use pandastack_door::{OperatorLimit, RateSettings};
use pandastack_model::{ByteSize, Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{Caller, FIRST_WORKSPACE, WorkspaceId, WorkspaceRate};

use crate::{
    Control,
    store::{Store, StoreError, StoredPlan, WorkspaceHold, WorkspaceTerms},
};

const GIB: u64 = 1 << 30;

/// The limits of a workspace now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceLimits {
    pub plan: PlanName,
    pub limits: PlanLimits,
    /// The request rate, if it is not that of the server.
    pub rate: Option<WorkspaceRate>,
    /// Whether the operator gave the workspace this plan, or it bought it.
    pub is_given: bool,
}

impl Control {
    /// Returns the limits of a workspace.
    pub(crate) async fn limits_of(&self, workspace: &WorkspaceId) -> Result<WorkspaceLimits, Fault> {
        let terms = self.store.workspace_terms(workspace).await?;
        self.limits_under(workspace, &terms)
    }

    /// Returns the limits of a workspace in which something new may start. Refuses with 402 if the
    /// subscription is unpaid or the budget used up.
    pub(crate) async fn admitted_limits(&self, workspace: &WorkspaceId) -> Result<PlanLimits, Fault> {
        let terms = self.store.workspace_terms(workspace).await?;
        held(&terms.hold)?;
        Ok(self.limits_under(workspace, &terms)?.limits)
    }

    /// Checks whether a sleeping sandbox may be woken. It then uses CPUs and memory again.
    pub(crate) async fn check_wake(&self, workspace: &WorkspaceId, id: SandboxId) -> Result<(), Fault> {
        let limits = self.admitted_limits(workspace).await?;
        let Some(sandbox) = self.store.find(workspace, id).await? else { return Ok(()) };
        let usage = self.store.usage(workspace, self.clock.now_ns()).await?;
        let request = QuotaRequest {
            cpu: sandbox.size.cpus.into(),
            memory_mb: sandbox.size.memory_mib,
            ..QuotaRequest::default()
        };
        pandastack_billing::check_quota(&limits, &usage, &request).map_err(refused)
    }

    fn limits_under(&self, workspace: &WorkspaceId, terms: &WorkspaceTerms) -> Result<WorkspaceLimits, Fault> {
        let own = overrides(&terms.plan.quotas).map_err(Fault::bug)?;
        // The operator's word counts before the subscription.
        let (plan, is_given) = match terms.plan.plan.as_str() {
            "" => match terms.subscription.standing(self.now_s(), GRACE_DEFAULT) {
                Standing::Free => (self.settings.default_plan, false),
                bought => (bought.plan(), true),
            },
            name => (name.parse().map_err(Fault::bug)?, true),
        };
        let mut limits = self.settings.plans.get(plan).limits;
        // The first workspace is the operator's, and only the host limits it.
        if !is_given && workspace.0 == FIRST_WORKSPACE {
            limits = unlimited(limits);
        }
        let limits = limits.with(&own);
        let rate = (is_given || own.rate.is_some())
            .then_some(WorkspaceRate { per_second: limits.rate.per_second, burst: limits.rate.burst });
        // The operator's own bound holds for every plan.
        let max_sandboxes = limits.max_sandboxes.min(QuotaLimit::AtMost(self.settings.sandboxes_max));
        Ok(WorkspaceLimits { plan, limits: PlanLimits { max_sandboxes, ..limits }, rate, is_given })
    }

    /// Returns the limits of the caller's workspace, and what it uses now.
    pub(crate) async fn quotas(&self, caller: &Caller) -> Result<(WorkspaceLimits, QuotaUsage), Fault> {
        let limits = self.limits_of(&caller.workspace).await?;
        let usage = self.store.usage(&caller.workspace, self.clock.now_ns()).await?;
        Ok((limits, usage))
    }

    /// Returns the request rate that holds for a workspace. `None` if there is none.
    pub(crate) fn shown_rate(&self, limits: &WorkspaceLimits, workspace: &WorkspaceId) -> Option<WorkspaceRate> {
        let RateSettings { per_second, burst, operator } = self.settings.rate;
        let is_free = operator == OperatorLimit::Free && workspace.0 == FIRST_WORKSPACE;
        let usual = (per_second > 0 && !is_free).then_some(WorkspaceRate { per_second, burst });
        limits.rate.or(usual)
    }

    /// Checks the idle time that a caller asks for.
    pub(crate) async fn check_ttl(&self, workspace: &WorkspaceId, ttl_seconds: u64) -> Result<(), Fault> {
        check_ttl(&self.limits_of(workspace).await?.limits, ttl_seconds)
    }

    /// Checks whether a workspace may have a volume of a size, or let one grow to it.
    pub(crate) async fn check_volume(
        &self,
        workspace: &WorkspaceId,
        (from, to): (Option<ByteSize>, ByteSize),
    ) -> Result<(), Fault> {
        let limits = self.admitted_limits(workspace).await?;
        let usage = self.store.usage(workspace, self.clock.now_ns()).await?;
        let added = to.get().saturating_sub(from.map_or(0, ByteSize::get));
        let request = QuotaRequest {
            volumes: u64::from(from.is_none()),
            volume_size_gib: to.get().div_ceil(GIB),
            volume_added_gib: added.div_ceil(GIB),
            ..QuotaRequest::default()
        };
        pandastack_billing::check_quota(&limits, &usage, &request).map_err(refused)
    }
}

/// Checks the idle time that a caller asks for.
pub(super) fn check_ttl(limits: &PlanLimits, ttl_seconds: u64) -> Result<(), Fault> {
    let request = QuotaRequest { ttl_seconds: Some(ttl_seconds), ..QuotaRequest::default() };
    pandastack_billing::check_quota(limits, &QuotaUsage::default(), &request).map_err(refused)
}

/// Turns a refusal into an answer. It has no `Retry-After`, because waiting does not help.
pub(crate) fn refused(refusal: QuotaRefusal) -> Fault {
    let kind = match refusal.rule.status() {
        400 => FaultKind::Caller,
        402 => FaultKind::Payment,
        _ => FaultKind::Quota,
    };
    Fault::new(kind, refusal.rule.code(), refusal.message)
}

/// Refuses what a hold forbids.
fn held(hold: &WorkspaceHold) -> Result<(), Fault> {
    let rules = [QuotaRule::Budget, QuotaRule::Unpaid];
    match rules.into_iter().find(|rule| rule.code() == hold.code) {
        Some(rule) => Err(Fault::new(FaultKind::Payment, rule.code(), hold.reason.clone())),
        None => Ok(()),
    }
}

fn overrides(text: &str) -> Result<QuotaOverrides, serde_json::Error> {
    if text.is_empty() { Ok(QuotaOverrides::default()) } else { serde_json::from_str(text) }
}

fn unlimited(limits: PlanLimits) -> PlanLimits {
    PlanLimits {
        max_sandboxes: QuotaLimit::Unlimited,
        max_cpu_total: QuotaLimit::Unlimited,
        max_memory_mb_total: QuotaLimit::Unlimited,
        max_disk_gib_total: QuotaLimit::Unlimited,
        max_volumes: QuotaLimit::Unlimited,
        max_volume_total_gib: QuotaLimit::Unlimited,
        hourly_create_limit: QuotaLimit::Unlimited,
        ttl_seconds_max: QuotaLimit::Unlimited,
        builds_concurrent_max: QuotaLimit::Unlimited,
        connections_max: QuotaLimit::Unlimited,
        ..limits
    }
}

/// Why a plan could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspacePlanError {
    #[error(transparent)]
    Database(#[from] StoreError),
    #[error("there is no workspace {0:?}; see \"pandastack admin quota list\"")]
    Missing(String),
    #[error("the limits of the workspace are not readable")]
    Overrides(#[source] serde_json::Error),
}

/// Plans of workspaces as the operator manages them: directly in the database, whether or not a
/// server uses it.
pub struct WorkspacePlans {
    store: Store,
}

/// A workspace and its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspacePlan {
    pub workspace: String,
    /// `None` for the default plan of the server.
    pub plan: Option<String>,
    pub own: QuotaOverrides,
}

impl WorkspacePlans {
    /// Opens the database of a server.
    pub async fn open(database: &DatabaseAddress, now_ns: u64) -> Result<Self, WorkspacePlanError> {
        Ok(Self { store: Store::open(database, now_ns).await? })
    }

    /// Lists all workspaces by name.
    pub async fn list(&self) -> Result<Vec<WorkspacePlan>, WorkspacePlanError> {
        let found = self.store.list_plans().await?;
        found.into_iter().map(|(workspace, stored)| shown(workspace.0, stored)).collect()
    }

    /// Changes the plan and the own limits of a workspace.
    pub async fn change(
        &self,
        workspace: &str,
        change: impl FnOnce(&mut WorkspacePlan),
    ) -> Result<WorkspacePlan, WorkspacePlanError> {
        let missing = || WorkspacePlanError::Missing(workspace.to_owned());
        let mut plan = self.list().await?.into_iter().find(|plan| plan.workspace == workspace).ok_or_else(missing)?;
        change(&mut plan);
        let quotas = match plan.own == QuotaOverrides::default() {
            true => String::new(),
            false => serde_json::to_string(&plan.own).map_err(WorkspacePlanError::Overrides)?,
        };
        let stored = StoredPlan { plan: plan.plan.clone().unwrap_or_default(), quotas };
        let changed = self.store.set_plan(&WorkspaceId(workspace.to_owned()), &stored).await?;
        changed.then_some(plan).ok_or_else(missing)
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }
}

fn shown(workspace: String, stored: StoredPlan) -> Result<WorkspacePlan, WorkspacePlanError> {
    let own = overrides(&stored.quotas).map_err(WorkspacePlanError::Overrides)?;
    Ok(WorkspacePlan { workspace, plan: Some(stored.plan).filter(|plan| !plan.is_empty()), own })
}
