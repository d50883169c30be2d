//! One HTTP connection of a machine, whatever it asks: limits of its head and its bodies, and an
//! end for a machine that stops or only trickles. Also the answers that need no archive.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming, SizeHint},
    header::{CONTENT_LENGTH, EXPECT, HeaderMap},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, timeout},
};

use crate::limits::{
    ANSWER_BYTES_PER_SECOND_MIN, CONNECTION_IDLE_MAX, HEAD_BYTES_MAX, HEADERS_MAX, WAL_BYTES_MAX, WAL_RECEIVE_MAX,
};

pub type RelayAnswer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// What a path names.
pub enum ArchivePath<'a> {
    Wal(&'a str),
    Base(&'a str),
}

impl<'a> ArchivePath<'a> {
    pub fn parse(path: &'a str) -> Option<Self> {
        match path.strip_prefix('/')?.split_once('/')? {
            ("wal", name) => Some(Self::Wal(name)),
            ("base", name) => Some(Self::Base(name)),
            _ => None,
        }
    }
}

/// Serves one connection of a machine for which no archive is kept: its log need not be kept.
pub async fn serve_without_archive<S>(stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    if let Err(error) = serve_requests(stream, answer_without_archive).await {
        tracing::debug!(%error, "connection without an archive");
    }
}

async fn answer_without_archive(request: Request<Incoming>) -> RelayAnswer {
    let (head, body) = request.into_parts();
    let is_put = matches!(head.method, Method::PUT | Method::POST);
    let (status, text) = match ArchivePath::parse(head.uri.path()) {
        Some(ArchivePath::Wal(_)) if is_put => (StatusCode::NO_CONTENT, ""),
        Some(ArchivePath::Base(_)) if is_put => {
            (StatusCode::CONFLICT, "this server keeps no archive; its operator can switch it on")
        }
        Some(_) if head.method != Method::GET => (StatusCode::METHOD_NOT_ALLOWED, "PUT, POST or GET"),
        Some(_) => (StatusCode::NOT_FOUND, "this server keeps no archive"),
        None => (StatusCode::NOT_FOUND, "no such path"),
    };
    refuse(status, text, &head.headers, body).await
}

/// Answers requests until the connection ends or nothing moves on it any more.
pub async fn serve_requests<S, F>(stream: S, answer: impl Fn(Request<Incoming>) -> F) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = RelayAnswer>,
{
    let traffic = Arc::new(Traffic::default());
    let service = service_fn(|request| {
        let (working, answering) = (Working::new(&traffic), answer(request));
        let traffic = traffic.clone();
        async move {
            let answer = answering.await;
            drop(working);
            let given = answer.headers().get(CONTENT_LENGTH).and_then(|bytes| bytes.to_str().ok()?.parse().ok());
            let bytes = given.or(answer.body().size_hint().upper()).unwrap_or(0);
            Ok::<_, Infallible>(answer.map(|body| OutgoingBody::new(body, bytes, &traffic).boxed_unsync()))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_IDLE_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(ProgressStream { stream, traffic: traffic.clone() }), service);
    tokio::select! {
        ended = connection => ended,
        () = traffic.has_stalled() => {
            tracing::debug!("archive connection is idle or too slow");
            Ok(())
        }
    }
}

/// The pieces of a body. A guest that stops sending ends it.
pub fn pieces(body: Incoming) -> impl Stream<Item = io::Result<Bytes>> + Send {
    futures_util::stream::try_unfold(body, |mut body| async {
        loop {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the body stopped");
            match timeout(CONNECTION_IDLE_MAX, body.frame()).await.map_err(late)? {
                None => return Ok(None),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some((piece, body)));
                    }
                }
            }
        }
    })
}

/// Answers without taking the body. A guest that already sends it would not see an early answer.
pub async fn refuse(status: StatusCode, text: &str, headers: &HeaderMap, body: Incoming) -> RelayAnswer {
    let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= WAL_BYTES_MAX);
    if is_small && !headers.contains_key(EXPECT) {
        let _ = timeout(WAL_RECEIVE_MAX, pieces(body).try_for_each(|_| async { Ok(()) })).await;
    }
    say(status, text)
}

pub fn say(status: StatusCode, text: &str) -> RelayAnswer {
    let body = match text {
        "" => Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync(),
        text => Full::new(Bytes::from(format!("{text}\n"))).map_err(|never: Infallible| match never {}).boxed_unsync(),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}

/// What happens on one connection.
#[derive(Default)]
struct Traffic {
    /// Bytes in both directions.
    moved: AtomicU64,
    /// Requests that are being worked on.
    busy: AtomicUsize,
    /// When the answer that is being written must be with the guest.
    answer_due: Mutex<Option<Instant>>,
}

impl Traffic {
    fn set_answer_due(&self, due: Option<Instant>) {
        *self.answer_due.lock().unwrap_or_else(PoisonError::into_inner) = due;
    }

    fn is_answer_late(&self) -> bool {
        let due = *self.answer_due.lock().unwrap_or_else(PoisonError::into_inner);
        due.is_some_and(|due| due <= Instant::now())
    }

    /// Returns when an answer is late, or no byte has moved for the allowed time while no request
    /// was being worked on.
    async fn has_stalled(&self) {
        let mut last = u64::MAX;
        loop {
            let now = self.moved.load(Ordering::Relaxed);
            if self.is_answer_late() || (now == last && self.busy.load(Ordering::Relaxed) == 0) {
                return;
            }
            last = now;
            tokio::time::sleep(CONNECTION_IDLE_MAX).await;
        }
    }
}

/// Counts the requests that are being worked on.
struct Working(Arc<Traffic>);

impl Working {
    fn new(traffic: &Arc<Traffic>) -> Self {
        traffic.busy.fetch_add(1, Ordering::Relaxed);
        Self(traffic.clone())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer, which has to be with the guest in a time that depends on its size.
struct OutgoingBody {
    body: UnsyncBoxBody<Bytes, io::Error>,
    traffic: Arc<Traffic>,
}

impl OutgoingBody {
    fn new(body: UnsyncBoxBody<Bytes, io::Error>, bytes: u64, traffic: &Arc<Traffic>) -> Self {
        let allowed = CONNECTION_IDLE_MAX + Duration::from_secs(bytes / ANSWER_BYTES_PER_SECOND_MIN);
        traffic.set_answer_due(Instant::now().checked_add(allowed));
        Self { body, traffic: traffic.clone() }
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        self.traffic.set_answer_due(None);
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that counts its bytes. Not vectored: hyper then keeps little of an answer for itself.
struct ProgressStream<S> {
    stream: S,
    traffic: Arc<Traffic>,
}

impl<S> ProgressStream<S> {
    fn count(&self, bytes: usize) {
        self.traffic.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ProgressStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.count(buffer.filled().len() - before);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ProgressStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = polled {
            self.count(count);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
