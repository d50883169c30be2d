//! Reads the plan file. A mistake is named with its line and what to write instead.

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::{OveragePolicy, Plan, PlanLimits, PlanName, PlanPrices, Plans, QuotaLimit, RequestRate};
use crate::{
    limits::{MONTHLY_DOLLARS_MAX, PLANS_FILE_BYTES_MAX, PRICE_DOLLARS_MAX, VOLUME_SIZE_GIB_MAX},
    money::{PICO_PER_DOLLAR, PicoDollars},
};

/// The plans that a server has without a file of its own, with a line about every key.
pub const BUILT_IN_PLANS: &str = include_str!("../../plans.toml");

/// Why a plan file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlansError {
    #[error("the plan file has {bytes} bytes, at most {PLANS_FILE_BYTES_MAX} are read; start from the built-in plans")]
    TooLong { bytes: usize },
    #[error("line {line} of the plan file: {problem}; {next}")]
    Line { line: usize, problem: String, next: &'static str },
    #[error("the plan file has no plan {plan}; add a table [{plan}] with the keys of the built-in plans")]
    MissingPlan { plan: PlanName },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlansText {
    free: Option<PlanText>,
    pro: Option<PlanText>,
    team: Option<PlanText>,
    custom: Option<PlanText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    max_sandboxes: QuotaLimit,
    max_cpu_total: QuotaLimit,
    max_memory_mb_total: QuotaLimit,
    max_disk_gib_total: QuotaLimit,
    max_volumes: QuotaLimit,
    max_volume_size_gib: Spanned<QuotaLimit>,
    max_volume_total_gib: QuotaLimit,
    hourly_create_limit: QuotaLimit,
    ttl_seconds_max: QuotaLimit,
    builds_concurrent_max: QuotaLimit,
    connections_max: QuotaLimit,
    rate: Spanned<RequestRate>,
    prices: PricesText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PricesText {
    monthly_usd: Spanned<AmountText>,
    credit_usd: Spanned<AmountText>,
    vcpu_second_usd: Spanned<AmountText>,
    memory_gib_second_usd: Spanned<AmountText>,
    storage_gib_month_usd: Spanned<AmountText>,
    storage_included_gib: u32,
    overage: OveragePolicy,
}

/// Dollars in quotes. A number without quotes would be a float, which cannot hold most prices.
struct AmountText(PicoDollars);

impl<'de> Deserialize<'de> for AmountText {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct AmountVisitor;

        impl de::Visitor<'_> for AmountVisitor {
            type Value = AmountText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("dollars in quotes, such as \"5.40\"")
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<AmountText, E> {
                value.parse().map(AmountText).map_err(E::custom)
            }
        }

        input.deserialize_any(AmountVisitor)
    }
}

impl Plans {
    /// Reads a plan file.
    pub fn parse(text: &str) -> Result<Self, PlansError> {
        if text.len() > PLANS_FILE_BYTES_MAX {
            return Err(PlansError::TooLong { bytes: text.len() });
        }
        let file: PlansText = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
        let take = |name: PlanName, plan: Option<PlanText>| {
            check(text, name, plan.ok_or(PlansError::MissingPlan { plan: name })?)
        };
        Ok(Self {
            plans: [
                take(PlanName::Free, file.free)?,
                take(PlanName::Pro, file.pro)?,
                take(PlanName::Team, file.team)?,
                take(PlanName::Custom, file.custom)?,
            ],
        })
    }
}

/// Checks what the types do not say.
fn check(text: &str, name: PlanName, plan: PlanText) -> Result<Plan, PlansError> {
    let refuse = |at: usize, problem: String, next| PlansError::Line { line: line_of(text, at), problem, next };
    let size = plan.max_volume_size_gib;
    if *size.get_ref() > QuotaLimit::AtMost(VOLUME_SIZE_GIB_MAX) {
        let problem = format!(
            "max_volume_size_gib is {}, and no volume is larger than {VOLUME_SIZE_GIB_MAX} GiB",
            size.get_ref()
        );
        return Err(refuse(size.span().start, problem, "write 64 or less"));
    }
    let rate = plan.rate;
    if rate.get_ref().burst == 0 || rate.get_ref().per_second == 0 {
        let problem = format!("the rate of plan {name} is zero, so that no request would pass");
        return Err(refuse(rate.span().start, problem, "write 1 or more for burst and per_second"));
    }
    let amount = |value: Spanned<AmountText>, most: i128| {
        let (at, AmountText(amount)) = (value.span().start, value.into_inner());
        let problem = || format!("{amount} dollars are more than the highest amount here, {most}");
        if amount.pico() > most * PICO_PER_DOLLAR {
            Err(refuse(at, problem(), "write a lower amount"))
        } else {
            Ok(amount)
        }
    };
    let prices = plan.prices;
    let prices = PlanPrices {
        monthly: amount(prices.monthly_usd, MONTHLY_DOLLARS_MAX)?,
        credit: amount(prices.credit_usd, MONTHLY_DOLLARS_MAX)?,
        vcpu_second: amount(prices.vcpu_second_usd, PRICE_DOLLARS_MAX)?,
        memory_gib_second: amount(prices.memory_gib_second_usd, PRICE_DOLLARS_MAX)?,
        storage_gib_month: amount(prices.storage_gib_month_usd, PRICE_DOLLARS_MAX)?,
        storage_included_gib: prices.storage_included_gib.into(),
        overage: prices.overage,
    };
    let limits = PlanLimits {
        max_sandboxes: plan.max_sandboxes,
        max_cpu_total: plan.max_cpu_total,
        max_memory_mb_total: plan.max_memory_mb_total,
        max_disk_gib_total: plan.max_disk_gib_total,
        max_volumes: plan.max_volumes,
        max_volume_size_gib: size.into_inner(),
        max_volume_total_gib: plan.max_volume_total_gib,
        hourly_create_limit: plan.hourly_create_limit,
        ttl_seconds_max: plan.ttl_seconds_max,
        builds_concurrent_max: plan.builds_concurrent_max,
        connections_max: plan.connections_max,
        rate: rate.into_inner(),
    };
    Ok(Plan { name, limits, prices })
}

/// Names the place of an error of the TOML reader, and the next step.
fn unreadable(text: &str, error: &toml::de::Error) -> PlansError {
    let problem = error.message().lines().collect::<Vec<_>>().join(" ");
    let next = if problem.contains("unknown field") {
        "remove the key or correct its name"
    } else if problem.contains("missing field") {
        "add the key to this table; the built-in plans have an example"
    } else if problem.contains("expected dollars in quotes") {
        "put the amount into quotes"
    } else {
        "compare the line with the built-in plans"
    };
    PlansError::Line { line: line_of(text, error.span().map_or(0, |span| span.start)), problem, next }
}

/// Returns the line of a position, counted from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
