//! `pandastack quota`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Shows the limits of the workspace, and what it uses of them.
pub async fn execute(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let quotas = connect(global)?.quotas().await.map_err(advise)?;
    if global.is_structured() {
        global.print(&quotas)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (used, most) = (&quotas.usage, &quotas.limits);
    let row = |what: &str, used: Option<u64>, most: Option<u64>| {
        let number = |number: Option<u64>, none: &str| number.map_or(none.to_owned(), |number| number.to_string());
        vec![what.to_owned(), number(used, ""), number(most, "no limit")]
    };
    let rows = [
        row("sandboxes", Some(used.sandboxes), most.max_sandboxes),
        row("CPUs", Some(used.cpu), most.max_cpu_total),
        row("memory, MiB", Some(used.memory_mb), most.max_memory_mb_total),
        row("disks, GiB", Some(used.disk_gib), most.max_disk_gib_total),
        row("creates within an hour", Some(used.creates_last_hour), most.hourly_create_limit),
        row("volumes", Some(used.volumes), most.max_volumes),
        row("all volumes, GiB", Some(used.volume_total_gib), most.max_volume_total_gib),
        row("one volume, GiB", None, most.max_volume_size_gib),
        row("idle time, seconds", None, most.ttl_seconds_max),
        row("builds at once", None, most.builds_concurrent_max),
        row("requests at once", None, most.connections_max),
        row("requests per second", None, most.requests_per_second.map(u64::from)),
    ];
    output::line(&format!("workspace {}, plan {}", quotas.workspace, quotas.plan))?;
    output::table(&["LIMIT", "USED", "AT MOST"], &rows)?;
    Ok(ExitCode::SUCCESS)
}
