//! The built-in file, and the mistakes that an operator makes in it.

use super::*;

/// Replaces one line of the built-in file and returns the error with the number of that line.
fn broken(old: &str, new: &str) -> (usize, String) {
    let at = BUILT_IN_PLANS.lines().position(|line| line == old).expect("the line is in the file");
    let text = BUILT_IN_PLANS.replacen(&format!("{old}\n"), &format!("{new}\n"), 1);
    (at + 1, Plans::parse(&text).unwrap_err().to_string())
}

#[test]
fn the_built_in_plans_have_the_values_of_the_specification() {
    let plans = Plans::default();
    let volumes = |name| {
        let limits = plans.get(name).limits;
        (limits.max_volumes.number(), limits.max_volume_size_gib.number(), limits.max_volume_total_gib.number())
    };
    assert_eq!(volumes(PlanName::Free), (Some(1), Some(1), Some(1)));
    assert_eq!(volumes(PlanName::Pro), (Some(10), Some(10), Some(100)));
    assert_eq!(volumes(PlanName::Team), (Some(50), Some(50), Some(2560)));
    assert_eq!(volumes(PlanName::Custom), (None, Some(64), None));
    let totals = |name| {
        let limits = plans.get(name).limits;
        let all = [limits.max_sandboxes, limits.max_cpu_total, limits.max_memory_mb_total, limits.hourly_create_limit];
        all.map(|limit| limit.number().unwrap())
    };
    assert_eq!(totals(PlanName::Free), [16, 16, 32 * 1024, 200]);
    assert_eq!(totals(PlanName::Custom), [1000, 1000, 512 * 1024, 10_000]);
    let free = plans.get(PlanName::Free);
    assert_eq!((free.prices.credit.to_string().as_str(), free.prices.overage), ("5.40", OveragePolicy::Stop));
    for plan in plans.all() {
        assert_eq!(plan.prices.storage_gib_month.to_string(), "0.15", "{}", plan.name);
        assert_eq!(plans.get(plan.name), plan);
    }
}

#[test]
fn plans_grow_from_free_to_custom() {
    let plans = Plans::default();
    for pair in plans.all().windows(2) {
        let (small, large) = (pair[0].limits, pair[1].limits);
        assert!(small.max_sandboxes < large.max_sandboxes && small.rate.burst < large.rate.burst);
        assert!(small.ttl_seconds_max < large.ttl_seconds_max && small.connections_max < large.connections_max);
        assert!(small.max_disk_gib_total < large.max_disk_gib_total);
    }
}

#[test]
fn a_mistake_is_named_with_its_line_and_the_next_step() {
    for (old, new, parts) in [
        ("max_sandboxes = 16", "max_sandboxes = -1", ["-1 is negative", "\"unlimited\""]),
        ("max_sandboxes = 16", "max_sandboxs = 16", ["unknown field `max_sandboxs`", "correct its name"]),
        ("max_sandboxes = 16", "max_sandboxes = 1.5", ["a whole number or \"unlimited\"", "compare the line"]),
        ("max_sandboxes = 16", "max_sandboxes = \"none\"", ["\"none\" is not a limit", "\"unlimited\""]),
        ("max_sandboxes = 16", "max_sandboxes = ", ["line", "compare the line"]),
        ("max_volume_size_gib = 64", "max_volume_size_gib = 65", ["no volume is larger than 64 GiB", "64 or less"]),
        ("max_volume_size_gib = 64", "max_volume_size_gib = \"unlimited\"", ["is unlimited", "64 or less"]),
        ("credit_usd = \"5.40\"", "credit_usd = 5.40", ["expected dollars in quotes", "put the amount into quotes"]),
        ("credit_usd = \"5.40\"", "credit_usd = \"-5.40\"", ["\"-5.40\" is not an amount", "write dollars such as"]),
        ("credit_usd = \"5.40\"", "credit_usd = \"1000001\"", ["more than the highest amount", "lower amount"]),
        ("vcpu_second_usd = \"0.00001\"", "vcpu_second_usd = \"11\"", ["more than the highest amount", "lower amount"]),
        ("overage = \"stop\"", "overage = \"maybe\"", ["unknown variant `maybe`", "compare the line"]),
        ("storage_included_gib = 1", "storage_included_gib = -1", ["invalid value", "compare the line"]),
    ] {
        let (line, error) = broken(old, new);
        assert!(error.starts_with(&format!("line {line} of the plan file")), "{new}: {error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{new}: {error}");
    }
}

#[test]
fn a_missing_key_or_plan_is_named() {
    let (_, error) = broken("connections_max = 64", "");
    assert!(error.contains("missing field `connections_max`") && error.contains("add the key"), "{error}");
    let without_team: String = {
        let (before, rest) = BUILT_IN_PLANS.split_once("[team]").unwrap();
        format!("{before}{}", &rest[rest.find("[custom]").unwrap()..])
    };
    assert_eq!(Plans::parse(&without_team), Err(PlansError::MissingPlan { plan: PlanName::Team }));
    assert!(Plans::parse("").unwrap_err().to_string().contains("no plan free; add a table [free]"));
    let (_, error) = broken("per_second = 25", "per_second = 0");
    assert!(error.contains("rate of plan free is zero"), "{error}");
    let error = Plans::parse(&"#".repeat(PLANS_LONG)).unwrap_err();
    assert_eq!(error, PlansError::TooLong { bytes: PLANS_LONG });
    assert!(
        Plans::parse(&format!("{BUILT_IN_PLANS}\n[gold]\nmax_sandboxes = 1\n"))
            .unwrap_err()
            .to_string()
            .contains("gold")
    );
}

const PLANS_LONG: usize = crate::limits::PLANS_FILE_BYTES_MAX + 1;

#[test]
fn own_limits_replace_those_of_the_plan_and_nothing_else() {
    let plan = Plans::default().get(PlanName::Free).limits;
    assert_eq!(plan.with(&QuotaOverrides::default()), plan);
    let own: QuotaOverrides = serde_json::from_str(r#"{"max_sandboxes": 3, "ttl_seconds_max": "unlimited"}"#).unwrap();
    let expected = PlanLimits { max_sandboxes: QuotaLimit::AtMost(3), ttl_seconds_max: QuotaLimit::Unlimited, ..plan };
    assert_eq!(plan.with(&own), expected);
    assert_eq!(serde_json::to_string(&own).unwrap(), r#"{"max_sandboxes":3,"ttl_seconds_max":"unlimited"}"#);
    for bad in [r#"{"max_sandboxes": -1}"#, r#"{"max_sandbox": 1}"#, r#"{"max_sandboxes": "many"}"#] {
        assert!(serde_json::from_str::<QuotaOverrides>(bad).is_err(), "{bad}");
    }
}

#[test]
fn own_limits_cannot_ask_for_the_impossible() {
    let own = QuotaOverrides {
        max_volume_size_gib: Some(QuotaLimit::Unlimited),
        rate: Some(RequestRate { burst: 0, per_second: 0 }),
        ..QuotaOverrides::default()
    };
    let limits = Plans::default().get(PlanName::Free).limits.with(&own);
    assert_eq!(limits.max_volume_size_gib, QuotaLimit::AtMost(64));
    assert_eq!(limits.rate, RequestRate { burst: 1, per_second: 1 });
}

#[test]
fn every_plan_name_is_read_back() {
    for plan in PlanName::ALL {
        assert_eq!(plan.as_str().parse::<PlanName>(), Ok(plan));
    }
    assert!("Free".parse::<PlanName>().unwrap_err().to_string().contains("free, pro, team and custom"));
}
