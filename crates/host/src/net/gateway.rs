//! The listener at the gateway of one slot, for the service that `bins` hands in. It passes each
//! connection of the guest on with the sandbox's id. One task for each connection, so that a slow
//! one delays no other. Reads no byte. `policy` decides who may connect.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use pandastack_kit::Scope;
use pandastack_model::SandboxId;
use pandastack_sys::netns::Netns;
use pandastack_wire_fleet::{GATEWAY_PORT, GatewayService};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{limits::GATEWAY_CONNECTIONS_MAX, policy::GATEWAY};

/// Pause after a failed accept: the kernel lacked memory or descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The sandbox in a slot, and the service for its guest.
#[derive(Clone)]
pub struct GatewayGuest {
    pub sandbox: SandboxId,
    pub service: Arc<dyn GatewayService>,
}

impl fmt::Debug for GatewayGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GatewayGuest").field(&self.sandbox).finish()
    }
}

/// A running listener. Dropping it ends its tasks soon. `stop` also waits for the end.
#[derive(Debug)]
pub struct GatewayListener {
    end: DropGuard,
    task: JoinHandle<()>,
}

impl GatewayListener {
    /// Binds inside the namespace and starts serving.
    pub fn start(netns: &Netns, guest: GatewayGuest, scope: &Scope) -> io::Result<GatewayListener> {
        let listener = TcpListener::from_std(netns.listen_tcp(SocketAddr::from((GATEWAY, GATEWAY_PORT)))?)?;
        let token = scope.token().child_token();
        let task = scope.start("gateway", accept(listener, guest, scope.clone(), token.clone()));
        Ok(GatewayListener { end: token.drop_guard(), task })
    }

    /// Ends the listener and its connections. All sockets are closed when this returns.
    pub async fn stop(self) {
        drop(self.end);
        let _ = self.task.await;
    }
}

async fn accept(listener: TcpListener, guest: GatewayGuest, scope: Scope, token: CancellationToken) {
    let mut connections: FuturesUnordered<JoinHandle<()>> = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = token.cancelled() => break,
            // A panic of the service ends one connection.
            Some(_) = connections.next() => {}
            got = listener.accept() => match got {
                Ok((stream, _)) if connections.len() < GATEWAY_CONNECTIONS_MAX => {
                    connections.push(scope.start("gateway guest", serve(stream, guest.clone(), token.clone())));
                }
                // Closed, because a client that waits to be accepted would not know why.
                Ok((one_too_many, _)) => drop(one_too_many),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    while connections.next().await.is_some() {}
}

async fn serve(stream: TcpStream, guest: GatewayGuest, token: CancellationToken) {
    // Only a matter of speed.
    let _ = stream.set_nodelay(true);
    tokio::select! {
        () = guest.service.serve(guest.sandbox, Box::new(stream)) => {}
        () = token.cancelled() => {}
    }
}
