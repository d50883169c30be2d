//! `pandastack sandbox ps`

use std::process::ExitCode;

use pandastack_client::wire::Process;

use crate::{
    GlobalArgs,
    many::{ListFormat, TableFormat},
    pick::SandboxArg,
};

/// Characters of a command that are shown in the table.
const COMMAND_CHARS: usize = 60;

/// Arguments of `sandbox ps`.
#[derive(Debug, clap::Args)]
pub struct PsArgs {
    #[command(flatten)]
    form: ListFormat,
    #[command(flatten)]
    sandbox: SandboxArg,
}

/// Lists the processes that were started with `spawn`.
pub async fn ps(args: PsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    let head = &["ID", "PID", "STATUS", "EXIT", "TAG", "STARTED", "OUTPUT", "COMMAND"];
    let listing = TableFormat { head, row, empty: "no processes; start one with: pandastack sandbox spawn ID CMD" };
    args.form.print(global, listing, async || client.processes(&id).await).await
}

fn row(process: &Process) -> Vec<String> {
    let command: String = process.cmd.chars().filter(|c| !c.is_control()).take(COMMAND_CHARS).collect();
    vec![
        process.id.clone(),
        process.pid.to_string(),
        process.status.clone(),
        process.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string()),
        process.tag.clone().unwrap_or_else(|| "-".to_owned()),
        process.started_at.clone(),
        process.stdout_bytes.saturating_add(process.stderr_bytes).to_string(),
        command,
    ]
}
