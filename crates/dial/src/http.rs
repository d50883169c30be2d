//! One HTTP request over one connection of a `Dialer`. The answer is bounded in bytes and in time.
//! Follows no redirects, reuses no connection, and retries nothing.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
pub use hyper::{
    Method, StatusCode,
    header::{self, HeaderMap},
};
use hyper::{
    Request,
    body::{Body, Incoming},
    client::conn::http1,
    header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use pandastack_kit::Scope;
use tokio::time::timeout;
pub use url::Url;
use url::{Host, Position};

use crate::{
    ConnectionTask, DialError, DialTarget, Dialer, NetworkStream,
    limits::{HTTP_ANSWER_MAX, HTTP_BODY_BYTES_MAX, HTTP_CONNECT_MAX, HTTP_HEAD_BYTES_MAX, HTTP_URL_BYTES_MAX},
};

/// The smallest buffer that the HTTP library accepts.
const BUFFER_BYTES_MIN: usize = 8 * 1024;

/// Bounds of every answer that a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    pub head_bytes_max: usize,
    pub body_bytes_max: usize,
    /// Time for the name, the connection and TLS.
    pub connect_max: Duration,
    /// Time from the connection to the last byte of the answer.
    pub answer_max: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: HTTP_HEAD_BYTES_MAX,
            body_bytes_max: HTTP_BODY_BYTES_MAX,
            connect_max: HTTP_CONNECT_MAX,
            answer_max: HTTP_ANSWER_MAX,
        }
    }
}

/// Sends requests. Keeps no connections.
pub struct HttpClient {
    dialer: Dialer,
    scope: Scope,
    limits: HttpLimits,
}

/// A request. `Host`, `Connection` and the headers of the body's length are set by the client.
#[derive(Clone)]
pub struct HttpRequest {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// An answer of any status.
#[derive(Clone)]
pub struct HttpResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("the URL cannot be requested: {why}")]
    BadUrl { why: &'static str },
    #[error("connect to {host}")]
    Dial {
        host: String,
        #[source]
        cause: DialError,
    },
    #[error("no connection to {host} within {}s", limit.as_secs_f32())]
    ConnectSlow { host: String, limit: Duration },
    #[error("the request could not be built")]
    Request(#[source] hyper::http::Error),
    #[error("{host} sent no valid HTTP answer")]
    Protocol {
        host: String,
        #[source]
        cause: hyper::Error,
    },
    #[error("no complete answer of {host} within {}s", limit.as_secs_f32())]
    Slow { host: String, limit: Duration },
    #[error("the answer of {host} is larger than {bytes_max} bytes")]
    TooLarge { host: String, bytes_max: usize },
}

impl HttpRequest {
    /// Makes a GET without headers.
    pub fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

/// Shows where the request goes. Query, headers and body may contain secrets.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "HttpRequest({} {})", self.method, &self.url[Position::BeforeScheme..Position::AfterPath])
    }
}

/// Shows neither headers nor body, which may contain secrets.
impl fmt::Debug for HttpResponse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "HttpResponse({}, {} bytes)", self.status.as_u16(), self.body.len())
    }
}

impl HttpClient {
    /// Makes a client. Its connections run in the scope.
    pub fn new(dialer: Dialer, scope: Scope, limits: HttpLimits) -> Self {
        Self { dialer, scope, limits }
    }

    /// Sends a request and reads the whole answer. An answer of any status is a success.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let target = target(&request.url)?;
        let HttpLimits { connect_max, answer_max, .. } = self.limits;
        let host = || target.host.clone();
        let opened = timeout(connect_max, self.dialer.open(&target)).await;
        let opened = opened.map_err(|_| HttpError::ConnectSlow { host: host(), limit: connect_max })?;
        let stream = opened.map_err(|cause| HttpError::Dial { host: host(), cause })?;
        let answered = timeout(answer_max, self.exchange(stream, built(request)?, &target.host)).await;
        answered.map_err(|_| HttpError::Slow { host: host(), limit: answer_max })?
    }

    async fn exchange(
        &self,
        stream: Box<dyn NetworkStream>,
        request: Request<Full<Bytes>>,
        host: &str,
    ) -> Result<HttpResponse, HttpError> {
        let invalid = |cause| HttpError::Protocol { host: host.to_owned(), cause };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(self.limits.head_bytes_max.max(BUFFER_BYTES_MIN));
        builder.max_header_size(self.limits.head_bytes_max);
        let (mut requests, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(invalid)?;
        let carrying = self.scope.start("http connection", async move {
            // The request reports the same error.
            let _ = connection.await;
        });
        let _carrying = ConnectionTask::of(carrying);
        let (head, body) = requests.send_request(request).await.map_err(invalid)?.into_parts();
        let body = self.read(body, host).await?;
        Ok(HttpResponse { status: head.status, headers: head.headers, body })
    }

    async fn read(&self, mut body: Incoming, host: &str) -> Result<Bytes, HttpError> {
        let bytes_max = self.limits.body_bytes_max;
        let too_large = || HttpError::TooLarge { host: host.to_owned(), bytes_max };
        if body.size_hint().lower() > bytes_max as u64 {
            return Err(too_large());
        }
        let mut kept = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|cause| HttpError::Protocol { host: host.to_owned(), cause })?;
            let piece = frame.data_ref().map_or(&[][..], |data| &data[..]);
            if kept.len() + piece.len() > bytes_max {
                return Err(too_large());
            }
            kept.extend_from_slice(piece);
        }
        Ok(kept.into())
    }
}

/// Where a URL leads.
fn target(url: &Url) -> Result<DialTarget, HttpError> {
    let bad = |why| Err(HttpError::BadUrl { why });
    let tls = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return bad("it begins neither with https:// nor with http://"),
    };
    if url.as_str().len() > HTTP_URL_BYTES_MAX {
        return bad("it is too long");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return bad("it contains a user name or password");
    }
    let host = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return bad("it has no host"),
    };
    match url.port_or_known_default() {
        Some(port) if port != 0 => Ok(DialTarget { host, port, tls }),
        _ => bad("its port is 0"),
    }
}

/// The request as the HTTP library takes it.
fn built(request: HttpRequest) -> Result<Request<Full<Bytes>>, HttpError> {
    let HttpRequest { method, url, mut headers, body } = request;
    // Two lengths, or two hosts, would be read differently by different servers.
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]);
    headers.insert(HOST, host.map_err(|error| HttpError::Request(error.into()))?);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let agent = HeaderValue::from_static(concat!("pandastack/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(agent);
    let built = Request::builder().method(method).uri(&url[Position::BeforePath..Position::AfterQuery]);
    let mut built = built.body(Full::new(body)).map_err(HttpError::Request)?;
    *built.headers_mut() = headers;
    Ok(built)
}

#[cfg(test)]
mod tests;
