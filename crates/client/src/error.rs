//! Errors of calls, with texts that a user can act on.

use pandastack_wire_public::ErrorBody;
use reqwest::StatusCode;

/// Longest body text that is shown if the error body is not ours.
const FOREIGN_TEXT_CHARS_MAX: usize = 200;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{text}")]
    Refused {
        status: u16,
        /// Stable code such as `sandbox.not_found`; empty if the response had none.
        code: String,
        text: String,
        request_id: String,
    },
    #[error("no response from {url}; is the server running? Start one with: pandastack up")]
    Unreachable {
        url: String,
        #[source]
        cause: reqwest::Error,
    },
    #[error("{what}; name a PEM file with the authority of your server in PANDASTACK_CA_FILE")]
    Trust { what: String },
    #[error("the connection to {url} was lost")]
    Broken {
        url: String,
        #[source]
        cause: reqwest::Error,
    },
    #[error("the WebSocket to {url} was lost")]
    Socket {
        url: String,
        #[source]
        cause: Box<tokio_tungstenite::tungstenite::Error>,
    },
    #[error("unexpected response from {url}: {what}")]
    Protocol { url: String, what: String },
    #[error("{0}")]
    Exec(String),
}

impl ClientError {
    /// Returns the HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the stable code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Tells whether a command timed out.
    pub fn is_timeout(&self) -> bool {
        match self {
            ClientError::Refused { status: 504, .. } => true,
            ClientError::Exec(text) => text.contains("timeout"),
            _ => false,
        }
    }

    pub(crate) fn sending(url: &str, cause: reqwest::Error) -> Self {
        if let Some(why) = untrusted(&cause) {
            return ClientError::Trust { what: format!("the certificate of {url} is not trusted: {why}") };
        }
        let url = url.to_owned();
        if cause.is_connect() { ClientError::Unreachable { url, cause } } else { ClientError::Broken { url, cause } }
    }

    pub(crate) fn refused(status: StatusCode, body: &[u8]) -> Self {
        let status_code = status.as_u16();
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(ErrorBody { error, code, request_id, detail, .. }) => {
                let text = match detail {
                    Some(detail) => format!("{error}: {detail}"),
                    None => error,
                };
                ClientError::Refused { status: status_code, code, text, request_id }
            }
            Err(_) => {
                let shown: String = String::from_utf8_lossy(body).chars().take(FOREIGN_TEXT_CHARS_MAX).collect();
                let text = format!("{status} {shown}").trim().to_owned();
                ClientError::Refused { status: status_code, code: String::new(), text, request_id: String::new() }
            }
        }
    }
}

/// Finds a certificate that was refused among the causes of an error.
fn untrusted(error: &dyn std::error::Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if text.starts_with("invalid peer certificate") {
            return Some(text);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_carry_code_and_text() {
        let error =
            ClientError::refused(StatusCode::NOT_FOUND, br#"{"error":"sandbox not found","code":"sandbox.not_found"}"#);
        assert_eq!((error.status(), error.code()), (Some(404), Some("sandbox.not_found")));
        assert_eq!(error.to_string(), "sandbox not found");
        let error =
            ClientError::refused(StatusCode::UNAUTHORIZED, br#"{"error":"unauthorized","detail":"unknown API key"}"#);
        assert_eq!(error.to_string(), "unauthorized: unknown API key");
        let error = ClientError::refused(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(error.to_string(), "502 Bad Gateway <html>");
    }
}
