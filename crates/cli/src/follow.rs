//! Follows a command to its end. Shows its output live or keeps it for a JSON report.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use pandastack_client::{
    Client, ClientError, ExecOutput,
    wire::{ExecRequest, ExecResponse},
};

use crate::{
    GlobalArgs,
    interrupt::{INTERRUPTED, StopSignals},
    output::OutputForm,
};

/// The exit code that shells use for a timeout.
pub const TIMED_OUT: u8 = 124;

/// Turns words into a request. One word is a shell command line; several are a program and its
/// arguments, passed on unchanged.
pub fn request(mut words: Vec<String>, timeout: Option<u64>) -> ExecRequest {
    // f64 holds whole seconds far beyond any limit.
    let timeout_seconds = timeout.map(|seconds| seconds as f64);
    let (cmd, argv) = if words.len() == 1 { (words.pop(), None) } else { (None, Some(words)) };
    ExecRequest { cmd, argv, timeout_seconds, ..ExecRequest::default() }
}

/// Runs a command in a sandbox and returns its exit code as our own. Shows its output at once, or
/// in one report at the end.
pub async fn follow(
    client: &Client,
    id: &str,
    ask: &ExecRequest,
    interrupt: &mut StopSignals,
    global: &GlobalArgs,
) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    // A report has no names, so `-o name` shows the output as it comes.
    let is_report = matches!(global.form(), OutputForm::Json | OutputForm::Yaml);
    let mut stream = client.exec_stream(id, ask).await?;
    let mut kept =
        ExecResponse { stdout: String::new(), stderr: String::new(), exit_code: 0, duration_ms: 0, truncated: false };
    loop {
        let next = tokio::select! {
            () = interrupt.recv() => return Ok(ExitCode::from(INTERRUPTED)),
            next = stream.next() => next,
        };
        match next {
            Some(Ok(ExecOutput::Stdout(chunk))) if is_report => kept.stdout.push_str(&chunk),
            Some(Ok(ExecOutput::Stderr(chunk))) if is_report => kept.stderr.push_str(&chunk),
            Some(Ok(ExecOutput::Stdout(chunk))) => pass_on(&mut io::stdout().lock(), &chunk)?,
            Some(Ok(ExecOutput::Stderr(chunk))) => pass_on(&mut io::stderr().lock(), &chunk)?,
            Some(Ok(ExecOutput::Exit(code))) => {
                kept.exit_code = code;
                break;
            }
            Some(Err(error)) => return failed(error),
            None => break,
        }
    }
    if is_report {
        kept.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        global.print(&kept)?;
    }
    Ok(exit_code(kept.exit_code))
}

/// A shell sees only the low byte of an exit code. A failure must not look like a success.
pub fn exit_code(code: i32) -> ExitCode {
    match (code, u8::try_from(code & 0xff).unwrap_or(1)) {
        (0, _) => ExitCode::SUCCESS,
        (_, 0) => ExitCode::FAILURE,
        (_, low) => ExitCode::from(low),
    }
}

fn failed(error: ClientError) -> anyhow::Result<ExitCode> {
    if error.is_timeout() {
        eprintln!("error: {error}");
        return Ok(ExitCode::from(TIMED_OUT));
    }
    Err(error.into())
}

fn pass_on(to: &mut impl Write, chunk: &str) -> io::Result<()> {
    to.write_all(chunk.as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_shell_line() {
        let ask = request(vec!["echo a | wc".into()], Some(5));
        assert_eq!((ask.cmd.as_deref(), ask.argv, ask.timeout_seconds), (Some("echo a | wc"), None, Some(5.0)));
        let ask = request(vec!["echo".into(), "a b".into()], None);
        assert_eq!((ask.cmd, ask.argv.unwrap().len()), (None, 2));
    }

    #[test]
    fn a_failure_never_looks_like_success() {
        assert_eq!(format!("{:?}", exit_code(0)), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(format!("{:?}", exit_code(7)), format!("{:?}", ExitCode::from(7)));
        assert_eq!(format!("{:?}", exit_code(256)), format!("{:?}", ExitCode::FAILURE));
        assert_eq!(format!("{:?}", exit_code(-1)), format!("{:?}", ExitCode::from(255)));
    }
}
