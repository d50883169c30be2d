//! Forwards one request to a port in a guest, and the response back. Bodies are streamed: a slow
//! reader slows the writer down, in both directions. If either side disconnects, the connection to
//! the guest is closed.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, response::Response},
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    client::conn::http1,
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId};
use pandastack_wire_fleet::CallerKey;
use pandastack_wire_public::PORT_BROKEN;
use tokio::io::copy_bidirectional;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    head::{self, AuthorizationOwner},
    meter::{ByteMeter, MeteredStream},
};
use crate::{
    Edge,
    limits::{PORT_HEAD_BYTES_MAX, PORT_SILENCE_MAX},
};

/// The destination of a request.
#[derive(Clone, Debug)]
pub struct ProxyTarget {
    pub sandbox: SandboxId,
    pub port: GuestPort,
    /// Path and query as the guest sees them.
    pub path: String,
    pub credential: AuthorizationOwner,
    /// If this key is revoked, a tunnel is closed.
    pub key: CallerKey,
}

/// Forwards a request. It wakes a sleeping sandbox, as every use does.
pub async fn carry(edge: &Edge, target: ProxyTarget, mut request: Request) -> Result<Response<Body>, Fault> {
    let upgrade = head::upgrades(request.headers()).map(|_| hyper::upgrade::on(&mut request));
    let (head, body) = request.into_parts();
    let head = head::outgoing(head, &target)?;
    let stream = edge.host.connect(target.sandbox, target.port).await?;
    let meter = ByteMeter::default();
    let broken = |error: hyper::Error| trouble(&target, &meter, &error);
    let io = TokioIo::new(MeteredStream { stream, meter: meter.clone() });
    let client = http1::Builder::new().max_buf_size(PORT_HEAD_BYTES_MAX).handshake(io).await;
    let (mut sender, connection) = client.map_err(broken)?;
    let cut = CancellationToken::new();
    // Dropped with the response or with this call. In both cases the connection is not needed.
    let held = cut.clone().drop_guard();
    let watched = meter.clone();
    edge.scope.start("port", async move {
        tokio::select! {
            ended = connection.with_upgrades() => if let Err(error) = ended {
                tracing::debug!(%error, "a connection to a port ended early");
            },
            () = watched.silence(PORT_SILENCE_MAX) => {}
            () = cut.cancelled() => {}
        }
    });
    let answer = sender.send_request(Request::from_parts(head, body)).await.map_err(broken)?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(edge, &target, answer, upgrade, (meter, held));
    }
    let (mut head, body) = answer.into_parts();
    head::incoming(&mut head, &target);
    Ok(Response::from_parts(head, Body::new(HeldBody { body, _held: held })))
}

/// Turns the connection into a tunnel between client and guest, for any protocol.
fn switch(
    edge: &Edge,
    target: &ProxyTarget,
    mut answer: Response<Incoming>,
    upgrade: Option<OnUpgrade>,
    (meter, held): (ByteMeter, DropGuard),
) -> Result<Response<Body>, Fault> {
    let Some(client) = upgrade else {
        let text = format!("upstream: the program on port {} switched protocols without a request for it", target.port);
        return Err(Fault::new(FaultKind::Conflict, PORT_BROKEN, text));
    };
    let guest = hyper::upgrade::on(&mut answer);
    let (stop, key) = (edge.scope.token(), target.key.clone());
    edge.scope.start("port tunnel", async move {
        tokio::select! {
            () = tunnel(client, guest) => {}
            () = meter.silence(PORT_SILENCE_MAX) => {}
            () = stop.cancelled() => {}
            () = key.revoked() => {}
        }
        drop(held);
    });
    let (mut head, _) = answer.into_parts();
    head::incoming(&mut head, target);
    Ok(Response::from_parts(head, Body::empty()))
}

async fn tunnel(client: OnUpgrade, guest: OnUpgrade) {
    let (client, guest) = match tokio::try_join!(client, guest) {
        Ok((client, guest)) => (client, guest),
        Err(error) => return tracing::debug!(%error, "could not open a tunnel"),
    };
    // The tunnel ends when either side ends. Errors concern only the two sides.
    let _ = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(guest)).await;
}

/// Describes an error between the edge and a program in a guest.
fn trouble(target: &ProxyTarget, meter: &ByteMeter, error: &hyper::Error) -> Fault {
    let port = target.port;
    if meter.was_silent() {
        let text = format!("timeout: the program on port {port} sent nothing for {} s", PORT_SILENCE_MAX.as_secs());
        return Fault::new(FaultKind::Timeout, "port.silent", text);
    }
    if error.is_user() {
        return Fault::new(FaultKind::Caller, "body.broken", "the body ended early").with_detail(error);
    }
    let text = match error.is_parse() {
        true => format!("upstream: the program on port {port} does not speak HTTP"),
        false => format!("upstream: the program on port {port} closed the connection without a response"),
    };
    Fault::new(FaultKind::Conflict, PORT_BROKEN, text).with_detail(error)
}

/// A guest's response body, which keeps the connection to the guest open.
struct HeldBody {
    body: Incoming,
    _held: DropGuard,
}

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
