//! What a month's usage costs under a plan, and how far a budget is used. Takes sums, never single
//! events: each part of the cost is rounded once, from the whole month's total.

use crate::{
    calendar::{SECOND_NS, UtcMonth},
    meter::UsageTotals,
    money::{PicoDollars, scale},
    plans::{OveragePolicy, PlanPrices},
};

/// Mebibytes in a gibibyte, and bytes in a gibibyte.
const MIB_PER_GIB: u128 = 1024;
const BYTES_PER_GIB: u128 = 1 << 30;

/// What the usage of a month costs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonthCost {
    pub vcpu: PicoDollars,
    pub memory: PicoDollars,
    /// Only storage above the included amount. It is a part of `gross`.
    pub storage: PicoDollars,
    /// All usage.
    pub gross: PicoDollars,
    /// The part of the plan's credit that is used.
    pub credit_applied: PicoDollars,
    /// What is charged: gross minus credit.
    pub net: PicoDollars,
}

/// Prices a month's usage. Included storage is an allowance for the whole month, so the cost only
/// grows while the month goes on. One GiB that is kept for exactly the calendar month costs exactly
/// the price of a GiB-month, however long the month is.
pub fn month_cost(prices: &PlanPrices, totals: &UsageTotals, month: UtcMonth) -> MonthCost {
    let priced = |amount: u128, price: PicoDollars, divisor: u128| {
        let pico = scale(amount, price.pico().unsigned_abs(), divisor);
        PicoDollars::from_pico(i128::try_from(pico).unwrap_or(i128::MAX))
    };
    let second = u128::from(SECOND_NS);
    let gib_month = BYTES_PER_GIB * u128::from(month.length_ns());
    let included = gib_month.saturating_mul(prices.storage_included_gib.into());
    let vcpu = priced(totals.vcpu_ns, prices.vcpu_second, second);
    let memory = priced(totals.memory_mib_ns, prices.memory_gib_second, MIB_PER_GIB * second);
    let storage = priced(totals.storage_byte_ns.saturating_sub(included), prices.storage_gib_month, gib_month);
    let gross = vcpu.plus(memory).plus(storage);
    let credit_applied = gross.min(prices.credit);
    MonthCost { vcpu, memory, storage, gross, credit_applied, net: gross.minus(credit_applied) }
}

/// Returns the value of the next meter event: what the month costs now, in whole micro-dollars,
/// without what earlier events of the same month carry. The sum of all values is then the month's
/// cost, rounded once. If late facts lowered the cost, nothing is sent until it has caught up.
pub fn next_meter_value(net: PicoDollars, enqueued_micros: u64) -> u64 {
    net.to_micros().saturating_sub(enqueued_micros)
}

/// A workspace's own budget for a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub monthly: PicoDollars,
    /// Share of the budget from which the owner is warned, in percent.
    pub alert_percent: u8,
    pub at_limit: OveragePolicy,
}

/// How far a budget is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetState {
    Ok,
    /// At or above the share for a warning. May exceed 100 if the budget is not a hard one.
    Alert {
        percent: u64,
    },
    /// A hard budget is used up.
    OverCap {
        cap: PicoDollars,
    },
}

/// Compares a month's cost with the plan's credit, if that is a hard limit, and with the
/// workspace's own budget. Returns the worse of both. The credit counts all usage; a budget counts
/// what is charged.
pub fn budget_state(cost: &MonthCost, prices: &PlanPrices, own: Option<&Budget>) -> BudgetState {
    if prices.overage == OveragePolicy::Stop && cost.gross >= prices.credit {
        return BudgetState::OverCap { cap: prices.credit };
    }
    let Some(budget) = own else { return BudgetState::Ok };
    if budget.at_limit == OveragePolicy::Stop && cost.net >= budget.monthly {
        return BudgetState::OverCap { cap: budget.monthly };
    }
    match cost.net.percent_of(budget.monthly) {
        Some(percent) if percent >= budget.alert_percent.into() => BudgetState::Alert { percent },
        Some(_) => BudgetState::Ok,
        // A budget of nothing is used up by the first cost.
        None if cost.net > PicoDollars::ZERO => BudgetState::Alert { percent: 100 },
        None => BudgetState::Ok,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        calendar::HOUR_NS,
        plans::{PlanName, Plans},
    };

    fn prices(plan: PlanName) -> PlanPrices {
        Plans::default().get(plan).prices
    }

    fn month() -> UtcMonth {
        "2026-03".parse().unwrap()
    }

    fn usage(vcpus: u128, memory_mib: u128, bytes: u128, ns: u64) -> UsageTotals {
        let ns = u128::from(ns);
        UsageTotals { vcpu_ns: vcpus * ns, memory_mib_ns: memory_mib * ns, storage_byte_ns: bytes * ns }
    }

    #[test]
    fn the_free_credit_is_a_hundred_hours_of_a_small_sandbox() {
        let cost = month_cost(&prices(PlanName::Free), &usage(1, 2048, 0, 100 * HOUR_NS), month());
        assert_eq!((cost.vcpu.to_string().as_str(), cost.memory.to_string().as_str()), ("3.60", "1.80"));
        assert_eq!((cost.gross.to_string().as_str(), cost.net), ("5.40", PicoDollars::ZERO));
        assert_eq!(budget_state(&cost, &prices(PlanName::Free), None), BudgetState::OverCap { cap: cost.gross });
        let less = month_cost(&prices(PlanName::Free), &usage(1, 2048, 0, 100 * HOUR_NS - SECOND_NS), month());
        assert_eq!(budget_state(&less, &prices(PlanName::Free), None), BudgetState::Ok);
    }

    #[test]
    fn a_gib_month_costs_the_same_in_every_month() {
        for name in ["2026-02", "2026-03", "2026-04", "2024-02"] {
            let month: UtcMonth = name.parse().unwrap();
            let twelve = usage(0, 0, 112 << 30, month.length_ns());
            let cost = month_cost(&prices(PlanName::Pro), &twelve, month);
            assert_eq!((cost.storage.to_string().as_str(), cost.gross), ("1.80", cost.storage), "{name}");
            let included = usage(0, 0, 100 << 30, month.length_ns());
            assert_eq!(month_cost(&prices(PlanName::Pro), &included, month).storage, PicoDollars::ZERO);
        }
    }

    #[test]
    fn credit_is_used_first_and_the_rest_is_charged() {
        let cost = month_cost(&prices(PlanName::Pro), &usage(10, 0, 0, 100 * HOUR_NS), month());
        let shown = [cost.gross, cost.credit_applied, cost.net].map(|amount| amount.to_string());
        assert_eq!(shown, ["36.00", "20.00", "16.00"]);
    }

    #[test]
    fn the_largest_workspace_stays_inside_the_numbers() {
        let everything = usage(1_000_000, 1 << 40, 1 << 60, 31 * 24 * HOUR_NS);
        let cost = month_cost(&prices(PlanName::Custom), &everything, month());
        let gib_months = (1_i128 << 30) - 2560;
        assert_eq!(cost.storage.pico(), gib_months * 150_000_000_000);
        let endless = UsageTotals { vcpu_ns: u128::MAX, memory_mib_ns: u128::MAX, storage_byte_ns: u128::MAX };
        assert!(month_cost(&prices(PlanName::Custom), &endless, month()).gross > cost.gross);
    }

    #[test]
    fn budgets_warn_and_stop() {
        let at = |dollars: &str| {
            let net = dollars.parse().unwrap();
            MonthCost { gross: net, net, ..MonthCost::default() }
        };
        let soft = Budget { monthly: "10".parse().unwrap(), alert_percent: 80, at_limit: OveragePolicy::Bill };
        let hard = Budget { at_limit: OveragePolicy::Stop, ..soft };
        let state = |cost, budget| budget_state(&cost, &prices(PlanName::Pro), Some(budget));
        assert_eq!(state(at("7.99"), &soft), BudgetState::Ok);
        assert_eq!(state(at("8"), &soft), BudgetState::Alert { percent: 80 });
        assert_eq!(state(at("25"), &soft), BudgetState::Alert { percent: 250 });
        assert_eq!(state(at("9.999999"), &hard), BudgetState::Alert { percent: 99 });
        assert_eq!(state(at("10"), &hard), BudgetState::OverCap { cap: hard.monthly });
        let nothing = Budget { monthly: PicoDollars::ZERO, ..soft };
        assert_eq!(state(at("0"), &nothing), BudgetState::Ok);
        assert_eq!(state(at("0.01"), &nothing), BudgetState::Alert { percent: 100 });
        assert_eq!(budget_state(&at("999"), &prices(PlanName::Pro), None), BudgetState::Ok);
    }

    #[test]
    fn meter_values_wait_until_a_lowered_cost_has_caught_up() {
        let micros = PicoDollars::from_micros;
        assert_eq!(next_meter_value(micros(100), 40), 60);
        assert_eq!(next_meter_value(micros(30), 40), 0, "a late fact lowered the cost");
        assert_eq!(next_meter_value(micros(50), 40), 10);
    }

    proptest! {
        /// However often the value is taken, the events sum up to the month's cost, rounded once.
        #[test]
        fn meter_values_sum_up_to_the_cost_of_the_month(
            steps in prop::collection::vec(0_u64..5_000_000_000_000, 1..60),
        ) {
            let prices = PlanPrices { credit: PicoDollars::from_pico(7_777_777), ..prices(PlanName::Pro) };
            let (mut totals, mut enqueued) = (UsageTotals::default(), 0);
            let mut net = PicoDollars::ZERO;
            for ns in steps {
                totals += usage(3, 700, 1 << 33, ns);
                let cost = month_cost(&prices, &totals, month());
                prop_assert!(cost.net >= net, "the cost of a month only grows");
                net = cost.net;
                enqueued += next_meter_value(net, enqueued);
            }
            prop_assert_eq!(enqueued, net.to_micros());
        }
    }
}
