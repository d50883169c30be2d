//! `pandastack db stats`

use std::process::ExitCode;

use pandastack_client::wire::DatabaseStats;

use crate::{GlobalArgs, advice::advise, output, pick::DatabaseArg};

/// Arguments of `db stats`.
#[derive(Debug, clap::Args)]
pub struct DatabaseStatsArgs {
    #[command(flatten)]
    database: DatabaseArg,
}

/// Measures a database. Does not wake it.
pub async fn stats(args: DatabaseStatsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let stats = client.database_stats(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&stats)?;
    } else {
        output::table(&["id", &id], &facts(stats))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a table says about the figures.
pub(super) fn facts(stats: DatabaseStats) -> Vec<Vec<String>> {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let DatabaseStats { disk_used_bytes, disk_size_bytes, disk_avail_bytes, disk_used_pct, .. } = stats;
    let disk = format!("{} of {} used ({disk_used_pct:.1} %)", mib(disk_used_bytes), mib(disk_size_bytes));
    let rows = [
        ("version", stats.postgres_version.unwrap_or_else(|| "-".to_owned())),
        ("up", format!("{} s", stats.uptime_seconds)),
        ("size", mib(stats.db_size_bytes)),
        ("connections", format!("{} of {}", stats.connections, stats.max_connections)),
        ("cache hits", format!("{:.1} %", stats.cache_hit_ratio * 100.0)),
        ("disk", disk),
        ("disk free", mib(disk_avail_bytes)),
    ];
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}
