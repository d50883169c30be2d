//! One process that outlives its request. It runs like every other process, on its own channel that
//! ends in the log instead of a connection. So start, signals, input, deadline and end share the
//! same code.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{SystemTime, UNIX_EPOCH},
};

use pandastack_wire_guest::{
    self as wire, CommandLine, ErrorKind, Frame, FrameKind, Message, ProcessEndReport, ProcessExit, ProcessStarted,
    StartProcess,
};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};

use super::log::{OutputLog, OutputSide};
use crate::{
    Agent, exec, limits,
    session::{AgentChannel, EarlyEnd, GuestFault, LaneReceiver, open_lanes},
};

/// A process and its recorded state.
pub(super) struct RecordedProcess {
    pub(super) id: u64,
    command: String,
    tag: Option<String>,
    started_ms: u64,
    pid: Cell<u32>,
    ended: RefCell<Option<ProcessEndReport>>,
    stdin_open: Cell<bool>,
    pub(super) log: RefCell<OutputLog>,
    /// The other end of its streams.
    channel: Rc<AgentChannel>,
    /// Fires for new output, for consumed input, and for the end.
    pub(super) changed: Notify,
}

/// Whether the process has started, or the frame with the reason why not.
type StartOutcome = Result<(), Frame>;

impl RecordedProcess {
    /// Starts a process. It is listed from now on, even if the caller leaves. If it fails to start,
    /// it is removed.
    pub(super) async fn start(agent: &Rc<Agent>, id: u64, ask: wire::SpawnProcess) -> Result<Rc<Self>, Frame> {
        let wire::SpawnProcess { start, tag } = ask;
        let (lanes, outlet) = open_lanes();
        let channel = Rc::new(AgentChannel::new(0, lanes));
        // The process must run without a reader.
        channel.detach_reader();
        let process = Rc::new(Self {
            id,
            command: shown(&start.program),
            tag,
            started_ms: now_ms(),
            pid: Cell::new(0),
            ended: RefCell::default(),
            stdin_open: Cell::new(start.stdin),
            log: RefCell::default(),
            channel,
            changed: Notify::new(),
        });
        agent.processes.add(process.clone());
        let (tx, rx) = oneshot::channel();
        tokio::task::spawn_local(process.clone().live(agent.clone(), start, outlet, tx));
        let unheard = || GuestFault::new(ErrorKind::Failed, "internal error of the guest agent").frame(0);
        rx.await.unwrap_or_else(|_| Err(unheard()))?;
        Ok(process)
    }

    async fn live(
        self: Rc<Self>,
        agent: Rc<Agent>,
        start: StartProcess,
        outlet: LaneReceiver,
        tx: oneshot::Sender<StartOutcome>,
    ) {
        let run = async {
            let last = exec::run(&agent, &self.channel, start).await.unwrap_or_else(|fault| fault.frame(0));
            // Sent in order with the output, so that the end is recorded after it.
            self.channel.send(last).await;
        };
        tokio::join!(run, self.record(&agent, outlet, tx));
    }

    /// Records the process's output and its end.
    async fn record(&self, agent: &Agent, mut outlet: LaneReceiver, tx: oneshot::Sender<StartOutcome>) {
        let mut tx = Some(tx);
        while let Some(frame) = outlet.next().await {
            match frame.kind {
                FrameKind::Started => {
                    self.pid.set(ProcessStarted::parse(&frame.payload).map_or(0, |started| started.pid));
                    // The caller may have left.
                    let _ = tx.take().map(|tx| tx.send(Ok(())));
                }
                FrameKind::Stdout => self.note(OutputSide::Stdout, &frame),
                FrameKind::Stderr => self.note(OutputSide::Stderr, &frame),
                FrameKind::Exit => return self.end(ProcessExit::parse(&frame.payload).ok()),
                FrameKind::Error => {
                    self.end(None);
                    if let Some(tx) = tx.take() {
                        agent.processes.remove(self.id);
                        let _ = tx.send(Err(frame));
                    }
                    return;
                }
                // Credit: the process has read some of its input.
                _ => {}
            }
            self.changed.notify_waiters();
        }
    }

    fn note(&self, side: OutputSide, frame: &Frame) {
        let mut log = self.log.borrow_mut();
        log.push(side, &frame.payload);
        if frame.flags.is_end() {
            log.finish(side);
        }
    }

    fn end(&self, exit: Option<ProcessExit>) {
        let mut log = self.log.borrow_mut();
        log.finish(OutputSide::Stdout);
        log.finish(OutputSide::Stderr);
        let killed = ProcessExit { code: 128 + libc::SIGKILL, timed_out: false, signal: Some(libc::SIGKILL) };
        let ProcessExit { code, timed_out, signal } = exit.unwrap_or(killed);
        *self.ended.borrow_mut() = Some(ProcessEndReport { code, signal, timed_out, at_ms: now_ms() });
        self.stdin_open.set(false);
        self.changed.notify_waiters();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Signals the group of a running process.
    pub(super) fn signal(&self, number: i32) -> Result<(), GuestFault> {
        if !(1..64).contains(&number) {
            return Err(GuestFault::new(ErrorKind::Invalid, format!("{number} is not a signal")));
        }
        self.check_runs()?;
        self.channel.put_signal(number);
        Ok(())
    }

    /// Kills the whole group at once.
    pub(super) fn kill(&self) {
        self.channel.put_signal(libc::SIGKILL);
        self.channel.end_early(EarlyEnd::Cancelled);
    }

    /// Passes input on. Waits for a process that reads slowly, but fails for one that does not
    /// read.
    pub(super) async fn feed(&self, piece: &[u8]) -> Result<(), GuestFault> {
        loop {
            self.check_takes_input()?;
            if self.channel.window() >= piece.len() {
                self.channel.put_input(piece, false);
                return Ok(());
            }
            if timeout(limits::FEED_STALL_MAX, self.changed.notified()).await.is_err() {
                let seconds = limits::FEED_STALL_MAX.as_secs();
                let text = format!("the process has not read its standard input for {seconds}s");
                return Err(GuestFault::new(ErrorKind::Full, text));
            }
        }
    }

    /// Closes standard input after the input passed so far.
    pub(super) fn close_input(&self) {
        self.channel.put_input(&[], true);
        self.stdin_open.set(false);
    }

    pub(super) fn check_takes_input(&self) -> Result<(), GuestFault> {
        self.check_runs()?;
        match self.stdin_open.get() {
            true => Ok(()),
            false => Err(GuestFault::new(ErrorKind::Denied, "the standard input of the process is closed")),
        }
    }

    fn check_runs(&self) -> Result<(), GuestFault> {
        match self.has_ended() {
            false => Ok(()),
            true => Err(GuestFault::new(ErrorKind::Denied, "the process has ended")),
        }
    }

    /// Describes its current state.
    pub(super) fn describe(&self) -> wire::ProcessReport {
        let log = self.log.borrow();
        wire::ProcessReport {
            id: self.id,
            pid: self.pid.get(),
            command: self.command.clone(),
            tag: self.tag.clone(),
            started_ms: self.started_ms,
            ended: self.ended.borrow().clone(),
            stdout_bytes: log.written(OutputSide::Stdout),
            stderr_bytes: log.written(OutputSide::Stderr),
            kept_from: log.start(),
            stdin_open: self.stdin_open.get(),
        }
    }
}

/// Returns the beginning of a command, for humans.
fn shown(program: &CommandLine) -> String {
    let mut text = match program {
        CommandLine::Shell(text) => text.clone(),
        CommandLine::Argv(argv) => argv.join(" "),
    };
    text.truncate(text.floor_char_boundary(limits::COMMAND_SHOWN_BYTES));
    text
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
