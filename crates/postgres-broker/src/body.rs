//! An answer while it is made: held until it is large, then streamed. A streamed answer that fails
//! breaks off, so that nobody takes the first part for the whole.

use std::io;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

use crate::{fault::BrokerFault, limits};

/// What the request's task hands to the waiting caller.
pub(crate) enum AnswerHead {
    Whole(Response),
    Streamed(mpsc::Receiver<AnswerChunk>),
}

/// A piece of a streamed answer. A stream without an end broke off.
pub(crate) enum AnswerChunk {
    Part(Bytes),
    End,
}

/// Where an answer is written.
pub(crate) struct AnswerSink {
    /// What was not sent yet. Append to it and call `pass`.
    pub held: Vec<u8>,
    sent: usize,
    bytes_max: usize,
    mode: SinkMode,
}

enum SinkMode {
    Holding(oneshot::Sender<AnswerHead>),
    /// Nothing is streamed: the answer waits for the end of the work.
    Whole(oneshot::Sender<AnswerHead>),
    Streaming(mpsc::Sender<AnswerChunk>),
    Over,
}

impl AnswerHead {
    /// Makes the response. The guard tells the request's task that the caller went away.
    pub fn into_response(self, guard: DropGuard) -> Response {
        let chunks = match self {
            Self::Whole(response) => return response,
            Self::Streamed(chunks) => chunks,
        };
        let parts = stream::unfold(Some((chunks, guard)), |state| async {
            let (mut chunks, guard) = state?;
            match chunks.recv().await {
                Some(AnswerChunk::Part(part)) => Some((Ok(part), Some((chunks, guard)))),
                Some(AnswerChunk::End) => None,
                None => Some((Err(io::Error::other("the query failed after its first rows")), None)),
            }
        });
        json(StatusCode::OK, Body::from_stream(parts))
    }
}

impl AnswerSink {
    /// Makes a sink that may stream.
    pub fn streaming(head: oneshot::Sender<AnswerHead>) -> Self {
        let mode = SinkMode::Holding(head);
        Self { held: Vec::new(), sent: 0, bytes_max: limits::ANSWER_BYTES_MAX, mode }
    }

    /// Makes a sink that holds all until the work is done.
    pub fn whole(head: oneshot::Sender<AnswerHead>) -> Self {
        let mode = SinkMode::Whole(head);
        Self { held: Vec::new(), sent: 0, bytes_max: limits::TRANSACTION_ANSWER_BYTES_MAX, mode }
    }

    /// Sends what is due, and refuses an answer that is too large.
    pub async fn pass(&mut self) -> Result<(), BrokerFault> {
        if self.sent + self.held.len() > self.bytes_max {
            return Err(BrokerFault::too_large("the result", self.bytes_max));
        }
        let due = match &self.mode {
            SinkMode::Holding(_) => self.held.len() > limits::ANSWER_HELD_BYTES,
            SinkMode::Streaming(_) => self.held.len() > limits::ANSWER_CHUNK_BYTES,
            SinkMode::Whole(_) | SinkMode::Over => false,
        };
        if due {
            self.begin();
            self.push().await;
        }
        Ok(())
    }

    /// Sends the rest of a good answer.
    pub async fn finish(mut self, status: StatusCode) {
        match std::mem::replace(&mut self.mode, SinkMode::Over) {
            SinkMode::Holding(head) | SinkMode::Whole(head) => {
                let response = match status {
                    StatusCode::NO_CONTENT => status.into_response(),
                    _ => json(status, Body::from(self.held)),
                };
                let _ = head.send(AnswerHead::Whole(response));
            }
            SinkMode::Streaming(chunks) => {
                let _ = chunks.send(AnswerChunk::Part(self.held.into())).await;
                let _ = chunks.send(AnswerChunk::End).await;
            }
            SinkMode::Over => {}
        }
    }

    /// Answers with the fault, or breaks off what was begun. The reason goes out as JSON that lacks
    /// its end, for whoever looks at the bytes.
    pub async fn fail(mut self, fault: BrokerFault) {
        match std::mem::replace(&mut self.mode, SinkMode::Over) {
            SinkMode::Holding(head) | SinkMode::Whole(head) => {
                let _ = head.send(AnswerHead::Whole(fault.into_response()));
            }
            SinkMode::Streaming(chunks) => {
                let reason = serde_json::to_string(&fault).unwrap_or_default();
                let _ = chunks.send(AnswerChunk::Part(format!("\n{reason}").into())).await;
            }
            SinkMode::Over => {}
        }
    }

    fn begin(&mut self) {
        self.mode = match std::mem::replace(&mut self.mode, SinkMode::Over) {
            SinkMode::Holding(head) => {
                let (tx, rx) = mpsc::channel(limits::ANSWER_CHUNKS_WAITING);
                let _ = head.send(AnswerHead::Streamed(rx));
                SinkMode::Streaming(tx)
            }
            other => other,
        };
    }

    async fn push(&mut self) {
        self.sent += self.held.len();
        let mut rest = Bytes::from(std::mem::take(&mut self.held));
        let SinkMode::Streaming(chunks) = &self.mode else { return };
        // In pieces, so that a slow reader has few bytes waiting for it, however long a row is.
        while !rest.is_empty() {
            let part = rest.split_to(rest.len().min(limits::ANSWER_CHUNK_BYTES));
            // Who went away is noticed by the guard.
            if chunks.send(AnswerChunk::Part(part)).await.is_err() {
                return;
            }
        }
    }
}

fn json(status: StatusCode, body: Body) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (status, [kind], body).into_response()
}
