//! A proxy with a certificate of its own authority, and TLS clients that trust it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use pandastack_kit::Scope;
use pandastack_postgres_proxy::{
    BackendStart, Databases, OpenRefusal, OpenRequest, OpenedBackend, PostgresProxy, ProxyBackends, ProxyFigures,
    ProxySettings, QueryActivity, QueryState,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

pub const ID: &str = "0b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44";
pub const OTHER_ID: &str = "1b6f3c1e-9d0a-4a57-8a3c-2f1d7e5b9c44";
pub const SUFFIX: &str = ".db.localhost";
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
pub const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

/// A database behind the proxy.
#[derive(Clone, Copy)]
pub enum Behind {
    At(SocketAddr),
    /// Slept, and is there now.
    WokenAt(SocketAddr),
    Failed(&'static str),
    /// Never wakes.
    Asleep,
}

/// What the proxy asked for and told.
#[derive(Clone, Default)]
pub struct Journal {
    pub asked: Arc<Mutex<Vec<OpenRequest>>>,
    pub states: Arc<Mutex<Vec<QueryState>>>,
}

struct Catalog {
    known: HashMap<String, Behind>,
    journal: Journal,
}

#[async_trait]
impl Databases for Catalog {
    async fn open(&self, ask: OpenRequest) -> Result<OpenedBackend, OpenRefusal> {
        self.journal.asked.lock().unwrap().push(ask);
        match self.known.get(&ask.database.to_string()) {
            None => Err(OpenRefusal::Unknown),
            Some(Behind::Failed(text)) => Err(OpenRefusal::Failed((*text).to_owned())),
            Some(Behind::Asleep) => std::future::pending().await,
            Some(found @ (Behind::At(address) | Behind::WokenAt(address))) => {
                let start = if matches!(found, Behind::At(_)) { BackendStart::Awake } else { BackendStart::Woken };
                let stream = TcpStream::connect(address).await.map_err(|_| OpenRefusal::Unavailable)?;
                stream.set_nodelay(true).map_err(|_| OpenRefusal::Unavailable)?;
                let (stream, activity) = (Box::new(stream), Box::new(self.journal.clone()));
                Ok(OpenedBackend { start, stream, activity })
            }
        }
    }
}

impl QueryActivity for Journal {
    fn changed(&self, state: QueryState) {
        self.states.lock().unwrap().push(state);
    }
}

#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// A running proxy.
pub struct ProxySetup {
    pub address: SocketAddr,
    pub scope: Scope,
    pub figures: Arc<ProxyFigures>,
    pub journal: Journal,
    /// Holds the authority's certificate as `ca.pem`.
    pub folder: TempDir,
    roots: RootCertStore,
}

impl ProxySetup {
    pub async fn start(known: &[(&str, Behind)]) -> Self {
        Self::start_with(known, |_| {}).await
    }

    pub async fn start_with(known: &[(&str, Behind)], change: impl FnOnce(&mut ProxySettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (authority, certificate) = certificates();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let journal = Journal::default();
        let known = known.iter().map(|(id, behind)| ((*id).to_owned(), *behind)).collect();
        let databases = Arc::new(Catalog { known, journal: journal.clone() });
        let mut settings = ProxySettings::new(SUFFIX.parse().unwrap());
        change(&mut settings);
        let certificates = Arc::new(OneCertificate(certificate));
        let proxy = PostgresProxy::new(settings, ProxyBackends { databases, certificates });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, scope, figures) = (listener.local_addr().unwrap(), Scope::new(), proxy.figures());
        let serving = proxy.serve(listener, scope.clone());
        scope.start("proxy", async { serving.await.unwrap() });
        Self { address, scope, figures, journal, folder, roots }
    }

    pub async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Makes the TLS handshake as a client.
    pub async fn tls(&self, tcp: TcpStream, host: &str, alpn: &[&[u8]]) -> std::io::Result<TlsStream<TcpStream>> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await
    }

    /// Asks for TLS, makes the handshake and sends a packet.
    pub async fn client(&self, host: &str, packet: &[u8]) -> TlsStream<TcpStream> {
        let mut tcp = self.tcp().await;
        tcp.write_all(&TLS_REQUEST).await.unwrap();
        assert_eq!(tcp.read_u8().await.unwrap(), b'S');
        let mut client = self.tls(tcp, host, &[]).await.unwrap();
        client.write_all(packet).await.unwrap();
        client
    }

    /// Waits until no tunnel is open.
    pub async fn settled(&self) {
        wait_for("the tunnels end", || self.figures.counts().active_connections == 0).await;
    }
}

pub fn host(id: &str) -> String {
    format!("{id}{SUFFIX}")
}

/// A startup message.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![0, 3, 0, 0];
    for text in parameters.iter().flat_map(|(name, value)| [name, value]) {
        body.extend(text.bytes());
        body.push(0);
    }
    body.push(0);
    [&u32::try_from(body.len() + 4).unwrap().to_be_bytes()[..], &body].concat()
}

/// Timeout of what should happen by itself, also on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Reads an ErrorResponse and the end: SQLSTATE and message.
pub async fn refusal(client: &mut (impl tokio::io::AsyncRead + Unpin)) -> (String, String) {
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, client.read_to_end(&mut bytes)).await.unwrap().unwrap();
    assert_eq!(bytes.first(), Some(&b'E'), "{bytes:?}");
    let field = |kind: u8| {
        let field = bytes[5..].split(|byte| *byte == 0).find(|field| field.first() == Some(&kind));
        String::from_utf8(field.unwrap()[1..].to_vec()).unwrap()
    };
    assert_eq!((field(b'S'), field(b'V')), ("FATAL".to_owned(), "FATAL".to_owned()));
    (field(b'C'), field(b'M'))
}

pub async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("timeout: {what}"));
}

/// An authority, and a wildcard certificate of it.
fn certificates() -> (rcgen::Certificate, Arc<CertifiedKey>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a certificate for self-signed if both names are equal.
    params.distinguished_name.push(DnType::CommonName, "authority of a test");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let names = vec![format!("*{SUFFIX}"), "localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    (authority, Arc::new(CertifiedKey::from_der(chain, key, &ring::default_provider()).unwrap()))
}
