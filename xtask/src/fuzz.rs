//! `cargo xtask fuzz`: builds the fuzz targets and runs them one after another. Works on stable
//! Rust: coverage comes from an LLVM pass. Corpora are kept in the cache, outside of the clone;
//! small seeds are in `fuzz/seeds`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// Coverage instrumentation for libFuzzer: the same flags that cargo-fuzz uses.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Given explicitly, so that build scripts and macros are built without coverage.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Limits of one target. Exceeding one is a finding.
const MEMORY_MIB_MAX: u32 = 1024;
const INPUT_SECONDS_MAX: u32 = 20;
const INPUT_BYTES_MAX: u32 = 128 * 1024;

#[derive(clap::Args)]
pub struct FuzzArgs {
    /// Run only this target (a file of fuzz/fuzz_targets); without it, all of them
    target: Option<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Builds the targets and runs them.
pub fn run(args: &FuzzArgs) -> Result<ExitCode> {
    let targets = match &args.target {
        Some(target) => vec![target.clone()],
        None => targets()?,
    };
    let mut build = run::cargo(&["build", "--quiet", "--locked", "--profile", "fuzz", "--package", "pandastack-fuzz"]);
    build.args(["--target", TRIPLE]).args(targets.iter().map(|target| format!("--bin={target}")));
    build.env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", built());
    run::passes(build)?;
    for target in &targets {
        fuzz(target, args.seconds)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the targets.
fn targets() -> Result<Vec<String>> {
    let folder = run::workspace().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    ensure!(!names.is_empty(), "{} holds no target", folder.display());
    Ok(names)
}

/// The target folder of instrumented builds.
fn built() -> PathBuf {
    let usual = || run::workspace().join("target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(usual, PathBuf::from).join("fuzz")
}

/// Runs one target. A crash, a hang or too much memory is an error that names the input.
fn fuzz(target: &str, seconds: u32) -> Result<()> {
    let cache = cache()?;
    let (corpus, found) = (cache.join(target), cache.join("findings").join(target));
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    println!("fuzz: {target} for {seconds} s, corpus in {}", corpus.display());
    let program = built().join(TRIPLE).join("fuzz").join(target);
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(&program).arg(&corpus);
    let seeds = run::workspace().join("fuzz/seeds").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-malloc_limit_mb={MEMORY_MIB_MAX}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-artifact_prefix={}/", found.display()),
        "-print_final_stats=1".to_owned(),
    ]);
    let status = command.status().with_context(|| format!("start {}", program.display()))?;
    if !status.success() {
        bail!("{target} ended with {status}; the input is in {}", found.display());
    }
    Ok(())
}

/// Folder for corpora and findings.
fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("PANDASTACK_FUZZ_DIR") {
        return Ok(folder.into());
    }
    let home = std::env::var_os("HOME").context("HOME is not set; set PANDASTACK_FUZZ_DIR instead")?;
    Ok(Path::new(&home).join(".cache/pandastack/fuzz"))
}
