//! Drives one command: receives its events, feeds its standard input and enforces its timeout.
//! Dropping the `RunningCommand` ends the command.

use std::time::Duration;

use bytes::Bytes;
use pandastack_kit::trace::{self, OpenSpan};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ExecControl, ExecEvent, ExecSession, HostPort};
use pandastack_wire_public::exec_timeout;
use tokio::{sync::mpsc, time::Instant};

use super::ask::CommandStart;
use crate::limits::{KEEPALIVE, STDIN_PIECE_BYTES, TIMEOUT_GRACE};

/// A running command.
pub struct RunningCommand {
    session: ExecSession,
    feed: RemainingStdin,
    backstop: Option<Backstop>,
    /// The trace span, until the command has ended.
    work: OpenSpan,
}

/// The next event of a command. `Exit` and `Failed` are last.
pub enum CommandEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    Exit(i32),
    Failed(Fault),
    /// Nothing happened for the longest time that a stream may be silent.
    Quiet,
}

/// Remaining data for standard input.
enum RemainingStdin {
    Rest(Bytes),
    Done,
}

/// Timeout on our side, for a host that does not enforce the limit.
#[derive(Clone, Copy)]
struct Backstop {
    at: Instant,
    limit: Duration,
}

impl RunningCommand {
    /// Starts a command.
    pub async fn start(host: &dyn HostPort, id: SandboxId, start: CommandStart) -> Result<Self, Fault> {
        let CommandStart { ask, stdin } = start;
        let limit = ask.deadline;
        let (mut work, place) = trace::begin("guest.exec");
        if work.is_recorded() {
            work.note("pandastack.sandbox.id", id.to_string());
            // If the run is dropped without a last step, the client gave up.
            work.fail(&"the client disconnected");
        }
        let session = trace::within(place, host.exec(id, ask)).await.inspect_err(|fault| work.fail(fault))?;
        let feed = stdin.map_or(RemainingStdin::Done, |text| RemainingStdin::Rest(Bytes::from(text)));
        let backstop = limit.map(|limit| Backstop { at: Instant::now() + limit + TIMEOUT_GRACE, limit });
        Ok(Self { session, feed, backstop, work })
    }

    /// Returns a sender for input that arrives while the command runs.
    pub fn control(&self) -> mpsc::Sender<ExecControl> {
        self.session.control.clone()
    }

    /// Returns the next step. The last step also ends the span.
    pub async fn next(&mut self) -> CommandEvent {
        let step = self.wait().await;
        match &step {
            CommandEvent::Stdout(_) | CommandEvent::Stderr(_) | CommandEvent::Quiet => return step,
            CommandEvent::Exit(code) => {
                self.work.note("process.exit.code", i64::from(*code));
                self.work.succeed();
            }
            CommandEvent::Failed(fault) => self.work.fail(fault),
        }
        drop(std::mem::take(&mut self.work));
        step
    }

    /// Waits for the next event. Feeds input at the same time, because a command may not read its
    /// input until its output is taken.
    async fn wait(&mut self) -> CommandEvent {
        let Self { session, feed, backstop, .. } = self;
        let ExecSession { events, control } = session;
        let quiet = Instant::now() + KEEPALIVE;
        loop {
            tokio::select! {
                event = events.recv() => return step(event),
                room = control.reserve(), if matches!(feed, RemainingStdin::Rest(_)) => match room {
                    Ok(room) => room.send(feed.take()),
                    // The command no longer reads input; its exit event follows.
                    Err(_) => *feed = RemainingStdin::Done,
                },
                limit = overdue(*backstop) => return CommandEvent::Failed(timed_out(limit)),
                () = tokio::time::sleep_until(quiet) => return CommandEvent::Quiet,
            }
        }
    }
}

impl RemainingStdin {
    /// Takes the next piece, or the close.
    fn take(&mut self) -> ExecControl {
        match self {
            RemainingStdin::Rest(rest) if !rest.is_empty() => {
                ExecControl::Stdin(rest.split_to(rest.len().min(STDIN_PIECE_BYTES)))
            }
            RemainingStdin::Rest(_) | RemainingStdin::Done => {
                *self = RemainingStdin::Done;
                ExecControl::CloseStdin
            }
        }
    }
}

/// Waits until the backstop is due, or forever if there is none.
async fn overdue(backstop: Option<Backstop>) -> Duration {
    match backstop {
        Some(Backstop { at, limit }) => {
            tokio::time::sleep_until(at).await;
            limit
        }
        None => std::future::pending().await,
    }
}

fn step(event: Option<ExecEvent>) -> CommandEvent {
    match event {
        Some(ExecEvent::Stdout(piece)) => CommandEvent::Stdout(piece),
        Some(ExecEvent::Stderr(piece)) => CommandEvent::Stderr(piece),
        Some(ExecEvent::Exit { code }) => CommandEvent::Exit(code),
        Some(ExecEvent::TimedOut { after }) => CommandEvent::Failed(timed_out(after)),
        Some(ExecEvent::Failed(fault)) => CommandEvent::Failed(fault),
        None => CommandEvent::Failed(lost()),
    }
}

/// The fault of a command whose events stop without an end.
pub fn lost() -> Fault {
    Fault::new(FaultKind::Unavailable, "exec.lost", "the connection to the sandbox was lost while the command ran")
}

fn timed_out(limit: Duration) -> Fault {
    Fault::new(FaultKind::Timeout, "exec.timeout", exec_timeout(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(
        stdin: &str,
        limit: Option<Duration>,
    ) -> (RunningCommand, mpsc::Sender<ExecEvent>, mpsc::Receiver<ExecControl>) {
        let ((event_tx, events), (control, control_rx)) = (mpsc::channel(1), mpsc::channel(1));
        let backstop = limit.map(|limit| Backstop { at: Instant::now() + limit + TIMEOUT_GRACE, limit });
        let feed = RemainingStdin::Rest(Bytes::copy_from_slice(stdin.as_bytes()));
        (
            RunningCommand { session: ExecSession { events, control }, feed, backstop, work: OpenSpan::default() },
            event_tx,
            control_rx,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_command_is_kept_alive_and_a_stuck_one_is_ended() {
        let (mut run, _events, _control) = run("", Some(Duration::from_secs(10)));
        let began = Instant::now();
        assert!(matches!(run.next().await, CommandEvent::Quiet));
        assert_eq!(began.elapsed(), KEEPALIVE);
        let CommandEvent::Failed(fault) = run.next().await else { panic!("not ended") };
        assert_eq!((fault.kind, fault.text.as_str()), (FaultKind::Timeout, "exec timeout after 10s"));
        assert_eq!(began.elapsed(), Duration::from_secs(10) + TIMEOUT_GRACE);
    }

    #[tokio::test]
    async fn input_is_fed_in_pieces_while_output_is_taken() {
        let text = "x".repeat(STDIN_PIECE_BYTES + 5);
        let (mut run, events, mut control) = run(&text, None);
        let command = async {
            let mut sizes = Vec::new();
            while let Some(ExecControl::Stdin(piece)) = control.recv().await {
                sizes.push(piece.len());
                events.send(ExecEvent::Stdout(piece)).await.unwrap();
            }
            events.send(ExecEvent::Exit { code: 0 }).await.unwrap();
            sizes
        };
        let reader = async {
            let mut taken = 0;
            loop {
                match run.next().await {
                    CommandEvent::Stdout(piece) => taken += piece.len(),
                    CommandEvent::Exit(_) => return taken,
                    _ => panic!("something else happened"),
                }
            }
        };
        let (sizes, taken) = tokio::join!(command, reader);
        assert_eq!((sizes, taken), (vec![STDIN_PIECE_BYTES, 5], text.len()));
    }
}
