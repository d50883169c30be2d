//! Plans, prices, metering arithmetic and Stripe. Everything here is pure or talks through a trait:
//! the room has no database, no clock and no socket of its own. `control` stores the rows and
//! applies what this room decides (docs/billing.md, docs/decisions/0031-billing.md).

pub mod calendar;
pub mod invoice;
pub mod limits;
pub mod meter;
pub mod money;
pub mod plans;
pub mod posting;
pub mod quota;
#[cfg(any(test, feature = "stripe-for-tests"))]
pub mod stand_in;
pub mod stripe;
pub mod stripe_events;

pub use calendar::{CalendarWindow, UtcDay, UtcHour, UtcMonth};
pub use invoice::{Budget, BudgetState, MonthCost, budget_state, month_cost, next_meter_value};
pub use meter::{
    FactKind, StorageFact, UsageFact, UsageInterval, UsageTotals, WholeUnits, fold_storage, fold_usage, split_by,
};
pub use money::{BadAmount, PicoDollars};
pub use plans::{
    BUILT_IN_PLANS, BadPlanName, OveragePolicy, Plan, PlanLimits, PlanName, PlanPrices, Plans, PlansError, QuotaLimit,
    QuotaOverrides, RequestRate,
};
pub use posting::{BeforePosting, ClaimedRow, DeadReason, PostingPlan};
pub use quota::{QuotaRefusal, QuotaRequest, QuotaRule, QuotaUsage, check_quota, check_standing};
pub use stripe::{StripeClient, StripeSettings, StripeTransport};
pub use stripe_events::{Standing, StripeEvent, Subscription};
