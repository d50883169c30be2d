//! Connections to servers that a client or the operator named: receivers of webhooks, registries of
//! images, identity providers. Resolves the name, checks every address, and connects to exactly the
//! address that was checked, so that a changed DNS answer has no effect. `http` sends requests.

mod address;
pub mod http;
pub mod limits;

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
};

use pandastack_kit::Scope;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{
            CertificateDer, ServerName,
            pem::{self, PemObject},
        },
    },
};

pub use address::refused;

/// Most addresses that are tried for one name.
const DIALED_ADDRESSES_MAX: usize = 4;

/// The addresses that may be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Only those of the public internet.
    #[default]
    Public,
    /// Loopback and private networks too. The operator's choice: every tenant can then reach
    /// servers near this one.
    Private,
}

/// Certificate authorities that are trusted for https.
#[derive(Clone, Debug, Default)]
pub enum TrustRoots {
    /// Those of this host.
    #[default]
    Host,
    /// Those of this host, and these.
    HostAnd(Vec<CertificateDer<'static>>),
    /// Only these.
    These(Vec<CertificateDer<'static>>),
}

/// Why a file of certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustRootsError {
    #[error("read certificates from {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: pem::Error,
    },
    #[error("{} contains no PEM certificate", path.display())]
    Empty { path: PathBuf },
}

impl TrustRoots {
    /// Trusts this host's certificate authorities, and those of a PEM file.
    pub fn host_and(path: &Path) -> Result<Self, TrustRootsError> {
        let bad = |cause| TrustRootsError::Read { path: path.to_owned(), cause };
        let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(bad)?.collect();
        let found = found.map_err(bad)?;
        if found.is_empty() { Err(TrustRootsError::Empty { path: path.to_owned() }) } else { Ok(Self::HostAnd(found)) }
    }
}

/// The target of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialTarget {
    /// A name or an address without brackets.
    pub host: String,
    pub port: u16,
    pub tls: bool,
}

/// Makes connections. Keeps none of them.
pub struct Dialer {
    reach: AddressPolicy,
    roots: TrustRoots,
    tls: OnceCell<TlsConnector>,
    scope: Scope,
}

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("the name {host} could not be resolved")]
    Resolve {
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error("the name {host} has no IP address")]
    Nowhere { host: String },
    #[error("connections to this address are not allowed ({why})")]
    NotAllowed { why: &'static str },
    #[error("connection failed")]
    Connect(#[source] io::Error),
    #[error("this host has no certificate authorities to trust")]
    NoRoots,
    #[error("TLS could not be set up")]
    Tls(#[source] tokio_rustls::rustls::Error),
    #[error("TLS handshake failed")]
    Handshake(#[source] io::Error),
}

impl Dialer {
    /// Makes a dialer. Certificates are read at the first TLS connection.
    pub fn new(reach: AddressPolicy, roots: TrustRoots, scope: Scope) -> Self {
        Self { reach, roots, tls: OnceCell::new(), scope }
    }

    pub fn reach(&self) -> AddressPolicy {
        self.reach
    }

    /// Connects, with a TLS handshake if the target wants it. Has no timeout; callers set one.
    pub async fn open(&self, place: &DialTarget) -> Result<Box<dyn NetworkStream>, DialError> {
        let stream = self.connect(place).await?;
        if !place.tls {
            return Ok(Box::new(stream));
        }
        let host = place.host.clone();
        let name = ServerName::try_from(host.clone()).map_err(|_| DialError::Nowhere { host })?;
        let tls = self.tls.get_or_try_init(|| self.trust()).await?;
        Ok(Box::new(tls.connect(name, stream).await.map_err(DialError::Handshake)?))
    }

    /// Connects to the first address that is allowed and answers.
    async fn connect(&self, place: &DialTarget) -> Result<TcpStream, DialError> {
        let host = place.host.clone();
        let resolved = tokio::net::lookup_host((host.as_str(), place.port)).await;
        let addresses: Vec<SocketAddr> =
            resolved.map_err(|cause| DialError::Resolve { host: host.clone(), cause })?.collect();
        let mut last = DialError::Nowhere { host };
        for address in addresses.into_iter().take(DIALED_ADDRESSES_MAX) {
            if let Some(why) = self.refuse(address) {
                last = DialError::NotAllowed { why };
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(cause) => last = DialError::Connect(cause),
            }
        }
        Err(last)
    }

    fn refuse(&self, address: SocketAddr) -> Option<&'static str> {
        match self.reach {
            AddressPolicy::Private => None,
            AddressPolicy::Public => {
                refused(address.ip()).or_else(|| is_own(address).then_some("an address of this host"))
            }
        }
    }

    async fn host_roots(&self) -> Vec<CertificateDer<'static>> {
        let load = self.scope.block("load certificates", rustls_native_certs::load_native_certs).await;
        load.map(|found| found.certs).unwrap_or_default()
    }

    async fn trust(&self) -> Result<TlsConnector, DialError> {
        let certificates = match &self.roots {
            TrustRoots::These(these) => these.clone(),
            TrustRoots::Host => self.host_roots().await,
            TrustRoots::HostAnd(these) => self.host_roots().await.into_iter().chain(these.iter().cloned()).collect(),
        };
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(certificates);
        if store.is_empty() {
            return Err(DialError::NoRoots);
        }
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(DialError::Tls)?.with_root_certificates(store).with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// A byte stream in both directions.
pub trait NetworkStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> NetworkStream for T {}

/// The task that drives a connection. Dropping it ends the connection.
pub struct ConnectionTask(tokio::task::JoinHandle<()>);

impl ConnectionTask {
    pub fn of(task: tokio::task::JoinHandle<()>) -> Self {
        Self(task)
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reports whether an address belongs to this host: local services may trust local clients. For
/// such an address the kernel picks the same source address. Sends nothing.
fn is_own(address: SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let local = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    local.is_ok_and(|local| local.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_hosts_own_addresses_are_known() {
        assert!(is_own("127.0.0.1:80".parse().unwrap()));
        // Sends nothing, only looks up a route. A machine without a network has none.
        let route = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:9")?;
            socket.local_addr()
        });
        if let Ok(local) = route {
            assert!(is_own(SocketAddr::new(local.ip(), 80)));
            assert!(!is_own("192.0.2.1:80".parse().unwrap()));
        }
    }
}
