//! `pandastack completion SHELL`

use std::process::ExitCode;

use anyhow::Context;
use clap_complete::{Shell, env::Shells};

use crate::{complete, output};

/// The script for zsh is our own: the library's needs a set-up of completion that a new zsh does
/// not have, gives nothing at the first press in a new window, and a space behind `web:/`.
const ZSH: &str = include_str!("completion.zsh");

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints a script that asks this program for completions, so that it knows live ids.
pub fn completion(args: CompletionArgs, root: clap::Command) -> anyhow::Result<ExitCode> {
    if args.shell == Shell::Zsh {
        output::line(ZSH.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = root.get_name().to_owned();
    let shells = Shells::builtins();
    let shell = shells.completer(&args.shell.to_string()).context("find the shell")?;
    // Into memory first: a reader such as `head` may close the pipe.
    let mut script = Vec::new();
    shell.write_registration(complete::VARIABLE, &name, &name, &name, &mut script).context("write the script")?;
    output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
