//! A test server that answers each request with bytes that the test chooses, so that answers can be
//! malformed.

use std::sync::{Arc, Mutex};

use pandastack_kit::Scope;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

/// One received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub pass: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status, more header lines, and a body.
    Whole(u16, String, Vec<u8>),
    /// A body that is cut off after this many bytes.
    Cut(Vec<u8>, usize),
    /// A body that never ends.
    Endless,
    /// The beginning of a body, and then silence.
    Stalled(Vec<u8>),
    /// No head at all.
    Silence,
}

impl Reply {
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Whole(200, String::new(), body.into())
    }

    pub fn to(address: &str) -> Self {
        Self::Whole(307, format!("Location: {address}\r\n"), Vec::new())
    }

    pub fn challenge(challenge: &str) -> Self {
        Self::Whole(401, format!("WWW-Authenticate: {challenge}\r\n"), Vec::new())
    }
}

type Rule = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// A running server. After drop it accepts no connections.
pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<Asked>>>,
    /// Gets a message for every request.
    pub bell: Option<mpsc::UnboundedReceiver<()>>,
    task: tokio::task::JoinHandle<()>,
}

// Made once, valid for a hundred years: an authority, and its certificate for `localhost`.
pub const AUTHORITY: &[u8] = include_bytes!("tls/ca.der");
const CERTIFICATE: &[u8] = include_bytes!("tls/localhost.der");
const KEY: &[u8] = include_bytes!("tls/localhost.key.der");

impl Server {
    pub async fn start(rule: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_behind(None, Arc::new(rule)).await
    }

    /// Starts a server with TLS, as `localhost`.
    pub async fn start_tls(rule: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let (chain, key) = (vec![CertificateDer::from(CERTIFICATE)], PrivateKeyDer::try_from(KEY.to_vec()).unwrap());
        let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self::start_behind(Some(TlsAcceptor::from(Arc::new(config))), Arc::new(rule)).await
    }

    async fn start_behind(tls: Option<TlsAcceptor>, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, (ring, bell)) = (Arc::<Mutex<Vec<Asked>>>::default(), mpsc::unbounded_channel());
        let all = seen.clone();
        let scope = Scope::new();
        let task = scope.clone().start("server", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, rule, all, ring) = (tls.clone(), rule.clone(), all.clone(), ring.clone());
                scope.start("answer", async move {
                    match tls {
                        None => answer(stream, rule, &all, &ring).await,
                        // A client that does not trust us disconnects.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, rule, &all, &ring).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, seen, bell: Some(bell), task }
    }

    /// The URL of a path on this server.
    pub fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    /// The `Authorization` headers of all requests.
    pub fn passes(&self) -> Vec<Option<String>> {
        self.seen().into_iter().map(|asked| asked.pass).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    rule: Rule,
    seen: &Mutex<Vec<Asked>>,
    ring: &mpsc::UnboundedSender<()>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let pass = head.lines().find_map(|line| line.strip_prefix("authorization: ")).map(str::to_owned);
    let asked = Asked { path, pass };
    seen.lock().unwrap().push(asked.clone());
    let reply = rule(&asked);
    let _ = ring.send(());
    // A client that has read enough disconnects.
    let _ = send(&mut stream, reply).await;
    let _ = stream.shutdown().await;
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), reply: Reply) -> std::io::Result<()> {
    let head = |status: u16, more: &str, bytes: u64| {
        format!("HTTP/1.1 {status} Said\r\n{more}Content-Length: {bytes}\r\n\r\n").into_bytes()
    };
    match reply {
        Reply::Whole(status, more, body) => {
            stream.write_all(&head(status, &more, body.len() as u64)).await?;
            stream.write_all(&body).await
        }
        Reply::Cut(body, at) => {
            stream.write_all(&head(200, "", body.len() as u64)).await?;
            stream.write_all(&body[..at]).await
        }
        Reply::Endless => {
            stream.write_all(&head(200, "", 1 << 50)).await?;
            loop {
                stream.write_all(&[b'x'; 65536]).await?;
            }
        }
        Reply::Stalled(body) => {
            stream.write_all(&head(200, "", body.len() as u64 + 1)).await?;
            stream.write_all(&body).await?;
            std::future::pending().await
        }
        Reply::Silence => std::future::pending().await,
    }
}
