//! `pandastack sandbox signal`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, output};

/// Arguments of `sandbox signal`.
#[derive(Debug, clap::Args)]
pub struct SignalArgs {
    /// Kill the process and its whole group, and remove it with its output
    #[arg(long, conflicts_with = "signal")]
    remove: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Sandbox id
    id: String,
    /// Process id
    process: String,
    /// Signal, by name or number
    #[arg(default_value = "TERM")]
    signal: String,
}

/// Sends a signal to a process group.
pub async fn signal(args: SignalArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let did = if args.remove {
        client.forget(&args.id, &args.process).await?;
        "removed".to_owned()
    } else {
        client.signal(&args.id, &args.process, &args.signal).await?;
        format!("sent {} to", args.signal)
    };
    if args.json {
        let process = if args.remove { None } else { Some(client.process(&args.id, &args.process).await?) };
        output::json(&process)?;
    } else {
        output::line(&format!("{did} {}", args.process))?;
    }
    Ok(ExitCode::SUCCESS)
}
