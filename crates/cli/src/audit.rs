//! `pandastack audit`

use std::process::ExitCode;

use pandastack_client::wire::AuditEntry;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
pub struct AuditArgs {
    /// Show only entries since a time such as 2024-05-01T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Number of entries to show
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    limit: usize,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Lists the changing requests of this workspace, newest first.
pub async fn audit(args: AuditArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let trail = connect(global)?.audit_trail(args.since.as_deref(), args.limit).await.map_err(advise)?;
    if args.json {
        output::json(&trail)?;
    } else if trail.entries.is_empty() {
        eprintln!("no changes since {}", trail.since);
    } else {
        let rows: Vec<_> = trail.entries.iter().map(row).collect();
        output::table(&["TIME", "METHOD", "PATH", "STATUS", "TOOK", "KEY", "REQUEST"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let AuditEntry { time, request_id, method, route: _, path, status, duration_ms, key_prefix } = entry;
    vec![
        time.clone(),
        method.clone(),
        path.clone(),
        status.to_string(),
        format!("{duration_ms} ms"),
        key_prefix.clone(),
        request_id.clone(),
    ]
}
