//! A webhook receiver on loopback with chosen answers, and a clock that can be moved.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use pandastack_control::{AddressPolicy, TrustRoots, WebhookSettings};
use pandastack_kit::{Clock, Scope, SystemClock};
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::rig::{Rig, wait_for};

/// How the receiver answers one request.
#[derive(Clone, Debug)]
pub enum Reply {
    Status(u16),
    Redirect(String),
    /// Reads the request and never answers.
    Hang,
    /// A body without end.
    Endless,
    /// A head without end.
    EndlessHead,
    /// Something that is not HTTP.
    Nonsense,
}

#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }

    /// Checks the signature with a secret, as the standard defines it.
    pub fn signed_by(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        let (id, time) = (&self.headers["webhook-id"], &self.headers["webhook-timestamp"]);
        mac.update(format!("{id}.{time}.{}", self.body).as_bytes());
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        self.headers["webhook-signature"].split(' ').any(|signature| signature == expected)
    }
}

#[derive(Clone, Default)]
pub struct Receiver {
    pub url: String,
    seen: Arc<Mutex<Vec<Received>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    /// The answer when no other was chosen.
    usual: Arc<Mutex<Option<Reply>>>,
    scope: Scope,
}

impl Receiver {
    pub async fn start() -> Self {
        Self::start_behind("http", None).await
    }

    pub async fn start_behind(scheme: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://localhost:{}/hook?a=b", listener.local_addr().unwrap().port());
        let receiver = Self { url, ..Self::default() };
        let serving = receiver.clone();
        receiver.scope.start("receiver", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (one, tls) = (serving.clone(), tls.clone());
                serving.scope.start("one request", async move {
                    match tls {
                        None => one.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                one.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        receiver
    }

    /// Answers the next requests with these.
    pub fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().unwrap().extend(replies);
    }

    /// Answers all other requests with this.
    pub fn usually(&self, reply: Reply) {
        *self.usual.lock().unwrap() = Some(reply);
    }

    pub fn seen(&self) -> Vec<Received> {
        self.seen.lock().unwrap().clone()
    }

    pub fn kinds(&self) -> Vec<String> {
        self.seen().iter().map(Received::kind).collect()
    }

    pub async fn wait(&self, count: usize) -> Vec<Received> {
        wait_for(&format!("{count} deliveries"), || async { self.seen().len() >= count }).await;
        self.seen()
    }

    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let Some(received) = read(&mut stream).await else { return };
        self.seen.lock().unwrap().push(received);
        let reply = self.replies.lock().unwrap().pop_front().or_else(|| self.usual.lock().unwrap().clone());
        let head = match reply.unwrap_or(Reply::Status(200)) {
            Reply::Status(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 5\r\n\r\nhello"),
            Reply::Redirect(to) => format!("HTTP/1.1 302 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"),
            Reply::Hang => return tokio::time::sleep(Duration::from_secs(60)).await,
            Reply::Nonsense => "\u{1}\u{2}nonsense\r\n\r\n".to_owned(),
            Reply::EndlessHead => {
                let _ = stream.write_all(b"HTTP/1.1 200 X\r\n").await;
                while stream.write_all(format!("x-a: {}\r\n", "a".repeat(1000)).as_bytes()).await.is_ok() {}
                return;
            }
            Reply::Endless => {
                let _ = stream.write_all(b"HTTP/1.1 200 X\r\n\r\n").await;
                while stream.write_all(&[b'z'; 8192]).await.is_ok() {}
                return;
            }
        };
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let path = lines.next().unwrap().to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers["content-length"].parse().unwrap();
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received { path, headers, body: String::from_utf8(body).unwrap() })
}

/// The system clock, moved forward.
#[derive(Default)]
pub struct Traveller {
    ahead_ns: AtomicU64,
}

impl Traveller {
    pub fn travel(&self, by: Duration) {
        self.ahead_ns.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for Traveller {
    fn now_ns(&self) -> u64 {
        SystemClock.now_ns() + self.ahead_ns.load(Ordering::SeqCst)
    }
}

/// A control plane that may deliver to loopback, and its clock.
pub struct WebhookRig {
    pub rig: Rig,
    pub clock: Arc<Traveller>,
}

impl WebhookRig {
    pub async fn start() -> Self {
        Self::start_with(WebhookSettings { reach: AddressPolicy::Private, roots: TrustRoots::Host }).await
    }

    pub async fn start_with(settings: WebhookSettings) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Arc::default(), settings).await
    }

    pub async fn start_in(folder: TempDir, host: Arc<StubHost>, settings: WebhookSettings) -> Self {
        let clock = Arc::new(Traveller::default());
        Self { rig: Rig::start_as(folder, host, clock.clone(), settings).await, clock }
    }

    /// Stops the server in the middle of its work and starts another one on the same database and
    /// host.
    pub async fn crash(self, settings: WebhookSettings) -> Self {
        let Rig { control, host, folder, scope, .. } = self.rig;
        scope.close(Duration::from_secs(5)).await;
        control.close().await;
        Self::start_in(folder, host, settings).await
    }

    /// Subscribes a URL. Returns id and secret.
    pub async fn subscribe(&self, url: &str, events: &[&str]) -> (String, String) {
        let body = json!({"url": url, "events": events});
        let (status, hook) = self.rig.send(Method::POST, "/v1/webhooks", body).await;
        assert_eq!(status, 201, "{hook}");
        (hook["id"].as_str().unwrap().to_owned(), hook["secret"].as_str().unwrap().to_owned())
    }

    pub async fn deliveries(&self, id: &str, status: &str) -> Vec<Value> {
        let (code, list) = self.rig.get(&format!("/v1/webhooks/{id}/deliveries?status={status}")).await;
        assert_eq!(code, 200, "{list}");
        list.as_array().unwrap().clone()
    }

    /// Waits until a webhook has this many deliveries in a status.
    pub async fn wait(&self, id: &str, status: &str, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} {status}"), || async { self.deliveries(id, status).await.len() == count }).await;
        self.deliveries(id, status).await
    }
}
