//! Speaks the protocol: accepts connections, checks the secret, opens channels, moves frames. Of a
//! request's meaning it only knows which handler answers it.

mod channel;
mod connection;
mod dispatch;
mod fault;
mod held;
mod lanes;
mod transport;

use std::{convert::Infallible, rc::Rc, time::Duration};

use tokio::{net::TcpListener, task::JoinSet};

pub(crate) use channel::{AgentChannel, EarlyEnd};
pub(crate) use fault::{GuestFault, kind_of};
pub(crate) use lanes::{LaneReceiver, open as open_lanes};

use crate::{Agent, limits};

/// Serves connections for ever. A panic ends only its own connection.
pub async fn serve(listener: TcpListener, agent: Rc<Agent>) -> Infallible {
    let mut connections = JoinSet::new();
    let reaper = agent.clone();
    connections.spawn_local(async move { reaper.reaper.run().await });
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() <= limits::CONNECTIONS_MAX => {
                    connections.spawn_local(connection::run(stream, agent.clone()));
                    // Every first step is slow in a restored guest. Polling for a second connection
                    // at once would cost more than serving the first.
                    tokio::time::sleep(limits::ACCEPT_PAUSE).await;
                }
                Ok(_) => {}
                // Out of descriptors or memory, which other connections may free.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
