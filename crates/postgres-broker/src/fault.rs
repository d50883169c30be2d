//! What a caller sees when something fails: `{error, code?, detail?, hint?, where?}` and a status.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{ErrorField, ErrorResponseBody};
use serde::Serialize;

use crate::limits;

/// The code of a statement that was cancelled, by its timeout or by somebody.
const QUERY_CANCELED: &str = "57014";
/// The code of a result that is too large.
const LIMIT_EXCEEDED: &str = "54000";

/// A refusal or an error, as the caller sees it.
#[derive(Debug, Serialize)]
pub(crate) struct BrokerFault {
    #[serde(skip)]
    pub status: StatusCode,
    pub error: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Box<str>>,
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<str>>,
    /// The index of the failed statement of a transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<usize>,
}

/// Why work on a connection ended early.
#[derive(Debug)]
pub(crate) enum SessionFailure {
    /// The connection broke, or the server broke the protocol.
    Lost(String),
    Fault(Box<BrokerFault>),
}

impl BrokerFault {
    pub fn new(status: StatusCode, error: impl Into<Box<str>>) -> Self {
        let error = error.into();
        Self { status, error, code: None, detail: None, hint: None, context: None, statement: None }
    }

    pub fn bad(error: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub fn unavailable(error: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    pub fn late() -> Self {
        let error = "canceling statement due to timeout";
        Self::new(StatusCode::REQUEST_TIMEOUT, error).with_code(QUERY_CANCELED)
    }

    pub fn too_large(what: &str, bytes_max: usize) -> Self {
        let error = format!("{what} is larger than {} MiB", bytes_max / (1024 * 1024));
        let hint = "Select fewer columns or use LIMIT.".into();
        Self { hint: Some(hint), ..Self::bad(error).with_code(LIMIT_EXCEEDED) }
    }

    pub fn with_code(self, code: &str) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Reads the server's own words. Classes 57 and, while logging in, 28 and 53 are no SQL errors.
    pub fn from_server(body: &ErrorResponseBody) -> Self {
        let mut fault = Self::bad("");
        // A statement can make an error of any length.
        let text = |field: &ErrorField<'_>| {
            let bytes = field.value_bytes();
            let cut = &bytes[..bytes.len().min(limits::ERROR_FIELD_BYTES_MAX)];
            String::from_utf8_lossy(cut).into_owned().into_boxed_str()
        };
        let mut fields = body.fields();
        while let Ok(Some(field)) = fields.next() {
            match field.type_() {
                b'M' => fault.error = text(&field),
                b'C' => fault.code = Some(text(&field)),
                b'D' => fault.detail = Some(text(&field)),
                b'H' => fault.hint = Some(text(&field)),
                b'W' => fault.context = Some(text(&field)),
                _ => {}
            }
        }
        if fault.class() == "57" {
            fault.status = StatusCode::REQUEST_TIMEOUT;
        }
        fault
    }

    /// Turns an error of the login into what it means for a caller who logged in to nothing.
    pub fn at_login(mut self) -> Self {
        if matches!(self.class(), "28" | "53" | "57") {
            self.status = StatusCode::SERVICE_UNAVAILABLE;
            self.error = format!("the database refused the connection: {}", self.error).into();
        }
        self
    }

    fn class(&self) -> &str {
        self.code.as_deref().and_then(|code| code.get(..2)).unwrap_or_default()
    }
}

impl IntoResponse for BrokerFault {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<BrokerFault> for SessionFailure {
    fn from(fault: BrokerFault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl From<std::io::Error> for SessionFailure {
    fn from(error: std::io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

impl From<SessionFailure> for BrokerFault {
    fn from(failure: SessionFailure) -> Self {
        match failure {
            SessionFailure::Fault(fault) => *fault,
            SessionFailure::Lost(reason) => Self::unavailable(format!("lost the connection to the database: {reason}")),
        }
    }
}
