//! Runs a process in the guest: one channel, and a task that forwards frames as fast as the caller
//! reads them.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use pandastack_kit::Scope;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ExecControl, ExecEvent, ExecParams, ExecSession, Program, UseKind};
use pandastack_wire_guest::{
    self as wire, Credit, EnvVariable, Frame, FrameKind, Message, ProcessExit, ProcessStarted, Resize, Signal,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    channel::GuestChannel,
    code::kernel_language,
    fault::{guest_fault, parse},
    limits::{EXEC_CONTROL_QUEUE, EXEC_OVERDUE, EXEC_QUEUE, REQUEST_DEADLINE},
    session::{GuestSession, LinkError},
};

/// Starts a process and returns once it runs. Errors of the start (no such directory, user or
/// program) are returned as `Err`.
pub async fn exec(session: &GuestSession, ask: ExecParams, by: UseKind, scope: &Scope) -> Result<ExecSession, Fault> {
    let deadline = ask.deadline;
    let mut channel = session.channel_as(by)?;
    channel.send(start(ask).frame(channel.number())).await?;
    let first = tokio::time::timeout(REQUEST_DEADLINE, channel.next()).await.map_err(|_| LinkError::Deadline)??;
    if first.kind == FrameKind::Error {
        channel.finish();
    }
    parse::<ProcessStarted>(first)?;
    let (events_tx, events) = mpsc::channel(EXEC_QUEUE);
    let (control, control_rx) = mpsc::channel(EXEC_CONTROL_QUEUE);
    let (window, input, closing) = (wire::WINDOW_BYTES, Bytes::new(), scope.token());
    let relay = ExecRelay { channel, events: events_tx, deadline, waiting: VecDeque::new(), window, input, closing };
    scope.start("exec", async move { relay.run(control_rx).await.leave().await });
    Ok(ExecSession { events, control })
}

pub(super) fn start(ask: ExecParams) -> wire::StartProcess {
    let ExecParams { program, cwd, env, user, stdin, deadline, terminal } = ask;
    let warm = match &program {
        Program::Code(language, _) => Some(kernel_language(*language)),
        Program::Shell(_) | Program::Argv(_) => None,
    };
    wire::StartProcess {
        program: match program {
            Program::Shell(text) => wire::CommandLine::Shell(text),
            Program::Argv(words) | Program::Code(_, words) => wire::CommandLine::Argv(words),
        },
        cwd,
        env: env.into_iter().map(|(name, value)| EnvVariable { name, value }).collect(),
        user,
        stdin,
        deadline_ms: deadline.map(|deadline| deadline.as_millis() as u64),
        terminal: terminal.map(|(rows, cols)| Resize { rows, cols }),
        warm,
    }
}

struct ExecRelay {
    channel: GuestChannel,
    events: mpsc::Sender<ExecEvent>,
    deadline: Option<Duration>,
    /// Events that the caller has no space for yet. Until they are delivered, nothing is read from
    /// the guest. Signals and input still pass, so that a slow caller can stop a process that
    /// floods it.
    waiting: VecDeque<PendingEvent>,
    /// Bytes that the guest's window still allows.
    window: usize,
    /// Input from the caller that the window does not allow yet. Until it is sent, no more is
    /// taken.
    input: Bytes,
    /// Cancelled when the host closes. The host must not wait for a caller that does not read.
    closing: CancellationToken,
}

/// An event on its way to the caller.
enum PendingEvent {
    /// Output, which is credited to the guest once the caller has it.
    Output(ExecEvent, Bytes),
    Last(ExecEvent),
}

enum RelayStep {
    GoOn,
    End,
}

impl ExecRelay {
    /// Relays until one side ends. Returns the channel, which the caller of this function must
    /// leave.
    async fn run(mut self, mut control: mpsc::Receiver<ExecControl>) -> GuestChannel {
        let (events, closing) = (self.events.clone(), self.closing.clone());
        let mut controls_open = true;
        // The guest enforces the deadline. This timeout is for a guest that hangs.
        let mut overdue_at =
            self.deadline.and_then(|deadline| Instant::now().checked_add(deadline.saturating_add(EXEC_OVERDUE)));
        loop {
            let overdue = async {
                match overdue_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let is_waiting = !self.waiting.is_empty();
            let step = tokio::select! {
                frame = self.channel.next(), if !is_waiting => match frame {
                    Ok(frame) => self.take(frame).await,
                    Err(error) => Err(error),
                },
                place = events.reserve(), if is_waiting => match place {
                    Ok(place) => self.hand_over(place).await,
                    Err(_) => Ok(RelayStep::End),
                },
                // While output waits for a slow caller, the guest is not silent and the timeout
                // does not apply.
                () = overdue, if !is_waiting => Err(LinkError::Deadline),
                control = control.recv(), if controls_open && self.input.is_empty() => match control {
                    Some(control) => self.pass_in(control).await,
                    None => { controls_open = false; Ok(RelayStep::GoOn) }
                },
                // The caller is gone, so the process must not continue.
                () = events.closed() => Ok(RelayStep::End),
                () = closing.cancelled(), if is_waiting => Ok(self.close()),
            };
            match step {
                Ok(RelayStep::GoOn) => overdue_at = overdue_at.map(|at| at.max(Instant::now() + EXEC_OVERDUE)),
                Ok(RelayStep::End) => return self.channel,
                Err(error) => {
                    self.waiting.push_back(PendingEvent::Last(ExecEvent::Failed(error.into())));
                    // An ended link neither sends nor receives.
                    controls_open = false;
                }
            }
        }
    }

    /// Takes a frame from the guest.
    async fn take(&mut self, frame: Frame) -> Result<RelayStep, LinkError> {
        let payload = frame.payload;
        self.waiting.push_back(match frame.kind {
            // The guest may end a stream with an empty frame. The caller learns of the end from the
            // exit.
            FrameKind::Stdout | FrameKind::Stderr if payload.is_empty() => return Ok(RelayStep::GoOn),
            FrameKind::Stdout => PendingEvent::Output(ExecEvent::Stdout(payload.clone()), payload),
            FrameKind::Stderr => PendingEvent::Output(ExecEvent::Stderr(payload.clone()), payload),
            FrameKind::Credit => {
                let credit = Credit::parse(&payload)?.bytes as usize;
                self.window = self.window.saturating_add(credit).min(wire::WINDOW_BYTES);
                self.send_input().await?;
                return Ok(RelayStep::GoOn);
            }
            FrameKind::Exit => {
                self.channel.finish();
                PendingEvent::Last(self.ended(ProcessExit::parse(&payload)?))
            }
            FrameKind::Error => {
                self.channel.finish();
                PendingEvent::Last(ExecEvent::Failed(guest_fault(wire::Error::parse(&payload)?)))
            }
            found => return Err(LinkError::Unexpected { wanted: FrameKind::Stdout, found }),
        });
        Ok(RelayStep::GoOn)
    }

    /// Delivers the next waiting event to the caller.
    async fn hand_over(&mut self, place: mpsc::Permit<'_, ExecEvent>) -> Result<RelayStep, LinkError> {
        match self.waiting.pop_front() {
            Some(PendingEvent::Output(event, payload)) => {
                place.send(event);
                self.channel.consumed(&payload).await?;
                Ok(RelayStep::GoOn)
            }
            Some(PendingEvent::Last(event)) => {
                place.send(event);
                Ok(RelayStep::End)
            }
            None => Ok(RelayStep::GoOn),
        }
    }

    /// Ends because the host closes. Does not wait for a caller that does not read.
    fn close(&mut self) -> RelayStep {
        for PendingEvent::Output(event, _) | PendingEvent::Last(event) in self.waiting.drain(..) {
            let _ = self.events.try_send(event);
        }
        RelayStep::End
    }

    fn ended(&self, exit: ProcessExit) -> ExecEvent {
        match (exit.timed_out, self.deadline) {
            (true, Some(after)) => ExecEvent::TimedOut { after },
            (true, None) => ExecEvent::Failed(Fault::new(
                FaultKind::Unavailable,
                "guest.confused",
                "the sandbox's agent reported a time limit that was not set",
            )),
            (false, _) => ExecEvent::Exit { code: exit.code },
        }
    }

    async fn pass_in(&mut self, control: ExecControl) -> Result<RelayStep, LinkError> {
        let number = self.channel.number();
        match control {
            ExecControl::Stdin(bytes) => {
                self.input = bytes;
                self.send_input().await?;
            }
            ExecControl::CloseStdin => {
                self.channel.send(Frame::new(number, FrameKind::Stdin, Bytes::new()).end()).await?
            }
            ExecControl::Signal(signal) => self.channel.send(Signal { number: signal }.frame(number)).await?,
            ExecControl::Resize { rows, cols } => self.channel.send(Resize { rows, cols }.frame(number)).await?,
        }
        Ok(RelayStep::GoOn)
    }

    async fn send_input(&mut self) -> Result<(), LinkError> {
        while !self.input.is_empty() && self.window >= wire::FRAME_BYTES_MAX {
            let piece = self.input.split_to(self.input.len().min(wire::FRAME_BYTES_MAX));
            self.window -= piece.len();
            self.channel.send(Frame::new(self.channel.number(), FrameKind::Stdin, piece)).await?;
        }
        Ok(())
    }
}
