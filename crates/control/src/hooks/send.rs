//! Makes one POST to one receiver, over a connection from `dial`. It follows no redirects, reads
//! only a part of the response, and reuses no connection.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use pandastack_door::http::TRACEPARENT;
use pandastack_kit::Scope;
use tokio::time::timeout;

use super::HttpTarget;
use crate::{
    dial::{AddressPolicy, ConnectionTask, DialError, DialTarget, Dialer, TrustRoots},
    limits::{
        WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_ANSWER_MAX, WEBHOOK_ANSWER_READ_MAX, WEBHOOK_CONNECT_MAX,
        WEBHOOK_HEAD_BYTES_MAX,
    },
};

/// A request to a receiver.
pub struct WebhookRequest<'a> {
    pub target: &'a HttpTarget,
    pub id: String,
    pub seconds: u64,
    pub signatures: String,
    pub body: &'a str,
    /// The trace of the event.
    pub cause: Option<HeaderValue>,
}

/// The response of a receiver, or the reason why there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookResponse {
    pub status: Option<u16>,
    /// Why the delivery failed; `None` if it succeeded.
    pub error: Option<String>,
    pub answer: String,
}

/// Sends requests. Keeps no connections.
pub struct WebhookSender {
    dialer: Dialer,
    scope: Scope,
}

/// Why there was no response.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("no connection within {}s", WEBHOOK_CONNECT_MAX.as_secs())]
    ConnectSlow,
    #[error("the request could not be built")]
    Request(#[source] hyper::http::Error),
    #[error("no valid HTTP response")]
    Http(#[source] hyper::Error),
    #[error("no response within {}s", WEBHOOK_ANSWER_MAX.as_secs())]
    Slow,
}

impl WebhookSender {
    /// Makes a sender. Certificates are read at their first use.
    pub fn new(reach: AddressPolicy, roots: TrustRoots, scope: Scope) -> Self {
        Self { dialer: Dialer::new(reach, roots, scope.clone()), scope }
    }

    pub fn reach(&self) -> AddressPolicy {
        self.dialer.reach()
    }

    /// Sends a request and returns the result.
    pub async fn send(&self, letter: WebhookRequest<'_>) -> WebhookResponse {
        let sent = match timeout(WEBHOOK_ANSWER_MAX, self.post(letter)).await {
            Ok(sent) => sent,
            Err(_) => Err(SendError::Slow),
        };
        match sent {
            Ok((response, _connection)) => read(response).await,
            Err(error) => WebhookResponse { error: Some(chain(&error)), ..WebhookResponse::default() },
        }
    }

    async fn post(&self, letter: WebhookRequest<'_>) -> Result<(Response<Incoming>, ConnectionTask), SendError> {
        let WebhookRequest { target, .. } = letter;
        let place = DialTarget { host: target.host(), port: target.port(), tls: target.is_https() };
        let opened = timeout(WEBHOOK_CONNECT_MAX, self.dialer.open(&place)).await;
        let stream = opened.map_err(|_| SendError::ConnectSlow)??;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(WEBHOOK_HEAD_BYTES_MAX);
        let (mut requests, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(SendError::Http)?;
        let carrying = self.scope.start("webhook connection", async move {
            // The request reports the same error.
            let _ = connection.await;
        });
        let carrying = ConnectionTask::of(carrying);
        let mut request = Request::post(letter.target.path_and_query())
            .header(HOST, letter.target.authority())
            .header(USER_AGENT, concat!("pandastack-webhooks/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", letter.id)
            .header("webhook-timestamp", letter.seconds)
            .header("webhook-signature", letter.signatures)
            .body(Full::new(Bytes::copy_from_slice(letter.body.as_bytes())))
            .map_err(SendError::Request)?;
        if let Some(cause) = letter.cause {
            request.headers_mut().insert(TRACEPARENT, cause);
        }
        let response = requests.send_request(request).await.map_err(SendError::Http)?;
        Ok((response, carrying))
    }
}

/// Reads the part of the response that is kept. Only the head decides the result, so a body that
/// hangs or never ends has no effect.
async fn read(response: Response<Incoming>) -> WebhookResponse {
    let status = response.status();
    let location = response.headers().get(LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
    let mut body = response.into_body();
    let (mut kept, deadline) = (Vec::new(), tokio::time::Instant::now() + WEBHOOK_ANSWER_READ_MAX);
    while kept.len() < WEBHOOK_ANSWER_BYTES_MAX {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if left == Duration::ZERO {
            break;
        }
        match timeout(left, body.frame()).await {
            Ok(Some(Ok(frame))) => kept.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..])),
            Ok(Some(Err(_)) | None) | Err(_) => break,
        }
    }
    kept.truncate(WEBHOOK_ANSWER_BYTES_MAX);
    let error = match (status.is_success(), status.is_redirection()) {
        (true, _) => None,
        (_, true) => {
            let to: String = location.unwrap_or_default().chars().take(200).collect();
            Some(format!(
                "the receiver answered {} with a redirect to {to:?}; redirects are not followed",
                status.as_u16()
            ))
        }
        _ => Some(format!("answered {}", status.as_u16())),
    };
    WebhookResponse { status: Some(status.as_u16()), error, answer: String::from_utf8_lossy(&kept).into_owned() }
}

/// Renders an error and its causes in one line.
fn chain(error: &SendError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text.chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(reach: AddressPolicy, url: &str) -> WebhookResponse {
        let target = HttpTarget::parse(url, AddressPolicy::Private).unwrap();
        let letter = WebhookRequest {
            target: &target,
            id: "evt".into(),
            seconds: 1,
            signatures: "v1,x".into(),
            body: "{}",
            cause: None,
        };
        WebhookSender::new(reach, TrustRoots::Host, Scope::new()).send(letter).await
    }

    /// Simulates a name that was allowed when it was given and resolves to another address now.
    #[tokio::test]
    async fn the_address_is_checked_when_it_is_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let sent = sent(AddressPolicy::Public, &format!("http://{host}:{port}/")).await;
            assert!(sent.error.as_ref().is_some_and(|error| error.contains("not allowed")), "{host}: {sent:?}");
        }
        let silence = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(silence.is_err(), "not even a connection was made");
        let url = format!("http://127.0.0.1:{port}/");
        let (sent, ()) = tokio::join!(sent(AddressPolicy::Private, &url), async {
            drop(listener.accept().await.unwrap());
        });
        assert!(sent.error.unwrap().starts_with("no valid HTTP response"));
    }
}
