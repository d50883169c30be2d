//! `pandastack sandbox run-code`

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use anyhow::Context;
use pandastack_client::{
    Client, ClientError,
    wire::{CellResult, RunCell},
};

use crate::{
    GlobalArgs,
    advice::advise,
    follow::{TIMED_OUT, exit_code},
    output,
    pick::SandboxArg,
};

/// Arguments of `sandbox run-code`.
#[derive(Debug, clap::Args)]
pub struct RunCodeArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// File with the code; `-` means standard input
    #[arg(required_unless_present = "code", conflicts_with = "code")]
    file: Option<String>,
    /// The code itself
    #[arg(long, short)]
    code: Option<String>,
    /// Language: python, javascript or bash
    #[arg(long, default_value = "python")]
    language: String,
    /// Run in this session and keep it; by default a new session is used and then closed
    #[arg(long, value_name = "SESSION", conflicts_with = "language")]
    session: Option<String>,
    /// Interrupt the code after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
}

/// Runs code as one cell of a session and returns its exit code.
pub async fn run_code(args: RunCodeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let RunCodeArgs { sandbox, file, code, language, session, timeout } = args;
    let code = match (code, file.as_deref()) {
        (Some(code), _) => code,
        (None, Some("-") | None) => {
            let mut code = String::new();
            io::stdin().read_to_string(&mut code).context("read the code from standard input")?;
            code
        }
        (None, Some(path)) => std::fs::read_to_string(path).with_context(|| format!("read {path}"))?,
    };
    let (client, id) = sandbox.find(global).await?;
    let ask = RunCell { code: Some(code), timeout_ms: timeout.map(|seconds| seconds * 1000.0) };
    let ran = match &session {
        Some(session) => client.run_cell(&id, session, &ask).await,
        None => in_new_session(&client, &id, &language, &ask).await,
    };
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) if error.is_timeout() => {
            eprintln!("error: {error}");
            return Ok(ExitCode::from(TIMED_OUT));
        }
        Err(error) => return Err(advise(error)),
    };
    if global.is_structured() {
        global.print(&ran)?;
    } else {
        show(&ran)?;
    }
    Ok(exit_code(ran.exit))
}

async fn in_new_session(client: &Client, id: &str, language: &str, ask: &RunCell) -> Result<CellResult, ClientError> {
    let session = client.open_code(id, language).await?.id;
    let ran = client.run_cell(id, &session, ask).await;
    // The result of the cell counts, not that of the close.
    let _ = client.close_code(id, &session).await;
    ran
}

/// Shows the output, and of each result the format that fits a terminal.
fn show(ran: &CellResult) -> anyhow::Result<()> {
    write!(io::stdout().lock(), "{}", ran.stdout).context("write to standard output")?;
    eprint!("{}", ran.stderr);
    for bundle in &ran.results {
        let text = ["text/plain", "text/markdown", "text/html", "application/json"];
        match text.iter().find_map(|mime| bundle.get(*mime)) {
            Some(text) => output::line(text)?,
            None => output::line(&format!("[{}]", bundle.keys().cloned().collect::<Vec<_>>().join(", ")))?,
        }
    }
    if let Some(error) = &ran.error {
        eprintln!("{}", error.trim_end());
    }
    Ok(())
}
