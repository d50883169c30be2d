//! Sorts answers of Stripe by what to do next. Pure.
//!
//! Two things decide: whether trying again can help, and whether Stripe may have acted. The second
//! one is unknown after a lost answer and after a server error.

use std::{fmt, time::Duration};

use serde::Deserialize;

use super::{StripeResponse, StripeTransportError};
use crate::{
    limits::{RETRY_PAUSE_MAX, RETRY_PAUSE_MIN, RETRY_PAUSE_UNAUTHORIZED, STRIPE_TEXT_CHARS_MAX},
    plans::PlanName,
};

/// The beginning of Stripe's message about a repeated identifier. The error has no `code`.
const DUPLICATE: &str = "event already exists with identifier";

/// The result of posting one meter event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// Stripe has the event. A replay of an earlier answer counts too.
    Posted { request_id: Option<String> },
    /// Stripe had the event already.
    Duplicate,
    /// Try again later, with the same identifier.
    Retry(RetryAdvice),
    /// Trying again cannot help.
    Refused(StripeRefusal),
    /// The event is older than Stripe accepts.
    TooOld,
    /// The event is in Stripe's future. It is accepted later.
    TooNew,
}

/// Whether Stripe may have acted on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    No,
    Unknown,
}

/// Why and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAdvice {
    pub reason: RetryReason,
    /// How long Stripe asked to wait.
    pub retry_after: Option<Duration>,
    pub recorded: Recorded,
}

/// Why a request has to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    NotSent,
    Timeout,
    ConnectionLost,
    /// 429: too many requests, or too many at once for one customer.
    RateLimited,
    /// 409: another request with the same idempotency key is being processed.
    Conflict,
    /// 5xx, 408 or 424. Stripe replays such an answer to the same idempotency key for a day, so the
    /// next try needs another key.
    ServerError(u16),
    /// 401 or 403. The request is fine, the key is not: an operator must look.
    Unauthorized(u16),
    /// A status that Stripe marked as worth another try, or that is no answer of an API.
    Unexpected(u16),
}

impl fmt::Display for RetryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent => f.write_str("Stripe could not be reached"),
            Self::Timeout => f.write_str("Stripe did not answer in time"),
            Self::ConnectionLost => f.write_str("the connection to Stripe broke before the answer"),
            Self::RateLimited => f.write_str("Stripe limits the rate of requests (429)"),
            Self::Conflict => f.write_str("Stripe still processes the same request (409)"),
            Self::ServerError(status) => write!(f, "Stripe answered {status}"),
            Self::Unauthorized(status) => {
                write!(f, "Stripe refused the key ({status}); check STRIPE_SECRET_KEY and its permissions")
            }
            Self::Unexpected(status) => write!(f, "Stripe answered {status}, which is unexpected"),
        }
    }
}

/// A refusal in Stripe's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripeRefusal {
    pub status: u16,
    /// Stripe's type of error, such as `invalid_request_error`.
    pub kind: Option<String>,
    pub code: Option<String>,
    pub message: String,
    pub param: Option<String>,
    /// Names the request in Stripe's dashboard.
    pub request_id: Option<String>,
}

impl fmt::Display for StripeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stripe answered {}: {}", self.status, self.message)?;
        for (name, value) in [("code", &self.code), ("param", &self.param), ("request", &self.request_id)] {
            if let Some(value) = value {
                write!(f, " ({name} {value})")?;
            }
        }
        Ok(())
    }
}

/// Why a call other than a meter event failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripeCallError {
    #[error("{}; try again later", .0.reason)]
    Retry(RetryAdvice),
    #[error("{0}")]
    Refused(Box<StripeRefusal>),
    #[error("Stripe's answer could not be read ({})", .request_id.as_deref().unwrap_or("no request id"))]
    Unreadable { request_id: Option<String> },
    #[error("this plan cannot be bought yet; set {variable} to the id of its price")]
    NoPrice { variable: &'static str },
    #[error("the plan {plan} is not sold; choose pro or team")]
    NotSold { plan: PlanName },
    #[error("{what} is not an id of Stripe or is too long")]
    BadValue { what: &'static str },
}

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    error: ErrorText,
}

#[derive(Default, Deserialize)]
struct ErrorText {
    #[serde(rename = "type")]
    kind: Option<String>,
    code: Option<String>,
    message: Option<String>,
    param: Option<String>,
}

/// Sorts the answer to a meter event.
pub fn classify_post(answer: Result<StripeResponse, StripeTransportError>) -> PostOutcome {
    let refusal = match sort(answer) {
        Ok(response) => return PostOutcome::Posted { request_id: request_id(&response) },
        Err(StripeCallError::Retry(advice)) => return PostOutcome::Retry(advice),
        Err(StripeCallError::Refused(refusal)) => *refusal,
        // Does not come from `sort`, which reads no success and sends nothing.
        Err(error) => StripeRefusal { message: error.to_string(), ..StripeRefusal::default() },
    };
    let message = refusal.message.to_ascii_lowercase();
    match refusal.code.as_deref() {
        Some("duplicate_meter_event") => return PostOutcome::Duplicate,
        Some("timestamp_too_far_in_past") => return PostOutcome::TooOld,
        Some("timestamp_in_future") => return PostOutcome::TooNew,
        _ => {}
    }
    if message.contains(DUPLICATE) {
        return PostOutcome::Duplicate;
    }
    let about_time = message.contains("timestamp") || refusal.param.as_deref() == Some("timestamp");
    let says = |words: &[&str]| about_time && words.iter().any(|word| message.contains(word));
    if says(&["in past", "in the past"]) {
        return PostOutcome::TooOld;
    }
    if says(&["future"]) { PostOutcome::TooNew } else { PostOutcome::Refused(refusal) }
}

/// Returns a successful answer, or what to do about another one.
pub(super) fn sort(answer: Result<StripeResponse, StripeTransportError>) -> Result<StripeResponse, StripeCallError> {
    let again = |reason, recorded| StripeCallError::Retry(RetryAdvice { reason, retry_after: None, recorded });
    let response = answer.map_err(|error| match error {
        StripeTransportError::NotSent(_) => again(RetryReason::NotSent, Recorded::No),
        StripeTransportError::Timeout => again(RetryReason::Timeout, Recorded::Unknown),
        StripeTransportError::Lost(_) => again(RetryReason::ConnectionLost, Recorded::Unknown),
    })?;
    let status = response.status;
    let (reason, recorded) = match status {
        200..=299 => return Ok(response),
        401 | 403 => (RetryReason::Unauthorized(status), Recorded::No),
        409 => (RetryReason::Conflict, Recorded::No),
        429 => (RetryReason::RateLimited, Recorded::No),
        408 | 424 | 500..=599 => (RetryReason::ServerError(status), Recorded::Unknown),
        400..=499 if response.header("stripe-should-retry") != Some("true") => {
            return Err(StripeCallError::Refused(Box::new(refusal(&response))));
        }
        _ => (RetryReason::Unexpected(status), Recorded::Unknown),
    };
    Err(StripeCallError::Retry(RetryAdvice { reason, retry_after: retry_after(&response), recorded }))
}

/// Returns the pause before the next try. It doubles with every failure, up to an hour, is never
/// shorter than Stripe asked for (up to the same hour), and varies by a fifth in both directions so
/// that rows that failed together are not tried together. `dice` is a random number.
pub fn retry_delay(advice: &RetryAdvice, tries: u32, dice: u16) -> Duration {
    let least = match advice.reason {
        RetryReason::Unauthorized(_) => RETRY_PAUSE_UNAUTHORIZED,
        _ => RETRY_PAUSE_MIN,
    };
    let pause = least.saturating_mul(1 << tries.min(16)).min(RETRY_PAUSE_MAX);
    let fifth = pause / 5;
    let varied = pause - fifth + (fifth * 2).mul_f64(f64::from(dice) / f64::from(u16::MAX));
    varied.max(advice.retry_after.unwrap_or_default()).min(RETRY_PAUSE_MAX + RETRY_PAUSE_MAX / 5)
}

/// Returns the id that names a request in Stripe's dashboard.
pub(super) fn request_id(response: &StripeResponse) -> Option<String> {
    response.header("request-id").map(shorten)
}

fn refusal(response: &StripeResponse) -> StripeRefusal {
    let body: ErrorBody = serde_json::from_slice(&response.body).unwrap_or_default();
    let ErrorText { kind, code, message, param } = body.error;
    let part = |text: Option<String>| text.as_deref().map(shorten);
    StripeRefusal {
        status: response.status,
        kind: part(kind),
        code: part(code),
        message: part(message).unwrap_or_else(|| "no message".to_owned()),
        param: part(param),
        request_id: request_id(response),
    }
}

/// Reads whole seconds, at most an hour. Stripe sends no dates.
fn retry_after(response: &StripeResponse) -> Option<Duration> {
    let seconds: u64 = response.header("retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_PAUSE_MAX))
}

/// Keeps the beginning of a text, without control characters: it goes to logs and tables.
fn shorten(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(STRIPE_TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Result<StripeResponse, StripeTransportError> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Ok(StripeResponse { status, headers, body: body.as_bytes().to_vec() })
    }

    fn error(message: &str) -> String {
        serde_json::json!({ "error": { "type": "invalid_request_error", "message": message } }).to_string()
    }

    fn advice(outcome: PostOutcome) -> (RetryReason, Option<u64>, Recorded) {
        let PostOutcome::Retry(advice) = outcome else { panic!("{outcome:?}") };
        (advice.reason, advice.retry_after.map(|after| after.as_secs()), advice.recorded)
    }

    #[test]
    fn a_success_counts_whatever_its_body_is() {
        for body in ["", "{}", "<html>", "{\"object\":\"billing.meter_event\"}"] {
            let outcome = classify_post(answer(200, &[("Request-Id", "req_1")], body));
            assert_eq!(outcome, PostOutcome::Posted { request_id: Some("req_1".to_owned()) });
        }
    }

    #[test]
    fn a_repeated_identifier_is_known_by_message_or_code() {
        let message = error("An event already exists with identifier pandastack-1-x.");
        assert_eq!(classify_post(answer(400, &[("stripe-should-retry", "false")], &message)), PostOutcome::Duplicate);
        let code =
            r#"{"error":{"code":"duplicate_meter_event","message":"A meter event with a duplicate identifier"}}"#;
        assert_eq!(classify_post(answer(400, &[], code)), PostOutcome::Duplicate);
    }

    #[test]
    fn times_outside_the_window_are_known_by_message_or_code() {
        let past = error(
            "The event timestamp cannot be more than 35 days in past. Expected a timestamp greater than or equal \
             to 1758141836.",
        );
        assert_eq!(classify_post(answer(400, &[], &past)), PostOutcome::TooOld);
        let ahead = error("The event timestamp cannot be more than 5 minutes in the future.");
        assert_eq!(classify_post(answer(400, &[], &ahead)), PostOutcome::TooNew);
        for (code, outcome) in
            [("timestamp_too_far_in_past", PostOutcome::TooOld), ("timestamp_in_future", PostOutcome::TooNew)]
        {
            let body = format!(r#"{{"error":{{"code":"{code}","message":"x"}}}}"#);
            assert_eq!(classify_post(answer(400, &[], &body)), outcome);
        }
    }

    #[test]
    fn every_other_answer_tells_whether_to_try_again() {
        use RetryReason::*;
        for (status, headers, expected) in [
            (429, vec![("Retry-After", "7")], (RateLimited, Some(7), Recorded::No)),
            (429, vec![("retry-after", "999999")], (RateLimited, Some(3600), Recorded::No)),
            (429, vec![("retry-after", "Fri, 31 Dec")], (RateLimited, None, Recorded::No)),
            (409, vec![], (Conflict, None, Recorded::No)),
            (500, vec![], (ServerError(500), None, Recorded::Unknown)),
            (503, vec![("Retry-After", "3")], (ServerError(503), Some(3), Recorded::Unknown)),
            (424, vec![], (ServerError(424), None, Recorded::Unknown)),
            (401, vec![], (Unauthorized(401), None, Recorded::No)),
            (403, vec![], (Unauthorized(403), None, Recorded::No)),
            (400, vec![("Stripe-Should-Retry", "true")], (Unexpected(400), None, Recorded::Unknown)),
            (302, vec![], (Unexpected(302), None, Recorded::Unknown)),
        ] {
            assert_eq!(advice(classify_post(answer(status, &headers, &error("x")))), expected, "{status} {headers:?}");
        }
        let lost = |error| advice(classify_post(Err(error)));
        assert_eq!(lost(StripeTransportError::NotSent("refused".into())), (NotSent, None, Recorded::No));
        assert_eq!(lost(StripeTransportError::Timeout), (Timeout, None, Recorded::Unknown));
        assert_eq!(lost(StripeTransportError::Lost("reset".into())), (ConnectionLost, None, Recorded::Unknown));
    }

    #[test]
    fn a_refusal_keeps_what_stripe_said_within_bounds() {
        let (message, param) = ("No such customer: 'cus_x'", "payload[stripe_customer_id]");
        let body = serde_json::json!({ "error": { "code": "resource_missing", "message": message, "param": param } });
        let outcome = classify_post(answer(404, &[("Request-Id", "req_9")], &body.to_string()));
        let PostOutcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
        assert_eq!(
            refusal.to_string(),
            "Stripe answered 404: No such customer: 'cus_x' (code resource_missing) \
             (param payload[stripe_customer_id]) (request req_9)"
        );
        let long = error(&format!("a\n{}", "é".repeat(5000)));
        let PostOutcome::Refused(refusal) = classify_post(answer(402, &[], &long)) else { panic!() };
        assert_eq!((refusal.message.chars().count(), refusal.message.contains('\n')), (STRIPE_TEXT_CHARS_MAX, false));
        for body in ["", "[]", "{\"error\":\"text\"}", "{\"error\":{\"message\":5}}"] {
            let PostOutcome::Refused(refusal) = classify_post(answer(400, &[], body)) else { panic!("{body}") };
            assert_eq!(refusal.message, "no message", "{body}");
        }
    }

    #[test]
    fn pauses_double_up_to_an_hour_and_respect_stripe() {
        let advice = RetryAdvice { reason: RetryReason::RateLimited, retry_after: None, recorded: Recorded::No };
        let seconds = |tries, dice| retry_delay(&advice, tries, dice).as_secs_f64().round();
        assert_eq!([0, 1, 2, 9, 10, 99].map(|tries| seconds(tries, 32_768)), [5.0, 10.0, 20.0, 2560.0, 3600.0, 3600.0]);
        assert_eq!((seconds(10, 0), seconds(10, u16::MAX)), (2880.0, 4320.0));
        let asked = RetryAdvice { retry_after: Some(Duration::from_secs(60)), ..advice };
        assert_eq!(retry_delay(&asked, 0, 0).as_secs(), 60);
        let key = RetryAdvice { reason: RetryReason::Unauthorized(401), ..advice };
        assert!(retry_delay(&key, 0, 0).as_secs() >= 240, "an operator must look first");
    }
}
