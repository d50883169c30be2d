//! Code sessions in a guest. The guest holds their state. This file only sends the requests.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use pandastack_kit::trace;
use pandastack_model::{CodeLanguage, CodeSessionId, Fault, FaultKind};
use pandastack_wire_fleet::{CellEnd, CellEnded, CellEvent, CellParams, CellStream, CodeSessionView};
use pandastack_wire_guest::{
    self as wire, CODE_BODY_BYTES_MAX, CODE_GRACE_MS_MAX, CODE_OUTPUT_BYTES_MAX, CODE_SINCE, CODE_START_MS_MAX,
    CodeClose, CodeList, CodeOpen, CodeOpened, CodeRan, CodeRun, CodeWarm, Error, ErrorKind, FRAME_BYTES_MAX, Frame,
    FrameKind, KernelLanguage, Message, WARM_SINCE,
};
use tokio::time::{Instant, timeout_at};

use super::{
    channel::GuestChannel,
    fault::{guest_fault, parse, reply},
    limits::{EXEC_OVERDUE, REQUEST_DEADLINE},
    session::{GuestSession, LinkError, expect},
};

const START_MAX: Duration = Duration::from_millis(CODE_START_MS_MAX);
const GRACE_MAX: Duration = Duration::from_millis(CODE_GRACE_MS_MAX);

/// Opens a session, or returns the existing one with that id.
pub async fn open_code(
    session: &GuestSession,
    id: &CodeSessionId,
    language: CodeLanguage,
) -> Result<CodeSessionView, Fault> {
    let ask = CodeOpen { id: id.to_string(), language: kernel_language(language) };
    let frame = ask_for(session, |number| ask.frame(number), START_MAX + EXEC_OVERDUE).await?;
    let opened: CodeOpened = match refusal(&frame)? {
        Some(error) => return Err(not_opened(error)),
        None => parse(frame)?,
    };
    view(opened.session).filter(|view| view.id == *id).ok_or_else(unexpected_frame)
}

/// Makes the guest keep a kernel that has run this code.
pub async fn keep_warm(
    session: &GuestSession,
    language: CodeLanguage,
    code: &str,
    rehearsal: Option<&str>,
    within: Duration,
) -> Result<(), LinkError> {
    let deadline_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let language = kernel_language(language);
    let ask = CodeWarm { language, code: code.to_owned(), deadline_ms, rehearsal: rehearsal.map(str::to_owned) };
    let mut channel = session.channel_since(WARM_SINCE)?;
    channel.send(ask.frame(channel.number())).await?;
    let overdue = within.saturating_add(START_MAX + EXEC_OVERDUE);
    let frame = tokio::time::timeout(overdue, channel.next()).await.map_err(|_| LinkError::Deadline)??;
    channel.finish();
    expect(frame, FrameKind::Done).map(drop)
}

/// Makes the guest rehearse with its warm kernels.
pub async fn rehearse_code(session: &GuestSession, within: Duration) -> Result<(), LinkError> {
    let mut channel = session.channel_since(WARM_SINCE)?;
    channel.send(Frame::new(channel.number(), FrameKind::CodeRehearse, Bytes::new())).await?;
    let frame = tokio::time::timeout(within, channel.next()).await.map_err(|_| LinkError::Deadline)??;
    channel.finish();
    expect(frame, FrameKind::Done).map(drop)
}

/// Returns the guest's name of a language.
pub(super) fn kernel_language(language: CodeLanguage) -> KernelLanguage {
    match language {
        CodeLanguage::Python => KernelLanguage::Python,
        CodeLanguage::JavaScript => KernelLanguage::JavaScript,
        CodeLanguage::Bash => KernelLanguage::Bash,
    }
}

/// Lists the sessions, oldest first.
pub async fn code_sessions(session: &GuestSession) -> Result<Vec<CodeSessionView>, Fault> {
    let question = |number| Frame::new(number, FrameKind::CodeSessions, Bytes::new());
    let list: CodeList = parse(ask_for(session, question, REQUEST_DEADLINE).await?)?;
    Ok(list.sessions.into_iter().filter_map(view).collect())
}

/// Closes a session and ends the code that runs in it.
pub async fn close_code(session: &GuestSession, id: &CodeSessionId) -> Result<(), Fault> {
    let ask = CodeClose { id: id.to_string() };
    let frame = ask_for(session, |number| ask.frame(number), REQUEST_DEADLINE).await?;
    match refusal(&frame)? {
        Some(error) => Err(not_run(error)),
        None => reply(frame, FrameKind::Done).map(drop),
    }
}

/// Starts a cell. Its events are streamed.
pub async fn run_cell(session: &GuestSession, ask: CellParams) -> Result<CellStream, Fault> {
    let CellParams { session: id, mut code, limit } = ask;
    let channel = channel(session)?;
    let number = channel.number();
    let deadline_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let trace = trace::here().map(|here| here.trace().to_string());
    channel.send(CodeRun { id: id.to_string(), deadline_ms, trace }.frame(number)).await?;
    while code.len() > FRAME_BYTES_MAX {
        channel.send(Frame::new(number, FrameKind::Data, code.split_to(FRAME_BYTES_MAX))).await?;
    }
    channel.send(Frame::new(number, FrameKind::Data, code).end()).await?;
    // The guest enforces the limit. This timeout is for a guest that hangs.
    let overdue = limit.saturating_mul(2).saturating_add(START_MAX + GRACE_MAX + EXEC_OVERDUE);
    let cell = RunningCell { channel, overdue_at: Instant::now().checked_add(overdue), room: ReceiveBudget::default() };
    Ok(Box::pin(stream::unfold(Some(cell), next_event)))
}

/// A running cell.
struct RunningCell {
    channel: GuestChannel,
    overdue_at: Option<Instant>,
    room: ReceiveBudget,
}

/// Bytes that the guest may still send. The window bounds the bytes in flight. This bounds the
/// bytes that a collecting caller must hold.
struct ReceiveBudget {
    stdout: usize,
    stderr: usize,
    body: usize,
}

impl Default for ReceiveBudget {
    fn default() -> Self {
        Self { stdout: CODE_OUTPUT_BYTES_MAX, stderr: CODE_OUTPUT_BYTES_MAX, body: CODE_BODY_BYTES_MAX }
    }
}

async fn next_event(cell: Option<RunningCell>) -> Option<(CellEvent, Option<RunningCell>)> {
    let mut cell = cell?;
    match cell.next().await {
        Ok(event @ (CellEvent::Ended(_) | CellEvent::Failed(_))) => Some((event, None)),
        Ok(event) => Some((event, Some(cell))),
        Err(fault) => Some((CellEvent::Failed(fault), None)),
    }
}

impl RunningCell {
    async fn next(&mut self) -> Result<CellEvent, Fault> {
        let frame = match self.overdue_at {
            Some(at) => timeout_at(at, self.channel.next()).await.map_err(|_| LinkError::Deadline)??,
            None => self.channel.next().await?,
        };
        let (room, event): (&mut usize, fn(Bytes) -> CellEvent) = match frame.kind {
            FrameKind::Stdout => (&mut self.room.stdout, CellEvent::Stdout),
            FrameKind::Stderr => (&mut self.room.stderr, CellEvent::Stderr),
            FrameKind::Data => (&mut self.room.body, CellEvent::Body),
            _ => return self.last(frame),
        };
        let payload = frame.payload;
        *room = room.checked_sub(payload.len()).ok_or_else(unexpected_frame)?;
        self.channel.consumed(&payload).await?;
        Ok(event(payload))
    }

    fn last(&mut self, frame: Frame) -> Result<CellEvent, Fault> {
        self.channel.finish();
        if let Some(error) = refusal(&frame)? {
            return Ok(CellEvent::Failed(not_run(error)));
        }
        let CodeRan { end, exit, duration_ms, anew, lost, stdout_cut, stderr_cut } = parse(frame)?;
        let how = match end {
            wire::CodeEnd::Answered => CellEnd::Answered { exit },
            wire::CodeEnd::Late => CellEnd::Late,
            wire::CodeEnd::NeverBegun => CellEnd::NeverBegun,
            wire::CodeEnd::KernelEnded => CellEnd::KernelEnded { code: exit },
        };
        let took = Duration::from_millis(duration_ms);
        Ok(CellEvent::Ended(CellEnded { how, took, anew, lost, stdout_cut, stderr_cut }))
    }
}

/// Opens a channel to a guest that supports sessions. An older guest would treat the frames as
/// invalid.
fn channel(session: &GuestSession) -> Result<GuestChannel, Fault> {
    if session.generation() < CODE_SINCE {
        let text = "this sandbox is too old for code sessions; create a new one from a template";
        return Err(Fault::new(FaultKind::Conflict, "session.unsupported", text));
    }
    Ok(session.channel()?)
}

async fn ask_for(
    session: &GuestSession,
    question: impl FnOnce(u32) -> Frame,
    within: Duration,
) -> Result<Frame, Fault> {
    let mut channel = channel(session)?;
    channel.send(question(channel.number())).await?;
    let frame = tokio::time::timeout(within, channel.next()).await.map_err(|_| LinkError::Deadline)??;
    channel.finish();
    Ok(frame)
}

fn refusal(frame: &Frame) -> Result<Option<Error>, Fault> {
    match frame.kind {
        FrameKind::Error => Ok(Some(Error::parse(&frame.payload).map_err(LinkError::from)?)),
        _ => Ok(None),
    }
}

fn not_opened(error: Error) -> Fault {
    match error.kind {
        ErrorKind::Missing => Fault::new(FaultKind::Caller, "language.unavailable", error.text),
        ErrorKind::Full => Fault::new(FaultKind::Quota, "session.too_many", error.text),
        ErrorKind::Failed => Fault::new(FaultKind::Conflict, "session.not_started", error.text),
        _ => guest_fault(error),
    }
}

fn not_run(error: Error) -> Fault {
    match error.kind {
        ErrorKind::Missing => Fault::new(FaultKind::Missing, "session.not_found", error.text),
        ErrorKind::Full => Fault::new(FaultKind::Quota, "session.busy", error.text),
        ErrorKind::Failed => Fault::new(FaultKind::Conflict, "session.not_started", error.text),
        _ => guest_fault(error),
    }
}

/// Converts an untrusted guest's description of a session. Returns `None` if its id is invalid.
fn view(session: wire::CodeSessionReport) -> Option<CodeSessionView> {
    let wire::CodeSessionReport { id, language, created_ms, cells } = session;
    let language = match language {
        KernelLanguage::Python => CodeLanguage::Python,
        KernelLanguage::JavaScript => CodeLanguage::JavaScript,
        KernelLanguage::Bash => CodeLanguage::Bash,
    };
    Some(CodeSessionView { id: id.parse().ok()?, language, created_ms, cells })
}

fn unexpected_frame() -> Fault {
    Fault::new(FaultKind::Unavailable, "guest.confused", "the sandbox's agent sent an invalid response")
}
