//! The API as the tools see it: one request, one answer. The server answers in its own process, and
//! the command line sends the request to a server.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde_json::Value;

use crate::limits::ANSWER_BYTES_MAX;

/// Time limit of requests that only read, or change little.
const USUAL_MAX: Duration = Duration::from_secs(30);

/// Sends requests with the caller's own credential. If the future is dropped, the request ends as
/// if its client had disconnected.
#[async_trait]
pub trait Api: Send + Sync {
    /// Sends a request. The error is a text for the agent: no answer came.
    async fn call(&self, request: RestRequest) -> Result<RestAnswer, String>;
}

/// A request to the API.
#[derive(Clone, Debug, PartialEq)]
pub struct RestRequest {
    pub method: &'static str,
    /// The parts of the path below `/v1`, not escaped.
    pub path: Vec<String>,
    pub query: Vec<(&'static str, String)>,
    pub body: RestBody,
    /// Sent instead of the caller's credential, to routes that have credentials of their own.
    pub token: Option<RestToken>,
    pub timeout: Duration,
    /// Bytes of the answer to skip, and the most bytes to return after them.
    pub skip: u64,
    pub take: usize,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RestBody {
    None,
    Json(Value),
    Bytes(Vec<u8>),
}

/// A token that the API told. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RestToken(String);

impl RestToken {
    /// Returns the token. Call it only where it is sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RestToken {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("RestToken")
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestAnswer {
    pub status: u16,
    pub body: Vec<u8>,
    /// Whether the body went on after these bytes.
    pub more: bool,
}

impl RestRequest {
    /// Starts a request. The path is relative to `/v1`.
    pub fn new(method: &'static str, path: &[&str]) -> Self {
        Self {
            method,
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            query: Vec::new(),
            body: RestBody::None,
            token: None,
            timeout: USUAL_MAX,
            skip: 0,
            take: ANSWER_BYTES_MAX,
        }
    }

    /// Adds a query value.
    pub fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Sets a JSON body.
    pub fn json(self, body: Value) -> Self {
        Self { body: RestBody::Json(body), ..self }
    }

    /// Sends a token instead of the caller's credential.
    pub fn bearing(self, token: &str) -> Self {
        Self { token: Some(RestToken(token.to_owned())), ..self }
    }

    /// Sets another time limit.
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Reads only a part of the answer.
    pub fn window(self, skip: u64, take: usize) -> Self {
        Self { skip, take, ..self }
    }
}

impl RestAnswer {
    /// Tells whether the request was refused.
    pub fn is_refusal(&self) -> bool {
        self.status >= 400
    }

    /// Returns the body as text. Invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Collects a window of a body that arrives in pieces.
#[cfg(any(feature = "http", feature = "stdio"))]
pub(crate) struct BodyWindow {
    skip: u64,
    take: usize,
    pub body: Vec<u8>,
    pub more: bool,
}

#[cfg(any(feature = "http", feature = "stdio"))]
impl BodyWindow {
    pub fn new(skip: u64, take: usize) -> Self {
        Self { skip, take, body: Vec::new(), more: false }
    }

    /// Adds a piece. Returns false if no more pieces are needed.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(piece.len());
        self.skip -= skipped as u64;
        let rest = &piece[skipped..];
        let kept = rest.len().min(self.take - self.body.len());
        self.body.extend_from_slice(&rest[..kept]);
        self.more = kept < rest.len();
        !self.more
    }
}

#[cfg(all(test, any(feature = "http", feature = "stdio")))]
mod tests {
    use super::*;

    #[test]
    fn a_window_skips_and_takes_across_pieces() {
        let read = |skip, take| {
            let mut window = BodyWindow::new(skip, take);
            for piece in ["abc", "", "def"] {
                if !window.push(piece.as_bytes()) {
                    break;
                }
            }
            (String::from_utf8(window.body).unwrap(), window.more)
        };
        assert_eq!(read(0, 9), ("abcdef".to_owned(), false));
        assert_eq!(read(0, 6), ("abcdef".to_owned(), false));
        assert_eq!(read(2, 2), ("cd".to_owned(), true));
        assert_eq!(read(4, 2), ("ef".to_owned(), false));
        assert_eq!(read(9, 2), (String::new(), false));
        assert_eq!(read(0, 0), (String::new(), true));
    }
}
