//! An open socket. Its owner reads. A separate task writes from a short queue, so that reading and
//! writing never wait for each other.

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use pandastack_kit::Scope;
use pandastack_wire_fleet::CallerKey;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::CancellationToken;

use crate::limits::{SOCKET_CLOSE_GRACE, SOCKET_PING, SOCKET_QUEUE};

const SHUTTING_DOWN: &str = "the server is shutting down";
const REVOKED: &str = "the API key was revoked";

/// Queues messages for a socket. The socket stays open until the last sender is dropped.
pub type MessageSender = mpsc::Sender<Message>;

/// An open socket.
pub struct OpenSocket {
    pub tell: MessageSender,
    pub hearing: SocketReader,
    /// Cancelled when this server stops, because no client may delay that, and when the socket's
    /// key is revoked.
    pub closing: CancellationToken,
    key: CallerKey,
    writer: JoinHandle<()>,
    goodbye: oneshot::Sender<CloseReason>,
}

/// The reading half.
pub struct SocketReader {
    stream: SplitStream<WebSocket>,
    /// Tells when writing is no longer possible. Weak, so that reading keeps no socket open.
    tell: mpsc::WeakSender<Message>,
    closing: CancellationToken,
}

/// What the client sent.
pub enum SocketInput {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// An invalid message, with a description.
    Nonsense(CloseReason, String),
    /// The client has disconnected or is unreachable.
    Hangup,
    /// This server stops, or the socket's key was revoked.
    Closing,
}

/// How a socket ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    Done,
    Closing,
    Revoked,
    TooLarge,
    Nonsense,
}

impl OpenSocket {
    /// Takes over a socket. Its tasks run in the scope.
    pub fn new(socket: WebSocket, scope: &Scope, closing: CancellationToken, key: CallerKey) -> Self {
        let (sink, stream) = socket.split();
        let ((tell, queue), (goodbye, how)) = (mpsc::channel(SOCKET_QUEUE), oneshot::channel());
        let writer = scope.start("socket writer", write(sink, queue, how));
        let hearing = SocketReader { stream, tell: tell.downgrade(), closing: closing.clone() };
        Self { tell, hearing, closing, key, writer, goodbye }
    }

    /// Returns why this server closes the socket.
    pub fn why_closing(&self) -> &'static str {
        if self.key.is_revoked() { REVOKED } else { SHUTTING_DOWN }
    }

    /// Closes the socket after all senders have finished, or after a timeout.
    pub async fn end(self, how: CloseReason) {
        let Self { tell, mut hearing, closing: _, key, writer, goodbye } = self;
        let how = if how == CloseReason::Closing && key.is_revoked() { CloseReason::Revoked } else { how };
        let _ = goodbye.send(how);
        drop(tell);
        let cut = writer.abort_handle();
        let farewell = async {
            let _ = writer.await;
            // The client's close frame is the end. Earlier messages are ignored.
            while let Some(Ok(_)) = hearing.stream.next().await {}
        };
        if tokio::time::timeout(SOCKET_CLOSE_GRACE, farewell).await.is_err() {
            cut.abort();
        }
    }
}

impl SocketReader {
    /// Waits for the next message. It is safe to drop this future.
    pub async fn next(&mut self) -> SocketInput {
        loop {
            let message = tokio::select! {
                biased;
                () = self.closing.cancelled() => return SocketInput::Closing,
                () = gone(&self.tell) => return SocketInput::Hangup,
                message = self.stream.next() => message,
            };
            match message {
                Some(Ok(Message::Text(text))) => return SocketInput::Text(text),
                Some(Ok(Message::Binary(bytes))) => return SocketInput::Binary(bytes),
                // The WebSocket library answers pings. A pong needs no action.
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return SocketInput::Hangup,
                Some(Err(error)) => return fault(error),
            }
        }
    }
}

/// Waits until the writer has ended.
async fn gone(tell: &mpsc::WeakSender<Message>) {
    if let Some(tell) = tell.upgrade() {
        tell.closed().await;
    }
}

fn fault(error: axum::Error) -> SocketInput {
    use tungstenite::Error;
    let inner = error.into_inner();
    let how = match inner.downcast_ref::<Error>() {
        Some(Error::Capacity(_)) => CloseReason::TooLarge,
        Some(Error::Protocol(_) | Error::Utf8(_)) => CloseReason::Nonsense,
        _ => return SocketInput::Hangup,
    };
    SocketInput::Nonsense(how, format!("bad frame: {inner}"))
}

/// Writes until the last sender is dropped, then sends the close frame. If the client is
/// unreachable, the writer and its queue end at once.
async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut queue: mpsc::Receiver<Message>,
    mut how: oneshot::Receiver<CloseReason>,
) {
    let mut ping = interval_at(Instant::now() + SOCKET_PING, SOCKET_PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = queue.recv() => message,
            _ = ping.tick() => Some(Message::Ping(Bytes::new())),
        };
        let Some(message) = message else { break };
        if sink.send(message).await.is_err() {
            return;
        }
    }
    let (code, reason) = match how.try_recv().unwrap_or(CloseReason::Done) {
        CloseReason::Done => (close_code::NORMAL, ""),
        CloseReason::Closing => (close_code::AWAY, SHUTTING_DOWN),
        CloseReason::Revoked => (close_code::POLICY, REVOKED),
        CloseReason::TooLarge => (close_code::SIZE, "message too large"),
        CloseReason::Nonsense => (close_code::PROTOCOL, "bad frame"),
    };
    let _ = sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
