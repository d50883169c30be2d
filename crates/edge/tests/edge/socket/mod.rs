//! Sockets, with a real client on the other end.

mod door;
mod exec;
mod flow;
mod terminal;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use pandastack_wire_fleet::{ExecEvent, stub::PlayedCommand};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        handshake::client::{Request, Response},
        protocol::CloseFrame,
    },
};

use crate::rig::{Rig, within};

/// The client's end of a socket.
pub struct Peer {
    socket: WebSocketStream<TcpStream>,
}

impl Rig {
    /// A request for a socket, with a key.
    pub fn socket_request(&self, path: &str) -> Request {
        let mut request = self.bare_socket_request(&format!("/{}{path}", self.id));
        request.headers_mut().insert("authorization", "Bearer mine".parse().unwrap());
        request
    }

    /// A request for a socket of any sandbox, without a key.
    pub fn bare_socket_request(&self, path: &str) -> Request {
        let url = format!("{}/v1/sandboxes{path}", self.url.replace("http://", "ws://"));
        url.into_client_request().unwrap()
    }

    /// Requests a socket.
    pub async fn knock(&self, request: Request) -> Result<(Peer, Response), Error> {
        let stream = TcpStream::connect(self.url.trim_start_matches("http://")).await.unwrap();
        let (socket, response) = within("an answer to a handshake", client_async(request, stream)).await?;
        Ok((Peer { socket }, response))
    }

    /// Opens a socket.
    pub async fn open(&self, path: &str) -> Peer {
        self.knock(self.socket_request(path)).await.unwrap().0
    }

    /// Takes the host's end of the next command.
    pub async fn next_played(&mut self) -> PlayedCommand {
        within("a command", self.played.recv()).await.unwrap()
    }
}

impl Peer {
    pub async fn send(&mut self, message: Message) {
        within("room to send", self.socket.send(message)).await.unwrap();
    }

    pub async fn say(&mut self, frame: Value) {
        self.send(Message::text(frame.to_string())).await;
    }

    /// The next message that is not a ping or a pong.
    pub async fn message(&mut self) -> Option<Message> {
        loop {
            match within("a message", self.socket.next()).await {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(_)) | None => return None,
            }
        }
    }

    pub async fn frame(&mut self) -> Value {
        match self.message().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?} is no frame"),
        }
    }

    /// The server's close frame.
    pub async fn closed(&mut self) -> Option<CloseFrame> {
        match self.message().await {
            Some(Message::Close(frame)) => frame,
            other => panic!("{other:?} is no goodbye"),
        }
    }

    /// Closes the socket and waits until the server has closed it too.
    pub async fn leave(mut self) {
        within("room to close", self.socket.close(None)).await.unwrap();
        while self.message().await.is_some() {}
    }

    /// Drops the connection without a close frame.
    pub fn cut(self) {
        drop(self.socket);
    }
}

pub fn out(bytes: &'static [u8]) -> ExecEvent {
    ExecEvent::Stdout(Bytes::from_static(bytes))
}

pub fn err(bytes: &'static [u8]) -> ExecEvent {
    ExecEvent::Stderr(Bytes::from_static(bytes))
}
