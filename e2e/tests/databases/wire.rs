//! A PostgreSQL client in pieces: it stops wherever a test wants, and proves a password that it
//! does not have.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

use super::DatabaseBed;

/// The request for TLS.
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// Time limit for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Where clients of databases connect, and whom they trust.
pub struct WireDoor {
    port: u16,
    roots: RootCertStore,
}

/// Whether a client tells the server's name in its handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ServerNaming {
    Sent,
    Hidden,
}

impl WireDoor {
    pub fn of(bed: &DatabaseBed, database: &Value) -> Self {
        let port = database["port"].as_u64().unwrap().try_into().unwrap();
        Self { port, roots: roots(&bed.authority) }
    }

    pub async fn tcp(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Asks for TLS and makes the handshake. The certificate must be right.
    pub async fn tls(&self, host: &str, naming: ServerNaming) -> std::io::Result<TlsStream<TcpStream>> {
        let mut tcp = self.tcp().await;
        tcp.write_all(&TLS_REQUEST).await?;
        assert_eq!(tcp.read_u8().await?, b'S');
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.enable_sni = naming == ServerNaming::Sent;
        let name = ServerName::try_from(host.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await
    }

    /// Sends a startup message over TLS.
    pub async fn started(&self, host: &str, naming: ServerNaming, parameters: &[(&str, &str)]) -> TlsStream<TcpStream> {
        let mut client = self.tls(host, naming).await.unwrap();
        client.write_all(&startup(parameters)).await.unwrap();
        client
    }
}

fn roots(file: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    roots
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

/// Reads an error and the end of the connection: SQLSTATE and message.
pub async fn refusal(client: &mut (impl AsyncRead + Unpin)) -> (String, String) {
    let mut bytes = Vec::new();
    let reading = client.read_to_end(&mut bytes);
    let ended = tokio::time::timeout(ANSWER_MAX, reading).await.expect("the connection is closed");
    assert_eq!(bytes.first(), Some(&b'E'), "{ended:?} {:?}", String::from_utf8_lossy(&bytes));
    let field = |kind: u8| {
        let field = bytes[5..].split(|byte| *byte == 0).find(|field| field.first() == Some(&kind));
        String::from_utf8(field.unwrap()[1..].to_vec()).unwrap()
    };
    (field(b'C'), field(b'M'))
}

/// Logs in by SCRAM with a proof of the right form that no password has. Returns what the server
/// says before it closes.
pub async fn wrong_proof(mut client: TlsStream<TcpStream>) -> (String, String) {
    const FIRST: &[u8] = b"n,,n=,r=0123456789abcdefghijklmn";
    let (kind, asked) = message(&mut client).await;
    assert_eq!((kind, &asked[..4]), (b'R', &[0, 0, 0, 10][..]), "{:?}", String::from_utf8_lossy(&asked));
    let length = u32::try_from(FIRST.len()).unwrap().to_be_bytes();
    send(&mut client, &[b"SCRAM-SHA-256\0", &length[..], FIRST].concat()).await;
    let (kind, challenge) = message(&mut client).await;
    assert_eq!((kind, &challenge[..4]), (b'R', &[0, 0, 0, 11][..]), "{:?}", String::from_utf8_lossy(&challenge));
    let challenge = String::from_utf8(challenge[4..].to_vec()).unwrap();
    let nonce = challenge.split(',').find(|part| part.starts_with("r=")).unwrap();
    // 32 zero bytes.
    let proof = format!("c=biws,{nonce},p={}=", "A".repeat(43));
    send(&mut client, proof.as_bytes()).await;
    refusal(&mut client).await
}

async fn send(client: &mut TlsStream<TcpStream>, body: &[u8]) {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    client.write_all(&[b"p", &length[..], body].concat()).await.unwrap();
}

async fn message(client: &mut TlsStream<TcpStream>) -> (u8, Vec<u8>) {
    let reading = async {
        let kind = client.read_u8().await.unwrap();
        let mut body = vec![0; client.read_u32().await.unwrap() as usize - 4];
        client.read_exact(&mut body).await.unwrap();
        (kind, body)
    };
    tokio::time::timeout(ANSWER_MAX, reading).await.expect("an answer to a login")
}
