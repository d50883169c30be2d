//! Resource use of sandboxes: now, over time, and as text for Prometheus. Reading it neither wakes
//! a sandbox nor counts as use.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{Uri, header},
    response::{IntoResponse, Response},
};
use pandastack_door::http::{Answer, SandboxPath, query_time, query_value};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{Caller, MachineUsage};
use pandastack_wire_public::{MachineMetrics, MetricSeries, NO_MACHINE, rfc3339};

use super::caller::Authenticated;
use crate::{
    Control,
    database_meters::DatabaseReading,
    limits::{HEALTH_MAX, SERIES_SPAN_MAX},
    meters::{MeterReading, Meters},
    series::{Points, SeriesRange, UsageBaseline},
};

const NS_PER_SECOND: u64 = 1_000_000_000;
/// Time between two measurements of a machine that was never sampled.
const FIRST_LOOK: Duration = Duration::from_millis(200);
/// Step widths that a caller may request.
const STEPS: [(&str, u64); 4] = [("15s", 15), ("1m", 60), ("5m", 300), ("1h", 3600)];

/// Shows the current resource use of a sandbox's machine.
pub async fn sandbox(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<MachineMetrics>> {
    visible(&control, &caller, id).await?;
    let (usage, percent) = measured(&control, id).await?;
    Ok(Json(MachineMetrics {
        pid: usage.pid,
        uptime_seconds: usage.up.as_secs(),
        host_cpu_percent: percent,
        host_rss_bytes: usage.resident.get(),
        host_vsz_bytes: usage.mapped.get(),
        threads: usage.threads,
    }))
}

/// Shows a sandbox's resource use over time.
pub async fn sandbox_series(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Answer<Json<MetricSeries>> {
    let id = path.ok().and_then(|Path(id)| id.parse().ok()).ok_or_else(Fault::no_sandbox)?;
    visible(&control, &caller, id).await?;
    control.need_host()?;
    let (span, step) = span(&uri, control.clock.now_ns())?;
    Ok(Json(render(span, step, control.usage.series.sandbox(id, span))))
}

/// Shows the resource use of all the caller's sandboxes together.
pub async fn overview(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<MetricSeries>> {
    control.need_host()?;
    let (span, step) = span(&uri, control.clock.now_ns())?;
    Ok(Json(render(span, step, control.usage.series.workspace(&caller.workspace, span))))
}

/// Writes all meters. Public, so it contains nothing about tenants.
pub async fn prometheus(State(control): State<Control>) -> Answer<Response> {
    let late = |_| Fault::new(FaultKind::Timeout, "metrics.slow", "timeout: the host or the database did not answer");
    let status = tokio::time::timeout(HEALTH_MAX, control.host.status()).await.map_err(late)?;
    let counted = tokio::time::timeout(HEALTH_MAX, control.store.count_by_status()).await.map_err(late)?;
    let sandboxes = counted.map_err(Fault::from)?;
    let counted = tokio::time::timeout(HEALTH_MAX, control.store.count_databases()).await.map_err(late)?;
    let databases = DatabaseReading {
        statuses: counted.map_err(Fault::from)?,
        proxy: control.front.database_proxy.as_ref().map(|read| read()).unwrap_or_default(),
        archive: control.archive().map(|archive| archive.figures()).unwrap_or_default(),
        golden: control.golden_attempts.counts(),
    };
    let serving = sandboxes.iter().filter(|(state, _)| matches!(state.as_str(), "running" | "paused"));
    let machines = [serving.map(|(_, count)| count).sum(), status.standby as u64, status.blanks as u64];
    let reading = MeterReading {
        machines,
        sandboxes,
        memory_promised: status.memory_promised.get(),
        disk_free: status.disk_free.get(),
        disk_total: status.disk_total.get(),
        resident: status.resident.get(),
        databases,
        spans: control.front.spans.as_ref().map(|spans| [spans.counts().exported(), spans.counts().dropped()]),
    };
    let text = control.usage.meters.encode(reading).map_err(Fault::bug)?;
    Ok(([(header::CONTENT_TYPE, Meters::CONTENT_TYPE)], text).into_response())
}

async fn visible(control: &Control, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
    control.store.state(&caller.workspace, id).await?.map(drop).ok_or_else(Fault::no_sandbox)
}

/// Measures a machine, and its CPU use since the last measurement.
async fn measured(control: &Control, id: SandboxId) -> Result<(MachineUsage, f64), Fault> {
    let none = || Fault::new(FaultKind::Conflict, NO_MACHINE, "the sandbox has no running machine to measure");
    let usage = control.host.usage(id).await?.ok_or_else(none)?;
    let known = control.usage.series.baseline(id).and_then(|baseline| baseline.percent(&usage, control.clock.now_ns()));
    if let Some(percent) = known {
        return Ok((usage, percent));
    }
    let baseline = UsageBaseline::of(&usage, control.clock.now_ns());
    tokio::time::sleep(FIRST_LOOK).await;
    let usage = control.host.usage(id).await?.ok_or_else(none)?;
    let percent = baseline.percent(&usage, control.clock.now_ns()).unwrap_or(0.0);
    Ok((usage, percent))
}

/// Reads `from`, `to`, `range` and `step`.
fn span(uri: &Uri, now_ns: u64) -> Result<(SeriesRange, &'static str), Fault> {
    let bad = |code, text: &str| Err(Fault::new(FaultKind::Caller, code, text));
    let to = query_time(uri, "to")?.unwrap_or(now_ns) / NS_PER_SECOND;
    let range = match query_value(uri, "range").filter(|range| !range.is_empty()) {
        None => 3600,
        Some(text) => match seconds(&text) {
            Some(range) => range,
            None => return bad("metrics.bad_range", "range must be a number with s, m, h or d, such as 6h"),
        },
    };
    let from = query_time(uri, "from")?.map_or(to.saturating_sub(range), |from| from / NS_PER_SECOND);
    if from > to || to - from > SERIES_SPAN_MAX.as_secs() {
        return bad("metrics.bad_range", "from must be before to, and the period may be at most 30 days");
    }
    let usual = match to - from {
        0..=21_600 => "1m",
        21_601..=86_400 => "5m",
        _ => "1h",
    };
    let asked = query_value(uri, "step").filter(|step| !step.is_empty());
    let step = STEPS.into_iter().find(|(name, _)| *name == asked.as_deref().unwrap_or(usual));
    match step {
        Some((name, step)) => Ok((SeriesRange { from, to, step }, name)),
        None => bad("metrics.bad_step", "step must be 15s, 1m, 5m or 1h"),
    }
}

fn seconds(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

fn render(span: SeriesRange, step: &str, series: BTreeMap<String, Points>) -> MetricSeries {
    let time = |seconds: u64| rfc3339(seconds.saturating_mul(NS_PER_SECOND));
    // The dashboard draws its grid from times of exactly this form.
    let bucket = |seconds: u64| time(seconds).replace('T', " ").chars().take("2026-11-17 09:12:44".len()).collect();
    let points = |points: Points| points.into_iter().map(|(at, value)| (bucket(at), value)).collect();
    let series = series.into_iter().map(|(name, list)| (name, points(list))).collect();
    MetricSeries { from: time(span.from), to: time(span.to), step: step.to_owned(), series }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn check(query: &str, expected: Result<(u64, u64, &str), &str>) {
        let uri = format!("/x?{query}").parse().unwrap();
        let got = span(&uri, NOW * NS_PER_SECOND);
        let got = got.map(|(span, step)| (NOW - span.from, NOW - span.to, step)).map_err(|fault| fault.code);
        assert_eq!(got, expected, "{query}");
    }

    #[test]
    fn spans_are_read_and_held_to_a_month() {
        check("", Ok((3600, 0, "1m")));
        check("range=6h", Ok((21_600, 0, "1m")));
        check("range=30d&step=1h", Ok((30 * 86_400, 0, "1h")));
        check("range=1d&step=1m", Ok((86_400, 0, "1m")));
        check("from=2023-11-14T21:13:20Z&to=2023-11-14T22:13:20Z&step=5m", Ok((3600, 0, "5m")));
        check("range=31d", Err("metrics.bad_range"));
        check("range=1y", Err("metrics.bad_range"));
        check("range=é", Err("metrics.bad_range"));
        check("range=99999999999999999999h", Err("metrics.bad_range"));
        check("from=2023-11-15T21:13:20Z&to=2023-11-14T22:13:20Z", Err("metrics.bad_range"));
        check("step=7s", Err("metrics.bad_step"));
        check("from=yesterday", Err("query.bad_time"));
    }
}
