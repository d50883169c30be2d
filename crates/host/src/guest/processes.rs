//! Processes that outlive their requests. The guest keeps them. This file sends the requests and
//! checks the answers.

use futures_util::stream;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{
    AttachParams, ByteStream, FollowUntil, OutputEvent, ProcessEnd, ProcessNumber, ProcessOutputStream, ProcessView,
    SpawnParams, StdinAfterWrite,
};
use pandastack_wire_guest::{
    self as wire, AttachProcess, BytesWritten, Error, ErrorKind, ForgetProcess, Frame, FrameKind, ListProcesses,
    Message, OutputPosition, PROCESSES_SINCE, ProcessList, ProcessReport, SignalProcess, SpawnProcess, WriteStdin,
};

use super::{
    channel::GuestChannel,
    exec::start,
    fault::{guest_fault, parse},
    files::{next, unexpected_frame, upload},
    limits::{PROCESS_TEXT_CHARS_MAX, PROCESSES_MAX},
    session::{GuestSession, LinkError},
};

/// Starts a process.
pub async fn spawn(session: &GuestSession, ask: SpawnParams) -> Result<ProcessView, Fault> {
    let SpawnParams { exec, tag } = ask;
    let frame = self::ask(session, |number| SpawnProcess { start: start(exec), tag }.frame(number)).await?;
    let refusal = |error: Error| match error.kind {
        ErrorKind::Full => Fault::new(FaultKind::Quota, "process.too_many", error.text),
        _ => guest_fault(error),
    };
    checked_reply(frame, refusal).and_then(parse::<ProcessReport>).map(view)
}

/// Lists the processes that the guest remembers.
pub async fn list(session: &GuestSession) -> Result<Vec<ProcessView>, Fault> {
    let frame = ask(session, |number| ListProcesses { id: None }.frame(number)).await?;
    let list: ProcessList = parse(checked_reply(frame, refusal)?)?;
    Ok(list.processes.into_iter().take(PROCESSES_MAX).map(view).collect())
}

/// Describes one process.
pub async fn describe(session: &GuestSession, process: ProcessNumber) -> Result<ProcessView, Fault> {
    let frame = ask(session, |number| ListProcesses { id: Some(process.0) }.frame(number)).await?;
    let list: ProcessList = parse(checked_reply(frame, refusal)?)?;
    list.processes.into_iter().next().map(view).ok_or_else(unexpected_frame)
}

/// Signals the process group.
pub async fn signal(session: &GuestSession, process: ProcessNumber, signal: i32) -> Result<(), Fault> {
    let frame = ask(session, |number| SignalProcess { id: process.0, number: signal }.frame(number)).await?;
    super::fault::reply(checked_reply(frame, refusal)?, FrameKind::Done).map(drop)
}

/// Kills the process group and forgets the process.
pub async fn forget(session: &GuestSession, process: ProcessNumber) -> Result<(), Fault> {
    let frame = ask(session, |number| ForgetProcess { id: process.0 }.frame(number)).await?;
    super::fault::reply(checked_reply(frame, refusal)?, FrameKind::Done).map(drop)
}

/// Writes to the standard input of a process.
pub async fn feed(
    session: &GuestSession,
    process: ProcessNumber,
    mut body: ByteStream,
    afterwards: StdinAfterWrite,
) -> Result<u64, Fault> {
    let mut channel = session.channel_since(PROCESSES_SINCE)?;
    let close = afterwards == StdinAfterWrite::Closes;
    channel.send(WriteStdin { id: process.0, close }.frame(channel.number())).await?;
    let last = upload(&mut channel, &mut body).await?;
    Ok(parse::<BytesWritten>(checked_reply(last, refusal)?)?.bytes)
}

/// Reads the output of a process. An unknown process is an error here, not in the stream.
pub async fn attach(session: &GuestSession, ask: AttachParams) -> Result<ProcessOutputStream, Fault> {
    let AttachParams { process, offset, until } = ask;
    let mut channel = session.channel_since(PROCESSES_SINCE)?;
    let follow = until == FollowUntil::End;
    channel.send(AttachProcess { id: process.0, offset, follow }.frame(channel.number())).await?;
    let first = next(&mut channel).await?;
    if first.kind == FrameKind::Error {
        channel.finish();
    }
    let first = step(&mut channel, checked_reply(first, refusal)?).await?;
    let state = Some((channel, Some(first)));
    Ok(Box::pin(stream::unfold(state, |state| async move {
        let (mut channel, first) = state?;
        let step = match first {
            Some(first) => Ok(first),
            None => next_step(&mut channel).await,
        };
        let goes_on = !matches!(step, Ok(OutputEvent::End(_)) | Err(_));
        Some((step, goes_on.then_some((channel, None))))
    })))
}

async fn next_step(channel: &mut GuestChannel) -> Result<OutputEvent, Fault> {
    // No timeout: a process may be silent for any time.
    let frame = channel.next().await?;
    if frame.kind == FrameKind::Error {
        channel.finish();
    }
    step(channel, checked_reply(frame, refusal)?).await
}

async fn step(channel: &mut GuestChannel, frame: Frame) -> Result<OutputEvent, Fault> {
    let payload = frame.payload.clone();
    let step = match frame.kind {
        FrameKind::Position => OutputEvent::At(parse::<OutputPosition>(frame)?.offset),
        FrameKind::Stdout => OutputEvent::Stdout(frame.payload),
        FrameKind::Stderr => OutputEvent::Stderr(frame.payload),
        FrameKind::Process => {
            channel.finish();
            return Ok(OutputEvent::End(view(parse(frame)?)));
        }
        found => return Err(LinkError::Unexpected { wanted: FrameKind::Stdout, found }.into()),
    };
    channel.consumed(&payload).await?;
    Ok(step)
}

async fn ask(session: &GuestSession, question: impl FnOnce(u32) -> Frame) -> Result<Frame, Fault> {
    let mut channel = session.channel_since(PROCESSES_SINCE)?;
    channel.send(question(channel.number())).await?;
    let frame = next(&mut channel).await?;
    channel.finish();
    Ok(frame)
}

/// Converts an error from the guest into a fault of a process.
fn checked_reply(frame: Frame, refusal: impl FnOnce(Error) -> Fault) -> Result<Frame, Fault> {
    match frame.kind {
        FrameKind::Error => {
            Err(Error::parse(&frame.payload).map_or_else(|error| LinkError::from(error).into(), refusal))
        }
        _ => Ok(frame),
    }
}

fn refusal(error: Error) -> Fault {
    match error.kind {
        ErrorKind::Missing => Fault::new(FaultKind::Missing, "process.not_found", error.text),
        ErrorKind::Denied => Fault::new(FaultKind::Conflict, "process.ended", error.text),
        ErrorKind::Full => Fault::new(FaultKind::Conflict, "process.stdin_full", error.text),
        ErrorKind::Invalid => Fault::new(FaultKind::Caller, "process.bad_request", error.text),
        _ => guest_fault(error),
    }
}

fn view(process: ProcessReport) -> ProcessView {
    let ProcessReport { id, pid, command, tag, started_ms, ended, stdout_bytes, stderr_bytes, kept_from, stdin_open } =
        process;
    ProcessView {
        number: ProcessNumber(id),
        pid,
        command: short(&command),
        tag: tag.as_deref().map(short),
        started_ms,
        ended: ended.map(|ended| {
            let wire::ProcessEndReport { code, signal, timed_out, at_ms } = ended;
            ProcessEnd { code, signal, timed_out, at_ms }
        }),
        stdout_bytes,
        stderr_bytes,
        kept_from,
        stdin_open,
    }
}

fn short(text: &str) -> String {
    text.chars().take(PROCESS_TEXT_CHARS_MAX).collect()
}
