//! `pandastack sandbox ssh`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, pick::SandboxArg, raw::RawTerminal, terminal::LocalTerminal};

/// Arguments of `sandbox ssh`.
#[derive(Debug, clap::Args)]
pub struct SshArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
}

/// Opens a shell in a sandbox, in this terminal. Returns its exit code.
pub async fn ssh(args: SshArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    let terminal = LocalTerminal::listen()?;
    let (keyboard, screen) = client.ssh(&id, RawTerminal::size()).await.map_err(advise)?;
    terminal.connect(keyboard, screen).await
}
