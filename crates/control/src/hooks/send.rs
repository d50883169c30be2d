//! One POST to one receiver. The name is resolved here, every address is checked, and the connection goes to the very address
//! that was checked: nothing can change in between. Redirects are not followed, answers are read in part, nothing is reused.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST, LOCATION, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use pandastack_kit::Scope;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName},
    },
};

use super::{Reach, Target, address::refused};
use crate::limits::{
    WEBHOOK_ADDRESSES_MAX, WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_ANSWER_MAX, WEBHOOK_ANSWER_READ_MAX, WEBHOOK_CONNECT_MAX,
    WEBHOOK_HEAD_BYTES_MAX,
};

/// Whom an https receiver must be vouched for by.
#[derive(Clone, Debug, Default)]
pub enum Roots {
    /// Whom this host trusts.
    #[default]
    Host,
    /// Only these.
    These(Vec<CertificateDer<'static>>),
}

/// What is sent.
pub struct Letter<'a> {
    pub target: &'a Target,
    pub id: String,
    pub seconds: u64,
    pub signatures: String,
    pub body: &'a str,
}

/// What a receiver said, or why it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub status: Option<u16>,
    /// Why it does not count as delivered.
    pub error: Option<String>,
    pub answer: String,
}

/// Sends. Keeps no connection.
pub struct Sender {
    reach: Reach,
    roots: Roots,
    tls: OnceCell<TlsConnector>,
    scope: Scope,
}

/// Why nothing was answered.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("the name {host} could not be resolved")]
    Resolve {
        host: String,
        #[source]
        cause: io::Error,
    },
    #[error("the name {host} has no address")]
    Nowhere { host: String },
    #[error("the address is {why}, which is not allowed")]
    NotAllowed { why: &'static str },
    #[error("no connection")]
    Connect(#[source] io::Error),
    #[error("no connection within {}s", WEBHOOK_CONNECT_MAX.as_secs())]
    ConnectSlow,
    #[error("this host has no certificate authorities to trust")]
    NoRoots,
    #[error("TLS cannot be set up")]
    Tls(#[source] tokio_rustls::rustls::Error),
    #[error("no TLS connection")]
    Handshake(#[source] io::Error),
    #[error("the request cannot be written")]
    Request(#[source] hyper::http::Error),
    #[error("no answer in HTTP")]
    Http(#[source] hyper::Error),
    #[error("no answer within {}s", WEBHOOK_ANSWER_MAX.as_secs())]
    Slow,
}

impl Sender {
    /// Makes one. Certificates are read when they are first needed.
    pub fn new(reach: Reach, roots: Roots, scope: Scope) -> Self {
        Self { reach, roots, tls: OnceCell::new(), scope }
    }

    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Sends a letter and tells what came of it.
    pub async fn send(&self, letter: Letter<'_>) -> Sent {
        let sent = match timeout(WEBHOOK_ANSWER_MAX, self.post(letter)).await {
            Ok(sent) => sent,
            Err(_) => Err(SendError::Slow),
        };
        match sent {
            Ok((response, _connection)) => read(response).await,
            Err(error) => Sent { error: Some(chain(&error)), ..Sent::default() },
        }
    }

    async fn post(&self, letter: Letter<'_>) -> Result<(Response<Incoming>, Connection), SendError> {
        let opened = timeout(WEBHOOK_CONNECT_MAX, self.open(letter.target)).await;
        let stream = opened.map_err(|_| SendError::ConnectSlow)??;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(WEBHOOK_HEAD_BYTES_MAX);
        let (mut requests, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(SendError::Http)?;
        let carrying = self.scope.start("webhook connection", async move {
            // How it ended is what the request says.
            let _ = connection.await;
        });
        let carrying = Connection(carrying);
        let request = Request::post(letter.target.path_and_query())
            .header(HOST, letter.target.authority())
            .header(USER_AGENT, concat!("pandastack-webhooks/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", letter.id)
            .header("webhook-timestamp", letter.seconds)
            .header("webhook-signature", letter.signatures)
            .body(Full::new(Bytes::copy_from_slice(letter.body.as_bytes())))
            .map_err(SendError::Request)?;
        let response = requests.send_request(request).await.map_err(SendError::Http)?;
        Ok((response, carrying))
    }

    async fn open(&self, target: &Target) -> Result<Box<dyn Stream>, SendError> {
        let stream = self.connect(target).await?;
        if !target.is_https() {
            return Ok(Box::new(stream));
        }
        let host = target.host();
        let name = ServerName::try_from(host.clone()).map_err(|_| SendError::Nowhere { host })?;
        let tls = self.tls.get_or_try_init(|| self.trust()).await?;
        Ok(Box::new(tls.connect(name, stream).await.map_err(SendError::Handshake)?))
    }

    /// Connects to the first address that is allowed and answers.
    async fn connect(&self, target: &Target) -> Result<TcpStream, SendError> {
        let host = target.host();
        let resolved = tokio::net::lookup_host((host.as_str(), target.port())).await;
        let addresses: Vec<SocketAddr> =
            resolved.map_err(|cause| SendError::Resolve { host: host.clone(), cause })?.collect();
        let mut last = SendError::Nowhere { host };
        for address in addresses.into_iter().take(WEBHOOK_ADDRESSES_MAX) {
            if let Some(why) = self.refuse(address) {
                last = SendError::NotAllowed { why };
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(cause) => last = SendError::Connect(cause),
            }
        }
        Err(last)
    }

    fn refuse(&self, address: SocketAddr) -> Option<&'static str> {
        match self.reach {
            Reach::Private => None,
            Reach::Public => refused(address.ip()).or_else(|| is_own(address).then_some("one of this host's own")),
        }
    }

    async fn trust(&self) -> Result<TlsConnector, SendError> {
        let certificates = match &self.roots {
            Roots::These(these) => these.clone(),
            Roots::Host => {
                let load = self.scope.block("load certificates", rustls_native_certs::load_native_certs).await;
                load.map(|found| found.certs).unwrap_or_default()
            }
        };
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(certificates);
        if store.is_empty() {
            return Err(SendError::NoRoots);
        }
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(SendError::Tls)?.with_root_certificates(store).with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The task that moves a connection's bytes. Dropped, the connection ends.
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says whether an address is this host's own, whatever network it is of: what listens here may trust its neighbours. The
/// kernel would speak to it from the same address. Nothing is sent.
fn is_own(address: SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let local = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    local.is_ok_and(|local| local.ip() == address.ip())
}

/// Reads what is worth keeping. Only the head decides: a body that hangs or never ends changes nothing.
async fn read(response: Response<Incoming>) -> Sent {
    let status = response.status();
    let location = response.headers().get(LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
    let mut body = response.into_body();
    let (mut kept, deadline) = (Vec::new(), tokio::time::Instant::now() + WEBHOOK_ANSWER_READ_MAX);
    while kept.len() < WEBHOOK_ANSWER_BYTES_MAX {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if left == Duration::ZERO {
            break;
        }
        match timeout(left, body.frame()).await {
            Ok(Some(Ok(frame))) => kept.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..])),
            Ok(Some(Err(_)) | None) | Err(_) => break,
        }
    }
    kept.truncate(WEBHOOK_ANSWER_BYTES_MAX);
    let error = match (status.is_success(), status.is_redirection()) {
        (true, _) => None,
        (_, true) => {
            let to: String = location.unwrap_or_default().chars().take(200).collect();
            Some(format!("answered {} to {to:?}; redirects are not followed", status.as_u16()))
        }
        _ => Some(format!("answered {}", status.as_u16())),
    };
    Sent { status: Some(status.as_u16()), error, answer: String::from_utf8_lossy(&kept).into_owned() }
}

/// Says what failed and why, in one line.
fn chain(error: &SendError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text.chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(reach: Reach, url: &str) -> Sent {
        let target = Target::parse(url, Reach::Private).unwrap();
        let letter = Letter { target: &target, id: "evt".into(), seconds: 1, signatures: "v1,x".into(), body: "{}" };
        Sender::new(reach, Roots::Host, Scope::new()).send(letter).await
    }

    /// As if a name had been fine when it was given and leads elsewhere now.
    #[tokio::test]
    async fn the_address_is_checked_when_it_is_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let sent = sent(Reach::Public, &format!("http://{host}:{port}/")).await;
            assert!(sent.error.as_ref().is_some_and(|error| error.contains("not allowed")), "{host}: {sent:?}");
        }
        let silence = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(silence.is_err(), "not even a connection was made");
        let url = format!("http://127.0.0.1:{port}/");
        let (sent, ()) = tokio::join!(sent(Reach::Private, &url), async {
            drop(listener.accept().await.unwrap());
        });
        assert!(sent.error.unwrap().starts_with("no answer in HTTP"));
    }

    #[test]
    fn this_hosts_own_addresses_are_known() {
        assert!(is_own("127.0.0.1:80".parse().unwrap()));
        // Nothing is sent: only a route is looked for, which a machine without a network does not have.
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
