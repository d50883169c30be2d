//! Event streams as responses, with the headers that published clients need. Nothing here buffers
//! text.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, StreamExt, stream::poll_fn};

use pandastack_wire_public::sse;

/// Answers with event-stream text as it arrives. The stream is polled only while the connection has
/// room.
pub fn event_stream<S>(pieces: S) -> Response
where
    S: Stream<Item = String> + Send + 'static,
{
    // Later errors are logged in the span of this request too.
    let (span, mut pieces) = (tracing::Span::current(), Box::pin(pieces));
    let pieces = poll_fn(move |context| {
        let _within = span.enter();
        pieces.poll_next_unpin(context)
    });
    let mut response = Body::from_stream(pieces.map(Ok::<_, std::convert::Infallible>)).into_response();
    let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, sse::CONTENT_TYPE);
    set(header::CACHE_CONTROL, "no-cache");
    set(HeaderName::from_static("x-accel-buffering"), "no");
    response
}
