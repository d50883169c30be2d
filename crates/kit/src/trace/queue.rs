//! The way of finished spans to who sends them on. Who puts one in never waits: without room it is
//! dropped and counted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::mpsc;

use super::Span;

/// What became of spans so far.
#[derive(Debug, Default)]
pub struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl SpanCounts {
    /// Counts spans that a collector took.
    pub fn add_exported(&self, count: u64) {
        self.exported.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts spans that nobody will see.
    pub fn add_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Takes finished spans. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct SpanQueue {
    spans: mpsc::Sender<Span>,
    counts: Arc<SpanCounts>,
}

impl SpanQueue {
    /// Makes a queue of a length, and the end that is read.
    pub fn new(length: usize) -> (Self, mpsc::Receiver<Span>) {
        let (spans, taken) = mpsc::channel(length);
        (Self { spans, counts: Arc::default() }, taken)
    }

    /// Gives what became of its spans.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    pub(super) fn put(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.counts.add_dropped(1);
        }
    }
}
