//! The bytes of a connection, plain or by TLS, and what answers over TLS carry.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderName, HeaderValue, header::STRICT_TRANSPORT_SECURITY},
    response::Response,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

/// The header that names the client's scheme to everything behind the door.
pub const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub const HTTPS: HeaderValue = HeaderValue::from_static("https");

/// First byte of a TLS connection: the type of a handshake record.
const HANDSHAKE_RECORD: u8 = 22;

/// The answer to a client that does not use TLS.
const PLAIN_ANSWER: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\
                            content-length: 87\r\n\r\n\
                            {\"error\":\"this server speaks https; use https:// in its address\",\
                            \"code\":\"tls.required\"}";

/// A stream of bytes to a client.
pub enum Transport {
    Plain(TcpStream),
    /// In a box: the state of TLS is large, and plain connections must not carry it.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// Opens a connection. With an acceptor it makes the handshake, and returns `None` if there is
    /// none in time.
    pub async fn open(
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        handshake_max: Duration,
        stop: &CancellationToken,
    ) -> Option<Self> {
        // Small answers must not wait for a full packet.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let Some(tls) = tls else { return Some(Transport::Plain(stream)) };
        tokio::select! {
            () = stop.cancelled() => None,
            shaken = tokio::time::timeout(handshake_max, shake(stream, tls)) => match shaken {
                Ok(Ok(stream)) => stream.map(|stream| Transport::Tls(Box::new(stream))),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    None
                }
                Err(_) => {
                    tracing::debug!("a TLS handshake took too long");
                    None
                }
            }
        }
    }

    /// The connection below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.get_ref().0,
        }
    }

    pub fn is_tls(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }
}

/// Makes the handshake. A client that speaks plain HTTP is told what to do.
async fn shake(mut stream: TcpStream, tls: TlsAcceptor) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Ok(None),
        _ if first[0] == HANDSHAKE_RECORD => tls.accept(stream).await.map(Some),
        _ if first[0].is_ascii_alphabetic() => {
            // Bytes that are left unread would reset the connection before the answer is read.
            let _ = stream.read(&mut [0; 8192]).await?;
            stream.write_all(PLAIN_ANSWER.as_bytes()).await?;
            stream.shutdown().await?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// Makes browsers use only https for this server's host name from now on. For an app that is served
/// by TLS only. Zero seconds make browsers forget it.
pub fn with_hsts(app: Router, max_age: Duration) -> Router {
    let value = HeaderValue::from_str(&format!("max-age={}", max_age.as_secs()));
    let Ok(value) = value else { return app };
    app.layer(axum::middleware::map_response(move |mut response: Response| {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value.clone());
        async move { response }
    }))
}

/// Calls a method of the stream inside.
macro_rules! inside {
    ($this:expr, $stream:ident => $call:expr) => {
        match $this.get_mut() {
            Transport::Plain($stream) => $call,
            Transport::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        inside!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inside!(self, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_has_the_length_it_names() {
        let (head, body) = PLAIN_ANSWER.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
