//! The trace of a request: one id from its first byte to what it starts in a guest, as the W3C's `traceparent` carries it.

use std::{collections::BTreeMap, convert::Infallible, fmt};

use axum::{
    extract::{FromRequestParts, Request},
    http::{HeaderMap, HeaderName, HeaderValue, request::Parts},
};

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The variable that programs in a guest find it in.
const VARIABLE: &str = "TRACEPARENT";
/// A program in a guest that follows its parent's choice would record nothing without it.
const SAMPLED: u8 = 1;

/// Where in which trace a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    id: u128,
    span: u64,
    flags: u8,
}

impl Trace {
    /// Goes on with the trace that a caller names, as a new span of it, or begins one.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut bytes = [0; 24];
        // Without randomness a trace is only less useful.
        let _ = getrandom::fill(&mut bytes);
        let (span, id) = bytes.split_at(8);
        let fold = |bytes: &[u8]| bytes.iter().fold(0, |number: u128, byte| (number << 8) | u128::from(*byte));
        // Zero is no id.
        let fresh = Self { id: fold(id).max(1), span: (fold(span) as u64).max(1), flags: SAMPLED };
        let mut named = headers.get_all(TRACEPARENT).iter();
        match (named.next().and_then(|value| parse(value.to_str().ok()?)), named.next()) {
            (Some((id, flags)), None) => Self { id, flags, ..fresh },
            // Two of them contradict each other, so neither counts.
            _ => fresh,
        }
    }

    /// The id of the whole trace.
    pub fn id(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// The header that tells it.
    pub fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.to_string()).expect("digits and dashes are fine in a header")
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, span, flags } = self;
        write!(out, "00-{id:032x}-{span:016x}-{flags:02x}")
    }
}

/// Reads id and flags. Versions to come may have more at the end.
fn parse(text: &str) -> Option<(u128, u8)> {
    let hex = |part: &str, length: usize| {
        let fits = part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        fits.then(|| u128::from_str_radix(part, 16).ok()).flatten()
    };
    let mut parts = text.trim().split('-');
    let version = hex(parts.next()?, 2)?;
    let (id, span, flags) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?, hex(parts.next()?, 2)?);
    let good = version != 0xff && id != 0 && span != 0 && (version > 0 || parts.next().is_none());
    good.then_some((id, flags as u8 & SAMPLED))
}

/// Gives the trace of a request and makes sure that it has one.
pub fn ensure_trace(request: &mut Request) -> Trace {
    if let Some(trace) = request.extensions().get::<Trace>() {
        return *trace;
    }
    let trace = Trace::of(request.headers());
    request.extensions_mut().insert(trace);
    trace
}

/// The trace of a request, for handlers that start something in a guest.
#[derive(Clone, Copy, Debug)]
pub struct Traced(pub Option<Trace>);

impl Traced {
    /// Tells a program about it, unless its caller has told it about another.
    pub fn tell(&self, env: &mut BTreeMap<String, String>) {
        if let Some(trace) = self.0 {
            env.entry(VARIABLE.to_owned()).or_insert_with(|| trace.to_string());
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Traced {
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
        Trace::of(&headers)
    }

    #[test]
    fn a_trace_goes_on_as_a_new_span() {
        let trace = of(&[GOOD]);
        assert_eq!(trace.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let text = trace.to_string();
        assert!(text.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && text.ends_with("-01"), "{text}");
        assert!(!text.contains("00f067aa0ba902b7") && text.len() == GOOD.len(), "{text}");
        assert!(of(&[&GOOD.replace("b7-01", "b7-00")]).to_string().ends_with("-00"), "who records nothing stays so");
        assert_eq!(of(&[&GOOD.replace("00-4", "cc-4"),]).id(), trace.id());
        assert_eq!(of(&[&format!("cc{}-more", &GOOD[2..])]).id(), trace.id());
    }

    #[test]
    fn what_is_no_trace_begins_a_new_one() {
        let none = of(&[]);
        assert_ne!(none, of(&[]));
        for bad in [
            "",
            "x",
            "00",
            &GOOD.to_uppercase(),
            &GOOD.replace("00-4", "ff-4"),
            &format!("{GOOD}-more"),
            &GOOD[..GOOD.len() - 1],
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_ne!(of(&[bad]).id(), of(&[GOOD]).id(), "{bad}");
        }
        assert_ne!(of(&[GOOD, GOOD]).id(), of(&[GOOD]).id(), "two are none");
    }

    #[test]
    fn a_program_hears_of_it_unless_it_was_told_of_another() {
        let mut env = BTreeMap::new();
        Traced(None).tell(&mut env);
        assert!(env.is_empty());
        let trace = of(&[GOOD]);
        Traced(Some(trace)).tell(&mut env);
        assert_eq!(env["TRACEPARENT"], trace.to_string());
        Traced(Some(of(&[]))).tell(&mut env);
        assert_eq!(env["TRACEPARENT"], trace.to_string());
    }
}
