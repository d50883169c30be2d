//! Code sessions: kernels that keep their state between cells. They belong to the agent, not to a
//! connection, so they outlive every link and exist in every copy of the guest.

mod capture;
mod control;
mod kernel;
mod language;
mod session;
#[cfg(test)]
mod tests;
mod warm;
#[cfg(test)]
mod warm_tests;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use pandastack_wire_guest::{
    CODE_BYTES_MAX, CodeClose, CodeList, CodeOpen, CodeOpened, CodeRun, ErrorKind, Frame, FrameKind, Message,
};

use crate::{
    Agent, limits,
    rebirth::done,
    session::{AgentChannel, EarlyEnd, GuestFault},
};
use session::{FinishedCell, KernelSession, gone};
pub(crate) use warm::{WarmKernels, keep_warm, rehearse, run_once};

/// Every session of the guest, oldest first.
#[derive(Default)]
pub(crate) struct KernelSessions {
    table: RefCell<Vec<Rc<KernelSession>>>,
    opening: Cell<usize>,
}

impl KernelSessions {
    fn find(&self, id: &str) -> Option<Rc<KernelSession>> {
        self.table.borrow().iter().find(|session| session.id == id).cloned()
    }
}

/// Reserves a place for a session that is being opened. Released when the opening has ended.
struct SessionReservation<'a>(&'a Cell<usize>);

impl Drop for SessionReservation<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Opens a session, or finds the one with that id.
pub(crate) async fn open(agent: &Rc<Agent>, channel: &AgentChannel, ask: CodeOpen) -> Result<Frame, GuestFault> {
    let opened = |session: &KernelSession| CodeOpened { session: session.describe() }.frame(channel.id);
    let CodeOpen { id, language } = ask;
    let sessions = &agent.sessions;
    if let Some(session) = sessions.find(&id) {
        return Ok(opened(&session));
    }
    if sessions.table.borrow().len() + sessions.opening.get() >= limits::SESSIONS_MAX {
        let text = format!("this sandbox already has {} sessions; close one first", limits::SESSIONS_MAX);
        return Err(GuestFault::new(ErrorKind::Full, text));
    }
    sessions.opening.set(sessions.opening.get() + 1);
    let place = SessionReservation(&sessions.opening);
    let session = KernelSession::open(agent, id, language).await?;
    drop(place);
    // A concurrent request may have opened the same session. The first one is kept.
    if let Some(theirs) = sessions.find(&session.id) {
        return Ok(opened(&theirs));
    }
    sessions.table.borrow_mut().push(session.clone());
    Ok(opened(&session))
}

/// Lists the sessions.
pub(crate) fn list(agent: &Agent, channel: &AgentChannel) -> Frame {
    let sessions = agent.sessions.table.borrow().iter().map(|session| session.describe()).collect();
    CodeList { sessions }.frame(channel.id)
}

/// Closes a session.
pub(crate) fn close(agent: &Agent, channel: &AgentChannel, ask: &CodeClose) -> Result<Frame, GuestFault> {
    let session = agent.sessions.find(&ask.id).ok_or_else(gone)?;
    agent.sessions.table.borrow_mut().retain(|other| other.id != ask.id);
    session.close();
    Ok(done(channel))
}

/// Runs a cell. It is interrupted when the host cancels, or when the connection is lost and no
/// rebirth follows: nothing waits for the result then.
pub(crate) async fn run(agent: &Rc<Agent>, channel: &Rc<AgentChannel>, ask: CodeRun) -> Result<Frame, GuestFault> {
    let session = agent.sessions.find(&ask.id).ok_or_else(gone)?;
    let work = async {
        let code = code(channel).await?;
        let cell = control::CellRequest { code: &code, trace: ask.trace.as_deref() };
        session.run(agent, &cell, Duration::from_millis(ask.deadline_ms)).await
    };
    let FinishedCell { how, stdout, stderr, body } = tokio::select! {
        biased;
        fate = channel.early_end() => return Err(fate.into()),
        ran = work => ran?,
    };
    let telling = async {
        tell(channel, FrameKind::Stdout, stdout.into()).await;
        tell(channel, FrameKind::Stderr, stderr.into()).await;
        tell(channel, FrameKind::Data, body).await;
    };
    tokio::select! {
        () = telling => Ok(how.frame(channel.id)),
        fate = channel.early_end() => Err(fate.into()),
    }
}

/// Receives the code of a cell.
async fn code(channel: &AgentChannel) -> Result<BytesMut, GuestFault> {
    let mut code = BytesMut::new();
    while let Some(piece) = channel.take_input().await {
        code.extend_from_slice(&piece);
        if code.len() > CODE_BYTES_MAX {
            return Err(EarlyEnd::Overrun.into());
        }
    }
    Ok(code)
}

async fn tell(channel: &AgentChannel, kind: FrameKind, mut bytes: Bytes) {
    while !bytes.is_empty() {
        let room = channel.room(limits::FILE_CHUNK_BYTES).await;
        let piece = bytes.split_to(bytes.len().min(room.bytes));
        room.send(Frame::new(channel.id, kind, piece));
    }
}
