//! One command on a socket that carries many. It sends exactly one terminal frame, unless the
//! socket is gone. States: starting → running → exit | error. A stop (cancel, stalled input, server
//! shutdown) in any state ends the process and leads to error.

use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc};

use axum::extract::ws::Message;
use bytes::Bytes;
use futures_util::FutureExt;
use pandastack_door::http::log_fault;
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::{ExecControl, HostPort};
use pandastack_wire_public::{ExecServerFrame, OutputStream, TextTail, reply, socket_text};
use tokio::sync::{mpsc, oneshot};

use super::{
    command_table::{CommandHandle, CommandTable},
    exec::SharedPresence,
    open_socket::MessageSender,
};
use crate::{
    exec::{CommandEvent, CommandStart, RunningCommand},
    limits::SOCKET_PIECE_BYTES,
};

/// An accepted command.
pub struct SocketCommand {
    pub id: String,
    pub sandbox: SandboxId,
    pub host: Arc<dyn HostPort>,
    pub start: CommandStart,
    pub tell: MessageSender,
    pub ids: CommandTable,
    pub attendance: SharedPresence,
    /// The request id, for the log.
    pub request: String,
}

/// How a command ended.
enum CommandEnd {
    Exit(i32),
    Failed(Fault),
    /// The command was stopped from outside; the text is for the client.
    Stopped(String),
    /// The client is gone.
    Unheard,
}

impl SocketCommand {
    /// Runs the command to its end and sends its terminal frame.
    pub async fn run(self, taken: CommandHandle) {
        let Self { id, sandbox, host, start, tell, ids, attendance, request } = self;
        let CommandHandle { stop, control } = taken;
        let voice = OutputSender { id: &id, tell: &tell };
        let work = async {
            let run = match RunningCommand::start(&*host, sandbox, start).await {
                Ok(run) => run,
                Err(fault) => return CommandEnd::Failed(fault),
            };
            attendance.renew(&*host, sandbox).await;
            let to_process = run.control();
            tokio::select! {
                end = voice.output(run) => end,
                never = pass_in(control, to_process) => match never {},
            }
        };
        let end = tokio::select! {
            biased;
            end = stopped(stop) => end,
            // A defect in one command must cost one command, not the socket.
            end = AssertUnwindSafe(work).catch_unwind() => {
                end.unwrap_or_else(|_| CommandEnd::Failed(Fault::bug("the task of a command on a WebSocket panicked")))
            }
        };
        // The process is ended at this point, even if the client reads its last frame slowly.
        let news = match end {
            CommandEnd::Exit(exit) => ExecServerFrame::Exit { id: id.clone(), exit },
            CommandEnd::Failed(fault) => {
                log_fault(&fault, &request);
                ExecServerFrame::Error { id: id.clone(), error: reply(&fault, &request).body.error }
            }
            CommandEnd::Stopped(error) => ExecServerFrame::Error { id: id.clone(), error },
            CommandEnd::Unheard => return,
        };
        if let Ok(place) = tell.reserve().await {
            ids.end(&id, place, Message::text(socket_text(&news)));
        }
    }
}

async fn stopped(stop: oneshot::Receiver<String>) -> CommandEnd {
    stop.await.map_or(CommandEnd::Unheard, CommandEnd::Stopped)
}

/// Passes input and signals on, in order.
async fn pass_in(mut from: mpsc::Receiver<ExecControl>, to: mpsc::Sender<ExecControl>) -> Infallible {
    while let Some(control) = from.recv().await {
        // If the process no longer reads, its exit event follows. Input until then is dropped.
        let _ = to.send(control).await;
    }
    std::future::pending().await
}

/// Sends a command's output.
struct OutputSender<'a> {
    id: &'a str,
    tell: &'a MessageSender,
}

impl OutputSender<'_> {
    /// Takes output only as fast as the socket has room for it.
    async fn output(&self, mut run: RunningCommand) -> CommandEnd {
        let (mut stdout, mut stderr) = (TextTail::new(), TextTail::new());
        let end = loop {
            let heard = match run.next().await {
                CommandEvent::Stdout(piece) => self.pieces(OutputStream::Stdout, &mut stdout, piece).await,
                CommandEvent::Stderr(piece) => self.pieces(OutputStream::Stderr, &mut stderr, piece).await,
                CommandEvent::Quiet => true,
                CommandEvent::Exit(code) => break CommandEnd::Exit(code),
                CommandEvent::Failed(fault) => break CommandEnd::Failed(fault),
            };
            if !heard {
                return CommandEnd::Unheard;
            }
        };
        // Bytes that were held back for an incomplete character.
        self.say(OutputStream::Stdout, stdout.finish()).await;
        self.say(OutputStream::Stderr, stderr.finish()).await;
        end
    }

    /// Sends a piece of output in parts, so that other commands get their turn. Returns false if
    /// the client is gone.
    async fn pieces(&self, stream: OutputStream, tail: &mut TextTail, mut piece: Bytes) -> bool {
        while !piece.is_empty() {
            let part = piece.split_to(piece.len().min(SOCKET_PIECE_BYTES));
            if !self.say(stream, tail.push(&part)).await {
                return false;
            }
        }
        true
    }

    async fn say(&self, stream: OutputStream, data: String) -> bool {
        // A piece may hold only the start of a character.
        if data.is_empty() {
            return true;
        }
        let Ok(place) = self.tell.reserve().await else { return false };
        place.send(Message::text(socket_text(&ExecServerFrame::Output { id: self.id.to_owned(), stream, data })));
        true
    }
}
