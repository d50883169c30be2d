//! Runs one process on one channel: starts it, moves its streams, supervises it, reports its end.

mod account;
mod command;
mod environment;
mod reaper;
mod streams;
mod supervise;

use std::{os::fd::AsFd, rc::Rc};

use pandastack_wire_guest::{CommandLine, Frame, Message, ProcessExit, ProcessStarted, StartProcess};
use tokio::time::{Duration, Instant};

pub(crate) use command::{ProcessCommand, ProcessStartError};
pub(crate) use reaper::{ExitReceiver, Reaper};
pub(crate) use streams::output_pipe;
pub(crate) use supervise::ProcessGroup;

use crate::{
    Agent, code,
    session::{AgentChannel, EarlyEnd, GuestFault},
};
use streams::{ChildEnds, ProcessStreams};
use supervise::{SupervisedExit, supervise};

/// Starts a process and waits until it ends. The end of the main process counts, even if a detached
/// child keeps a pipe open. All output written until then is sent first.
pub(crate) async fn run(
    agent: &Rc<Agent>,
    channel: &Rc<AgentChannel>,
    start: StartProcess,
) -> Result<Frame, GuestFault> {
    let command = ProcessCommand::resolve(&start, &agent.env())?;
    let (group, ended, streams) = match launch_warm(agent, &command, &start).await {
        Some(launched) => launched,
        None => launch(agent, &command, &start)?,
    };
    let deadline = start.deadline_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    channel.send(ProcessStarted { pid: group.id().unsigned_abs() }.frame(channel.id)).await;
    let verdict = tokio::select! {
        biased;
        verdict = supervise(channel, (group, ended), deadline, &streams) => verdict,
        never = streams.flow(agent, channel) => match never {},
    };
    if let Some(fate @ (EarlyEnd::Overrun | EarlyEnd::Full)) = channel.fate() {
        return Err(fate.into());
    }
    tokio::select! {
        () = streams.drain(agent, channel) => {}
        // A host that cancels does not read. Without credit, the rest would keep the channel open.
        _ = channel.early_end() => {}
    }
    streams.release(agent);
    let SupervisedExit { code, signal, timed_out } = verdict;
    Ok(ProcessExit { code, timed_out, signal }.frame(channel.id))
}

/// What supervises a running process, and its streams.
type LaunchedProcess = (ProcessGroup, ExitReceiver, ProcessStreams);

/// Runs the program in a copy of the warm kernel, if there is one that can do it.
async fn launch_warm(agent: &Rc<Agent>, command: &ProcessCommand, start: &StartProcess) -> Option<LaunchedProcess> {
    let (language, CommandLine::Argv(argv)) = (start.warm?, &start.program) else { return None };
    if start.stdin || start.terminal.is_some() || start.user.is_some() {
        return None;
    }
    let (streams, far) = streams::pipes(false).ok()?;
    let ChildEnds::Pipes { stdout, stderr, .. } = &far else { return None };
    let outputs = [stdout.as_fd(), stderr.as_fd()];
    let (group, ended) = code::run_once(agent, language, command, argv.last()?, outputs).await?;
    Some((group, ended, streams))
}

/// Makes the streams and starts the process. No await between the start and the registration with
/// the reaper, so an exit cannot be missed.
fn launch(agent: &Agent, command: &ProcessCommand, start: &StartProcess) -> Result<LaunchedProcess, GuestFault> {
    let (streams, far) = match start.terminal {
        Some(size) => streams::terminal(size)?,
        None => streams::pipes(start.stdin)?,
    };
    let id = command.spawn(far.stdio(agent.null()))?;
    let group = ProcessGroup::new(id);
    Ok((group, agent.reaper.expect(id), streams))
}
