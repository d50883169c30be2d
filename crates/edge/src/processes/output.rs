//! Output of a process from any offset on: as one answer, or followed as an event stream. Every
//! piece includes the offset after it, so a client that lost its connection can resume there. The
//! guest never splits a character between two pieces.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, stream::unfold};
use pandastack_door::http::{Answer, RequestId, event_stream, flag, log_fault, query_value};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{AttachParams, FollowUntil, OutputEvent, ProcessOutputStream, ProcessView};
use pandastack_wire_public::{
    ExecFailure, FollowedChunk, FollowedExit, LostOutput, OutputChunk, ProcessOutput, reply, sse,
};

use super::{ProcessPath, status};
use crate::{
    Edge,
    exec::lost,
    limits::{KEEPALIVE, PROCESS_OUTPUT_BYTES_MAX},
};

/// Returns output after `offset`. With `follow=1` it is a stream that ends with exactly one `exit`
/// or `error`. A client that disconnects ends only its own stream.
pub async fn output(
    State(edge): State<Edge>,
    ProcessPath(id, process): ProcessPath,
    Extension(RequestId(request)): Extension<RequestId>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let follow = flag(&uri, "follow");
    let offset = offset(&uri, follow.then_some(&headers))?;
    let until = if follow { FollowUntil::End } else { FollowUntil::Now };
    let steps = edge.host.attach(id, AttachParams { process, offset, until }).await?;
    Ok(match follow {
        true => followed(FollowedOutput { steps, offset, request }),
        false => whole(steps, offset).await?.into_response(),
    })
}

/// The requested offset. A browser that reconnects by itself repeats the first URL and gives its
/// position in a header.
fn offset(uri: &Uri, headers: Option<&HeaderMap>) -> Result<u64, Fault> {
    let last = headers.and_then(|headers| headers.get("last-event-id")?.to_str().ok().map(str::to_owned));
    match last.filter(|last| !last.is_empty()).or_else(|| query_value(uri, "offset")) {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| {
            Fault::new(FaultKind::Caller, "process.bad_offset", "offset must be a number of bytes, 0 or more")
        }),
    }
}

async fn whole(mut steps: ProcessOutputStream, asked: u64) -> Result<Json<ProcessOutput>, Fault> {
    let (mut stdout, mut stderr, mut chunks) = (String::new(), String::new(), Vec::new());
    let (mut at, mut truncated) = (asked, 0_u64);
    loop {
        let (name, side, piece) = match steps.next().await.ok_or_else(lost)?? {
            OutputEvent::At(offset) => {
                truncated = truncated.saturating_add(offset.saturating_sub(at));
                at = offset;
                continue;
            }
            OutputEvent::Stdout(piece) => ("stdout", &mut stdout, piece),
            OutputEvent::Stderr(piece) => ("stderr", &mut stderr, piece),
            OutputEvent::End(ProcessView { ended, .. }) => {
                let (status, exit_code) = (status(ended.as_ref()).to_owned(), ended.map(|end| end.code));
                return Ok(Json(ProcessOutput {
                    stdout,
                    stderr,
                    chunks,
                    next_offset: at,
                    truncated,
                    status,
                    exit_code,
                }));
            }
        };
        at = at.saturating_add(piece.len() as u64);
        if at.saturating_sub(asked).saturating_sub(truncated) > PROCESS_OUTPUT_BYTES_MAX {
            return Err(Fault::new(
                FaultKind::Unavailable,
                "guest.confused",
                "the sandbox's agent sent an invalid response",
            ));
        }
        let chunk = String::from_utf8_lossy(&piece).into_owned();
        side.push_str(&chunk);
        chunks.push(OutputChunk { stream: name.to_owned(), chunk });
    }
}

fn followed(following: FollowedOutput) -> Response {
    event_stream(unfold(Some(following), |following| async move { Some(following?.next().await) }))
}

/// A followed process.
struct FollowedOutput {
    steps: ProcessOutputStream,
    /// Offset up to which the reader has received output.
    offset: u64,
    request: String,
}

impl FollowedOutput {
    /// Returns the next piece of the stream, and `self` unless that was the end.
    async fn next(mut self) -> (String, Option<Self>) {
        loop {
            let step = match tokio::time::timeout(KEEPALIVE, self.steps.next()).await {
                Err(_) => return (sse::KEEPALIVE.to_owned(), Some(self)),
                Ok(step) => step.unwrap_or_else(|| Err(lost())),
            };
            let text = match step {
                Ok(OutputEvent::At(offset)) if offset <= self.offset => continue,
                Ok(OutputEvent::At(offset)) => {
                    let bytes = offset - self.offset;
                    self.offset = offset;
                    sse::event_with_id("lost", offset, &LostOutput { bytes, offset })
                }
                Ok(OutputEvent::Stdout(piece)) => self.chunk("stdout", &piece),
                Ok(OutputEvent::Stderr(piece)) => self.chunk("stderr", &piece),
                Ok(OutputEvent::End(view)) => return (self.end(&view), None),
                Err(fault) => return (self.failure(&fault), None),
            };
            if !text.is_empty() {
                return (text, Some(self));
            }
        }
    }

    fn chunk(&mut self, name: &str, piece: &[u8]) -> String {
        self.offset = self.offset.saturating_add(piece.len() as u64);
        let (chunk, offset) = (String::from_utf8_lossy(piece).into_owned(), self.offset);
        if chunk.is_empty() { chunk } else { sse::event_with_id(name, offset, &FollowedChunk { chunk, offset }) }
    }

    fn end(&self, view: &ProcessView) -> String {
        match view.ended {
            Some(end) => {
                let (status, offset) = (status(Some(&end)).to_owned(), self.offset);
                let exit = FollowedExit { exit_code: end.code, status, timed_out: end.timed_out, offset };
                sse::event_with_id("exit", offset, &exit)
            }
            None => self.failure(&lost()),
        }
    }

    fn failure(&self, fault: &Fault) -> String {
        log_fault(fault, &self.request);
        sse::event("error", &ExecFailure { error: reply(fault, &self.request).body.error })
    }
}
