//! Connections by TLS: handshakes that never end, clients that speak plain HTTP, what requests are
//! told about their connection, and the end of the server.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{sync::Arc, time::Duration};

use axum::{Extension, Router, http::HeaderMap, routing::get};
use pandastack_door::{PeerAddress, ServeSettings, serve_tls, with_hsts};
use pandastack_kit::Scope;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

/// Timeout for anything that should happen by itself.
const SOON: Duration = Duration::from_secs(60);

struct Door {
    address: String,
    scope: Scope,
    trust: TlsConnector,
}

impl Door {
    async fn start(settings: ServeSettings) -> Self {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let trust = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let trust = trust.unwrap().with_root_certificates(roots).with_no_client_auth();
        let told = |Extension(peer): Extension<PeerAddress>, headers: HeaderMap| async move {
            format!("{} {}!", peer.0, headers["x-forwarded-proto"].to_str().unwrap())
        };
        let app = with_hsts(Router::new().route("/told", get(told)), Duration::from_secs(60));
        let (scope, listener) = (Scope::new(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap().to_string();
        let tls = Some(TlsAcceptor::from(Arc::new(config)));
        scope.start("serve", serve_tls(listener, tls, app, scope.clone(), settings));
        Self { address, scope, trust: TlsConnector::from(Arc::new(trust)) }
    }

    async fn plain(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let name = "localhost".try_into().unwrap();
        within("a handshake", self.trust.connect(name, self.plain().await)).await.unwrap()
    }

    /// Asks by a new connection, with more headers.
    async fn ask(&self, headers: &str) -> String {
        let mut client = self.connect().await;
        let head = format!("GET /told HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        read_until(&mut client, |text| text.ends_with('!')).await
    }

    /// Ends the server. None of its tasks may go on.
    async fn close(self) {
        assert_eq!(self.scope.close(SOON).await, 0);
    }
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// Reads until there is enough text, or to the end of the connection.
async fn read_until(client: &mut (impl AsyncRead + Unpin), enough: impl Fn(&str) -> bool) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    within("an answer", async {
        while let Ok(count @ 1..) = client.read(&mut piece).await {
            text.push_str(&String::from_utf8_lossy(&piece[..count]));
            if enough(&text) {
                break;
            }
        }
    })
    .await;
    text
}

/// Connections that stop in all places of a handshake.
async fn half_open(door: &Door, count: usize) -> Vec<TcpStream> {
    // The start of a record with a client's hello of 256 bytes, which never comes whole.
    let begin = [22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3];
    let mut all = Vec::new();
    for at in (0..=begin.len()).cycle().take(count) {
        let mut client = door.plain().await;
        client.write_all(&begin[..at]).await.unwrap();
        all.push(client);
    }
    all
}

#[tokio::test]
async fn half_open_handshakes_neither_fill_the_server_nor_stay() {
    let settings = ServeSettings { connections_max: 8, handshake_max: Duration::from_secs(600), ..Default::default() };
    let door = Door::start(settings).await;
    let stuck = half_open(&door, 100).await;
    // There is room for eight. The oldest give way, not the client that ends its handshake.
    assert!(door.ask("").await.starts_with("HTTP/1.1 200 "));
    assert!(door.scope.tasks() <= 1 + 8 + 1, "{} tasks", door.scope.tasks());
    drop(stuck);
    door.close().await;

    let settings = ServeSettings { handshake_max: Duration::from_millis(300), ..Default::default() };
    let door = Door::start(settings).await;
    for mut client in half_open(&door, 24).await {
        assert_eq!(read_until(&mut client, |_| false).await, "", "no answer, but an end");
    }
    assert!(door.ask("").await.starts_with("HTTP/1.1 200 "));
    door.close().await;
}

#[tokio::test]
async fn a_request_knows_its_peer_and_that_it_came_by_tls() {
    let door = Door::start(ServeSettings::default()).await;
    let answer = door.ask("").await;
    assert!(answer.contains("strict-transport-security: max-age=60\r\n"), "{answer}");
    assert!(answer.ends_with("127.0.0.1 https!"), "{answer}");
    assert!(door.ask("x-forwarded-proto: http\r\n").await.ends_with("127.0.0.1 http!"), "a proxy knows better");
    door.close().await;
}

#[tokio::test]
async fn plain_http_and_noise_are_answered_and_closed() {
    let door = Door::start(ServeSettings::default()).await;
    let mut client = door.plain().await;
    client.write_all(b"GET /told HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let answer = read_until(&mut client, |_| false).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"code\":\"tls.required\""), "{answer}");
    for noise in [&[0; 64][..], &[22; 64], &[128, 1, 3, 1], b"\r\n\r\n"] {
        let mut client = door.plain().await;
        client.write_all(noise).await.unwrap();
        let answer = read_until(&mut client, |_| false).await;
        assert!(!answer.contains("HTTP"), "{answer}");
    }
    door.close().await;
}

#[tokio::test]
async fn a_stop_ends_open_handshakes_at_once_and_idle_connections_in_order() {
    let door = Door::start(ServeSettings::default()).await;
    let (stuck, mut idle) = (half_open(&door, 12).await, door.connect().await);
    // A request first: in TLS 1.3 the client is ready before the server.
    idle.write_all(b"GET /told HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    read_until(&mut idle, |text| text.ends_with('!')).await;
    let end = async {
        // An end with the TLS alert for it. Without the alert, the read is an error.
        assert_eq!(within("the end", idle.read(&mut [0; 16])).await.unwrap(), 0);
    };
    let (left, ()) = tokio::join!(door.scope.close(SOON), end);
    assert_eq!(left, 0);
    drop(stuck);
}
