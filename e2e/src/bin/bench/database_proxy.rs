//! What the proxy of databases adds: the same PostgreSQL server of this host is asked without it,
//! and through it by TLS.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use pandastack_database::server::PostgresServer;
use pandastack_kit::Scope;
use pandastack_model::SandboxId;
use pandastack_postgres_proxy::{
    BackendStart, Databases, OpenRefusal, OpenRequest, OpenedBackend, PostgresProxy, ProxyBackends, ProxySettings,
    QueryActivity, QueryState,
};
use pandastack_tls::{CertificateSet, LocalAuthority};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    databases::DatabaseTls,
    table::{FigureTable, ms, percentile},
};

const SUFFIX: &str = ".db.localhost";
const QUERIES: usize = 2000;
const ROW_BYTES: usize = 8000;
const ROWS: usize = 125_000;
const COPIES: usize = 3;
/// The end of every answer: the server is ready and in no transaction.
const READY: [u8; 6] = *b"Z\0\0\0\x05I";

struct OneServer(SocketAddr);

#[async_trait]
impl Databases for OneServer {
    async fn open(&self, _: OpenRequest) -> Result<OpenedBackend, OpenRefusal> {
        let stream = TcpStream::connect(self.0).await.map_err(|_| OpenRefusal::Unavailable)?;
        stream.set_nodelay(true).map_err(|_| OpenRefusal::Unavailable)?;
        Ok(OpenedBackend { start: BackendStart::Awake, stream: Box::new(stream), activity: Box::new(Unwatched) })
    }
}

struct Unwatched;

impl QueryActivity for Unwatched {
    fn changed(&self, _: QueryState) {}
}

pub async fn measure(table: &mut FigureTable) -> Result<()> {
    let server = PostgresServer::start()?;
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let folder = tempfile::tempdir()?;
    let authority = LocalAuthority::open(folder.path())?;
    let set = CertificateSet::default();
    set.add(Vec::new()).put(authority.issue(&[format!("*{SUFFIX}")])?);
    let backends = ProxyBackends { databases: Arc::new(OneServer(address)), certificates: Arc::new(set) };
    let proxy = PostgresProxy::new(ProxySettings::new(SUFFIX.parse()?), backends);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (port, scope) = (listener.local_addr()?.port(), Scope::new());
    let serving = proxy.serve(listener, scope.clone());
    scope.start("proxy", async {
        let _ = serving.await;
    });

    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let mut direct = PlainClient::start(tcp).await?;
    let tls = DatabaseTls::trusting(&authority.certificate)?;
    let mut proxied = PlainClient::start(tls.open(port, &format!("{}{SUFFIX}", SandboxId::random())).await?).await?;

    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..QUERIES {
        without.push(ms(direct.ask("SELECT 1").await?.1));
        with.push(ms(proxied.ask("SELECT 1").await?.1));
    }
    table.report("db_proxy_overhead_ms", percentile(&mut with, 50) - percentile(&mut without, 50));

    let copy = format!("COPY (SELECT repeat('x', {ROW_BYTES}) FROM generate_series(1, {ROWS})) TO STDOUT");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..COPIES {
        for (rates, answer) in [(&mut without, direct.ask(&copy).await?), (&mut with, proxied.ask(&copy).await?)] {
            let (bytes, time) = answer;
            ensure!(bytes > ROW_BYTES * ROWS, "{bytes} bytes of a copy");
            rates.push(bytes as f64 / time.as_secs_f64() / 1e6);
        }
    }
    table.report("db_direct_mb_s", percentile(&mut without, 50));
    table.report("db_proxy_mb_s", percentile(&mut with, 50));
    scope.close(Duration::from_secs(5)).await;
    Ok(())
}

/// A client that only counts what it is answered.
struct PlainClient<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PlainClient<S> {
    async fn start(mut stream: S) -> Result<Self> {
        let parameters = b"user\0postgres\0database\0postgres\0\0";
        let mut startup = u32::try_from(parameters.len() + 8)?.to_be_bytes().to_vec();
        startup.extend([0, 3, 0, 0]);
        startup.extend(parameters);
        stream.write_all(&startup).await?;
        let mut client = Self { stream, buffer: vec![0; 256 * 1024] };
        client.answer().await.context("log in")?;
        Ok(client)
    }

    /// Runs a query. Returns the bytes of its answer and the time until the last one.
    async fn ask(&mut self, sql: &str) -> Result<(usize, Duration)> {
        let started = Instant::now();
        let mut query = vec![b'Q'];
        query.extend(u32::try_from(sql.len() + 5)?.to_be_bytes());
        query.extend(sql.as_bytes());
        query.push(0);
        self.stream.write_all(&query).await?;
        let bytes = self.answer().await?;
        Ok((bytes, started.elapsed()))
    }

    async fn answer(&mut self) -> Result<usize> {
        let (mut bytes, mut end) = (0, Vec::<u8>::new());
        while end != READY {
            let read = self.stream.read(&mut self.buffer).await?;
            ensure!(read > 0, "the connection ended after {bytes} bytes");
            bytes += read;
            end.extend(&self.buffer[read.saturating_sub(READY.len())..read]);
            end.drain(..end.len().saturating_sub(READY.len()));
        }
        Ok(bytes)
    }
}
