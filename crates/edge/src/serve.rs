//! Serves connections: bounded in number, with a deadline for each request's head, drained at shutdown. Connections that wait
//! for a request give way to new ones, so that nobody keeps others out by holding the door open.

use std::{sync::Arc, time::Duration};

use axum::{Router, response::Response};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use pandastack_kit::Scope;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    idle::{Idle, Seat},
    limits::{CONNECTIONS_MAX, DRAIN_MAX, HEAD_ARRIVAL_MAX},
};

/// Out of descriptors, most likely: they come back only if we let others work.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What connections are held to. Tests have shorter times than anybody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// Connections served at once.
    pub connections_max: usize,
    /// How long a request's head may take, and how long an unused connection stays.
    pub head_arrival_max: Duration,
    /// How long requests under way may take to end at shutdown.
    pub drain_max: Duration,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self { connections_max: CONNECTIONS_MAX, head_arrival_max: HEAD_ARRIVAL_MAX, drain_max: DRAIN_MAX }
    }
}

/// Serves the app until the scope is told to end, then lets requests under way finish for a short time.
pub async fn serve(listener: TcpListener, app: Router, scope: Scope) {
    serve_with(listener, app, scope, ServeSettings::default()).await;
}

/// The same, by other settings.
pub async fn serve_with(listener: TcpListener, app: Router, scope: Scope, settings: ServeSettings) {
    let (stop, cut) = (scope.token(), CancellationToken::new());
    let (room, idle) = (Arc::new(Semaphore::new(settings.connections_max)), Idle::default());
    let under_way = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match stream {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let permit = tokio::select! {
            () = stop.cancelled() => break,
            permit = place(&room, &idle) => permit,
        };
        let seat = idle.seat();
        let given_up = seat.given_up();
        let connection = connection(stream, app.clone(), seat, settings.head_arrival_max, stop.clone());
        let (cut, counted) = (cut.clone(), under_way.token());
        scope.start("connection", async move {
            tokio::select! {
                () = cut.cancelled() => {}
                () = given_up.cancelled() => tracing::debug!("an unused connection gave way"),
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
            }
            drop((permit, counted));
        });
    }
    drop(listener);
    // Streams may go on for hours; past this time they are cut, which their clients see as an error.
    under_way.close();
    let _ = tokio::time::timeout(settings.drain_max, under_way.wait()).await;
    cut.cancel();
}

/// Waits for a place. When there is none, the connection that has waited longest for a request has to go.
async fn place(room: &Arc<Semaphore>, idle: &Idle) -> OwnedSemaphorePermit {
    let free = room.clone().acquire_owned();
    let permit = match room.clone().try_acquire_owned() {
        Ok(permit) => return permit,
        Err(_) => tokio::select! {
            permit = free => permit,
            () = idle.give_one_up() => room.clone().acquire_owned().await,
        },
    };
    permit.expect("the semaphore is never closed")
}

/// Serves a connection; once asked to stop, only until the request under way is answered.
async fn connection(
    stream: TcpStream,
    app: Router,
    seat: Seat,
    head_arrival_max: Duration,
    stop: CancellationToken,
) -> hyper::Result<()> {
    // Small answers must not wait for a full packet.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no-delay could not be set");
    }
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (busy, answer) = (seat.busy(), app.call(request));
        async move { answer.await.map(|response: Response| response.map(|body| busy.hold(body))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_arrival_max)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // By reference, because it goes on after the other branch has won: hyper has no other way to end one politely.
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}
