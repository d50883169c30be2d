//! `pandastack completion SHELL`

use std::process::ExitCode;

use clap_complete::Shell;

use crate::output;

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// Shell to generate the script for
    shell: Shell,
}

/// Prints the script.
pub fn completion(args: CompletionArgs, mut root: clap::Command) -> anyhow::Result<ExitCode> {
    let name = root.get_name().to_owned();
    // Into memory first, because the generator panics if a reader such as `head` closes the pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut root, name, &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
