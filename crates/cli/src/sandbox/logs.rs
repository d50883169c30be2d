//! `pandastack sandbox logs`

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::{
    GlobalArgs,
    advice::advise,
    interrupt::{INTERRUPTED, StopSignals},
    output,
    pick::SandboxArg,
};

/// Arguments of `sandbox logs`.
#[derive(Debug, clap::Args)]
pub struct SandboxLogsArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Follow new output until the sandbox is deleted
    #[arg(long, short)]
    follow: bool,
    /// Start with only this many of the last lines
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
}

/// Shows a sandbox's console. Neither wakes it nor keeps it awake.
pub async fn logs(args: SandboxLogsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let SandboxLogsArgs { sandbox, follow, tail } = args;
    let (client, id) = sandbox.find(global).await?;
    if !follow {
        let text = client.logs(&id, tail).await.map_err(advise)?;
        text.lines().try_for_each(|line| show(line, global))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut interrupt = StopSignals::listen()?;
    let mut lines = client.follow_logs(&id, tail).await.map_err(advise)?;
    loop {
        let next = tokio::select! {
            () = interrupt.recv() => return Ok(ExitCode::from(INTERRUPTED)),
            next = lines.next() => next,
        };
        match next {
            Some(line) => show(line.map_err(advise)?.line.trim_end_matches('\n'), global)?,
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn show(line: &str, global: &GlobalArgs) -> anyhow::Result<()> {
    if global.is_structured() {
        global.print_event(&serde_json::json!({ "line": line }))?
    } else {
        output::line(line)?
    }
    // The reader of a pipe needs each line at once.
    let _ = io::stdout().flush();
    Ok(())
}
