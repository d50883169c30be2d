//! Serves connections: bounded in number, with a deadline for each request's head, drained at shutdown.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1::{self, UpgradeableConnection};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use pandastack_kit::Scope;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::limits::{CONNECTIONS_MAX, DRAIN_MAX, HEAD_ARRIVAL_MAX};

/// Out of descriptors, most likely: they come back only if we let others work.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves the app until the scope is told to end, then lets requests under way finish for a short time.
pub async fn serve(listener: TcpListener, app: Router, scope: Scope) {
    let (stop, cut) = (scope.token(), CancellationToken::new());
    let room = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let under_way = TaskTracker::new();
    loop {
        let permit = tokio::select! {
            () = stop.cancelled() => break,
            permit = room.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
        };
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
        let connection = drained(connection(stream, app.clone()), stop.clone());
        let (cut, counted) = (cut.clone(), under_way.token());
        scope.start("connection", async move {
            tokio::select! {
                () = cut.cancelled() => {}
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
    let _ = tokio::time::timeout(DRAIN_MAX, under_way.wait()).await;
    cut.cancel();
}

type Connection = UpgradeableConnection<TokioIo<TcpStream>, TowerToHyperService<Router>>;

/// Serves a connection; once asked to stop, only until the request under way is answered.
async fn drained(connection: Connection, stop: CancellationToken) -> hyper::Result<()> {
    let mut connection = std::pin::pin!(connection);
    // By reference, because it goes on after the other branch has won: hyper has no other way to end one politely.
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

fn connection(stream: TcpStream, app: Router) -> Connection {
    // Small answers must not wait for a full packet.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no-delay could not be set");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_ARRIVAL_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .with_upgrades()
}
