//! Sends the requests of the ACME library by the dialer of this server: bounded in time and bytes,
//! with the same TLS library as everything else.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient as AcmeHttp};
use pandastack_dial::http::{HttpClient, HttpRequest, HttpResponse, Url, header::RETRY_AFTER};

use crate::limits::ACME_RETRY_MAX;

/// A client for one order.
#[derive(Clone)]
pub struct AcmeTransport {
    client: Arc<HttpClient>,
    wanted: Arc<Mutex<Option<Duration>>>,
}

impl AcmeTransport {
    pub fn new(client: HttpClient) -> Self {
        Self { client: Arc::new(client), wanted: Arc::default() }
    }

    /// How long the server asked to wait in its last refusal.
    pub fn wanted_pause(&self) -> Option<Duration> {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_refusal(&self, response: &HttpResponse) {
        if response.status.is_success() {
            return;
        }
        let told = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let pause = told.map(|seconds| Duration::from_secs(seconds).min(ACME_RETRY_MAX * 4));
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|error| Error::Other(Box::new(error)))?;
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        let sent = HttpRequest { method: head.method, url, headers: head.headers, body };
        let response = self.client.send(sent).await.map_err(|error| Error::Other(Box::new(error)))?;
        self.note_refusal(&response);
        let mut answer = Response::new(Full::new(response.body));
        *answer.status_mut() = response.status;
        *answer.headers_mut() = response.headers;
        Ok(BytesResponse::from(answer))
    }
}

impl AcmeHttp for AcmeTransport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().send(request))
    }
}
