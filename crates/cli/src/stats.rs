//! `pandastack stats …`

use std::process::ExitCode;

use pandastack_client::wire::BootBucket;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Commands for statistics of the server.
#[derive(Debug, clap::Subcommand)]
pub enum StatsCommand {
    /// Summarize how fast recent sandboxes started
    Boot(BootStatsArgs),
}

/// Arguments of `stats boot`.
#[derive(Debug, clap::Args)]
pub struct BootStatsArgs {
    /// Number of boots to list in the JSON
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

/// Runs one of these commands.
pub async fn execute(command: StatsCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        StatsCommand::Boot(args) => boot(args, global).await,
    }
}

async fn boot(args: BootStatsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let stats = connect(global)?.boot_stats(args.limit).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&stats)?;
    } else if stats.total_samples == 0 {
        eprintln!("no boots since the server started");
    } else {
        let modes = stats.by_mode.iter().map(|(mode, bucket)| row(&format!("mode {mode}"), bucket));
        let templates = stats.by_template.iter().map(|(name, bucket)| row(&format!("template {name}"), bucket));
        let rows: Vec<_> = std::iter::once(row("all", &stats.overall)).chain(modes).chain(templates).collect();
        output::table(&["BOOTS", "COUNT", "MIN", "P50", "P90", "P99", "MAX", "MEAN"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(name: &str, bucket: &BootBucket) -> Vec<String> {
    let BootBucket { count, min_ms, max_ms, mean_ms, p50_ms, p90_ms, p99_ms } = bucket;
    let times = [min_ms, p50_ms, p90_ms, p99_ms, max_ms].map(|ms| format!("{ms} ms"));
    [name.to_owned(), count.to_string()].into_iter().chain(times).chain([format!("{mean_ms} ms")]).collect()
}
