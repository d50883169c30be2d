//! `pandastack completion SHELL`

use std::process::ExitCode;

use clap_complete::Shell;

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// Shell to write for
    shell: Shell,
}

/// Prints the script.
pub fn completion(args: CompletionArgs, mut root: clap::Command) -> anyhow::Result<ExitCode> {
    let name = root.get_name().to_owned();
    clap_complete::generate(args.shell, &mut root, name, &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
