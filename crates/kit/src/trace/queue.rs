//! Queue of finished spans for the exporter. Senders never block: a span that does not fit is
//! dropped and counted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::mpsc;

use super::Span;

/// Counts of exported and dropped spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl SpanCounts {
    /// Counts spans that a collector accepted.
    pub fn add_exported(&self, count: u64) {
        self.exported.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts spans that were lost.
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

/// Sending end of the queue. Clones share it.
#[derive(Clone, Debug)]
pub struct SpanQueue {
    spans: mpsc::Sender<Span>,
    counts: Arc<SpanCounts>,
}

impl SpanQueue {
    /// Makes a queue of the given length, and its receiving end.
    pub fn new(length: usize) -> (Self, mpsc::Receiver<Span>) {
        let (spans, taken) = mpsc::channel(length);
        (Self { spans, counts: Arc::default() }, taken)
    }

    /// Returns the counts of this queue's spans.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    pub(super) fn put(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.counts.add_dropped(1);
        }
    }
}
