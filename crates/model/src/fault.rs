//! The form of an error at a door: a kind that decides status and log level, a stable code, and
//! public text.

use std::{fmt, time::Duration};

/// The closed set of reasons a request can fail for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The caller sent something wrong.
    Caller,
    /// No valid credential came with the request.
    Unauthorized,
    /// The caller is known and may not do this.
    Forbidden,
    /// The named thing was there once and can no longer be used.
    Gone,
    /// The named thing does not exist, or does not belong to the caller.
    Missing,
    /// The thing exists but is in a state that forbids this.
    Conflict,
    /// The body or a value is larger than allowed.
    TooLarge,
    /// The caller's own limit is reached.
    Quota,
    /// Only a payment, or another budget, allows this again.
    Payment,
    /// The caller exceeds its request rate; nothing was done.
    TooFast,
    /// No capacity now; nothing was created.
    Busy,
    /// The host has no memory or disk left; nothing was created.
    Storage,
    /// The work ran past its deadline.
    Timeout,
    /// A component we depend on did not answer.
    Unavailable,
    /// Our own defect.
    Bug,
}

/// A failed request, ready to be sent to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Stable code such as `sandbox.not_found`.
    pub code: &'static str,
    /// Public text. Names the next step where there is one.
    pub text: String,
    /// Private detail for our own log.
    pub detail: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// Makes a fault without private detail.
    pub fn new(kind: FaultKind, code: &'static str, text: impl Into<String>) -> Self {
        Self { kind, code, text: text.into(), detail: None, retry_after: None }
    }

    /// Makes a fault for our own defect, with the cause kept for the log.
    pub fn bug(detail: impl fmt::Display) -> Self {
        Self::new(FaultKind::Bug, "internal", "internal error").with_detail(detail)
    }

    /// Makes the fault for a sandbox that does not exist or does not belong to the caller.
    pub fn no_sandbox() -> Self {
        Self::new(FaultKind::Missing, "sandbox.not_found", "sandbox not found")
    }

    /// Adds a private cause.
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Sets when a retry may succeed. Only for faults after which nothing was created.
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}
