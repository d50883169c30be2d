//! One span from its beginning to its end. An unrecorded span does nothing.

use std::{borrow::Cow, time::Instant};

use super::{SpanQueue, Trace};
use crate::{Clock, SystemClock};

/// Role of a span in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Answers a request.
    Server,
    /// An internal step.
    Internal,
}

/// Value of a span attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    Text(String),
    Number(i64),
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A finished span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace: Trace,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    pub began_ns: u64,
    pub ended_ns: u64,
    pub notes: Vec<(&'static str, AttributeValue)>,
    /// Error text, if the work failed.
    pub failure: Option<String>,
}

/// An open span. It ends when it is dropped.
#[derive(Debug, Default)]
pub struct OpenSpan(Option<Box<OpenSpanState>>);

#[derive(Debug)]
struct OpenSpanState {
    queue: SpanQueue,
    began: Instant,
    span: Span,
}

impl OpenSpan {
    /// Begins a span at a position in a trace.
    pub fn begin(trace: Trace, name: impl Into<Cow<'static, str>>, kind: SpanKind, queue: SpanQueue) -> Self {
        let (name, began_ns) = (name.into(), SystemClock.now_ns());
        let span = Span { trace, name, kind, began_ns, ended_ns: began_ns, notes: Vec::new(), failure: None };
        Self(Some(Box::new(OpenSpanState { queue, began: Instant::now(), span })))
    }

    /// Whether the span is recorded. Callers skip costly attributes otherwise.
    pub fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Adds an attribute.
    pub fn note(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        if let Some(open) = &mut self.0 {
            open.span.notes.push((name, value.into()));
        }
    }

    /// Marks the span as failed. The last call wins.
    pub fn fail(&mut self, why: &dyn std::fmt::Display) {
        if let Some(open) = &mut self.0 {
            open.span.failure = Some(why.to_string());
        }
    }

    /// Removes the failure mark.
    pub fn succeed(&mut self) {
        if let Some(open) = &mut self.0 {
            open.span.failure = None;
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            let OpenSpanState { queue, began, mut span } = *open;
            let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            span.ended_ns = span.began_ns.saturating_add(took);
            queue.put(span);
        }
    }
}
