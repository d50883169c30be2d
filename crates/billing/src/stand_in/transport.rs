//! A transport without TLS to a server on loopback. One connection for each request.

use std::{net::SocketAddr, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use pandastack_kit::Scope;
use tokio::{net::TcpStream, time::timeout};

use crate::{
    limits::STRIPE_ANSWER_BYTES_MAX,
    stripe::{StripeRequest, StripeResponse, StripeTransport, StripeTransportError},
};

/// Sends requests to one address.
pub struct LoopbackTransport {
    address: SocketAddr,
    answer_max: Duration,
    scope: Scope,
}

impl LoopbackTransport {
    /// Makes a transport that waits this long for an answer.
    pub fn new(address: SocketAddr, answer_max: Duration, scope: Scope) -> Self {
        Self { address, answer_max, scope }
    }

    /// Posts a body and reads the answer.
    pub async fn post(
        &self,
        path: &str,
        headers: &[(&str, String)],
        body: Vec<u8>,
    ) -> Result<StripeResponse, StripeTransportError> {
        let not_sent = |error: &dyn std::fmt::Display| StripeTransportError::NotSent(error.to_string());
        let stream = TcpStream::connect(self.address).await.map_err(|error| not_sent(&error))?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| not_sent(&error))?;
        let mut request = Request::post(path).header(HOST, self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| not_sent(&error))?;
        let carrying = self.scope.start("connection of a loopback transport", async move {
            // The request reports the same error.
            let _ = connection.await;
        });
        let answer = timeout(self.answer_max, exchange(&mut sender, request)).await;
        carrying.abort();
        answer.unwrap_or(Err(StripeTransportError::Timeout))
    }
}

async fn exchange(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<StripeResponse, StripeTransportError> {
    let lost = |error: hyper::Error| StripeTransportError::Lost(error.to_string());
    let response = sender.send_request(request).await.map_err(lost)?;
    let status = response.status().as_u16();
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let (mut incoming, mut body) = (response.into_body(), Vec::new());
    while body.len() < STRIPE_ANSWER_BYTES_MAX
        && let Some(frame) = incoming.frame().await
    {
        body.extend_from_slice(frame.map_err(lost)?.data_ref().map_or(&[][..], |data| &data[..]));
    }
    body.truncate(STRIPE_ANSWER_BYTES_MAX);
    Ok(StripeResponse { status, headers, body })
}

#[async_trait]
impl StripeTransport for LoopbackTransport {
    async fn send(&self, request: StripeRequest) -> Result<StripeResponse, StripeTransportError> {
        self.post(request.path, &request.headers, request.body.into_bytes()).await
    }
}
