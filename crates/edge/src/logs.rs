//! A sandbox's console: as plain text, or followed line by line. Reading it neither wakes a sandbox
//! nor keeps it awake. It works as long as the sandbox exists, also if it sleeps or has failed.

use axum::{
    extract::State,
    http::{HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::unfold};
use pandastack_door::Place;
use pandastack_door::http::{Answer, event_stream, flag, query_value};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ByteStream, ConsoleRange};
use pandastack_wire_public::{LogLine, LogLines, plain_line, sse};

use crate::{
    Edge,
    access::VisibleSandbox,
    limits::{KEEPALIVE, LOG_BACK_BYTES},
};

/// First text of a stream. It tells the client that the stream is open.
const OPEN: &str = ": open\n\n";

/// Shows the console.
pub async fn logs(State(edge): State<Edge>, VisibleSandbox { id, caller }: VisibleSandbox, uri: Uri) -> Answer {
    // A value that is not a number is ignored, as in the rest of this query.
    let tail = query_value(&uri, "tail").and_then(|tail| tail.parse::<usize>().ok());
    if !flag(&uri, "follow") {
        return Ok(plain(past(&edge, id).await?, tail));
    }
    let place = edge.followers.take(Some(&caller.workspace))?;
    let mut pieces = console(&edge, id, ConsoleRange::Follow).await?;
    let mut lines = LogLines::default();
    let before = lines.push(&first(&mut pieces).await?);
    let mut said = OPEN.to_owned();
    for line in recent(&before, tail) {
        said.push_str(&event(line));
    }
    let follower = ConsoleFollower { pieces, lines, _place: place };
    Ok(event_stream(unfold((Some(said), Some(follower)), |(said, follower)| async move {
        match said {
            Some(said) => Some((said, (None, follower))),
            None => follower?.next().await.map(|(said, follower)| (said, (None, follower))),
        }
    })))
}

/// A client that follows a console.
struct ConsoleFollower {
    pieces: ByteStream,
    lines: LogLines,
    _place: Place,
}

impl ConsoleFollower {
    /// Returns the next text, and `self` unless that was the end.
    async fn next(mut self) -> Option<(String, Option<Self>)> {
        loop {
            let text = match tokio::time::timeout(KEEPALIVE, self.pieces.next()).await {
                Ok(Some(Ok(piece))) => self.lines.push(&piece).iter().map(|line| event(line)).collect::<String>(),
                // The sandbox or its host is gone: no more output follows.
                Ok(Some(Err(_)) | None) => return self.lines.rest().map(|rest| (event(&rest), None)),
                // A prompt has no line end. It is sent after this silence.
                Err(_) => self.lines.rest().map_or_else(|| sse::KEEPALIVE.to_owned(), |rest| event(&rest)),
            };
            if !text.is_empty() {
                return Some((text, Some(self)));
            }
        }
    }
}

async fn past(edge: &Edge, id: SandboxId) -> Result<Vec<String>, Fault> {
    let mut pieces = console(edge, id, ConsoleRange::Past).await?;
    let mut lines = LogLines::default();
    let mut all = lines.push(&first(&mut pieces).await?);
    all.extend(lines.rest());
    Ok(all)
}

/// Asks the host for the console. A sandbox that the host does not know has no console any more.
async fn console(edge: &Edge, id: SandboxId, ask: ConsoleRange) -> Result<ByteStream, Fault> {
    match edge.host.console(id, ask).await {
        Err(fault) if fault.kind == FaultKind::Missing => Ok(Box::pin(futures_util::stream::empty())),
        other => other,
    }
}

async fn first(pieces: &mut ByteStream) -> Result<Bytes, Fault> {
    pieces.next().await.transpose().map(Option::unwrap_or_default)
}

fn plain(lines: Vec<String>, tail: Option<usize>) -> Response {
    let shown = &lines[lines.len().saturating_sub(tail.unwrap_or(usize::MAX))..];
    let text: String = shown.iter().map(|line| plain_line(line) + "\n").collect();
    let mut response = text.into_response();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The lines that a follower gets first: the requested number, or the last few.
fn recent(lines: &[String], tail: Option<usize>) -> &[String] {
    let count = tail.unwrap_or_else(|| {
        let mut bytes = 0;
        let few = |line: &&String| {
            bytes += line.len() + 1;
            bytes <= LOG_BACK_BYTES
        };
        lines.iter().rev().take_while(few).count()
    });
    &lines[lines.len().saturating_sub(count)..]
}

fn event(line: &str) -> String {
    sse::event("line", &LogLine { line: format!("{line}\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_starts_with_the_last_few_lines() {
        let lines: Vec<String> = (0..1000).map(|number| format!("line {number:04}")).collect();
        let some = recent(&lines, None);
        assert!(some.len() > 100 && some.iter().map(|line| line.len() + 1).sum::<usize>() <= LOG_BACK_BYTES);
        assert_eq!(some.last(), lines.last());
        assert_eq!(recent(&lines, Some(2)), &lines[998..]);
        assert_eq!((recent(&lines, Some(0)).len(), recent(&lines, Some(usize::MAX)).len()), (0, 1000));
        assert!(recent(&[], None).is_empty());
    }
}
