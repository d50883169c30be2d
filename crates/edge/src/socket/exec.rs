//! Many commands on one socket. This file reads the client's frames and acts on each. The commands
//! send their own answers.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{State, ws::Message};
use bytes::Bytes;
use pandastack_door::http::{Answer, RequestTrace};
use pandastack_kit::{Scope, trace};
use pandastack_model::SandboxId;
use pandastack_wire_fleet::{ExecControl, HostPort, Presence};
use pandastack_wire_public::{ExecClientFrame, ExecRequest, ExecServerFrame, reply, socket_text};
use tokio::sync::mpsc;
use tracing::Instrument;

use super::{
    command::SocketCommand,
    command_table::{CommandTable, IdRefusal},
    open_socket::{CloseReason, OpenSocket, SocketInput},
    opening::SocketUpgrade,
};
use crate::{
    Edge,
    exec::CommandStart,
    limits::{SOCKET_COMMANDS_MAX, SOCKET_STDIN_STALL_MAX, STDIN_PIECE_BYTES},
};

/// Opens a socket for commands. It wakes a sleeping sandbox, which then stays awake while the
/// socket is open.
pub async fn exec(State(edge): State<Edge>, opening: SocketUpgrade) -> Answer {
    let (sandbox, request, scope) = (opening.id, opening.request.clone(), edge.sockets.scope().clone());
    let traced = opening.traced;
    let attendance = SharedPresence::of(edge.host.attend(sandbox).await?);
    Ok(opening.accept(move |line| {
        let ids = CommandTable::default();
        ExecSocket { sandbox, host: edge.host, scope, ids, attendance, request, traced }.serve(line)
    }))
}

/// The presence that keeps the sandbox awake, shared by the socket and its commands. If the sandbox
/// was put to sleep and a command has woken it, the presence must be renewed.
#[derive(Clone)]
pub struct SharedPresence(Arc<Mutex<Presence>>);

impl SharedPresence {
    fn of(presence: Presence) -> Self {
        Self(Arc::new(Mutex::new(presence)))
    }

    /// Registers the presence again, for the sandbox's current machine.
    pub async fn renew(&self, host: &dyn HostPort, sandbox: SandboxId) {
        // If this fails, the command fails too and reports the reason.
        if let Ok(presence) = host.attend(sandbox).await {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = presence;
        }
    }
}

/// One socket with its commands.
struct ExecSocket {
    sandbox: SandboxId,
    host: Arc<dyn HostPort>,
    scope: Scope,
    ids: CommandTable,
    attendance: SharedPresence,
    request: String,
    traced: RequestTrace,
}

impl ExecSocket {
    /// Serves the socket until it closes. Its commands end with it.
    async fn serve(self, mut line: OpenSocket) {
        let goodbye = loop {
            match line.hearing.next().await {
                SocketInput::Text(text) => {
                    // A client that does not read its answers must not block the server's shutdown.
                    let _ = line.closing.run_until_cancelled(self.act(&text, &line)).await;
                }
                SocketInput::Binary(_) => {
                    let refused = refuse(&line, "", "bad json: send text frames, not binary ones");
                    let _ = line.closing.run_until_cancelled(refused).await;
                }
                SocketInput::Nonsense(how, error) => {
                    self.ids.stop_all(&error);
                    // Queued before the close frame, if the client still reads.
                    let _ = line.tell.try_send(error_frame("", error));
                    break how;
                }
                SocketInput::Closing => {
                    self.ids.stop_all(line.why_closing());
                    break CloseReason::Closing;
                }
                SocketInput::Hangup => {
                    self.ids.drop_all();
                    break CloseReason::Done;
                }
            }
        };
        line.end(goodbye).await;
        // Commands that could not send their last frame.
        self.ids.drop_all();
    }

    async fn act(&self, text: &str, line: &OpenSocket) {
        let frame = match ExecClientFrame::parse(text) {
            Ok(frame) => frame,
            Err(error) => return refuse(line, "", error).await,
        };
        match frame {
            ExecClientFrame::Start { id, ask, live_stdin } => {
                if let Err(error) = self.start(&id, *ask, live_stdin, line) {
                    refuse(line, &id, error).await;
                }
            }
            ExecClientFrame::Cancel { id } => self.ids.stop(&id, "cancelled"),
            ExecClientFrame::Stdin { id, text, close } => match self.ids.takes_stdin(&id) {
                Some(true) => self.feed(&id, text, close).await,
                // This is not the command's terminal frame, so it does not use the command's id.
                Some(false) => {
                    refuse(line, "", format!("{id:?} does not accept stdin; start it with \"stdin\": true")).await
                }
                None => {}
            },
            ExecClientFrame::Signal { id, signal } => self.pass(&id, [ExecControl::Signal(signal)]).await,
        }
    }

    fn start(&self, id: &str, ask: ExecRequest, live_stdin: bool, line: &OpenSocket) -> Result<(), String> {
        // Take the id first: an invalid second start must not look like the end of the first.
        let taken = self.ids.take(id, live_stdin).map_err(|refused| match refused {
            IdRefusal::InUse => "id in use".to_owned(),
            IdRefusal::TooMany => {
                format!("{SOCKET_COMMANDS_MAX} commands are already running on this socket; wait until one ends")
            }
        })?;
        let mut start = match CommandStart::try_from(ask) {
            Ok(start) => start,
            Err(fault) => {
                self.ids.forget(id);
                return Err(reply(&fault, &self.request).body.error);
            }
        };
        start.ask.stdin |= live_stdin;
        self.traced.tell(&mut start.ask.env);
        let command = SocketCommand {
            id: id.to_owned(),
            sandbox: self.sandbox,
            host: self.host.clone(),
            start,
            tell: line.tell.clone(),
            ids: self.ids.clone(),
            attendance: self.attendance.clone(),
            request: self.request.clone(),
        };
        self.scope.start("socket command", trace::within(trace::here(), command.run(taken).in_current_span()));
        Ok(())
    }

    async fn feed(&self, id: &str, text: String, close: bool) {
        let mut rest = Bytes::from(text);
        let mut pieces = Vec::with_capacity(rest.len() / STDIN_PIECE_BYTES + 2);
        while !rest.is_empty() {
            pieces.push(ExecControl::Stdin(rest.split_to(rest.len().min(STDIN_PIECE_BYTES))));
        }
        pieces.extend(close.then_some(ExecControl::CloseStdin));
        self.pass(id, pieces).await;
    }

    /// Sends input or a signal to a command. A command that accepts nothing for too long is ended,
    /// because the frames for other commands wait behind it.
    async fn pass(&self, id: &str, controls: impl IntoIterator<Item = ExecControl>) {
        let Some(to) = self.ids.control(id) else { return };
        for control in controls {
            match to.send_timeout(control, SOCKET_STDIN_STALL_MAX).await {
                Ok(()) => {}
                Err(mpsc::error::SendTimeoutError::Closed(_)) => return,
                Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                    let why = format!("stdin was not read for {}s", SOCKET_STDIN_STALL_MAX.as_secs());
                    return self.ids.stop(id, &why);
                }
            }
        }
    }
}

/// Answers an invalid frame. While the client does not read its answers, no more frames are read.
async fn refuse(line: &OpenSocket, id: &str, error: impl Into<String>) {
    let _ = line.tell.send(error_frame(id, error)).await;
}

fn error_frame(id: &str, error: impl Into<String>) -> Message {
    Message::text(socket_text(&ExecServerFrame::Error { id: id.to_owned(), error: error.into() }))
}
