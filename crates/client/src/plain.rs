//! Requests that are passed on as they are, with their answers.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method, Response,
    header::{CONTENT_TYPE, HeaderValue},
};

use crate::{Client, ClientError};

/// A request that is passed on.
pub struct PlainRequest<'a> {
    pub method: &'a str,
    /// The parts of the path below `/v1`. Each is escaped separately.
    pub path: &'a [&'a str],
    pub query: &'a [(&'a str, &'a str)],
    /// The content type and the bytes of the body.
    pub body: Option<(&'static str, Vec<u8>)>,
    pub timeout: Duration,
}

/// The answer to a request that was passed on. A refusal is an answer too.
pub struct PlainAnswer {
    pub status: u16,
    url: String,
    response: Response,
}

impl Client {
    /// Sends a request. If the future or the answer is dropped, the server sees a client that has
    /// disconnected.
    pub async fn plain(&self, request: PlainRequest<'_>) -> Result<PlainAnswer, ClientError> {
        let PlainRequest { method, path, query, body, timeout } = request;
        let url = self.url().to_owned();
        let unknown = |_| ClientError::Protocol { url: url.clone(), what: format!("no such method: {method:?}") };
        let method = Method::from_bytes(method.as_bytes()).map_err(unknown)?;
        let request = match query.is_empty() {
            true => self.request(method, path)?,
            false => self.query_request(method, path, query)?,
        };
        let request = match body {
            Some((kind, bytes)) => request.header(CONTENT_TYPE, HeaderValue::from_static(kind)).body(bytes),
            None => request,
        };
        let response = request.timeout(timeout).send().await.map_err(|cause| ClientError::sending(&url, cause))?;
        Ok(PlainAnswer { status: response.status().as_u16(), url, response })
    }
}

impl PlainAnswer {
    /// Returns the next piece of the body; `None` at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.response.chunk().await.map_err(|cause| ClientError::sending(&self.url, cause))
    }
}
