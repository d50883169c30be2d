//! Processes of a fake guest that outlive their requests. The command decides: `echo …` has ended,
//! `yes` always has more output, `none` is no program, and everything else runs silently.

use std::sync::Mutex;

use bytes::Bytes;
use pandastack_wire_guest::{
    AttachProcess, CommandLine, ErrorKind, ForgetProcess, Frame, FrameKind, ListProcesses, Message, OutputPosition,
    ProcessEndReport, ProcessList, ProcessReport, SpawnProcess, StartProcess,
};

use super::{channel::FakeChannel, locked};

/// Output of `yes` per write.
const YES: &str = "y\ny\ny\ny\ny\ny\ny\ny\n";

/// The commands with their numbers.
#[derive(Default)]
pub(super) struct FakeProcesses(Mutex<Vec<(u64, String)>>);

impl FakeProcesses {
    /// Serves one request about processes.
    pub(super) async fn serve(&self, frame: Frame, channel: &mut FakeChannel) {
        match frame.kind {
            FrameKind::Spawn => match SpawnProcess::parse(&frame.payload) {
                Ok(SpawnProcess { start: StartProcess { program: CommandLine::Shell(text), .. }, .. })
                    if text == "none" =>
                {
                    channel.refuse(ErrorKind::Missing, "no such program").await;
                }
                Ok(spawn) => channel.say(self.spawn(spawn)).await,
                Err(_) => channel.refuse(ErrorKind::Invalid, "malformed spawn").await,
            },
            FrameKind::Processes => match ListProcesses::parse(&frame.payload) {
                Ok(ListProcesses { id: None }) => channel.say(ProcessList { processes: self.all() }).await,
                Ok(ListProcesses { id: Some(id) }) => match self.find(id) {
                    Some(process) => channel.say(ProcessList { processes: vec![process] }).await,
                    None => missing(channel).await,
                },
                Err(_) => channel.refuse(ErrorKind::Invalid, "malformed question").await,
            },
            FrameKind::Forget => {
                let id = ForgetProcess::parse(&frame.payload).map_or(0, |forget| forget.id);
                match self.forget(id) {
                    true => channel.send(Frame::new(channel.number, FrameKind::Done, Bytes::new())).await,
                    false => missing(channel).await,
                }
            }
            _ => match AttachProcess::parse(&frame.payload).ok().and_then(|ask| Some((self.find(ask.id)?, ask))) {
                Some((process, ask)) => attach(process, ask, channel).await,
                None => missing(channel).await,
            },
        }
    }

    fn spawn(&self, spawn: SpawnProcess) -> ProcessReport {
        let command = match spawn.start.program {
            CommandLine::Shell(text) => text,
            CommandLine::Argv(words) => words.join(" "),
        };
        let mut all = locked(&self.0);
        let id = all.last().map_or(1, |(last, _)| last + 1);
        all.push((id, command.clone()));
        described(id, &command)
    }

    fn all(&self) -> Vec<ProcessReport> {
        locked(&self.0).iter().map(|(id, command)| described(*id, command)).collect()
    }

    fn find(&self, id: u64) -> Option<ProcessReport> {
        self.all().into_iter().find(|process| process.id == id)
    }

    fn forget(&self, id: u64) -> bool {
        let mut all = locked(&self.0);
        let before = all.len();
        all.retain(|(known, _)| *known != id);
        all.len() < before
    }
}

/// Sends the output of a process from the start. Only real guests use offsets.
async fn attach(process: ProcessReport, ask: AttachProcess, channel: &mut FakeChannel) {
    let start = OutputPosition { offset: ask.offset }.frame(channel.number);
    if channel.data(start).await.is_some() {
        return cancelled(channel).await;
    }
    let said = match process.command.strip_prefix("echo ") {
        Some(text) => format!("{text}\n"),
        None if process.command == "yes" => YES.to_owned(),
        None => String::new(),
    };
    while !said.is_empty() {
        let piece = Frame::new(channel.number, FrameKind::Stdout, Bytes::from(said.clone()));
        if channel.data(piece).await.is_some() || channel.out.is_closed() {
            return cancelled(channel).await;
        }
        if process.ended.is_some() || !ask.follow {
            break;
        }
    }
    if process.ended.is_none() && ask.follow {
        while channel.next().await.is_some_and(|frame| frame.kind != FrameKind::Cancel) {}
        return cancelled(channel).await;
    }
    channel.say(process).await;
}

fn described(id: u64, command: &str) -> ProcessReport {
    let ended =
        command.starts_with("echo ").then_some(ProcessEndReport { code: 0, signal: None, timed_out: false, at_ms: 2 });
    ProcessReport {
        id,
        pid: 2,
        command: command.to_owned(),
        tag: None,
        started_ms: 1,
        ended,
        stdout_bytes: 0,
        stderr_bytes: 0,
        kept_from: 0,
        stdin_open: false,
    }
}

async fn missing(channel: &FakeChannel) {
    channel.refuse(ErrorKind::Missing, "no such process").await;
}

async fn cancelled(channel: &FakeChannel) {
    channel.refuse(ErrorKind::Cancelled, "cancelled").await;
}
