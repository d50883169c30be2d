//! `pandastack sandbox exec`

use std::process::ExitCode;

use crate::{
    GlobalArgs,
    follow::{follow, request},
    interrupt::StopSignals,
    pair::pair,
    pick::SandboxArg,
};

/// Arguments of `sandbox exec`.
#[derive(Debug, clap::Args)]
pub struct ExecArgs {
    /// End the command after this many seconds
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
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Command: one word is a shell line, several are a program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Runs a command and returns its exit code. Ctrl-C ends the command.
pub async fn exec(args: ExecArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ExecArgs { timeout, cwd, env, user, sandbox, command } = args;
    let (client, id) = sandbox.find(global).await?;
    let mut ask = request(command, timeout);
    ask.cwd = cwd;
    ask.user = user;
    ask.env = (!env.is_empty()).then(|| env.into_iter().collect());
    follow(&client, &id, &ask, &mut StopSignals::listen()?, global).await
}
