//! `pandastack sandbox signal`

use std::process::ExitCode;

use crate::{GlobalArgs, output, pick::SandboxArg};

/// Arguments of `sandbox signal`.
#[derive(Debug, clap::Args)]
pub struct SignalArgs {
    /// Kill the process and its whole group, and remove it with its output
    #[arg(long, conflicts_with = "signal")]
    remove: bool,
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Process id
    process: String,
    /// Signal, by name or number
    #[arg(default_value = "TERM")]
    signal: String,
}

/// Sends a signal to a process group.
pub async fn signal(args: SignalArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    let did = if args.remove {
        client.forget(&id, &args.process).await?;
        "removed".to_owned()
    } else {
        client.signal(&id, &args.process, &args.signal).await?;
        format!("sent {} to", args.signal)
    };
    if global.is_structured() {
        let process = if args.remove { None } else { Some(client.process(&id, &args.process).await?) };
        global.print(&process)?;
    } else {
        output::line(&format!("{did} {}", args.process))?;
    }
    Ok(ExitCode::SUCCESS)
}
