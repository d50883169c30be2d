//! `pandastack audit`

use std::{io::Write, process::ExitCode};

use futures_util::StreamExt;
use pandastack_client::{AuditQuery, wire::AuditedRequest};

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    #[command(subcommand)]
    export: Option<AuditCommand>,
    /// Show only entries since a time such as 2024-05-01T12:00:00Z; default: 24 hours ago
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show only entries before a time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show only requests of user:ID, key:PREFIX or an e-mail address
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Show only requests with a method such as DELETE
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Number of entries to show
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    limit: usize,
}

/// Subcommands of `audit`.
#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    /// Print all entries as JSON lines, oldest first, with their hash chain
    Export {
        /// Print only entries after this number, to continue an export
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
    },
}

/// Lists the changing requests of this workspace, newest first, or exports all of them.
pub async fn audit(args: AuditArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let AuditArgs { export, since, until, actor, method, limit } = args;
    if let Some(AuditCommand::Export { after }) = export {
        return export_all(after, global).await;
    }
    let query = AuditQuery { since, until, actor, method };
    let trail = connect(global)?.audit_trail(&query, limit).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&trail)?;
    } else if trail.entries.is_empty() {
        eprintln!("no changes since {}", trail.since);
    } else {
        let rows: Vec<_> = trail.entries.iter().map(|entry| row(&entry.request)).collect();
        output::table(&["TIME", "METHOD", "PATH", "STATUS", "TOOK", "ACTOR", "ADDRESS", "REQUEST"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn export_all(after: Option<u64>, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let mut lines = Box::pin(connect(global)?.export_audit(after).await.map_err(advise)?);
    let mut out = std::io::stdout();
    while let Some(piece) = lines.next().await {
        out.write_all(&piece.map_err(advise)?)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn row(request: &AuditedRequest) -> Vec<String> {
    // An e-mail address says more than an id. Entries of old servers have only a key.
    let actor = request.actor_email.as_ref().or(request.actor.as_ref()).unwrap_or(&request.key_prefix);
    vec![
        request.ts.clone(),
        request.method.clone(),
        request.path.clone(),
        request.status.to_string(),
        format!("{} ms", request.duration_ms),
        actor.clone(),
        request.address.clone().unwrap_or_default(),
        request.request_id.clone(),
    ]
}
