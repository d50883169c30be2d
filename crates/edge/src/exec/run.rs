//! Drives one command: takes its events, feeds its standard input, and keeps the time. Dropping it ends the command.

use std::time::Duration;

use bytes::Bytes;
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ExecControl, ExecEvent, ExecSession, HostPort};
use pandastack_wire_public::exec_timeout;
use tokio::time::Instant;

use super::ask::Start;
use crate::limits::{KEEPALIVE, STDIN_PIECE_BYTES, TIMEOUT_GRACE};

/// A command under way.
pub struct Run {
    session: ExecSession,
    feed: Feed,
    backstop: Option<Backstop>,
}

/// What happened next. `Exit` and `Failed` are last.
pub enum Step {
    Stdout(Bytes),
    Stderr(Bytes),
    Exit(i32),
    Failed(Fault),
    /// Nothing, for as long as a stream may be silent.
    Quiet,
}

/// What is still to be sent to standard input.
enum Feed {
    Rest(Bytes),
    Done,
}

/// Ends a command whose host did not keep the time itself.
#[derive(Clone, Copy)]
struct Backstop {
    at: Instant,
    limit: Duration,
}

impl Run {
    /// Starts a command.
    pub async fn start(host: &dyn HostPort, id: SandboxId, start: Start) -> Result<Self, Fault> {
        let Start { ask, stdin } = start;
        let limit = ask.deadline;
        let session = host.exec(id, ask).await?;
        let feed = stdin.map_or(Feed::Done, |text| Feed::Rest(Bytes::from(text)));
        let backstop = limit.map(|limit| Backstop { at: Instant::now() + limit + TIMEOUT_GRACE, limit });
        Ok(Self { session, feed, backstop })
    }

    /// Waits for the next step. Input is fed meanwhile, since a command may not read until its output is taken.
    pub async fn next(&mut self) -> Step {
        let Self { session, feed, backstop } = self;
        let ExecSession { events, control } = session;
        let quiet = Instant::now() + KEEPALIVE;
        loop {
            tokio::select! {
                event = events.recv() => return step(event),
                room = control.reserve(), if matches!(feed, Feed::Rest(_)) => match room {
                    Ok(room) => room.send(feed.take()),
                    // The command no longer listens; its end is on the way.
                    Err(_) => *feed = Feed::Done,
                },
                limit = overdue(*backstop) => return Step::Failed(timed_out(limit)),
                () = tokio::time::sleep_until(quiet) => return Step::Quiet,
            }
        }
    }
}

impl Feed {
    /// Takes the next piece, or the end.
    fn take(&mut self) -> ExecControl {
        match self {
            Feed::Rest(rest) if !rest.is_empty() => {
                ExecControl::Stdin(rest.split_to(rest.len().min(STDIN_PIECE_BYTES)))
            }
            Feed::Rest(_) | Feed::Done => {
                *self = Feed::Done;
                ExecControl::CloseStdin
            }
        }
    }
}

/// Waits until the backstop is due; for ever if there is none.
async fn overdue(backstop: Option<Backstop>) -> Duration {
    match backstop {
        Some(Backstop { at, limit }) => {
            tokio::time::sleep_until(at).await;
            limit
        }
        None => std::future::pending().await,
    }
}

fn step(event: Option<ExecEvent>) -> Step {
    match event {
        Some(ExecEvent::Stdout(piece)) => Step::Stdout(piece),
        Some(ExecEvent::Stderr(piece)) => Step::Stderr(piece),
        Some(ExecEvent::Exit { code }) => Step::Exit(code),
        Some(ExecEvent::TimedOut { after }) => Step::Failed(timed_out(after)),
        Some(ExecEvent::Failed(fault)) => Step::Failed(fault),
        None => {
            let text = "the sandbox was lost while the command ran";
            Step::Failed(Fault::new(FaultKind::Unavailable, "exec.lost", text))
        }
    }
}

fn timed_out(limit: Duration) -> Fault {
    Fault::new(FaultKind::Timeout, "exec.timeout", exec_timeout(limit))
}
