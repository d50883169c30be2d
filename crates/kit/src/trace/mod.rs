//! Positions in traces and the spans recorded there. `Trace` names a position, `here` is the one of
//! the running task, `OpenSpan` is an open span. Finished spans go into a `SpanQueue` that never
//! blocks. This module sends nothing.

mod position;
mod queue;
mod span;

use std::fmt;

pub use position::{TracePosition, begin, here, note, span, within};
pub use queue::{SpanCounts, SpanQueue};
pub use span::{AttributeValue, OpenSpan, Span, SpanKind};

/// The W3C "sampled" flag. Programs in a guest that follow the parent's decision record nothing
/// without it.
const SAMPLED: u8 = 1;

/// One span of one trace, as the W3C `traceparent` header carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    id: u128,
    span: u64,
    parent: Option<u64>,
    flags: u8,
}

impl Trace {
    /// Begins a sampled trace.
    pub fn begin() -> Self {
        let [id, span] = random();
        Self { id: (id << 64 | u128::from(span as u64)).max(1), span: fresh_span(), parent: None, flags: SAMPLED }
    }

    /// Parses a caller's `traceparent`. Later versions may append fields.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str, length: usize| {
            let fits = part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            fits.then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let mut parts = text.trim().split('-');
        let version = hex(parts.next()?, 2)?;
        let (id, span, flags) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)? as u64, hex(parts.next()?, 2)?);
        let good = version != 0xff && id != 0 && span != 0 && (version > 0 || parts.next().is_none());
        good.then_some(Self { id, span, parent: None, flags: flags as u8 & SAMPLED })
    }

    /// Makes a child span in the same trace.
    pub fn child(&self) -> Self {
        Self { span: fresh_span(), parent: Some(self.span), ..*self }
    }

    /// Returns the id of the whole trace.
    pub fn id(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// Returns the id of this span.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }

    /// Returns the id of the parent span, if it is known.
    pub fn parent_id(&self) -> Option<String> {
        self.parent.map(|parent| format!("{parent:016x}"))
    }

    /// Whether the trace's originator wants it recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, span, parent: _, flags } = self;
        write!(out, "00-{id:032x}-{span:016x}-{flags:02x}")
    }
}

/// Returns a random span id. Zero is not a valid id.
fn fresh_span() -> u64 {
    let [_, span] = random();
    (span as u64).max(1)
}

fn random() -> [u128; 2] {
    let mut bytes = [[0; 8]; 2];
    // Without randomness a trace is only less useful, so a failure is ignored.
    let _ = getrandom::fill(bytes.as_flattened_mut());
    bytes.map(|half| u128::from(u64::from_be_bytes(half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_goes_on_as_a_new_span_below_the_old_one() {
        let (theirs, ours) = (Trace::parse(GOOD).unwrap(), Trace::parse(GOOD).unwrap().child());
        assert_eq!(theirs.to_string(), GOOD);
        assert_eq!((ours.id(), theirs.parent_id()), ("4bf92f3577b34da6a3ce929d0e0e4736".to_owned(), None));
        assert_eq!(ours.parent_id().as_deref(), Some("00f067aa0ba902b7"));
        assert!(ours.span_id() != theirs.span_id() && ours.is_sampled());
        let silent = Trace::parse(&GOOD.replace("b7-01", "b7-00")).unwrap().child();
        assert!(!silent.is_sampled() && silent.to_string().ends_with("-00"), "who records nothing stays so");
        assert_eq!(Trace::parse(&GOOD.replace("00-4", "cc-4")).unwrap().id(), ours.id());
        assert_eq!(Trace::parse(&format!("cc{}-more", &GOOD[2..])).unwrap().id(), ours.id());
    }

    #[test]
    fn what_is_no_trace_is_none() {
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
            assert_eq!(Trace::parse(bad), None, "{bad}");
        }
        let (one, two) = (Trace::begin(), Trace::begin());
        assert!(one.id() != two.id() && one.is_sampled() && one.parent_id().is_none());
        assert_eq!(Trace::parse(&one.to_string()), Some(one));
    }
}
