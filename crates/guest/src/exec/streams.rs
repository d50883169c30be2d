//! Moves bytes between one process and its channel. Output is read only with credit from the host
//! and a free place in the connection's queue. So a slow reader blocks the process, and no buffer
//! grows.

use std::{
    cell::RefCell,
    convert::Infallible,
    future::pending,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout},
};
use pandastack_sys::{process, pty};
use pandastack_wire_guest::{Frame, FrameKind, Resize};

use crate::{
    Agent,
    descriptor::{AsyncDescriptor, watch},
    limits,
    session::{AgentChannel, GuestFault, kind_of},
};

/// The character that a terminal treats as the end of input.
const END_OF_INPUT: &[u8] = &[4];

/// Streams that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("create the streams of a process")]
pub(super) struct StreamsError(#[from] io::Error);

impl From<StreamsError> for GuestFault {
    fn from(error: StreamsError) -> Self {
        GuestFault::describe(kind_of(&error.0), &error)
    }
}

/// The agent's ends.
pub(super) enum ProcessStreams {
    Pipes { stdin: RefCell<Option<AsyncDescriptor>>, stdout: AsyncDescriptor, stderr: AsyncDescriptor },
    Terminal(AsyncDescriptor),
}

/// The process's ends, kept open until it runs.
pub(super) enum ChildEnds {
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
    Terminal(OwnedFd),
}

impl ChildEnds {
    /// Returns the ends in the form that a start needs; `null` replaces absent input.
    pub(super) fn stdio<'a>(&'a self, null: BorrowedFd<'a>) -> process::Stdio<'a> {
        match self {
            Self::Pipes { stdin, stdout, stderr } => process::Stdio::Pipes {
                stdin: stdin.as_ref().map_or(null, OwnedFd::as_fd),
                stdout: stdout.as_fd(),
                stderr: stderr.as_fd(),
            },
            Self::Terminal(slave) => process::Stdio::Terminal(slave.as_fd()),
        }
    }
}

/// Makes pipes. The input pipe is made only if the host will send input.
pub(super) fn pipes(with_input: bool) -> Result<(ProcessStreams, ChildEnds), StreamsError> {
    let (stdout, far_stdout) = output_pipe()?;
    let (stderr, far_stderr) = output_pipe()?;
    let (stdin, far_stdin) = match with_input {
        true => {
            let (far, near) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from)?;
            (Some(watched(near)?), Some(far))
        }
        false => (None, None),
    };
    let near = ProcessStreams::Pipes { stdin: stdin.into(), stdout, stderr };
    Ok((near, ChildEnds::Pipes { stdin: far_stdin, stdout: far_stdout, stderr: far_stderr }))
}

/// Makes a terminal.
pub(super) fn terminal(size: Resize) -> Result<(ProcessStreams, ChildEnds), StreamsError> {
    let pair = pty::open(pty::PtySize { rows: size.rows, cols: size.cols })?;
    Ok((ProcessStreams::Terminal(watch(pair.master)?), ChildEnds::Terminal(pair.slave)))
}

impl ProcessStreams {
    /// Moves bytes both ways while it is polled. Dropping it loses no output: a read and the
    /// hand-over to the lane happen without an await in between.
    pub(super) async fn flow(&self, agent: &Agent, channel: &AgentChannel) -> Infallible {
        match self {
            Self::Pipes { stdin, stdout, stderr } => {
                let input = async {
                    let sink = stdin.take();
                    feed(channel, sink.as_ref()).await;
                };
                tokio::join!(
                    input,
                    pump(agent, channel, stdout, FrameKind::Stdout),
                    pump(agent, channel, stderr, FrameKind::Stderr)
                );
            }
            Self::Terminal(master) => {
                let input = async {
                    feed(channel, Some(master)).await;
                    put(Some(master), END_OF_INPUT).await;
                };
                tokio::join!(input, pump(agent, channel, master, FrameKind::Stdout));
            }
        }
        pending().await
    }

    /// Sends the output written before this call. Never waits for the pipes to close.
    pub(super) async fn drain(&self, agent: &Agent, channel: &AgentChannel) {
        match self {
            Self::Pipes { stdout, stderr, .. } => {
                let pending = |pipe: &AsyncDescriptor| process::pending_bytes(pipe.get_ref().as_fd()).unwrap_or(0);
                let (out, err) = (pending(stdout), pending(stderr));
                drain_up_to(agent, channel, (stdout, FrameKind::Stdout), out).await;
                drain_up_to(agent, channel, (stderr, FrameKind::Stderr), err).await;
            }
            Self::Terminal(master) => {
                drain_up_to(agent, channel, (master, FrameKind::Stdout), limits::TERMINAL_DRAIN_BYTES).await;
            }
        }
    }

    /// Releases the streams of an ended process. Detached children may still hold its pipes. These
    /// are drained and discarded, because a background server must not die of its next log line.
    pub(super) fn release(self, agent: &Rc<Agent>) {
        let Self::Pipes { stdout, stderr, .. } = self else { return };
        for pipe in [stdout, stderr].into_iter().filter(is_held) {
            if agent.unheard.get() < limits::UNHEARD_PIPES_MAX {
                agent.unheard.set(agent.unheard.get() + 1);
                let agent = agent.clone();
                tokio::task::spawn_local(async move {
                    empty(&agent, &pipe).await;
                    agent.unheard.set(agent.unheard.get() - 1);
                });
            }
        }
    }

    /// Changes the terminal's size. Pipes have none.
    pub(super) fn resize(&self, size: Resize) {
        if let Self::Terminal(master) = self {
            // Fails only if the terminal is gone.
            let _ = pty::resize(master.get_ref().as_fd(), pty::PtySize { rows: size.rows, cols: size.cols });
        }
    }
}

/// Makes a pipe whose read end is ours.
pub(crate) fn output_pipe() -> io::Result<(AsyncDescriptor, OwnedFd)> {
    let (near, far) = nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(io::Error::from)?;
    Ok((watched(near)?, far))
}

/// Makes our end non-blocking. Programs expect their own end to block.
fn watched(fd: OwnedFd) -> io::Result<AsyncDescriptor> {
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(io::Error::from)?;
    watch(fd)
}

/// Reads output until its end.
async fn pump(agent: &Agent, channel: &AgentChannel, source: &AsyncDescriptor, kind: FrameKind) {
    loop {
        channel.credited().await;
        let Ok(mut ready) = source.readable().await else { return };
        let room = channel.room(limits::OUTPUT_CHUNK_BYTES).await;
        match ready.try_io(|source| read(agent, source.get_ref().as_fd(), room.bytes)) {
            Ok(Ok(bytes)) if !bytes.is_empty() => room.send(Frame::new(channel.id, kind, bytes)),
            // A terminal whose last user is gone returns an error instead of the end.
            Ok(_) => break,
            Err(_would_block) => {}
        }
    }
    // Usually the process ends right after its streams. Then one `Exit` frame replaces three
    // frames.
    tokio::time::sleep(limits::STREAM_END_AFTER).await;
    channel.send(Frame::new(channel.id, kind, Bytes::new()).end()).await;
}

async fn drain_up_to(
    agent: &Agent,
    channel: &AgentChannel,
    (source, kind): (&AsyncDescriptor, FrameKind),
    limit: usize,
) {
    let mut left = limit;
    while left > 0 {
        let room = channel.room(left.min(limits::OUTPUT_CHUNK_BYTES)).await;
        match read(agent, source.get_ref().as_fd(), room.bytes) {
            Ok(bytes) if !bytes.is_empty() => {
                left -= bytes.len();
                room.send(Frame::new(channel.id, kind, bytes));
            }
            _ => return,
        }
    }
}

/// Whether a writer still has the pipe open.
fn is_held(pipe: &AsyncDescriptor) -> bool {
    let mut poll = [PollFd::new(pipe.get_ref().as_fd(), PollFlags::empty())];
    nix::poll::poll(&mut poll, PollTimeout::ZERO).is_ok_and(|hung_up| hung_up == 0)
}

/// Reads a pipe to its end and discards the data.
async fn empty(agent: &Agent, pipe: &AsyncDescriptor) {
    loop {
        let Ok(mut ready) = pipe.readable().await else { return };
        if let Ok(Ok(0) | Err(_)) = ready.try_io(|pipe| Ok(nix::unistd::read(pipe.get_ref(), &mut agent.scratch())?)) {
            return;
        }
    }
}

fn read(agent: &Agent, source: BorrowedFd<'_>, bytes: usize) -> io::Result<Bytes> {
    let mut scratch = agent.scratch();
    let count = nix::unistd::read(source, &mut scratch[..bytes])?;
    Ok(Bytes::copy_from_slice(&scratch[..count]))
}

/// Writes input until its end. Input that the process does not read is consumed all the same, so
/// that the host is not blocked.
async fn feed(channel: &AgentChannel, sink: Option<&AsyncDescriptor>) {
    while let Some(bytes) = channel.take_input().await {
        put(sink, &bytes).await;
        channel.credit_back(bytes.len()).await;
    }
}

async fn put(sink: Option<&AsyncDescriptor>, mut bytes: &[u8]) {
    let Some(sink) = sink else { return };
    while !bytes.is_empty() {
        let Ok(mut ready) = sink.writable().await else { return };
        match ready.try_io(|sink| nix::unistd::write(sink.get_ref(), bytes).map_err(io::Error::from)) {
            Ok(Ok(count)) => bytes = &bytes[count..],
            Ok(Err(error)) if error.raw_os_error() == Some(Errno::EINTR as i32) => {}
            Ok(Err(_reader_is_gone)) => return,
            Err(_would_block) => {}
        }
    }
}
