//! One command on a socket that carries many. It ends with exactly one terminal frame, unless the
//! socket is gone.
//!
//! starting → running → exit | error.   A stop (cancel, stall, server's end) at any point → the
//! process is ended → error.

use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc};

use axum::extract::ws::Message;
use bytes::Bytes;
use futures_util::FutureExt;
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::{ExecControl, HostPort};
use pandastack_wire_public::{ExecNews, OutputStream, TextTail, http::log_fault, reply, socket_text};
use tokio::sync::{mpsc, oneshot};

use super::{
    exec::Attendance,
    ids::{Ids, Taken},
    line::Tell,
};
use crate::{
    exec::{Run, Start, Step},
    limits::SOCKET_PIECE_BYTES,
};

/// A command that was accepted.
pub struct Command {
    pub id: String,
    pub sandbox: SandboxId,
    pub host: Arc<dyn HostPort>,
    pub start: Start,
    pub tell: Tell,
    pub ids: Ids,
    pub attendance: Attendance,
    /// The request's id, for the log.
    pub request: String,
}

/// How a command ended.
enum End {
    Exit(i32),
    Failed(Fault),
    /// Somebody did not want it any more, and this is what its client is told.
    Stopped(String),
    /// Nobody is there to be told.
    Unheard,
}

impl Command {
    /// Runs it to its end, and says how it was.
    pub async fn run(self, taken: Taken) {
        let Self { id, sandbox, host, start, tell, ids, attendance, request } = self;
        let Taken { stop, control } = taken;
        let voice = Voice { id: &id, tell: &tell };
        let work = async {
            let run = match Run::start(&*host, sandbox, start).await {
                Ok(run) => run,
                Err(fault) => return End::Failed(fault),
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
                end.unwrap_or_else(|_| End::Failed(Fault::bug("a command on a socket panicked")))
            }
        };
        // The process is given up here, however slowly its last frame is read.
        let news = match end {
            End::Exit(exit) => ExecNews::Exit { id: id.clone(), exit },
            End::Failed(fault) => {
                log_fault(&fault, &request);
                ExecNews::Error { id: id.clone(), error: reply(&fault, &request).body.error }
            }
            End::Stopped(error) => ExecNews::Error { id: id.clone(), error },
            End::Unheard => return,
        };
        if let Ok(place) = tell.reserve().await {
            ids.end(&id, place, Message::text(socket_text(&news)));
        }
    }
}

async fn stopped(stop: oneshot::Receiver<String>) -> End {
    stop.await.map_or(End::Unheard, End::Stopped)
}

/// Passes input and signals on, in the order they came.
async fn pass_in(mut from: mpsc::Receiver<ExecControl>, to: mpsc::Sender<ExecControl>) -> Infallible {
    while let Some(control) = from.recv().await {
        // A process that no longer listens has its end on the way; what comes for it until then
        // goes nowhere.
        let _ = to.send(control).await;
    }
    std::future::pending().await
}

/// Tells what a command writes.
struct Voice<'a> {
    id: &'a str,
    tell: &'a Tell,
}

impl Voice<'_> {
    /// Takes output only as fast as the socket has room for it.
    async fn output(&self, mut run: Run) -> End {
        let (mut stdout, mut stderr) = (TextTail::new(), TextTail::new());
        let end = loop {
            let heard = match run.next().await {
                Step::Stdout(piece) => self.pieces(OutputStream::Stdout, &mut stdout, piece).await,
                Step::Stderr(piece) => self.pieces(OutputStream::Stderr, &mut stderr, piece).await,
                Step::Quiet => true,
                Step::Exit(code) => break End::Exit(code),
                Step::Failed(fault) => break End::Failed(fault),
            };
            if !heard {
                return End::Unheard;
            }
        };
        // What was held back for a character that never became whole.
        self.say(OutputStream::Stdout, stdout.finish()).await;
        self.say(OutputStream::Stderr, stderr.finish()).await;
        end
    }

    /// Says a piece of output in parts that let others have their turn. False if nobody hears it.
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
        // A piece may hold nothing but the start of a character.
        if data.is_empty() {
            return true;
        }
        let Ok(place) = self.tell.reserve().await else { return false };
        place.send(Message::text(socket_text(&ExecNews::Output { id: self.id.to_owned(), stream, data })));
        true
    }
}
