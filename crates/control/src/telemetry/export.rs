//! The task that sends spans: collects a batch, sends it, and retries later if the collector does
//! not answer. Meanwhile the queue fills and further spans are dropped, so that memory is bounded
//! and no request waits.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use pandastack_kit::{
    Scope,
    trace::{Span, SpanCounts, SpanQueue},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    TelemetrySettings,
    post::{BatchSender, ExportOutcome},
    render::render,
};
use crate::limits::{
    COLLECTOR_BACKOFF, COLLECTOR_WAIT_MAX, SPAN_BATCH_MAX, SPAN_DELAY, SPAN_FLUSH_MAX, SPAN_QUEUE_MAX,
};

/// Starts sending the spans of the queue. After the scope is closed, the rest of the queue is still
/// sent, for a short time.
pub fn start(settings: TelemetrySettings, scope: &Scope) -> SpanQueue {
    let (queue, spans) = SpanQueue::new(SPAN_QUEUE_MAX);
    let (counts, token) = (queue.counts().clone(), scope.token());
    let poster = BatchSender::new(settings, scope.clone());
    let exporter = Exporter { poster, spans, counts, token: token.clone(), failing: false };
    scope.start("export spans", async move {
        let late = async {
            token.cancelled().await;
            sleep(SPAN_FLUSH_MAX).await;
        };
        tokio::select! {
            () = exporter.run() => {}
            () = late => tracing::warn!("the collector did not accept the last spans in time"),
        }
    });
    queue
}

struct Exporter {
    poster: BatchSender,
    spans: mpsc::Receiver<Span>,
    counts: Arc<SpanCounts>,
    token: CancellationToken,
    /// Whether the last batch failed. An outage is logged once.
    failing: bool,
}

/// Spans to send. Spans that are dropped before they were sent are counted as dropped.
struct SpanBatch {
    spans: Vec<Span>,
    counts: Arc<SpanCounts>,
}

impl Drop for SpanBatch {
    fn drop(&mut self) {
        self.counts.add_dropped(self.spans.len() as u64);
    }
}

impl Exporter {
    /// Sends until shutdown, then sends the rest.
    async fn run(mut self) {
        loop {
            let batch = self.gather().await;
            if batch.spans.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    /// Waits for spans, and a little longer for more. An empty batch means the end.
    async fn gather(&mut self) -> SpanBatch {
        let mut batch = SpanBatch { spans: Vec::new(), counts: self.counts.clone() };
        let (spans, token) = (&mut self.spans, &self.token);
        token.run_until_cancelled(spans.recv_many(&mut batch.spans, SPAN_BATCH_MAX)).await;
        let full_at = Instant::now() + SPAN_DELAY;
        while batch.spans.len() < SPAN_BATCH_MAX {
            let room = SPAN_BATCH_MAX - batch.spans.len();
            let more = timeout_at(full_at, spans.recv_many(&mut batch.spans, room));
            match token.run_until_cancelled(more).await {
                Some(Ok(1..)) => {}
                // The time is over, or all senders are gone.
                Some(Ok(0) | Err(_)) => break,
                None => {
                    while let (true, Ok(span)) = (batch.spans.len() < SPAN_BATCH_MAX, spans.try_recv()) {
                        batch.spans.push(span);
                    }
                    break;
                }
            }
        }
        batch
    }

    /// Sends a batch, with retries. At shutdown there is one more try and no more waiting.
    async fn send(&mut self, mut batch: SpanBatch) {
        let body = Bytes::from(render(&self.poster.settings().service, &batch.spans));
        for pause in COLLECTOR_BACKOFF.into_iter().map(Some).chain([None]) {
            let last = self.token.is_cancelled();
            let (why, after) = match self.poster.post(body.clone()).await {
                ExportOutcome::Taken { rejected } => {
                    let count = std::mem::take(&mut batch.spans).len() as u64;
                    let rejected = rejected.min(count);
                    self.counts.add_exported(count - rejected);
                    self.counts.add_dropped(rejected);
                    self.failing = false;
                    return;
                }
                ExportOutcome::Refused { status } => return self.complain(&format!("the collector answered {status}")),
                ExportOutcome::Later { why, after } => (why, after),
            };
            self.complain(&why);
            match pause {
                Some(pause) if !last => self.wait(pause, after).await,
                _ => return,
            }
        }
    }

    async fn wait(&self, pause: Duration, after: Option<Duration>) {
        let pause = after.map_or(pause, |after| after.max(pause)).min(COLLECTOR_WAIT_MAX);
        self.token.run_until_cancelled(sleep(pause)).await;
    }

    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(
                collector = self.poster.settings().address(),
                why,
                "the collector does not accept spans; trying again"
            );
        }
    }
}
