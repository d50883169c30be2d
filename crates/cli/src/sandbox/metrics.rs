//! `pandastack sandbox metrics`

use std::process::ExitCode;

use pandastack_client::wire::MachineMetrics;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg};

/// Arguments of `sandbox metrics`.
#[derive(Debug, clap::Args)]
pub struct MetricsArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Show values over a period such as 30m, 6h or 7d, instead of current ones
    #[arg(long, value_name = "TIME")]
    range: Option<String>,
}

/// Shows the host resources that a sandbox's machine uses.
pub async fn metrics(args: MetricsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    if let Some(range) = &args.range {
        let series = client.metric_series(&id, range).await.map_err(advise)?;
        if global.is_structured() {
            global.print(&series)?;
        } else {
            let names: Vec<_> = series.series.keys().map(String::as_str).collect();
            let times = series.series.values().next().cloned().unwrap_or_default();
            let row = |(index, (at, _)): (usize, &(String, f64))| {
                let values =
                    series.series.values().map(|points| points.get(index).map_or(0.0, |point| point.1).to_string());
                std::iter::once(at.clone()).chain(values).collect::<Vec<_>>()
            };
            let rows: Vec<_> = times.iter().enumerate().map(row).collect();
            output::table(&[&["TIME (UTC)"], names.as_slice()].concat(), &rows)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let now = client.metrics(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&now)?;
    } else {
        let MachineMetrics { pid, uptime_seconds, host_cpu_percent, host_rss_bytes, host_vsz_bytes, threads } = now;
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let row = vec![
            pid.to_string(),
            format!("{uptime_seconds} s"),
            format!("{host_cpu_percent} %"),
            mib(host_rss_bytes),
            mib(host_vsz_bytes),
            threads.to_string(),
        ];
        output::table(&["PID", "UP", "CPU", "RESIDENT", "MAPPED", "THREADS"], &[row])?;
    }
    Ok(ExitCode::SUCCESS)
}
