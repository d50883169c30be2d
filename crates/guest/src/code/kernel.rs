//! One kernel process: started once, runs one cell at a time, killed when this value is dropped. A
//! late cell passes these phases: running → kernel interrupted (INT) → group interrupted (a child
//! program may be hanging) → killed.

use std::{
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream as StdStream,
    },
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_sys::process::Stdio;
use pandastack_wire_guest::{CommandLine, ErrorKind, KernelLanguage, StartProcess};
use tokio::{
    net::UnixStream,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use super::{
    capture::{CapturedOutput, OutputCapture},
    control::{CellReply, CellRequest, ControlSocket, ControlSocketError},
    language::recipe,
    warm,
};
use crate::{
    Agent,
    descriptor::AsyncDescriptor,
    exec::{ExitReceiver, ProcessCommand, ProcessGroup, ProcessStartError, output_pipe},
    limits,
    session::{GuestFault, kind_of},
};

/// A kernel that did not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum KernelError {
    #[error("{interpreter} is not installed in this sandbox")]
    NoInterpreter { interpreter: &'static str },
    #[error("create the streams of a kernel")]
    Streams(#[source] std::io::Error),
    #[error(transparent)]
    Start(#[from] ProcessStartError),
    #[error("{interpreter} ended while it was starting: {said}")]
    Ended { interpreter: &'static str, said: String },
    #[error("{interpreter} did not start in time")]
    Slow { interpreter: &'static str },
    #[error("the warm kernel did not make a copy")]
    NoCopy(#[source] std::io::Error),
    #[error("the code that warms the kernel up failed: {said}")]
    NotWarm { said: String },
}

impl From<KernelError> for GuestFault {
    fn from(error: KernelError) -> Self {
        let kind = match &error {
            KernelError::NoInterpreter { .. } => ErrorKind::Missing,
            KernelError::Streams(cause) => kind_of(cause),
            KernelError::Start(start) => start.kind(),
            KernelError::Ended { .. }
            | KernelError::Slow { .. }
            | KernelError::NoCopy(_)
            | KernelError::NotWarm { .. } => ErrorKind::Failed,
        };
        GuestFault::describe(kind, &error)
    }
}

/// How a cell ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CellOutcome {
    Answered {
        exit: i32,
        body: Bytes,
    },
    /// It was late, and the interrupt ended it.
    Interrupted,
    /// It was late, and the kernel had to be killed.
    Killed,
    /// The kernel exited, or broke the protocol and was killed.
    Ended {
        code: i32,
    },
}

/// Escalation phase of a late cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Interrupted,
    GroupInterrupted,
    Killed,
}

/// A process that runs cells.
pub(super) struct Kernel {
    group: ProcessGroup,
    ended: ExitReceiver,
    control: ControlSocket,
    stdout: Rc<OutputCapture>,
    stderr: Rc<OutputCapture>,
    /// Readers of the streams; they end with the kernel.
    _listeners: JoinSet<()>,
}

impl Kernel {
    /// Returns a kernel that can run cells: a warm one, or else a new one.
    pub(super) async fn open(agent: &Rc<Agent>, language: KernelLanguage) -> Result<Self, KernelError> {
        match warm::take(agent, language).await {
            Some(kernel) => Ok(kernel),
            None => Self::start(agent, language).await,
        }
    }

    /// Starts a kernel and waits until it can run cells.
    pub(super) async fn start(agent: &Rc<Agent>, language: KernelLanguage) -> Result<Self, KernelError> {
        let recipe = recipe(language);
        let interpreter = recipe.interpreter;
        let mut kernel = Self::spawn(agent, &command(agent, language)?, interpreter)?;
        if let Some(program) = recipe.program {
            kernel.control.put_program(program);
        }
        let ready = timeout(limits::KERNEL_START_WITHIN, kernel.control.reply()).await;
        match ready {
            Ok(Ok(CellReply { number: 0, .. })) => Ok(kernel),
            Ok(_) => {
                let said = kernel.stderr.take(agent).bytes;
                let said = String::from_utf8_lossy(&said[said.len().saturating_sub(limits::KERNEL_SAID_BYTES)..]);
                Err(KernelError::Ended { interpreter, said: said.trim().to_owned() })
            }
            Err(_) => Err(KernelError::Slow { interpreter }),
        }
    }

    fn spawn(agent: &Rc<Agent>, command: &ProcessCommand, interpreter: &'static str) -> Result<Self, KernelError> {
        let (control, far) = control_pair()?;
        let (stdout, far_out) = output_pipe().map_err(KernelError::Streams)?;
        let (stderr, far_err) = output_pipe().map_err(KernelError::Streams)?;
        let stdio = Stdio::Pipes { stdin: far.as_fd(), stdout: far_out.as_fd(), stderr: far_err.as_fd() };
        let id = command.spawn(stdio).map_err(|error| match error.kind() {
            ErrorKind::Missing => KernelError::NoInterpreter { interpreter },
            _ => error.into(),
        })?;
        // No await since the start, so an exit cannot be missed.
        let process = (ProcessGroup::new(id), agent.reaper.expect(id));
        Ok(Self::of(agent, process, control, [stdout, stderr]))
    }

    /// Makes a kernel of a process and the agent's ends of its streams.
    fn of(
        agent: &Rc<Agent>,
        (group, ended): (ProcessGroup, ExitReceiver),
        control: ControlSocket,
        outputs: [AsyncDescriptor; 2],
    ) -> Self {
        let [stdout, stderr] = outputs.map(OutputCapture::new);
        let mut listeners = JoinSet::new();
        for capture in [&stdout, &stderr] {
            let (agent, capture) = (agent.clone(), capture.clone());
            listeners.spawn_local(async move { capture.listen(&agent).await });
        }
        Self { group, ended, control, stdout, stderr, _listeners: listeners }
    }

    /// Lets this kernel, which must be warm, make a copy of itself.
    pub(super) async fn copy(&mut self, agent: &Rc<Agent>, request: &[u8]) -> Result<Self, KernelError> {
        let (stdout, far_out) = output_pipe().map_err(KernelError::Streams)?;
        let (stderr, far_err) = output_pipe().map_err(KernelError::Streams)?;
        let (process, control) = self.copy_with(agent, request, [far_out.as_fd(), far_err.as_fd()]).await?;
        Ok(Self::of(agent, process, control, [stdout, stderr]))
    }

    /// The same, with output streams of the caller.
    pub(super) async fn copy_with(
        &mut self,
        agent: &Rc<Agent>,
        request: &[u8],
        [stdout, stderr]: [BorrowedFd<'_>; 2],
    ) -> Result<((ProcessGroup, ExitReceiver), ControlSocket), KernelError> {
        let (mut control, far) = control_pair()?;
        let asked = async {
            self.control.ask_copy([far.as_fd(), stdout, stderr], request).await.map_err(KernelError::NoCopy)?;
            drop(far);
            control.reply().await.map_err(|error| KernelError::NoCopy(std::io::Error::other(error)))
        };
        let late = || KernelError::NoCopy(std::io::ErrorKind::TimedOut.into());
        let reply = timeout(limits::KERNEL_COPY_WITHIN, asked).await.map_err(|_| late())??;
        let id = std::str::from_utf8(&reply.body).ok().and_then(|text| text.parse().ok()).filter(|id| *id > 1);
        let id: i32 = id.ok_or_else(|| KernelError::NoCopy(std::io::ErrorKind::InvalidData.into()))?;
        // It waits for a request now, so its exit is not missed.
        Ok(((ProcessGroup::new(id), agent.reaper.expect(id)), control))
    }

    /// Sends request 0, and returns what the kernel answers if that is a failure.
    pub(super) async fn prepare(&mut self, request: &[u8], within: Duration) -> Result<(), KernelError> {
        self.control.put_cell(0, &CellRequest { code: request, trace: None });
        let said = match timeout(within, self.control.reply()).await {
            Ok(Ok(CellReply { exit: 0, .. })) => return Ok(()),
            Ok(Ok(CellReply { body, .. })) => String::from_utf8_lossy(&body).trim().to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it took longer than {} s", within.as_secs()),
        };
        Err(KernelError::NotWarm { said })
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.ended.try_recv().is_ok()
    }

    /// Starts a cell.
    pub(super) fn begin(&mut self, number: u64, cell: &CellRequest<'_>) {
        self.control.put_cell(number, cell);
    }

    /// Waits for a cell's end, which is forced soon after its deadline.
    pub(super) async fn finish(&mut self, number: u64, deadline: Instant) -> CellOutcome {
        let (mut phase, mut next_at) = (Phase::Running, deadline);
        loop {
            tokio::select! {
                biased;
                reply = self.control.reply(), if phase != Phase::Killed => match reply {
                    Ok(reply) if reply.number == number && phase == Phase::Running => {
                        return CellOutcome::Answered { exit: reply.exit, body: reply.body };
                    }
                    Ok(reply) if reply.number == number => return CellOutcome::Interrupted,
                    // A late answer to an earlier cell.
                    Ok(reply) if reply.number < number => {}
                    Ok(_) => return self.give_up(&mut phase).await,
                    // Usually the process is ending, and its exit status tells more.
                    Err(ControlSocketError::Closed | ControlSocketError::Io(_)) => return self.see_out(phase).await,
                    Err(ControlSocketError::Nonsense) => return self.give_up(&mut phase).await,
                },
                end = &mut self.ended => return ended(phase, end.map_or(128 + libc::SIGKILL, |end| end.code)),
                () = sleep_until(next_at) => {
                    (phase, next_at) = (self.press(phase), Instant::now() + limits::INTERRUPT_GRACE);
                }
            }
        }
    }

    /// Takes the output of both streams so far.
    pub(super) fn take_output(&self, agent: &Agent) -> (CapturedOutput, CapturedOutput) {
        (self.stdout.take(agent), self.stderr.take(agent))
    }

    /// Asks the running cell to stop.
    pub(super) fn interrupt(&self) {
        // Fails only if the process is gone.
        let _ = kill(Pid::from_raw(self.group.id()), Signal::SIGINT);
    }

    /// Moves a late cell to its next phase.
    fn press(&self, phase: Phase) -> Phase {
        match phase {
            Phase::Running => {
                self.interrupt();
                Phase::Interrupted
            }
            Phase::Interrupted => {
                self.group.signal(libc::SIGINT);
                Phase::GroupInterrupted
            }
            Phase::GroupInterrupted | Phase::Killed => {
                self.group.signal(libc::SIGKILL);
                Phase::Killed
            }
        }
    }

    /// Kills a kernel that broke the protocol.
    async fn give_up(&mut self, phase: &mut Phase) -> CellOutcome {
        self.group.signal(libc::SIGKILL);
        self.see_out(*phase).await
    }

    /// Waits a grace period for the exit of a kernel whose control socket is closed, then kills it.
    async fn see_out(&mut self, phase: Phase) -> CellOutcome {
        let code = match timeout(limits::INTERRUPT_GRACE, &mut self.ended).await {
            Ok(end) => end.map_or(128 + libc::SIGKILL, |end| end.code),
            Err(_) => {
                self.group.signal(libc::SIGKILL);
                128 + libc::SIGKILL
            }
        };
        ended(phase, code)
    }
}

/// Returns the command that starts a language's kernel now.
pub(super) fn command(agent: &Agent, language: KernelLanguage) -> Result<ProcessCommand, ProcessStartError> {
    let recipe = recipe(language);
    let argv = [recipe.interpreter, recipe.boot[0], recipe.boot[1]].map(str::to_owned).to_vec();
    let start = StartProcess {
        program: CommandLine::Argv(argv),
        cwd: None,
        env: Vec::new(),
        user: None,
        stdin: true,
        deadline_ms: None,
        terminal: None,
        warm: None,
    };
    ProcessCommand::resolve(&start, &agent.env())
}

/// Makes a control socket and the kernel's end of it.
fn control_pair() -> Result<(ControlSocket, StdStream), KernelError> {
    let (near, far) = StdStream::pair().map_err(KernelError::Streams)?;
    near.set_nonblocking(true).map_err(KernelError::Streams)?;
    Ok((ControlSocket::new(UnixStream::from_std(near).map_err(KernelError::Streams)?), far))
}

/// Maps a kernel's exit to an outcome: a result of our signals, or its own exit.
fn ended(phase: Phase, code: i32) -> CellOutcome {
    match phase {
        Phase::Running => CellOutcome::Ended { code },
        Phase::Interrupted | Phase::GroupInterrupted | Phase::Killed => CellOutcome::Killed,
    }
}
