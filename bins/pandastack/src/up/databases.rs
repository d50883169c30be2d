//! Managed databases of `pandastack up`: the listener for PostgreSQL clients, its certificates, and
//! the way from a server name to a port of a machine.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use async_trait::async_trait;
use clap::Args;
use pandastack_control::{DatabaseAddresses, DatabaseProxyReader, DatabaseProxyReading};
use pandastack_kit::Scope;
use pandastack_model::{FaultKind, GuestPort, SandboxId, SandboxState};
use pandastack_postgres_proxy::{
    BackendPort, BackendStart, Databases, OpenPurpose, OpenRefusal, OpenRequest, OpenedBackend, PostgresProxy,
    ProxyBackends, ProxyFigures, ProxySettings, QueryActivity, QueryState, RefusalReason,
};
use pandastack_tls::{CertificateSet, LocalAuthority};
use pandastack_wire_fleet::{ControlPort, HostPort};
use tokio::net::TcpListener;

use super::tell;
use crate::called::{called, quoted};

/// Folder of the local certificate authority, in the data folder.
const AUTHORITY_FOLDER: &str = "database-ca";
/// Ports in the machine of a database.
const POOLER_PORT: i64 = 6432;
const POSTGRES_PORT: i64 = 5432;
/// The code of a port in a machine that nobody listens on.
const NOT_LISTENING: &str = "port.not_listening";
/// The usual port of PostgreSQL.
const DEFAULT_PORT: u16 = 5432;

#[derive(Args)]
pub struct DatabaseArgs {
    /// Address for PostgreSQL clients of managed databases. The default is 127.0.0.1:5432, or any
    /// free port if that is taken
    #[arg(long, env = "PANDASTACK_DB_LISTEN", value_name = "ADDRESS")]
    db_listen: Option<SocketAddr>,
    /// Domain of managed databases: clients connect to ID.DOMAIN. Without a certificate for it in
    /// --tls-cert or --acme-domain, this server signs one itself
    #[arg(long, env = "PANDASTACK_DB_DOMAIN", default_value = "db.localhost", value_name = "DOMAIN")]
    db_domain: String,
    /// Port that clients are told, if a load balancer forwards another one than that of --db-listen
    #[arg(long, env = "PANDASTACK_DB_PROXY_PORT", value_name = "PORT")]
    db_public_port: Option<u16>,
}

/// The listener for PostgreSQL clients.
pub struct DatabaseListener {
    listener: TcpListener,
    suffix: String,
    certificates: CertificateSet,
    /// The file that clients must trust; `None` if a public authority signs.
    authority: Option<PathBuf>,
    figures: Arc<ProxyFigures>,
    pub addresses: DatabaseAddresses,
}

impl DatabaseArgs {
    /// Binds the listener and chooses certificates.
    pub async fn open(
        &self,
        data_dir: &Path,
        public_url: Option<&str>,
        https: Option<&CertificateSet>,
    ) -> Result<DatabaseListener> {
        let listener = self.bind().await?;
        let bound = listener.local_addr().context("read the address for PostgreSQL clients")?.port();
        let port = self.db_public_port.unwrap_or(bound);
        let suffix = format!(".{}", self.db_domain.trim_matches('.').to_ascii_lowercase());
        let example = format!("{}{suffix}", SandboxId::random());
        let (certificates, authority) = match https.filter(|set| set.knows(&example)) {
            Some(set) => (set.clone(), None),
            None => {
                let local = LocalAuthority::open(&data_dir.join(AUTHORITY_FOLDER))
                    .context("make the certificate authority of managed databases")?;
                let set = CertificateSet::default();
                let served = local.issue(&[format!("*{suffix}")]).context("make a certificate for databases")?;
                set.add(Vec::new()).put(served);
                (set, Some(local.certificate))
            }
        };
        let api_url = public_url.map(|url| url.trim_end_matches('/').to_owned());
        let addresses = DatabaseAddresses { suffix: suffix.clone(), port, api_url };
        Ok(DatabaseListener { listener, suffix, certificates, authority, figures: Arc::default(), addresses })
    }

    /// A port in use is an error only if the operator named it.
    async fn bind(&self) -> Result<TcpListener> {
        let usual = SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT));
        let address = self.db_listen.unwrap_or(usual);
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(listener),
            // Not that port: clients would send their passwords to whoever listens there.
            Err(_) if self.db_listen.is_none() => {
                let other = SocketAddr::from(([127, 0, 0, 1], 0));
                let listener = TcpListener::bind(other).await.context("listen for PostgreSQL clients")?;
                tell(&format!(
                    "WARNING: {address} is in use, so managed databases have another port until the next start; \
                     choose one with --db-listen"
                ));
                Ok(listener)
            }
            Err(error) => Err(error).with_context(|| format!("listen on {address} for PostgreSQL clients")),
        }
    }
}

impl DatabaseListener {
    /// How clients connect, for the operator.
    pub fn summary(&self) -> String {
        let DatabaseAddresses { suffix, port, .. } = &self.addresses;
        let trust = self.authority.as_ref().map(|file| {
            let file = quoted(&file.display().to_string());
            format!("PGSSLMODE=verify-full PGSSLROOTCERT={file} ")
        });
        // The URL is asked for, so that it has what the resolver of the client's computer lacks.
        format!("ID{suffix}:{port}; open one with: {}psql \"$({} db url)\"", trust.unwrap_or_default(), called())
    }

    /// Returns a reader of the proxy's counters, for the metrics.
    pub fn reader(&self) -> DatabaseProxyReader {
        let figures = self.figures.clone();
        Arc::new(move || {
            let counts = figures.counts();
            DatabaseProxyReading {
                active_connections: counts.active_connections,
                held_connections: counts.held_connections,
                total_connections: counts.total_connections,
                errors: counts.errors,
                catalog_lookup_errors: counts.catalog_lookup_errors,
                failed_handshakes: counts.failed_handshakes,
                wakes: counts.wakes,
                refused: RefusalReason::ALL.map(RefusalReason::as_str).into_iter().zip(counts.refused).collect(),
                bytes: counts.bytes,
            }
        })
    }

    /// Starts to carry connections.
    pub fn start(self, control: Arc<dyn ControlPort>, host: Arc<dyn HostPort>, scope: &Scope) -> Result<()> {
        let listener = self.listener;
        let suffix = self.suffix.parse().with_context(|| format!("--db-domain {} is no domain", self.suffix))?;
        let databases = Arc::new(LocalDatabases { control, host });
        let backends = ProxyBackends { databases, certificates: Arc::new(self.certificates) };
        let proxy = PostgresProxy::new(ProxySettings::new(suffix), backends).with_figures(self.figures);
        let scope_of_tunnels = scope.clone();
        scope.start("serve databases", async move {
            if let Err(error) = proxy.serve(listener, scope_of_tunnels).await {
                tell(&format!("ERROR: PostgreSQL clients are not served: {error}"));
            }
        });
        Ok(())
    }
}

/// The databases of this server.
struct LocalDatabases {
    control: Arc<dyn ControlPort>,
    host: Arc<dyn HostPort>,
}

#[async_trait]
impl Databases for LocalDatabases {
    async fn open(&self, ask: OpenRequest) -> Result<OpenedBackend, OpenRefusal> {
        let id: SandboxId = ask.database.to_string().parse().map_err(|_| OpenRefusal::Unknown)?;
        self.control.admit_database(id).await.map_err(refusal)?;
        if ask.purpose == OpenPurpose::Cancel {
            let state = self.host.observe(id).await.map(|seen| seen.state);
            if state != Some(SandboxState::Running) {
                return Err(OpenRefusal::Unavailable);
            }
        }
        let port = match ask.port {
            BackendPort::Pooled => POOLER_PORT,
            BackendPort::Session => POSTGRES_PORT,
        };
        let port = GuestPort::try_from(port).map_err(|_| OpenRefusal::Unavailable)?;
        let start = match self.host.observe(id).await.map(|seen| seen.state) {
            Some(SandboxState::Asleep | SandboxState::FallingAsleep | SandboxState::Waking) => BackendStart::Woken,
            _ => BackendStart::Awake,
        };
        let stream = match self.host.connect(id, port).await {
            // The machine runs, but its server does not.
            Err(fault) if fault.code == NOT_LISTENING && ask.purpose != OpenPurpose::Cancel => {
                self.control.revive_database(id).await.map_err(refusal)?;
                self.host.connect(id, port).await
            }
            connected => connected,
        };
        let stream = stream.map_err(refusal)?;
        Ok(OpenedBackend { start, stream: Box::new(stream), activity: Box::new(HeldAwake) })
    }
}

/// An open connection keeps its database awake, whether a query runs or not.
struct HeldAwake;

impl QueryActivity for HeldAwake {
    fn changed(&self, _: QueryState) {}
}

/// What strangers are told instead of the reason.
const HAS_FAILED: &str = "the database has failed; its owner sees the reason with: pandastack db get";
const NOT_ALLOWED: &str = "the database may not be used now; its owner sees the reason with: pandastack db wake";

fn refusal(fault: pandastack_model::Fault) -> OpenRefusal {
    match (fault.kind, fault.code) {
        (FaultKind::Missing, _) => OpenRefusal::Unknown,
        (_, "database.not_ready") => OpenRefusal::Starting,
        // Nobody has given a password yet. Why it failed may quote the database's log.
        (FaultKind::Conflict | FaultKind::Gone, _) => OpenRefusal::Failed(HAS_FAILED.to_owned()),
        (FaultKind::Forbidden | FaultKind::Payment | FaultKind::Unauthorized, _) => {
            OpenRefusal::Denied(NOT_ALLOWED.to_owned())
        }
        (FaultKind::Busy | FaultKind::Quota | FaultKind::TooFast | FaultKind::Storage, _) => {
            OpenRefusal::Busy(fault.text)
        }
        _ => OpenRefusal::Unavailable,
    }
}
