//! One HTTP request and its answer, as this room sees them.

use std::fmt;

use async_trait::async_trait;

/// A POST to Stripe with a form as its body.
#[derive(Clone, PartialEq, Eq)]
pub struct StripeRequest {
    /// Path below the API's base, such as `/v1/customers`.
    pub path: &'static str,
    /// All headers but `Host` and `Content-Length`. One of them is the secret key.
    pub headers: Vec<(&'static str, String)>,
    /// The body, as `application/x-www-form-urlencoded`.
    pub body: String,
}

/// Shows neither the key nor the body, which may hold names and addresses of people.
impl fmt::Debug for StripeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let body = format_args!("{} bytes", self.body.len());
        f.debug_struct("StripeRequest").field("path", &self.path).field("headers", &names).field("body", &body).finish()
    }
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripeResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// At most [`STRIPE_ANSWER_BYTES_MAX`](crate::limits::STRIPE_ANSWER_BYTES_MAX) bytes; the
    /// transport drops the rest.
    pub body: Vec<u8>,
}

impl StripeResponse {
    /// Finds a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer. The texts are for the operator's log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripeTransportError {
    /// Not one byte of the request left: no address, no connection, no TLS. Stripe cannot have
    /// acted.
    #[error("Stripe could not be reached: {0}")]
    NotSent(String),
    /// The request was sent, and no answer came in time. Stripe may have acted.
    #[error("Stripe did not answer in time")]
    Timeout,
    /// The request was sent, and the connection broke. Stripe may have acted.
    #[error("the connection to Stripe broke: {0}")]
    Lost(String),
}

/// Sends one request and returns one answer. Follows no redirects and retries nothing. Waits at
/// most [`STRIPE_ANSWER_MAX`](crate::limits::STRIPE_ANSWER_MAX).
#[async_trait]
pub trait StripeTransport: Send + Sync {
    async fn send(&self, request: StripeRequest) -> Result<StripeResponse, StripeTransportError>;
}
