//! `pandastack usage`

use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

use anyhow::Context;
use pandastack_client::{
    UsageQuery,
    wire::{UsageReport, UsageRow},
};

use super::{
    UsageOwner,
    amount::{bar, hours, usd},
};
use crate::{GlobalArgs, advice::advise, output};

/// Where the label stands in a row.
const LABEL_COLUMN: usize = 1;

/// Arguments of `usage`.
#[derive(Debug, clap::Args)]
pub struct UsageArgs {
    /// How to split the usage
    #[arg(long, default_value = "day", value_parser = ["day", "template", "sandbox", "member"])]
    by: String,
    /// First day (UTC), such as 2026-11-01; the first of this month by default
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// Last day (UTC); today by default
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// Print as CSV, for spreadsheets
    #[arg(long, conflicts_with_all = ["json", "output"])]
    csv: bool,
}

/// Shows what was used, and what it costs before credit and included storage.
pub async fn usage(args: UsageArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let UsageArgs { by, from, to, csv } = args;
    let UsageOwner { client, org } = UsageOwner::find(global).await?;
    let query = UsageQuery { by: Some(by), from, to };
    if csv {
        write(&client.usage_csv(org.as_deref(), &query).await.map_err(advise)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = client.usage(org.as_deref(), &query).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&report)?;
    } else if report.rows.is_empty() {
        eprintln!("no usage from {} to {}", report.from, report.to);
    } else {
        let UsageReport { workspace, from, to, .. } = &report;
        output::line(&format!("workspace {workspace}, {from} to {to}"))?;
        let head = head(&report);
        output::table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of the columns. Labels have one only if there are any.
pub fn head(report: &UsageReport) -> Vec<String> {
    let label = has_labels(report).then_some("LABEL");
    let numbers = ["VCPU HOURS", "MEMORY GIB HOURS", "STORAGE GIB HOURS", "COST", ""];
    let others = label.into_iter().chain(numbers).map(str::to_owned);
    [plain(&report.by).to_uppercase()].into_iter().chain(others).collect()
}

/// The rows of a report, then their sum. The highest cost has the longest bar.
pub fn rows(report: &UsageReport) -> Vec<Vec<String>> {
    let highest = report.rows.iter().map(|row| row.cost_usd).fold(0.0, f64::max);
    let drawn = report.rows.iter().map(|row| {
        let mut cells = cells(row);
        cells.push(bar(row.cost_usd, highest));
        cells
    });
    let mut rows: Vec<_> = drawn.chain([cells(&report.total)]).collect();
    if !has_labels(report) {
        rows.iter_mut().for_each(|row| drop(row.remove(LABEL_COLUMN)));
    }
    rows
}

fn has_labels(report: &UsageReport) -> bool {
    report.rows.iter().any(|row| !row.label.is_empty())
}

fn cells(row: &UsageRow) -> Vec<String> {
    let UsageRow { key, label, vcpu_seconds, memory_gib_seconds, storage_gib_seconds, cost_usd } = row;
    vec![
        plain(key),
        plain(label),
        hours(*vcpu_seconds),
        hours(*memory_gib_seconds),
        hours(*storage_gib_seconds),
        usd(*cost_usd),
    ]
}

/// Other people chose these names, so control characters could change the terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// Writes the server's table unchanged. A closed pipe is not an error.
fn write(table: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(table.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("write to standard output"),
    }
}
