//! `pandastack sandbox ps`

use std::process::ExitCode;

use pandastack_client::wire::Process;

use crate::{GlobalArgs, connect::connect, output};

/// Characters of a command that are shown in the table.
const COMMAND_CHARS: usize = 60;

/// Arguments of `sandbox ps`.
#[derive(Debug, clap::Args)]
pub struct PsArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Sandbox id
    id: String,
}

/// Lists the processes that were started with `spawn`.
pub async fn ps(args: PsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let processes = connect(global)?.processes(&args.id).await?;
    if args.json {
        output::json(&processes)?;
    } else if processes.is_empty() {
        eprintln!("no processes; start one with: pandastack sandbox spawn {} CMD", args.id);
    } else {
        let rows: Vec<_> = processes.into_iter().map(row).collect();
        output::table(&["ID", "PID", "STATUS", "EXIT", "TAG", "STARTED", "OUTPUT", "COMMAND"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(process: Process) -> Vec<String> {
    let command: String = process.cmd.chars().filter(|c| !c.is_control()).take(COMMAND_CHARS).collect();
    vec![
        process.id,
        process.pid.to_string(),
        process.status,
        process.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string()),
        process.tag.unwrap_or_else(|| "-".to_owned()),
        process.started_at,
        process.stdout_bytes.saturating_add(process.stderr_bytes).to_string(),
        command,
    ]
}
