//! The trace of a request: from the caller's `traceparent` header to the programs that the request
//! starts in a guest.

use std::{collections::BTreeMap, convert::Infallible};

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, HeaderName, HeaderValue, request::Parts},
};
use pandastack_kit::trace::Trace;

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The environment variable with the trace, for programs in a guest.
const VARIABLE: &str = "TRACEPARENT";

/// Continues the caller's trace with a new span, or starts a trace.
fn trace_of(headers: &HeaderMap) -> Trace {
    let mut named = headers.get_all(TRACEPARENT).iter();
    match (named.next().and_then(|value| Trace::parse(value.to_str().ok()?)), named.next()) {
        (Some(theirs), None) => theirs.child(),
        // Two headers contradict each other, so both are ignored.
        _ => Trace::begin(),
    }
}

/// Returns the header value of a trace.
pub fn trace_header(trace: &Trace) -> HeaderValue {
    HeaderValue::from_str(&trace.to_string()).expect("digits and dashes are fine in a header")
}

/// Returns the trace of a request, and starts one if there is none.
pub fn ensure_trace(request: &mut Request) -> Trace {
    if let Some(trace) = request.extensions().get::<Trace>() {
        return *trace;
    }
    let trace = trace_of(request.headers());
    request.extensions_mut().insert(trace);
    trace
}

/// The trace of a request, for handlers that start something in a guest.
#[derive(Clone, Copy, Debug)]
pub struct RequestTrace(pub Option<Trace>);

impl RequestTrace {
    /// Adds the trace to a program's environment, unless the caller has set one.
    pub fn tell(&self, env: &mut BTreeMap<String, String>) {
        if let Some(trace) = self.0 {
            env.entry(VARIABLE.to_owned()).or_insert_with(|| trace.to_string());
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestTrace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Trace>().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(values: &[&str]) -> Trace {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, value.parse().unwrap());
        }
        trace_of(&headers)
    }

    #[test]
    fn a_request_is_a_new_span_of_its_callers_trace() {
        let trace = of(&[GOOD]);
        assert_eq!((trace.id().as_str(), trace.parent_id().as_deref()), (&GOOD[3..35], Some(&GOOD[36..52])));
        assert_eq!(trace_header(&trace).to_str().unwrap(), trace.to_string());
        assert!(of(&[]).parent_id().is_none() && of(&["nonsense"]).id() != trace.id());
        assert_ne!(of(&[GOOD, GOOD]).id(), trace.id(), "two are none");
    }

    #[test]
    fn a_program_hears_of_it_unless_it_was_told_of_another() {
        let mut env = BTreeMap::new();
        RequestTrace(None).tell(&mut env);
        assert!(env.is_empty());
        let trace = of(&[GOOD]);
        RequestTrace(Some(trace)).tell(&mut env);
        assert_eq!(env["TRACEPARENT"], trace.to_string());
        RequestTrace(Some(of(&[]))).tell(&mut env);
        assert_eq!(env["TRACEPARENT"], trace.to_string());
    }
}
