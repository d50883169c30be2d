//! `pandastack sandbox diff`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;
use pandastack_client::wire::{FileDiff, RunningProgram};

use crate::{GlobalArgs, advice::advise, complete, find::FoundKind, output, pick::SandboxArg, spinner::Spinner};

/// Arguments of `sandbox diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// The sandbox to compare with: its id, a unique start of it, or its name
    #[arg(value_name = "OTHER", add = ArgValueCompleter::new(complete::sandboxes))]
    other: String,
    /// Compare only what is below this absolute path
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
}

/// Shows the files and processes that two sandboxes do not share.
pub async fn diff(args: DiffArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    let other = FoundKind::Sandbox.find(&client, &args.other).await?;
    let spinner = Spinner::start("comparing");
    let found = client.diff(&id, &other, args.path.as_deref()).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    for file in &found.files {
        output::line(&file_line(file))?;
    }
    for (sign, program) in signed(&found.processes, '-').chain(signed(&found.with_processes, '+')) {
        output::line(&plain(&format!("{sign} process {} {}", program.pid, program.command)))?;
    }
    if found.truncated {
        output::warn("there are more files than were compared; name a folder with --path");
    }
    Ok(ExitCode::SUCCESS)
}

fn signed(programs: &[RunningProgram], sign: char) -> impl Iterator<Item = (char, &RunningProgram)> {
    programs.iter().map(move |program| (sign, program))
}

fn file_line(file: &FileDiff) -> String {
    let sign = match file.change.as_str() {
        "added" => '+',
        "removed" => '-',
        _ => '~',
    };
    plain(&format!("{sign} {}", file.path))
}

/// Names come from the guests, and a terminal obeys control characters.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
