//! The only place that turns a fault into a status, headers and a body.

use std::time::Duration;

use pandastack_model::{Fault, FaultKind};
use serde::{Deserialize, Serialize};

/// Default `Retry-After` of a busy server.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(5);
/// Default `Retry-After` for a caller that exceeds its rate limit.
const TOO_FAST_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The body of every error. It is flat, because the published clients need `error` to be a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    pub error: String,
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub request_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The workspace that sent too many requests. Only in a refusal by the rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A fault as an HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultResponse {
    pub status: u16,
    /// Seconds for `Retry-After`. Set only if nothing was created, because one client repeats the
    /// request then.
    pub retry_after: Option<u64>,
    pub body: ErrorBody,
}

/// The code of a request that found its sandbox asleep and could not wake it. Sent as 503 without
/// `Retry-After`: it is not a capacity problem, and clients should not repeat it automatically.
pub const WAKE_FAILED: &str = "sandbox.wake_failed";
/// Codes of databases that cannot be used now.
const DATABASE_WAITS: [&str; 3] = ["database.not_ready", "database.not_running", "database.no_template"];

/// Codes for errors of a user's program in a guest: nothing listens, or the answer is invalid. The
/// caller gets 502, as from any gateway. The kind is `Conflict`, because it is not a server error.
pub const PORT_CLOSED: &str = "port.not_listening";
pub const PORT_BROKEN: &str = "port.bad_answer";

/// The code of a request whose idempotency key was used for another request. Sent as 422.
pub const OTHER_REQUEST: &str = "idempotency.other_request";
/// The code of a metrics request for a sandbox that has no machine now. Sent as 503 without
/// `Retry-After`.
pub const NO_MACHINE: &str = "sandbox.no_machine";

/// Renders a fault. Its private detail is left out.
pub fn reply(fault: &Fault, request_id: &str) -> FaultResponse {
    let (status, retry_after) = status(fault);
    let (error, detail) = match fault.kind {
        FaultKind::Unauthorized => ("unauthorized".to_owned(), Some(fault.text.clone())),
        // Clients recognize a timeout only by this word.
        FaultKind::Timeout if !fault.text.contains("timeout") => (format!("timeout: {}", fault.text), None),
        _ if fault.text.is_empty() => (fault.code.to_owned(), None),
        _ => (fault.text.clone(), None),
    };
    let body =
        ErrorBody { error, code: fault.code.to_owned(), request_id: request_id.to_owned(), detail, workspace: None };
    FaultResponse { status, retry_after, body }
}

fn status(fault: &Fault) -> (u16, Option<u64>) {
    // Rounded up, because a repeat that is too early fails again.
    let seconds = |after: Duration| after.as_secs_f64().ceil() as u64;
    match fault.kind {
        FaultKind::Caller => (400, None),
        FaultKind::Unauthorized => (401, None),
        FaultKind::Forbidden => (403, None),
        FaultKind::Missing => (404, None),
        FaultKind::Gone => (410, None),
        FaultKind::Conflict if matches!(fault.code, PORT_CLOSED | PORT_BROKEN) => (502, None),
        FaultKind::Conflict if fault.code == OTHER_REQUEST => (422, None),
        FaultKind::Conflict if fault.code == NO_MACHINE => (503, None),
        FaultKind::Conflict => (409, None),
        FaultKind::TooLarge => (413, None),
        FaultKind::Payment => (402, None),
        FaultKind::Quota => (429, None),
        FaultKind::TooFast => (429, Some(seconds(fault.retry_after.unwrap_or(TOO_FAST_RETRY_AFTER)))),
        FaultKind::Busy => (503, Some(seconds(fault.retry_after.unwrap_or(BUSY_RETRY_AFTER)))),
        FaultKind::Storage => (507, None),
        FaultKind::Timeout => (504, None),
        FaultKind::Unavailable if fault.code == WAKE_FAILED || DATABASE_WAITS.contains(&fault.code) => (503, None),

        FaultKind::Unavailable => match fault.retry_after {
            Some(after) => (503, Some(seconds(after))),
            None => (502, None),
        },
        FaultKind::Bug => (500, None),
    }
}

/// The fault of an invalid request.
pub(crate) fn bad(code: &'static str, text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Caller, code, text)
}

/// Shortens a caller's text for use in an error.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: FaultKind, status: u16, retry_after: Option<u64>) {
        let reply = reply(&Fault::new(kind, "some.code", "some text"), "r1");
        assert_eq!((reply.status, reply.retry_after), (status, retry_after), "{kind:?}");
        assert_eq!(reply.body.code, "some.code");
        assert_eq!(reply.body.request_id, "r1");
        assert!(!reply.body.error.is_empty());
    }

    #[test]
    fn every_kind_has_its_status() {
        check(FaultKind::Caller, 400, None);
        check(FaultKind::Unauthorized, 401, None);
        check(FaultKind::Forbidden, 403, None);
        check(FaultKind::Missing, 404, None);
        check(FaultKind::Gone, 410, None);
        check(FaultKind::Payment, 402, None);
        check(FaultKind::Conflict, 409, None);
        check(FaultKind::TooLarge, 413, None);
        check(FaultKind::Quota, 429, None);
        check(FaultKind::TooFast, 429, Some(1));
        check(FaultKind::Busy, 503, Some(5));
        check(FaultKind::Storage, 507, None);
        check(FaultKind::Timeout, 504, None);
        check(FaultKind::Unavailable, 502, None);
        check(FaultKind::Bug, 500, None);
    }

    #[test]
    fn a_quota_never_says_retry_and_an_outage_may() {
        let later = Duration::from_millis(1200);
        let quota = Fault::new(FaultKind::Quota, "quota", "max sandboxes reached").with_retry_after(later);
        assert_eq!(reply(&quota, "").retry_after, None);
        let outage =
            Fault::new(FaultKind::Unavailable, "host.down", "sandbox host unavailable").with_retry_after(later);
        assert_eq!((reply(&outage, "").status, reply(&outage, "").retry_after), (503, Some(2)));
    }

    #[test]
    fn a_database_that_is_not_there_yet_is_not_asked_again_blindly() {
        for code in DATABASE_WAITS {
            let fault = reply(&Fault::new(FaultKind::Unavailable, code, "not yet"), "");
            assert_eq!((fault.status, fault.retry_after), (503, None));
        }
    }

    #[test]
    fn some_conflicts_have_a_status_of_their_own() {
        for (code, status) in [(OTHER_REQUEST, 422), (NO_MACHINE, 503), (PORT_CLOSED, 502), ("x", 409)] {
            let reply = reply(&Fault::new(FaultKind::Conflict, code, "t"), "");
            assert_eq!((reply.status, reply.retry_after), (status, None), "{code}");
        }
    }

    #[test]
    fn a_failed_wake_is_not_repeated() {
        let fault = Fault::new(FaultKind::Unavailable, WAKE_FAILED, "auto-wake: no memory");
        let fault = reply(&fault.with_retry_after(Duration::from_secs(1)), "");
        assert_eq!((fault.status, fault.retry_after), (503, None));
    }

    #[test]
    fn texts_are_what_clients_match() {
        let timeout = reply(&Fault::new(FaultKind::Timeout, "t", "took too long"), "");
        assert!(timeout.body.error.contains("timeout"));
        let unauthorized = reply(&Fault::new(FaultKind::Unauthorized, "unauthorized", "no key"), "");
        assert_eq!(unauthorized.body.error, "unauthorized");
        assert_eq!(unauthorized.body.detail.as_deref(), Some("no key"));
        let bug = reply(&Fault::bug("disk on fire at /var/lib"), "");
        assert!(!serde_json::to_string(&bug.body).unwrap().contains("fire"));
    }
}
