//! Runs other programs: finds the workspace, runs a command and reports its failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Returns the root folder of the workspace.
pub fn workspace() -> PathBuf {
    // Read at run time: clones share one target folder, so a compiled-in path may be another
    // clone's.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("xtask is run by cargo, which says where it lies");
    Path::new(&own).parent().expect("xtask sits one folder below the root").to_path_buf()
}

/// Returns a `cargo` command that runs at the workspace root.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()).args(args);
    command
}

/// Runs a command with our own output streams. A failure is an error that names the command.
pub fn passes(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("start {}", shown(&command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(&command));
    }
    Ok(())
}

/// Runs a command and returns its output. On failure its error output goes into the error.
pub fn output(mut command: Command) -> Result<String> {
    let out = command.output().with_context(|| format!("start {}", shown(&command)))?;
    if !out.status.success() {
        bail!("{} ended with {}:\n{}", shown(&command), out.status, String::from_utf8_lossy(&out.stderr));
    }
    String::from_utf8(out.stdout).with_context(|| format!("read the output of {}", shown(&command)))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
