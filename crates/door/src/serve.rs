//! Serves connections: bounded in number, with a deadline for each request's head, drained at
//! shutdown. Idle connections are closed to make room for new ones, so that open connections alone
//! cannot block other clients.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderValue, StatusCode, header::CONNECTION},
    response::Response,
};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use pandastack_kit::Scope;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    head_timer::{Arrivals, HeadTimer},
    held::hold,
    idle::{IdleConnections, IdleRegistration},
    limits::{
        CONNECTION_UNUSED_MAX, CONNECTIONS_MAX, CONNECTIONS_PER_RESERVED, DESCRIPTORS_PER_CONNECTION, DRAIN_MAX,
        HANDSHAKE_MAX, HEAD_ARRIVAL_MAX,
    },
    places::{Place, PlaceKind, Places},
    transport::{FORWARDED_PROTO, HTTPS, Transport},
};

const REQUESTS: PlaceKind =
    PlaceKind { name: "requests in progress", quota: "quota.connections", full: "connection.too_many" };

/// Pause after a failed accept. Descriptors become free only while other tasks run.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Limits of connections. Tests use shorter times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// Connections served at once.
    pub connections_max: usize,
    /// How long a request's head may take after its first byte.
    pub head_arrival_max: Duration,
    /// How long a connection may wait for the first byte of a request.
    pub unused_max: Duration,
    /// How long a TLS handshake may take.
    pub handshake_max: Duration,
    /// How long requests in progress may take to end at shutdown.
    pub drain_max: Duration,
}

impl ServeSettings {
    /// The usual settings for a process with this limit of descriptors.
    pub fn within(descriptors: u64) -> Self {
        let connections = usize::try_from(descriptors / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX);
        Self { connections_max: connections.clamp(1, CONNECTIONS_MAX), ..Self::default() }
    }

    /// Places of requests in progress. There are fewer than connections: the rest serve health
    /// checks, look up keys and refuse, even if all places are taken.
    pub fn places(&self) -> Places {
        let reserve = (self.connections_max / CONNECTIONS_PER_RESERVED).max(1);
        Places::new(REQUESTS, self.connections_max.saturating_sub(reserve).max(1))
    }
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            head_arrival_max: HEAD_ARRIVAL_MAX,
            unused_max: CONNECTION_UNUSED_MAX,
            handshake_max: HANDSHAKE_MAX,
            drain_max: DRAIN_MAX,
        }
    }
}

/// Serves the app until the scope is cancelled, then gives requests in progress a short time.
pub async fn serve(listener: TcpListener, app: Router, scope: Scope) {
    serve_with(listener, app, scope, ServeSettings::default()).await;
}

/// Serves with other settings.
pub async fn serve_with(listener: TcpListener, app: Router, scope: Scope, settings: ServeSettings) {
    serve_tls(listener, None, app, scope, settings).await;
}

/// Serves https if there is an acceptor. Handshakes have a deadline, and run in the task and the
/// place of their connection: until its first request, a connection is closed if others need room.
pub async fn serve_tls(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    app: Router,
    scope: Scope,
    settings: ServeSettings,
) {
    let (stop, cut) = (scope.token(), CancellationToken::new());
    let (room, idle) = (Arc::new(Semaphore::new(settings.connections_max)), IdleConnections::default());
    let under_way = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match stream {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::select! {
                    // Closes an unused connection, so that its descriptor is free.
                    () = idle.close_oldest(), if is_out_of_descriptors(&error) => {}
                    () = tokio::time::sleep(ACCEPT_RETRY) => {}
                }
                continue;
            }
        };
        let permit = tokio::select! {
            () = stop.cancelled() => break,
            permit = place(&room, &idle) => permit,
        };
        let seat = idle.seat();
        let given_up = seat.given_up();
        let (tls, app, stop, room) = (tls.clone(), app.clone(), stop.clone(), room.clone());
        let connection = async move {
            let Some(stream) = Transport::open(stream, tls, settings.handshake_max, &stop).await else { return Ok(()) };
            let (kept, arrivals) = (ConnectionHandle::default(), Arrivals::default());
            let stream = CountedConnection { stream, kept, arrivals, _permit: permit };
            connection(stream, app, ConnectionPlace { seat, room, settings }, stop).await
        };
        let (cut, counted) = (cut.clone(), under_way.token());
        scope.start("connection", async move {
            tokio::select! {
                () = cut.cancelled() => {}
                () = given_up.cancelled() => tracing::debug!("closed an idle connection to make room"),
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
            }
            drop(counted);
        });
    }
    drop(listener);
    // Streams may run for hours. After this time they are cut, which their clients see as an error.
    under_way.close();
    let _ = tokio::time::timeout(settings.drain_max, under_way.wait()).await;
    cut.cancel();
}

/// Reports whether the process or the system is out of descriptors: `EMFILE` and `ENFILE` on Linux.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

/// Waits for a place. If there is none, the longest idle connection is closed.
async fn place(room: &Arc<Semaphore>, idle: &IdleConnections) -> OwnedSemaphorePermit {
    let free = room.clone().acquire_owned();
    let permit = match room.clone().try_acquire_owned() {
        Ok(permit) => return permit,
        Err(_) => tokio::select! {
            permit = free => permit,
            () = idle.close_oldest() => room.clone().acquire_owned().await,
        },
    };
    permit.expect("the semaphore is never closed")
}

/// A connection among the others.
struct ConnectionPlace {
    seat: IdleRegistration,
    room: Arc<Semaphore>,
    settings: ServeSettings,
}

/// Serves a connection. After the stop signal, only until the current request is answered.
async fn connection(
    stream: CountedConnection,
    app: Router,
    place: ConnectionPlace,
    stop: CancellationToken,
) -> hyper::Result<()> {
    let ConnectionPlace { seat, room, settings } = place;
    let peer = stream.stream.tcp().peer_addr().ok().map(|address| PeerAddress(address.ip()));
    let is_tls = stream.stream.is_tls();
    let (app, kept, arrivals) = (TowerToHyperService::new(app), stream.kept.clone(), stream.arrivals.clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(kept.clone());
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        if is_tls {
            // A proxy in front knows better which scheme the client used.
            request.headers_mut().entry(FORWARDED_PROTO).or_insert(HTTPS);
        }
        let (busy, answer, room) = (seat.busy(), app.call(request), room.clone());
        async move {
            answer.await.map(|mut response: Response| {
                // Without a free place, this connection would soon be closed for another: say so,
                // because a client that sends into a closing connection gets no answer.
                if room.available_permits() == 0 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response.map(|body| busy.hold(body))
            })
        }
    });
    let (head_max, unused_max) = (settings.head_arrival_max, settings.unused_max);
    let connection = http1::Builder::new()
        .timer(HeadTimer { arrivals, head_max, unused_max })
        .header_read_timeout(head_max)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // Polled by reference, because the connection continues after a stop: hyper needs it for a
    // graceful shutdown.
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// The network address that a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// A handle of a connection for upgraded requests. The place kept here is dropped when the
/// connection is closed.
#[derive(Clone, Default)]
pub struct ConnectionHandle(Arc<Mutex<Option<Place>>>);

impl ConnectionHandle {
    fn keep(&self, place: Option<Place>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

/// Keeps the request's place until the answer is sent, or after an upgrade until the connection
/// ends.
pub fn occupy(response: Response, place: Option<Place>, connection: Option<ConnectionHandle>) -> Response {
    match (place, connection) {
        (None, _) => response,
        (place, Some(connection)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            connection.keep(place);
            response
        }
        (Some(place), _) => response.map(|body| hold(body, place)),
    }
}

/// A connection with its place among all connections. It keeps the place until its descriptor is
/// closed, also after an upgrade.
struct CountedConnection {
    stream: Transport,
    kept: ConnectionHandle,
    arrivals: Arrivals,
    _permit: OwnedSemaphorePermit,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        // Other handles of the connection may still exist.
        self.kept.keep(None);
    }
}

impl AsyncRead for CountedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.arrivals.note();
        }
        read
    }
}

impl AsyncWrite for CountedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
