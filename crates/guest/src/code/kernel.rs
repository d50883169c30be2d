//! One kernel process: started once, runs one cell at a time, killed when this value is dropped. A
//! late cell passes these phases: running → kernel interrupted (INT) → group interrupted (a child
//! program may be hanging) → killed.

use std::{
    os::{fd::AsFd, unix::net::UnixStream as StdStream},
    rc::Rc,
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
};
use crate::{
    Agent,
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
}

impl From<KernelError> for GuestFault {
    fn from(error: KernelError) -> Self {
        let kind = match &error {
            KernelError::NoInterpreter { .. } => ErrorKind::Missing,
            KernelError::Streams(cause) => kind_of(cause),
            KernelError::Start(start) => start.kind(),
            KernelError::Ended { .. } | KernelError::Slow { .. } => ErrorKind::Failed,
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
    /// Starts a kernel and waits until it can run cells.
    pub(super) async fn start(agent: &Rc<Agent>, language: KernelLanguage) -> Result<Self, KernelError> {
        let recipe = recipe(language);
        let interpreter = recipe.interpreter;
        let mut kernel = Self::spawn(agent, interpreter, recipe.boot)?;
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

    fn spawn(agent: &Rc<Agent>, interpreter: &'static str, boot: [&str; 2]) -> Result<Self, KernelError> {
        let argv = [interpreter, boot[0], boot[1]].map(str::to_owned).to_vec();
        let (program, env) = (CommandLine::Argv(argv), Vec::new());
        let start =
            StartProcess { program, cwd: None, env, user: None, stdin: true, deadline_ms: None, terminal: None };
        let command = ProcessCommand::resolve(&start, &agent.env())?;
        let (near, far) = StdStream::pair().map_err(KernelError::Streams)?;
        near.set_nonblocking(true).map_err(KernelError::Streams)?;
        let control = ControlSocket::new(UnixStream::from_std(near).map_err(KernelError::Streams)?);
        let (stdout, far_out) = output_pipe().map_err(KernelError::Streams)?;
        let (stderr, far_err) = output_pipe().map_err(KernelError::Streams)?;
        let stdio = Stdio::Pipes { stdin: far.as_fd(), stdout: far_out.as_fd(), stderr: far_err.as_fd() };
        let id = command.spawn(stdio).map_err(|error| match error.kind() {
            ErrorKind::Missing => KernelError::NoInterpreter { interpreter },
            _ => error.into(),
        })?;
        // No await since the start, so an exit cannot be missed.
        let (group, ended) = (ProcessGroup::new(id), agent.reaper.expect(id));
        let (stdout, stderr) = (OutputCapture::new(stdout), OutputCapture::new(stderr));
        let mut listeners = JoinSet::new();
        for capture in [&stdout, &stderr] {
            let (agent, capture) = (agent.clone(), capture.clone());
            listeners.spawn_local(async move { capture.listen(&agent).await });
        }
        Ok(Self { group, ended, control, stdout, stderr, _listeners: listeners })
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

/// Maps a kernel's exit to an outcome: a result of our signals, or its own exit.
fn ended(phase: Phase, code: i32) -> CellOutcome {
    match phase {
        Phase::Running => CellOutcome::Ended { code },
        Phase::Interrupted | Phase::GroupInterrupted | Phase::Killed => CellOutcome::Killed,
    }
}
