//! Questions to the person at the terminal. Without a terminal the answers are lines of standard
//! input, so that scripts can pipe them.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    process::ExitCode,
};

use anyhow::{Context, bail};
use pandastack_kit::Secret;

use crate::{
    hidden::HiddenInput,
    interrupt::{INTERRUPTED, StopSignals},
};

/// Longest answer.
const ANSWER_BYTES_MAX: u64 = 4096;

/// Where a password comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// The person is asked.
    Prompt,
    /// All of standard input.
    Stdin,
}

impl PasswordSource {
    /// Returns the source for the flag `--password-stdin`.
    pub fn from_flag(password_stdin: bool) -> Self {
        if password_stdin { PasswordSource::Stdin } else { PasswordSource::Prompt }
    }

    /// Gets a password that exists already.
    pub async fn current(self, question: &'static str) -> anyhow::Result<Secret<String>> {
        match self {
            PasswordSource::Prompt => hidden(question).await,
            PasswordSource::Stdin => read(read_all).await.map(Secret::new),
        }
    }

    /// Gets a new password. A person types it twice.
    pub async fn fresh(self) -> anyhow::Result<Secret<String>> {
        let password = self.current("New password: ").await?;
        if self == PasswordSource::Prompt && is_interactive() {
            let again = hidden("The same again: ").await?;
            if password.reveal() != again.reveal() {
                bail!("the two passwords differ; try again");
            }
        }
        Ok(password)
    }
}

/// Tells whether a person can answer.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal()
}

/// Asks for one line.
pub async fn ask(question: &str) -> anyhow::Result<String> {
    show(question);
    read(read_line).await
}

async fn hidden(question: &'static str) -> anyhow::Result<Secret<String>> {
    // Before the question, so that nothing typed after it is seen.
    let _hidden = HiddenInput::enter().context("set up the terminal")?;
    show(question);
    read(read_line).await.map(Secret::new)
}

/// Runs work that asks questions. A signal ends it, and what is typed is visible again.
pub async fn until_stopped(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let mut asked_to_stop = StopSignals::listen()?;
    tokio::select! {
        ended = work => ended,
        () = asked_to_stop.recv() => {
            eprintln!();
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// Shows a question, but not in the output that a program reads.
fn show(question: &str) {
    if is_interactive() {
        let mut out = io::stderr().lock();
        let _ = out.write_all(question.as_bytes()).and_then(|()| out.flush());
    }
}

/// Reads in another thread, because a read from a terminal cannot be cancelled. The thread ends
/// with the program.
async fn read(how: fn(&mut dyn BufRead) -> anyhow::Result<String>) -> anyhow::Result<String> {
    tokio::task::spawn_blocking(move || how(&mut io::stdin().lock())).await.context("read standard input")?
}

/// Reads one line without its end.
fn read_line(input: &mut dyn BufRead) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(ANSWER_BYTES_MAX + 2).read_until(b'\n', &mut bytes).context("read standard input")?;
    text(bytes)
}

/// Reads to the end of input. One end of line there is not part of the answer.
fn read_all(input: &mut dyn BufRead) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(ANSWER_BYTES_MAX + 3).read_to_end(&mut bytes).context("read standard input")?;
    text(bytes)
}

fn text(mut bytes: Vec<u8>) -> anyhow::Result<String> {
    if bytes.is_empty() {
        bail!("standard input ended before the answer");
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.len() as u64 > ANSWER_BYTES_MAX {
        bail!("the answer has more than {ANSWER_BYTES_MAX} bytes");
    }
    // The error would repeat the bytes, which may be a password.
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("the answer is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut input: &[u8], count: usize) -> Vec<Result<String, String>> {
        (0..count).map(|_| read_line(&mut input).map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn a_pipe_gives_one_line_for_each_answer() {
        let ended = Err("standard input ended before the answer".to_owned());
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(lines(b"ada@b.c\r\n two words \nlast", 4), [ok("ada@b.c"), ok(" two words "), ok("last"), ended]);
        assert_eq!(lines(b"\n", 1), [ok("")]);
    }

    #[test]
    fn answers_have_a_limit_and_are_text() {
        let longest = "x".repeat(ANSWER_BYTES_MAX as usize);
        assert_eq!(lines(format!("{longest}\r\n").as_bytes(), 1), [Ok(longest.clone())]);
        assert_eq!(lines(longest.as_bytes(), 1), [Ok(longest.clone())]);
        for long in [format!("{longest}x\n"), format!("{longest}x"), format!("{longest}{longest}")] {
            assert!(lines(long.as_bytes(), 1)[0].as_ref().unwrap_err().contains("4096"));
            assert!(read_all(&mut long.as_bytes()).unwrap_err().to_string().contains("4096"));
        }
        let error = lines(b"secret\xff\n", 1)[0].clone().unwrap_err();
        assert!(error.contains("UTF-8") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_password_on_standard_input_may_have_several_lines() {
        assert_eq!(read_all(&mut &b"one\ntwo\n"[..]).unwrap(), "one\ntwo");
        assert!(read_all(&mut &b""[..]).is_err());
    }
}
