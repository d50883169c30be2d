//! The test plays a program in a guest: it speaks HTTP on the other end of a connection, with a
//! real server or with raw text.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{Request, Response},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use pandastack_kit::Scope;
use pandastack_wire_fleet::stub::PlayedConnection;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::TcpStream,
    sync::oneshot,
};

use crate::rig::{Rig, within};

impl Rig {
    /// Waits until the edge connects to a port.
    pub async fn connected(&mut self) -> PlayedConnection {
        within("a connection to a port", self.ports.recv()).await.unwrap()
    }

    /// Opens a bare connection to the edge.
    pub async fn raw(&self) -> TcpStream {
        TcpStream::connect(self.url.strip_prefix("http://").unwrap()).await.unwrap()
    }

    /// The host name of a preview of the rig's sandbox.
    pub fn preview(&self, port: u16) -> String {
        format!("{port}-{}.box.example", self.id)
    }

    /// The host name of a signed link, for a token with a path after it, such as `all/x`. The stub
    /// derives the label from the length of the token.
    pub fn link(&self, path: &str) -> String {
        let token = path.split(['/', '?']).next().unwrap_or_default();
        format!("link-{}.box.example", format!("{:02x}", token.len()).repeat(20))
    }
}

/// Runs work in the background. Dropping the receiver ends it.
pub fn begin<T: Send + 'static>(scope: &Scope, work: impl Future<Output = T> + Send + 'static) -> oneshot::Receiver<T> {
    let (mut done, outcome) = oneshot::channel();
    scope.start("test", async move {
        let value = tokio::select! {
            value = work => value,
            () = done.closed() => return,
        };
        let _ = done.send(value);
    });
    outcome
}

/// Serves every request of one connection with a function.
pub async fn serve<W: Future<Output = Response<Body>>>(stream: DuplexStream, work: impl Fn(Request<Incoming>) -> W) {
    let service = service_fn(|request| {
        let answer = work(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Reads and returns one head. No byte after the head is read.
pub async fn head(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = Vec::new();
    let whole = async {
        while !text.ends_with(b"\r\n\r\n") {
            text.push(stream.read_u8().await.unwrap());
        }
    };
    within("a head", whole).await;
    String::from_utf8(text).unwrap()
}

/// Sends text.
pub async fn say(stream: &mut (impl AsyncWriteExt + Unpin), text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Reads exactly this text.
pub async fn hear(stream: &mut (impl AsyncReadExt + Unpin), text: &str) {
    let mut bytes = vec![0; text.len()];
    within(text, stream.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

/// Waits until the other side has closed the connection.
pub async fn gone(stream: &mut (impl AsyncReadExt + Unpin)) {
    let end = async {
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    };
    within("the other side's end", end).await;
}
