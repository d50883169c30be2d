//! The trace position of the running task. `Scope::run` passes it on; detached tasks have none.

use std::{
    fmt::Display,
    future::Future,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{AttributeValue, OpenSpan, SpanKind, SpanQueue, Trace};

tokio::task_local! {
    static HERE: Option<TracePosition>;
}

/// A position in a trace, and the queue that records spans there.
#[derive(Clone, Debug)]
pub struct TracePosition {
    trace: Trace,
    recording: Option<Recording>,
}

#[derive(Clone, Debug)]
struct Recording {
    queue: SpanQueue,
    /// Attributes of the whole request.
    notes: Arc<Mutex<Vec<(&'static str, AttributeValue)>>>,
}

impl TracePosition {
    /// A position at which nothing is recorded.
    pub fn silent(trace: Trace) -> Self {
        Self { trace, recording: None }
    }

    /// A position whose spans go into a queue, if the trace is sampled.
    pub fn new(trace: Trace, queue: Option<SpanQueue>) -> Self {
        let recording = queue.filter(|_| trace.is_sampled()).map(|queue| Recording { queue, notes: Arc::default() });
        Self { trace, recording }
    }

    pub fn trace(&self) -> Trace {
        self.trace
    }

    /// Begins the span of this position itself.
    pub fn work(&self, name: String, kind: SpanKind) -> OpenSpan {
        let begin = |recording: &Recording| OpenSpan::begin(self.trace, name, kind, recording.queue.clone());
        self.recording.as_ref().map_or_else(OpenSpan::default, begin)
    }

    /// Takes the attributes of the whole request.
    pub fn take_notes(&self) -> Vec<(&'static str, AttributeValue)> {
        let take = |recording: &Recording| std::mem::take(&mut *recording.notes());
        self.recording.as_ref().map(take).unwrap_or_default()
    }
}

impl Recording {
    fn notes(&self) -> MutexGuard<'_, Vec<(&'static str, AttributeValue)>> {
        self.notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Returns the position of the running task.
pub fn here() -> Option<TracePosition> {
    HERE.try_with(Clone::clone).ok().flatten()
}

/// Runs work at a position.
pub async fn within<F: Future>(here: Option<TracePosition>, work: F) -> F::Output {
    HERE.scope(here, work).await
}

/// Adds an attribute to the whole request, if it is recorded.
pub fn note(name: &'static str, value: impl Display) {
    let _ = HERE.try_with(|here| {
        if let Some(TracePosition { recording: Some(recording), .. }) = here {
            recording.notes().push((name, AttributeValue::Text(value.to_string())));
        }
    });
}

/// Begins a child span of the running task, and returns the position for its own children. The span
/// records nothing if the task is not recorded.
pub fn begin(name: &'static str) -> (OpenSpan, Option<TracePosition>) {
    match below(name) {
        Some((work, below)) => (work, Some(below)),
        None => (OpenSpan::default(), here()),
    }
}

/// Runs work in a child span of the running task. An error is recorded as the span's failure.
pub async fn span<F, T, E>(name: &'static str, about: impl FnOnce(&mut OpenSpan), work: F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let Some((mut piece, below)) = below(name) else { return work.await };
    about(&mut piece);
    let done = within(Some(below), work).await;
    if let Err(error) = &done {
        piece.fail(error);
    }
    done
}

fn below(name: &'static str) -> Option<(OpenSpan, TracePosition)> {
    let here = here()?;
    let (trace, queue) = (here.trace.child(), here.recording.as_ref()?.queue.clone());
    Some((OpenSpan::begin(trace, name, SpanKind::Internal, queue), TracePosition { trace, ..here }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;

    #[tokio::test]
    async fn work_is_below_the_work_that_asked_for_it_also_in_other_tasks() {
        let (queue, mut spans) = SpanQueue::new(8);
        let (place, scope) = (TracePosition::new(Trace::begin(), Some(queue)), Scope::new());
        let root = place.trace();
        let request = place.work("request".to_owned(), SpanKind::Server);
        within(Some(place.clone()), async {
            let inner = async { span("inner", |_| {}, async { Err::<(), _>("no") }).await };
            let outer = span("outer", |work| work.note("n", 1), async move { scope.run("task", inner).await.unwrap() });
            assert_eq!(outer.await, Err("no"));
            note("sandbox", 7);
        })
        .await;
        drop(request);
        let [inner, outer, request] = [(); 3].map(|()| spans.try_recv().unwrap());
        assert_eq!((request.trace, &*inner.name, &*outer.name), (root, "inner", "outer"));
        assert_eq!(outer.trace.parent_id(), Some(root.span_id()));
        assert_eq!(inner.trace.parent_id(), Some(outer.trace.span_id()));
        assert_eq!((inner.failure.as_deref(), outer.notes), (Some("no"), vec![("n", AttributeValue::Number(1))]));
        assert!(inner.began_ns >= outer.began_ns && inner.ended_ns <= request.ended_ns);
        assert_eq!(place.take_notes(), [("sandbox", AttributeValue::Text("7".into()))]);
    }

    #[tokio::test]
    async fn nothing_is_recorded_where_nobody_wants_it_and_a_full_queue_drops() {
        let (queue, mut spans) = SpanQueue::new(1);
        let unsampled = Trace::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").unwrap();
        let nowhere = [
            None,
            Some(TracePosition::silent(Trace::begin())),
            Some(TracePosition::new(unsampled, Some(queue.clone()))),
        ];
        for place in nowhere {
            within(place, async {
                assert!(!begin("work").0.is_recorded());
                note("sandbox", 7);
            })
            .await;
        }
        assert!(spans.try_recv().is_err() && queue.counts().dropped() == 0);
        within(Some(TracePosition::new(Trace::begin(), Some(queue.clone()))), async {
            (0..3).for_each(|_| drop(begin("work")));
        })
        .await;
        assert_eq!((queue.counts().dropped(), spans.len()), (2, 1));
    }
}
