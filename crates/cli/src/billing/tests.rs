//! Arguments and texts of the commands about money.

use clap::Parser;
use pandastack_client::wire::{
    Bill, BilledSubscription, PricingTier, UsageRates, UsageReport, UsageRow, WorkspaceBudget,
};

use super::{BillingCommand, pricing, show, usage};
use crate::{ClientCommand, GlobalArgs};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: ClientCommand,
}

fn parse(line: &str) -> Result<Line, clap::Error> {
    Line::try_parse_from(["x"].into_iter().chain(line.split(' ')))
}

fn billing(line: &str) -> BillingCommand {
    match parse(line).unwrap().command {
        ClientCommand::Billing(args) => args.chosen(),
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str, part: &str) {
    let error = parse(line).map(|line| line.command).unwrap_err().to_string();
    assert!(error.contains(part), "{line}: {error}");
}

fn bill() -> Bill {
    Bill {
        mtd_vcpu_seconds: 360_000.0,
        mtd_memory_gib_seconds: 720_000.0,
        mtd_cost_usd: 5.4,
        mtd_vcpu_cost_usd: 3.6,
        mtd_memory_cost_usd: 1.8,
        credit_usd: 20.0,
        credit_used_usd: 5.4,
        billing_enabled: true,
        ..Bill::default()
    }
}

fn fact(bill: &Bill, name: &str) -> Option<String> {
    show::facts(bill).into_iter().find(|row| row[0] == name).map(|row| row[1].clone())
}

#[test]
fn the_bill_is_shown_without_a_command() {
    for line in [
        "billing",
        "billing --json",
        "billing --org o1",
        "billing show --json",
        "billing --json show",
        "billing -o yaml",
    ] {
        assert!(matches!(billing(line), BillingCommand::Show), "{line}");
    }
    assert!(matches!(billing("billing --json sync"), BillingCommand::Sync));
    assert!(matches!(billing("billing portal --org o1"), BillingCommand::Portal));
}

#[test]
fn a_budget_has_an_amount_or_is_removed() {
    let wanted = |line: &str| match billing(line) {
        BillingCommand::Budget(args) => args.wanted(),
        other => panic!("{line}: {other:?}"),
    };
    let budget = |monthly_usd, alert_percent, hard_cap| Some(WorkspaceBudget { monthly_usd, alert_percent, hard_cap });
    assert_eq!(wanted("billing budget --monthly 50"), budget(50.0, 80, false));
    assert_eq!(wanted("billing budget --monthly $12.50 --alert 90 --hard-cap --org o"), budget(12.5, 90, true));
    assert_eq!(wanted("billing budget --org o --remove"), None);
    refused("billing budget", "--monthly");
    refused("billing budget --hard-cap", "--monthly");
    refused("billing budget --remove --monthly 5", "cannot be used with");
    refused("billing budget --remove --hard-cap", "cannot be used with");
    refused("billing budget --remove --alert 90", "cannot be used with");
    refused("billing budget --monthly 5 --alert 101", "101");
    for amount in ["NaN", "inf", "ten", "=-1"] {
        refused(&format!("billing budget --monthly={amount}"), "such as 50");
    }
}

#[test]
fn a_plan_is_bought_by_month_or_year() {
    let interval = |line: &str| match billing(line) {
        BillingCommand::Buy(args) => args.wanted().interval.unwrap(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(interval("billing buy pro"), "month");
    assert_eq!(interval("billing buy team --yearly --org o"), "year");
    refused("billing buy", "<PLAN>");
}

#[test]
fn usage_has_four_splits_and_one_format() {
    for line in
        ["usage", "usage --by member --from 2026-11-01 --to 2026-11-17 --org o", "usage --csv", "pricing --json"]
    {
        parse(line).unwrap();
    }
    refused("usage --by hour", "template");
    refused("usage --json --csv", "cannot be used with");
}

#[test]
fn a_bill_has_its_parts() {
    let parts: Vec<_> = show::parts(&bill()).iter().map(|row| row.join(" | ")).collect();
    assert_eq!(
        parts,
        [
            "CPU | 100.00 vCPU hours | $3.60",
            "memory | 200.00 GiB hours | $1.80",
            "storage | 0 GiB hours | $0.00",
            "total |  | $5.40",
        ]
    );
    assert_eq!(show::credit(&bill()), "█████░░░░░░░░░░░░░░░ 27%, $5.40 of $20.00");
    assert_eq!(show::credit(&Bill::default()), "none");
}

#[test]
fn a_budget_counts_what_the_credit_does_not_pay() {
    assert!(fact(&bill(), "budget").unwrap().contains("pandastack billing budget --monthly"));
    let mut over = Bill { mtd_cost_usd: 60.0, credit_used_usd: 20.0, ..bill() };
    over.budget = Some(WorkspaceBudget { monthly_usd: 50.0, alert_percent: 80, hard_cap: true });
    let text = fact(&over, "budget").unwrap();
    assert_eq!(text, "████████████████░░░░ 80%, $40.00 of $50.00, alert at 80%, hard cap");
}

#[test]
fn a_bill_shows_what_needs_attention() {
    assert_eq!(fact(&bill(), "hold"), None);
    assert_eq!(fact(&bill(), "Stripe"), None);
    assert!(fact(&bill(), "subscription").unwrap().contains("pandastack billing buy"));
    let off = Bill { billing_enabled: false, ..bill() };
    assert_eq!(fact(&off, "subscription"), None);
    assert!(fact(&off, "Stripe").unwrap().contains("not connected"));
    let subscription = BilledSubscription {
        status: "past_due".into(),
        plan: Some("pro".into()),
        period_end: Some("2026-12-01T00:00:00Z".into()),
        cancel_at_period_end: true,
        grace_until: Some("2026-12-15T00:00:00Z".into()),
    };
    let unpaid = Bill {
        hold: Some("billing.unpaid".into()),
        hold_reason: Some("pay".into()),
        subscription: Some(subscription),
        meter_events_pending: 3,
        meter_events_dead: 1,
        ..bill()
    };
    assert_eq!(fact(&unpaid, "hold").unwrap(), "nothing new starts: pay (billing.unpaid)");
    let text = fact(&unpaid, "subscription").unwrap();
    assert!(
        text.starts_with("past_due, plan pro, ends 2026-12-01T00:00:00Z, unpaid: read-only from 2026-12-15"),
        "{text}"
    );
    let text = fact(&unpaid, "Stripe").unwrap();
    assert_eq!(text, "events to post: 3; events that need the operator: 1");
}

#[test]
fn a_report_draws_cost_and_ends_with_the_sum() {
    let row = |key: &str, label: &str, cost_usd| UsageRow {
        key: key.into(),
        label: label.into(),
        vcpu_seconds: 3600.0,
        cost_usd,
        ..UsageRow::default()
    };
    let days = UsageReport { rows: vec![row("2026-11-01", "", 1.0)], ..UsageReport::default() };
    assert_eq!(usage::head(&days).len(), 6);
    assert_eq!(usage::rows(&days)[0].join(" | "), "2026-11-01 | 1.00 | 0 | 0 | $1.00 | ████████████████████");
    let rows = vec![row("s1", "base\u{1b}[2J", 2.0), row("s2", "", 0.5)];
    let report = UsageReport { rows, total: row("total", "", 2.5), ..UsageReport::default() };
    assert_eq!(usage::head(&report)[..2], ["", "LABEL"]);
    let drawn: Vec<_> = usage::rows(&report).iter().map(|row| row.join(" | ")).collect();
    assert_eq!(
        drawn,
        [
            "s1 | base[2J | 1.00 | 0 | 0 | $2.00 | ████████████████████",
            "s2 |  | 1.00 | 0 | 0 | $0.50 | █████░░░░░░░░░░░░░░░",
            "total |  | 1.00 | 0 | 0 | $2.50",
        ]
    );
}

#[test]
fn prices_are_shown_by_the_hour() {
    let rates = UsageRates {
        vcpu_usd_per_second: 0.00001,
        memory_usd_per_gib_second: 0.000_002_5,
        volume_usd_per_gib_month: 0.15,
    };
    let prices: Vec<_> = pricing::rates(&rates).into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(prices, ["$0.036", "$0.009", "$0.15"]);
    let tier = PricingTier {
        name: "pro".into(),
        monthly_usd: 20.0,
        credit_usd: 20.0,
        overage: true,
        storage_included_gib: 100,
        max_sandboxes: Some(100),
        max_memory_mb_total: Some(131_072),
        ..PricingTier::default()
    };
    let row = pricing::plan(&tier).join(" | ");
    assert_eq!(row, "pro | $20.00 | $20.00 | charged | 100 GiB | 100 | no limit | 128 GiB | no limit | no limit");
}
