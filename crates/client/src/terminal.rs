//! A terminal in a sandbox, over a socket.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use pandastack_wire_public::TerminalServerFrame;
use reqwest::{Method, StatusCode, Upgraded, header};
use serde_json::json;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::Role,
    },
};

use crate::{Client, ClientError};

/// The longest silence of a connection that works: the server sends a ping every 20 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(70);

type TerminalSocket = WebSocketStream<Upgraded>;

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub rows: u16,
    pub cols: u16,
}

/// The input side of a terminal.
pub struct TerminalInput {
    sink: SplitSink<TerminalSocket, Message>,
    url: String,
}

/// The output side of a terminal.
pub struct TerminalOutput {
    stream: SplitStream<TerminalSocket>,
    url: String,
}

/// One event of a terminal. `Exit` is last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    Bytes(Bytes),
    Exit(i32),
}

impl Client {
    /// Opens a terminal with a login shell. Dropping both halves ends it.
    pub async fn ssh(&self, id: &str, size: TerminalSize) -> Result<(TerminalInput, TerminalOutput), ClientError> {
        self.terminal(&["sandboxes", id, "ssh"], &[], size).await
    }

    /// Opens a terminal with a shell command. The address has the command in it, so it must hold no
    /// secrets. Dropping both halves ends it.
    pub async fn run_in_terminal(
        &self,
        id: &str,
        command: &str,
        size: TerminalSize,
    ) -> Result<(TerminalInput, TerminalOutput), ClientError> {
        self.terminal(&["sandboxes", id, "exec", "pty"], &[("cmd", command)], size).await
    }

    async fn terminal(
        &self,
        path: &[&str],
        values: &[(&str, &str)],
        size: TerminalSize,
    ) -> Result<(TerminalInput, TerminalOutput), ClientError> {
        let key = generate_key();
        let (rows, cols) = (size.rows.to_string(), size.cols.to_string());
        let sides = [("rows", rows.as_str()), ("cols", cols.as_str())];
        let request = self
            .query_request(Method::GET, path, &[values, &sides].concat())?
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key);
        let response = self.answer(request).await?;
        let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        let is_socket = response.status() == StatusCode::SWITCHING_PROTOCOLS
            && accepted.is_some_and(|value| value.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
        if !is_socket {
            let what = format!("status {} instead of a WebSocket", response.status());
            return Err(ClientError::Protocol { url: self.url().to_owned(), what });
        }
        let stream = response.upgrade().await.map_err(|cause| ClientError::sending(self.url(), cause))?;
        let (sink, stream) = WebSocketStream::from_raw_socket(stream, Role::Client, None).await.split();
        let url = self.url().to_owned();
        Ok((TerminalInput { sink, url: url.clone() }, TerminalOutput { stream, url }))
    }
}

impl TerminalInput {
    /// Sends input.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), ClientError> {
        self.put(Message::Binary(bytes)).await
    }

    /// Sends a new size.
    pub async fn resize(&mut self, size: TerminalSize) -> Result<(), ClientError> {
        let TerminalSize { rows, cols } = size;
        self.put(Message::text(json!({ "resize": { "rows": rows, "cols": cols } }).to_string())).await
    }

    async fn put(&mut self, message: Message) -> Result<(), ClientError> {
        self.sink.send(message).await.map_err(|cause| broken(&self.url, cause))
    }
}

impl TerminalOutput {
    /// Returns the next event. A terminal that ends without `Exit` is an error.
    pub async fn next(&mut self) -> Result<TerminalEvent, ClientError> {
        loop {
            // Without this limit, a lost network would leave a terminal that takes no keys.
            let Ok(message) = tokio::time::timeout(SILENCE_MAX, self.stream.next()).await else {
                let text = format!("the server was silent for {} seconds", SILENCE_MAX.as_secs());
                return Err(ClientError::Exec(text));
            };
            match message {
                Some(Ok(Message::Binary(bytes))) => return Ok(TerminalEvent::Bytes(bytes)),
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                    Ok(TerminalServerFrame::Exit { exit } | TerminalServerFrame::TypedExit { exit, .. }) => {
                        return Ok(TerminalEvent::Exit(exit));
                    }
                    Ok(TerminalServerFrame::Error { error }) => return Err(ClientError::Exec(error)),
                    // A newer server may send unknown frames.
                    Err(_) => {}
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => {
                    return Err(ClientError::Exec("the terminal was closed before its program ended".to_owned()));
                }
                Some(Err(cause)) => return Err(broken(&self.url, cause)),
            }
        }
    }
}

fn broken(url: &str, cause: tokio_tungstenite::tungstenite::Error) -> ClientError {
    ClientError::Socket { url: url.to_owned(), cause: Box::new(cause) }
}
