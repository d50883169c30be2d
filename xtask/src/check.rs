//! `cargo xtask check`: tidy, format and lints. Runs all three even if one fails, so that one run
//! shows everything.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;

use crate::{run, tidy};

/// Runs the three checks and fails if any of them failed.
pub fn run() -> Result<ExitCode> {
    let steps = [
        step("tidy", tidy),
        step("format", || run::passes(run::cargo(&["fmt", "--all", "--check"]))),
        step("lints", || run::passes(lints())),
    ];
    let failed: Vec<_> = steps.into_iter().flatten().collect();
    if failed.is_empty() {
        println!("check: ok");
        return Ok(ExitCode::SUCCESS);
    }
    println!("check: failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn tidy() -> Result<()> {
    anyhow::ensure!(tidy::run()? == ExitCode::SUCCESS, "refusals above");
    Ok(())
}

fn lints() -> Command {
    let mut command = Command::new("scripts/cargo-progress");
    command.current_dir(run::workspace());
    command.args(["lints", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    command
}

/// Runs one check and returns its name if it failed.
fn step(name: &'static str, work: impl FnOnce() -> Result<()>) -> Option<&'static str> {
    let begin = Instant::now();
    let outcome = work();
    let seconds = begin.elapsed().as_secs_f32();
    let Err(error) = outcome else {
        println!("check: {name} ok ({seconds:.1} s)");
        return None;
    };
    println!("check: {name} failed ({seconds:.1} s): {error:#}");
    Some(name)
}
