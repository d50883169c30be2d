//! Upgrades a request to a socket. Every error before the upgrade is a status with a body; after it
//! there are only frames.

use axum::{
    Extension,
    extract::{
        FromRequestParts, WebSocketUpgrade,
        ws::{WebSocket, rejection::WebSocketUpgradeRejection},
    },
    http::{HeaderValue, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use pandastack_door::http::{Refused, RequestId, RequestTrace, socket_protocol};
use pandastack_door::{Place, PlaceKind, Places};
use pandastack_kit::{Scope, trace};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::CallerKey;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::open_socket::OpenSocket;
use crate::{
    Edge,
    access::{admitted, key_of},
    limits::{SOCKET_MESSAGE_BYTES_MAX, SOCKET_READ_BYTES, SOCKETS_MAX},
};

const SOCKETS: PlaceKind = PlaceKind { name: "open sockets", quota: "quota.sockets", full: "socket.too_many" };

/// The open sockets of this edge: their limit, and the scope of their tasks.
#[derive(Clone)]
pub struct OpenSockets {
    scope: Scope,
    places: Places,
}

impl OpenSockets {
    /// Creates the default number of places. Tasks of the sockets run in the scope.
    pub fn new(scope: Scope) -> Self {
        Self::with_room(scope, SOCKETS_MAX)
    }

    /// Like `new`, with another number of places.
    pub fn with_room(scope: Scope, sockets: usize) -> Self {
        Self { scope, places: Places::new(SOCKETS, sockets) }
    }

    /// The scope of their tasks.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }
}

/// A request that may become a socket: the caller may reach the sandbox, and a place is free.
pub struct SocketUpgrade {
    pub id: SandboxId,
    /// The request id, for the log.
    pub request: String,
    pub traced: RequestTrace,
    upgrade: WebSocketUpgrade,
    scope: Scope,
    place: Place,
    /// If this key is revoked, the socket is closed.
    key: CallerKey,
}

impl FromRequestParts<Edge> for SocketUpgrade {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, Refused> {
        let (caller, id) = admitted(parts, edge).await?;
        let key = key_of(parts);
        let Extension(RequestId(request)) =
            Extension::from_request_parts(parts, edge).await.map_err(|_| Fault::bug("a request without an id"))?;
        let Ok(traced) = RequestTrace::from_request_parts(parts, edge).await;
        let mut upgrade = WebSocketUpgrade::from_request_parts(parts, edge).await.map_err(no_socket)?;
        let protocol = socket_protocol(&parts.headers).and_then(|protocol| HeaderValue::from_str(protocol).ok());
        if let Some(protocol) = protocol {
            upgrade.set_selected_protocol(protocol);
        }
        let OpenSockets { scope, places } = edge.sockets.clone();
        let place = places.take(Some(&caller.workspace))?;
        Ok(Self { id, request, traced, upgrade, scope, place, key })
    }
}

impl SocketUpgrade {
    /// Answers with the upgrade and passes the socket to `serve`. If the client is gone, `serve` is
    /// dropped with everything it holds.
    pub fn accept<F>(self, serve: impl FnOnce(OpenSocket) -> F + Send + 'static) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { upgrade, scope, place, key, .. } = self;
        let (opened, opening) = oneshot::channel::<WebSocket>();
        // The framework would run the socket in a detached task. That task only passes the socket
        // on to a task in our scope.
        let tasks = scope.clone();
        let served = async move {
            if let Ok(socket) = opening.await {
                let (closing, ended) = (tasks.token().child_token(), CancellationToken::new());
                let served = serve(OpenSocket::new(socket, &tasks, closing.clone(), key.clone()));
                let watched = async {
                    tokio::select! {
                        () = key.revoked() => closing.cancel(),
                        () = ended.cancelled() => {}
                    }
                };
                let served = async {
                    served.await;
                    ended.cancel();
                };
                tokio::join!(served, watched);
            }
            drop(place);
        };
        // Logs and spans of the socket belong to this request.
        scope.start("socket", trace::within(trace::here(), served.in_current_span()));
        upgrade
            .max_message_size(SOCKET_MESSAGE_BYTES_MAX)
            .max_frame_size(SOCKET_MESSAGE_BYTES_MAX)
            .read_buffer_size(SOCKET_READ_BYTES)
            .on_upgrade(move |socket| async move { drop(opened.send(socket)) })
    }
}

fn no_socket(rejection: WebSocketUpgradeRejection) -> Refused {
    let text = format!("this route requires a WebSocket upgrade: {}", rejection.body_text());
    let fault = Fault::new(FaultKind::Caller, "socket.no_upgrade", text);
    match rejection.into_response().status() {
        StatusCode::UPGRADE_REQUIRED => Refused::with_status(StatusCode::UPGRADE_REQUIRED, fault),
        _ => fault.into(),
    }
}
