//! `pandastack sandbox spawn`

use std::process::ExitCode;

use pandastack_client::wire::SpawnRequest;

use crate::{GlobalArgs, follow::request, output, pair::pair, pick::SandboxArg};

/// Arguments of `sandbox spawn`.
#[derive(Debug, clap::Args)]
pub struct SpawnArgs {
    /// End the process after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Directory to run in
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,
    /// Set an environment variable; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// User to run as
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Your own name for the process
    #[arg(long, value_name = "TEXT")]
    tag: Option<String>,
    /// Keep its standard input open, for `attach --stdin`
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Command: one word is a shell line, several are a program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Starts a process that keeps running, and prints its id.
pub async fn spawn(args: SpawnArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let SpawnArgs { timeout, cwd, env, user, tag, stdin, sandbox, command } = args;
    let ask = request(command, timeout);
    let ask = SpawnRequest {
        cmd: ask.cmd,
        argv: ask.argv,
        timeout_seconds: ask.timeout_seconds,
        cwd,
        env: (!env.is_empty()).then(|| env.into_iter().collect()),
        user,
        stdin: stdin.then_some(true),
        tag,
    };
    let (client, id) = sandbox.find(global).await?;
    let process = client.spawn(&id, &ask).await?;
    if global.is_structured() {
        global.print(&process)?
    } else {
        output::line(&process.id)?
    }
    Ok(ExitCode::SUCCESS)
}
