//! `pandastack sandbox cp`: copies files and directories in both directions, and continues copies
//! that were interrupted.

mod compare;
mod download;
mod guest;
mod listing;
mod progress;
mod tree_down;
mod tree_up;
mod upload;

use std::{fmt::Write as _, path::Path, process::ExitCode};

use clap_complete::ArgValueCompleter;
use pandastack_client::Client;
use progress::CopyProgress;
use serde::Serialize;

use crate::{
    GlobalArgs, complete,
    connect::connect,
    exit::{ExitReason, exit_code_of},
    find::FoundKind,
    interrupt::{INTERRUPTED, StopSignals},
    output,
    size::mebibytes,
};

/// Arguments of `sandbox cp`.
#[derive(Debug, clap::Args)]
pub struct CpArgs {
    /// Copy directories: the contents of FROM go into TO, which is created if necessary
    #[arg(long, short)]
    recursive: bool,
    /// Continue an interrupted copy: skip files that have the same size and contents, and go on in
    /// the middle of a large file
    #[arg(long)]
    resume: bool,
    /// Send a larger file in pieces of this many mebibytes, each of which need not be sent again
    #[arg(long, value_name = "SIZE", value_parser = mebibytes, default_value = "64")]
    piece: i64,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
    /// Path, or SANDBOX:PATH. The sandbox may be an id, a unique start of it, or a name
    #[arg(add = ArgValueCompleter::new(complete::copied))]
    from: String,
    /// Path, or SANDBOX:PATH
    #[arg(add = ArgValueCompleter::new(complete::copied))]
    to: String,
}

/// Everything that a copy needs besides its two ends.
struct CopyJob<'a> {
    client: &'a Client,
    /// The id of the sandbox.
    id: &'a str,
    is_resumed: bool,
    piece_bytes: u64,
    progress: CopyProgress,
}

/// What was copied.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Copied {
    path: String,
    files: u64,
    bytes: u64,
    /// Files that were there already.
    skipped: u64,
}

/// Copies between this computer and a sandbox.
pub async fn cp(args: CpArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let mut interrupt = StopSignals::listen()?;
    let copied = tokio::select! {
        copied = copy(&args, global) => copied,
        () = interrupt.recv() => {
            eprintln!("interrupted; {}", how_to_resume(&args));
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    let copied = match copied {
        Ok(copied) => copied,
        Err(error) => {
            if format!("{:?}", exit_code_of(&error)) == format!("{:?}", ExitReason::NoAnswer.code()) {
                eprintln!("{}", how_to_resume(&args));
            }
            return Err(error);
        }
    };
    if global.is_structured() {
        global.print(&copied)?;
    } else if !args.quiet {
        output::line(&copied.told())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn copy(args: &CpArgs, global: &GlobalArgs) -> anyhow::Result<Copied> {
    let usage = |text: &str| Err(ExitReason::Usage.error(text));
    let piece_bytes = match u64::try_from(args.piece) {
        Ok(mib @ 1..) => mib.saturating_mul(1024 * 1024),
        _ => return usage("--piece must be 1 or more"),
    };
    let (from, to) = (remote(&args.from), remote(&args.to));
    let name = match (from, to) {
        (Some(_), Some(_)) => return usage("only one of FROM and TO can be in a sandbox"),
        (None, None) => return usage("one of FROM and TO must be SANDBOX:PATH"),
        (Some((name, _)), None) | (None, Some((name, _))) => name,
    };
    let client = connect(global)?;
    let id = FoundKind::Sandbox.find(&client, name).await?;
    let progress = if args.quiet { CopyProgress::hidden() } else { CopyProgress::start() };
    let job = CopyJob { client: &client, id: &id, is_resumed: args.resume, piece_bytes, progress };
    match (from, to) {
        (Some((_, from)), _) if args.recursive => tree_down::download_tree(&job, from, Path::new(&args.to)).await,
        (Some((_, from)), _) => download::download(&job, from, Path::new(&args.to)).await,
        (_, Some((_, to))) if args.recursive => tree_up::upload_tree(&job, Path::new(&args.from), to).await,
        (_, Some((_, to))) => upload::upload(&job, Path::new(&args.from), to).await,
        (None, None) => usage("one of FROM and TO must be SANDBOX:PATH"),
    }
}

/// Splits `SANDBOX:/path`. A local path with a colon needs `./` in front.
fn remote(text: &str) -> Option<(&str, &str)> {
    text.split_once(':').filter(|(id, path)| !id.is_empty() && !id.contains('/') && path.starts_with('/'))
}

fn how_to_resume(args: &CpArgs) -> String {
    let recursive = if args.recursive { "-r " } else { "" };
    format!("continue with: pandastack cp --resume {recursive}{} {}", args.from, args.to)
}

impl Copied {
    fn told(&self) -> String {
        let Self { path, files, bytes, skipped } = self;
        let mut text = format!("{bytes} bytes to {path}");
        if *files != 1 {
            let _ = write!(text, ", {files} files");
        }
        if *skipped > 0 {
            let _ = write!(text, ", {skipped} skipped");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_named_before_a_colon() {
        assert_eq!(remote("abc:/srv/x"), Some(("abc", "/srv/x")));
        for local in ["/srv/x", "./a:/b", "file", ":/x", "abc:relative"] {
            assert_eq!(remote(local), None, "{local}");
        }
    }

    #[test]
    fn one_file_is_not_counted() {
        let copied = Copied { path: "/x".into(), files: 1, bytes: 7, skipped: 0 };
        assert_eq!(copied.told(), "7 bytes to /x");
        assert_eq!(Copied { files: 3, skipped: 2, ..copied }.told(), "7 bytes to /x, 3 files, 2 skipped");
    }
}
