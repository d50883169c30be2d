//! A command's output as an event stream. It ends with exactly one `exit` or `error`, because one
//! published client treats a stream without either as a success.

use axum::{Extension, body::Body, extract::State};
use futures_util::stream::unfold;
use pandastack_door::http::{Answer, RequestId, RequestTrace, event_stream, log_fault};
use pandastack_model::Fault;
use pandastack_wire_public::{ExecChunk, ExecExit, ExecFailure, TextTail, reply, sse};

use super::{
    ask,
    run::{CommandEvent, RunningCommand},
};
use crate::{Edge, access::ReachableSandbox};

/// Runs a command and streams its output. The command ends if the client disconnects. A slow client
/// slows the command down: output is taken only while the connection has room.
pub async fn stream(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    Extension(RequestId(request)): Extension<RequestId>,
    traced: RequestTrace,
    body: Body,
) -> Answer {
    let start = ask::parse(body, traced).await?;
    let run = RunningCommand::start(&*edge.host, id, start).await?;
    let telling = StreamedCommand { run, stdout: TextTail::new(), stderr: TextTail::new(), request };
    Ok(event_stream(unfold(Some(telling), |telling| async move { Some(telling?.next().await) })))
}

/// A command whose output is being streamed.
struct StreamedCommand {
    run: RunningCommand,
    stdout: TextTail,
    stderr: TextTail,
    request: String,
}

impl StreamedCommand {
    /// Returns the next piece of the stream, and `self` unless that was the end.
    async fn next(mut self) -> (String, Option<Self>) {
        loop {
            let text = match self.run.next().await {
                CommandEvent::Stdout(piece) => chunk("stdout", self.stdout.push(&piece)),
                CommandEvent::Stderr(piece) => chunk("stderr", self.stderr.push(&piece)),
                CommandEvent::Quiet => sse::KEEPALIVE.to_owned(),
                CommandEvent::Exit(exit_code) => {
                    let end = sse::event("exit", &ExecExit { exit_code });
                    return (self.rest() + &end, None);
                }
                CommandEvent::Failed(fault) => {
                    let end = self.failure(&fault);
                    return (self.rest() + &end, None);
                }
            };
            // A piece may hold only the start of a character.
            if !text.is_empty() {
                return (text, Some(self));
            }
        }
    }

    /// Returns the bytes that were held back for an incomplete character.
    fn rest(&mut self) -> String {
        chunk("stdout", self.stdout.finish()) + &chunk("stderr", self.stderr.finish())
    }

    fn failure(&self, fault: &Fault) -> String {
        log_fault(fault, &self.request);
        sse::event("error", &ExecFailure { error: reply(fault, &self.request).body.error })
    }
}

fn chunk(name: &str, chunk: String) -> String {
    if chunk.is_empty() { chunk } else { sse::event(name, &ExecChunk { chunk }) }
}
