//! The listener: accepts connections within the limits and serves each in a task of the scope.

use std::{sync::Arc, time::Duration};

use pandastack_kit::Scope;
use tokio::net::TcpListener;
use tokio_rustls::rustls::{self, server::ResolvesServerCert};

use crate::{
    cancel::CancelKeys,
    connection::{Connection, ProxyContext},
    databases::Databases,
    figures::ProxyFigures,
    limits::{BACKEND_OPEN_MAX, CLIENT_HANDSHAKE_MAX, LOGIN_MAX, LOGIN_WAIT_MAX},
    name::HostSuffix,
    refusal::RefusalReason,
    seats::{Seats, TunnelLimits},
    tls::server_config,
};

/// Pause after a failed accept. Descriptors become free only while other tasks run.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Settings of the proxy. Tests use shorter times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// What the host names of databases end with.
    pub suffix: HostSuffix,
    pub tunnels: TunnelLimits,
    /// How long a client may take until its startup message is complete.
    pub handshake_max: Duration,
    /// How long a client waits for its turn to log in.
    pub login_wait_max: Duration,
    /// How long a login may take.
    pub login_max: Duration,
    /// How long a client is held while its database wakes.
    pub open_max: Duration,
}

impl ProxySettings {
    /// The usual settings.
    pub fn new(suffix: HostSuffix) -> Self {
        Self {
            suffix,
            tunnels: TunnelLimits::default(),
            handshake_max: CLIENT_HANDSHAKE_MAX,
            login_wait_max: LOGIN_WAIT_MAX,
            login_max: LOGIN_MAX,
            open_max: BACKEND_OPEN_MAX,
        }
    }
}

/// What the proxy gets from the server around it.
pub struct ProxyBackends {
    pub databases: Arc<dyn Databases>,
    /// Asked at each handshake, so a certificate that was replaced is used at once.
    pub certificates: Arc<dyn ResolvesServerCert>,
}

/// The proxy of PostgreSQL clients.
pub struct PostgresProxy {
    settings: ProxySettings,
    backends: ProxyBackends,
    figures: Arc<ProxyFigures>,
}

impl PostgresProxy {
    pub fn new(settings: ProxySettings, backends: ProxyBackends) -> Self {
        Self { settings, backends, figures: Arc::default() }
    }

    /// Counts with these counters, which the server's metrics read.
    pub fn with_figures(mut self, figures: Arc<ProxyFigures>) -> Self {
        self.figures = figures;
        self
    }

    /// The counters.
    pub fn figures(&self) -> Arc<ProxyFigures> {
        self.figures.clone()
    }

    /// Serves until the scope is cancelled. Connections are tasks of the scope: they tell their
    /// clients about the stop, and the scope's `close` awaits them.
    pub async fn serve(self, listener: TcpListener, scope: Scope) -> Result<(), rustls::Error> {
        let seats = Seats::new(self.settings.tunnels, self.figures.clone());
        let stop = scope.token();
        let context = Arc::new(ProxyContext {
            databases: self.backends.databases,
            tls: server_config(self.backends.certificates)?,
            suffix: self.settings.suffix,
            handshake_max: self.settings.handshake_max,
            login_wait_max: self.settings.login_wait_max,
            login_max: self.settings.login_max,
            open_max: self.settings.open_max,
            keys: CancelKeys::default(),
            figures: self.figures,
            stop: stop.clone(),
        });
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((tcp, peer)) => match seats.connection(peer.ip()) {
                    Some(seat) => {
                        let connection = Connection { tcp, peer, seat, context: context.clone() };
                        scope.start("database connection", connection.serve());
                    }
                    None => {
                        context.figures.accepted();
                        context.figures.refused(RefusalReason::TooMany);
                        tracing::debug!(%peer, "closed a connection beyond the limit");
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "could not accept a database connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}
