//! Processes that outlive their callers: start, list, read, feed, signal, forget. They and their
//! output are in the agent's memory, so they survive sleep, forks and a host restart.

mod log;
mod process;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use pandastack_wire_guest::{
    AttachProcess, BytesWritten, ErrorKind, ForgetProcess, Frame, FrameKind, ListProcesses, Message, OutputPosition,
    ProcessList, SignalProcess, SpawnProcess, WriteStdin,
};

use crate::{
    Agent, limits,
    rebirth::done,
    session::{AgentChannel, GuestFault},
};
use log::OutputSide;
use process::RecordedProcess;

/// Every remembered process, oldest first.
#[derive(Default)]
pub(crate) struct ProcessTable {
    last: Cell<u64>,
    known: RefCell<BTreeMap<u64, Rc<RecordedProcess>>>,
}

impl ProcessTable {
    fn find(&self, id: u64) -> Result<Rc<RecordedProcess>, GuestFault> {
        let found = self.known.borrow().get(&id).cloned();
        found.ok_or_else(|| GuestFault::new(ErrorKind::Missing, "no such process"))
    }

    fn add(&self, process: Rc<RecordedProcess>) {
        self.known.borrow_mut().insert(process.id, process);
    }

    fn remove(&self, id: u64) {
        self.known.borrow_mut().remove(&id);
    }

    /// Makes room for one more: forgets the oldest process that has ended.
    fn make_room(&self) -> Result<(), GuestFault> {
        let mut known = self.known.borrow_mut();
        if known.len() < limits::PROCESSES_MAX {
            return Ok(());
        }
        let oldest = known.values().find(|process| process.has_ended()).map(|process| process.id);
        match oldest.and_then(|id| known.remove(&id)) {
            Some(_) => Ok(()),
            None => {
                let text = format!("{} processes are already running; end one first", limits::PROCESSES_MAX);
                Err(GuestFault::new(ErrorKind::Full, text))
            }
        }
    }
}

/// Starts a process.
pub(crate) async fn spawn(agent: &Rc<Agent>, channel: &AgentChannel, ask: SpawnProcess) -> Result<Frame, GuestFault> {
    if ask.tag.as_ref().is_some_and(|tag| tag.len() > limits::TAG_BYTES_MAX) {
        let text = format!("the tag is longer than {} bytes", limits::TAG_BYTES_MAX);
        return Err(GuestFault::new(ErrorKind::Invalid, text));
    }
    let processes = &agent.processes;
    processes.make_room()?;
    let id = processes.last.get() + 1;
    processes.last.set(id);
    match RecordedProcess::start(agent, id, ask).await {
        Ok(process) => Ok(process.describe().frame(channel.id)),
        Err(refusal) => Ok(Frame { channel: channel.id, ..refusal }),
    }
}

/// Describes all processes, or one.
pub(crate) fn list(
    agent: &Agent,
    channel: &AgentChannel,
    ListProcesses { id }: ListProcesses,
) -> Result<Frame, GuestFault> {
    let processes = match id {
        Some(id) => vec![agent.processes.find(id)?.describe()],
        None => agent.processes.known.borrow().values().map(|process| process.describe()).collect(),
    };
    Ok(ProcessList { processes }.frame(channel.id))
}

/// Sends output from an offset, as fast as the host reads it. The process never waits for a reader.
/// A reader that falls behind the kept output gets the offset where it continues.
pub(crate) async fn attach(agent: &Agent, channel: &AgentChannel, ask: AttachProcess) -> Result<Frame, GuestFault> {
    let AttachProcess { id, offset, follow } = ask;
    let process = agent.processes.find(id)?;
    let until = process.log.borrow().end();
    if offset > until {
        return Err(GuestFault::new(
            ErrorKind::Invalid,
            format!("offset {offset} is past the end of the output, which is {until}"),
        ));
    }
    let (mut at, mut told) = (offset, None);
    // Without `follow` the answer describes this moment, whatever is written later.
    let now = process.describe();
    loop {
        let room = channel.room(limits::OUTPUT_CHUNK_BYTES).await;
        at = at.max(process.log.borrow().start());
        if told != Some(at) {
            room.send(OutputPosition { offset: at }.frame(channel.id));
            told = Some(at);
            continue;
        }
        let limit =
            if follow { room.bytes } else { room.bytes.min(usize::try_from(until - at.min(until)).unwrap_or(0)) };
        let piece = process.log.borrow().read(at, limit);
        match piece {
            Some((side, bytes)) => {
                at += bytes.len() as u64;
                told = Some(at);
                let kind = match side {
                    OutputSide::Stdout => FrameKind::Stdout,
                    OutputSide::Stderr => FrameKind::Stderr,
                };
                room.send(Frame::new(channel.id, kind, bytes));
            }
            None if !follow => return Ok(now.frame(channel.id)),
            None if process.has_ended() => return Ok(process.describe().frame(channel.id)),
            None => {
                drop(room);
                process.changed.notified().await;
            }
        }
    }
}

/// Receives standard input.
pub(crate) async fn feed(
    agent: &Agent,
    channel: &AgentChannel,
    WriteStdin { id, close }: WriteStdin,
) -> Result<Frame, GuestFault> {
    let process = agent.processes.find(id)?;
    process.check_takes_input()?;
    let mut taken = 0;
    while let Some(bytes) = channel.take_input().await {
        for piece in bytes.chunks(limits::FEED_PIECE_BYTES) {
            process.feed(piece).await?;
        }
        taken += bytes.len() as u64;
        channel.credit_back(bytes.len()).await;
    }
    if close {
        process.close_input();
    }
    Ok(BytesWritten { bytes: taken }.frame(channel.id))
}

/// Signals the group of a process.
pub(crate) fn tell(
    agent: &Agent,
    channel: &AgentChannel,
    SignalProcess { id, number }: SignalProcess,
) -> Result<Frame, GuestFault> {
    agent.processes.find(id)?.signal(number)?;
    Ok(done(channel))
}

/// Kills the group of a process and forgets it. Current readers still get the output to its end.
pub(crate) fn forget(
    agent: &Agent,
    channel: &AgentChannel,
    ForgetProcess { id }: ForgetProcess,
) -> Result<Frame, GuestFault> {
    agent.processes.find(id)?.kill();
    agent.processes.remove(id);
    Ok(done(channel))
}
