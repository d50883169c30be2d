//! `--watch` on lists. On a terminal the list is redrawn in place; on a pipe it is printed again
//! whenever it has changed.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;

use crate::{
    exit::{ExitReason, exit_code_of},
    interrupt::{INTERRUPTED, StopSignals},
    output::{self, OutputForm},
};

/// The shortest time between two questions, so that a server is not flooded.
const PAUSE_MIN_SECONDS: f64 = 0.1;
const PAUSE_MAX_SECONDS: f64 = 86_400.0;
/// Rows and columns of a terminal that does not tell.
const SIZE_DEFAULT: (usize, usize) = (24, 80);

/// Whether a list is watched.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Show the list again every 2 seconds, or --watch=SECONDS, until Ctrl-C
    #[arg(
        long,
        short,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = seconds,
    )]
    watch: Option<Duration>,
}

impl WatchArgs {
    /// Returns the time between two questions, if the list is watched.
    pub fn pause(&self) -> Option<Duration> {
        self.watch
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (PAUSE_MIN_SECONDS..=PAUSE_MAX_SECONDS).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!("use {PAUSE_MIN_SECONDS} seconds or more")),
    }
}

/// Shows a text again and again until Ctrl-C. A server that does not answer for a while does not
/// end this; every other failure does.
pub async fn watch(
    pause: Duration,
    form: OutputForm,
    empty: &str,
    text: impl AsyncFn() -> anyhow::Result<String>,
) -> anyhow::Result<ExitCode> {
    let mut interrupt = StopSignals::listen()?;
    let mut screen = WatchScreen { is_terminal: io::stdout().is_terminal(), lines: 0, last: None };
    loop {
        let found = tokio::select! {
            () = interrupt.recv() => return Ok(ExitCode::from(INTERRUPTED)),
            found = text() => found,
        };
        match found {
            Ok(found) if found.is_empty() && form == OutputForm::Table => screen.show(empty, form)?,
            Ok(found) => screen.show(&found, form)?,
            Err(error) if screen.last.is_some() && is_passing(&error) => screen.complain(&error, form)?,
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = interrupt.recv() => return Ok(ExitCode::from(INTERRUPTED)),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn is_passing(error: &anyhow::Error) -> bool {
    let passing = [ExitReason::NoAnswer, ExitReason::TimedOut].map(|reason| format!("{:?}", reason.code()));
    passing.contains(&format!("{:?}", exit_code_of(error)))
}

/// Where the list is drawn.
struct WatchScreen {
    is_terminal: bool,
    /// Lines of the last drawing.
    lines: usize,
    last: Option<String>,
}

impl WatchScreen {
    fn show(&mut self, text: &str, form: OutputForm) -> anyhow::Result<()> {
        if self.is_terminal {
            let drawn = redrawn(text, self.lines, size());
            self.lines = drawn.matches('\n').count();
            let mut out = io::stdout().lock();
            out.write_all(drawn.as_bytes()).and_then(|()| out.flush()).context("write to the terminal")?;
        } else if self.last.as_deref() != Some(text) {
            // YAML documents need a mark between them, and tables a space; JSON needs nothing.
            match form {
                OutputForm::Yaml => output::line(&format!("---\n{text}"))?,
                OutputForm::Table if self.last.is_some() => output::line(&format!("\n{text}"))?,
                _ => output::line(text)?,
            }
            io::stdout().flush().context("write to standard output")?;
        }
        self.last = Some(text.to_owned());
        Ok(())
    }

    /// Shows a failure that may pass, and the last list.
    fn complain(&mut self, error: &anyhow::Error, form: OutputForm) -> anyhow::Result<()> {
        if !self.is_terminal {
            output::warn(&format!("{error:#}"));
            return Ok(());
        }
        let last = self.last.clone().unwrap_or_default();
        self.show(&format!("{last}\n{error:#}"), form)?;
        self.last = Some(last);
        Ok(())
    }
}

/// Moves back over the last drawing and writes a new one. Lines that do not fit are cut, because a
/// wrapped line would be counted wrongly.
fn redrawn(text: &str, lines_before: usize, (rows, columns): (usize, usize)) -> String {
    let back = if lines_before == 0 { String::new() } else { format!("\u{1b}[{lines_before}F") };
    let lines = text.lines().take(rows.saturating_sub(1).max(1));
    let lines: String = lines.map(|line| format!("{}\u{1b}[K\n", cut(line, columns))).collect();
    format!("{back}{lines}\u{1b}[J")
}

/// Cuts a line after so many visible characters. Colours take no space.
fn cut(line: &str, columns: usize) -> String {
    let (mut shown, mut visible, mut is_colour) = (String::new(), 0, false);
    for letter in line.chars() {
        if letter == '\u{1b}' {
            is_colour = true;
        } else if !is_colour {
            visible += 1;
        }
        if is_colour || visible <= columns {
            shown.push(letter);
        }
        is_colour &= !letter.is_ascii_alphabetic();
    }
    shown
}

fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => SIZE_DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_replaces_the_one_before() {
        assert_eq!(redrawn("a\nb", 0, (24, 80)), "a\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
        assert_eq!(redrawn("a", 2, (24, 80)), "\u{1b}[2Fa\u{1b}[K\n\u{1b}[J");
        assert_eq!(redrawn("a\nb\nc", 0, (3, 80)), "a\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
    }

    #[test]
    fn colours_take_no_space() {
        assert_eq!(cut("\u{1b}[32mrunning\u{1b}[0m  x", 9), "\u{1b}[32mrunning\u{1b}[0m  ");
        assert_eq!(cut("abc", 2), "ab");
    }

    #[test]
    fn a_pause_is_a_number_of_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "x", "nan", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
