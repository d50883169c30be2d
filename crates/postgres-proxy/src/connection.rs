//! One client connection: encryption, the choice of the database, the startup message. Then the
//! tunnel takes over. Every refusal reaches the client as an error that it prints.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{
    LazyConfigAcceptor,
    rustls::{ServerConfig, server::Acceptor},
    server::TlsStream,
};
use tokio_util::sync::CancellationToken;

use crate::{
    cancel::{CancelKey, CancelKeys},
    databases::{BackendStart, Databases, OpenPurpose, OpenRefusal, OpenRequest, OpenedBackend},
    figures::ProxyFigures,
    limits::{
        CANCEL_MAX, CLIENT_LINGER_MAX, EARLY_BYTES_MAX, ENCRYPTION_ROUNDS_MAX, KEEPALIVE_IDLE_SECONDS,
        KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_PROBES, LINGER_BYTES_MAX, LOGIN_RETRY,
    },
    name::{DatabaseName, HostSuffix},
    refusal::{ClientRefusal, HandshakeEnd},
    seats::{ConnectionSeat, LoginSeat, TunnelSeat},
    startup::{FirstPacket, StartupMessage},
    tls::ALPN,
    tunnel::{OpenTunnel, TunnelContext, carry},
};

/// First byte of a TLS connection: the type of a handshake record.
const HANDSHAKE_RECORD: u8 = 22;

/// What all connections share.
pub struct ProxyContext {
    pub databases: Arc<dyn Databases>,
    pub tls: Arc<ServerConfig>,
    pub suffix: HostSuffix,
    pub handshake_max: Duration,
    pub login_wait_max: Duration,
    pub login_max: Duration,
    pub open_max: Duration,
    pub keys: CancelKeys,
    pub figures: Arc<ProxyFigures>,
    pub stop: CancellationToken,
}

/// An accepted connection.
pub struct Connection {
    pub tcp: TcpStream,
    pub peer: SocketAddr,
    pub seat: ConnectionSeat,
    pub context: Arc<ProxyContext>,
}

/// How a connection continues after its first packets.
enum Negotiated {
    Tls(TlsEntry),
    Cancel(CancelKey),
}

/// How a client came to TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TlsEntry {
    Requested,
    Direct,
}

/// A client over TLS that sent its first packet.
struct Greeted {
    stream: TlsStream<TcpStream>,
    /// From the TLS server name.
    named: Option<DatabaseName>,
    packet: Result<FirstPacket, ClientRefusal>,
}

/// A client whose database is open.
struct Admitted {
    tunnel: OpenTunnel,
    _seat: TunnelSeat,
}

/// An open database with its seats.
struct SeatedBackend {
    login: LoginSeat,
    seat: TunnelSeat,
    backend: OpenedBackend,
}

impl Connection {
    /// Serves the connection to its end.
    pub async fn serve(self) {
        let (figures, stop) = (self.context.figures.clone(), self.context.stop.clone());
        figures.accepted();
        set_options(&self.tcp);
        let peer = self.peer;
        if let Err(error) = self.run(stop).await {
            figures.failed(&error);
            tracing::debug!(%peer, reason = %error, "a database connection was not made");
        }
    }

    async fn run(mut self, stop: CancellationToken) -> Result<(), HandshakeEnd> {
        let context = self.context.clone();
        let first = async {
            match negotiate(&mut self.tcp).await {
                Ok(Negotiated::Tls(entry)) => Ok(FirstPart::Greeted(Box::new(greet(self.tcp, entry, &context).await?))),
                Ok(Negotiated::Cancel(key)) => Ok(FirstPart::Cancel(self.tcp, key)),
                Err(HandshakeEnd::Refused(refusal)) => {
                    refuse(&mut self.tcp, &refusal).await;
                    Err(refusal.into())
                }
                Err(lost) => Err(lost),
            }
        };
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            first = timeout(context.handshake_max, first) => first.map_err(io::Error::from)??,
        };
        let client = ClientOrigin { peer: self.peer, seat: &self.seat, context: &context };
        match first {
            FirstPart::Greeted(greeted) => client.enter(*greeted).await,
            FirstPart::Cancel(tcp, key) => client.cancel(tcp, &key, None).await,
        }
    }
}

/// What came before the handshake's deadline.
enum FirstPart {
    /// In a box: the state of TLS is large.
    Greeted(Box<Greeted>),
    Cancel(TcpStream, CancelKey),
}

/// Who a connection comes from.
struct ClientOrigin<'a> {
    peer: SocketAddr,
    seat: &'a ConnectionSeat,
    context: &'a ProxyContext,
}

impl ClientOrigin<'_> {
    /// Does what the first packet under TLS asks for.
    async fn enter(&self, greeted: Greeted) -> Result<(), HandshakeEnd> {
        let Greeted { mut stream, named, packet } = greeted;
        let admitted = match packet {
            Ok(FirstPacket::Startup(startup)) => self.admit(&mut stream, named, startup).await,
            Ok(FirstPacket::Cancel(key)) => return self.cancel(stream, &key, named).await,
            Ok(FirstPacket::TlsRequest | FirstPacket::GssRequest) => {
                Err(ClientRefusal::Malformed("the connection is already encrypted").into())
            }
            Err(refusal) => Err(refusal.into()),
        };
        match admitted {
            Ok(Admitted { tunnel, _seat }) => {
                if let Err(error) = carry(stream, tunnel).await {
                    tracing::debug!(%error, "a database connection ended early");
                }
                Ok(())
            }
            Err(HandshakeEnd::Refused(refusal)) => {
                refuse(&mut stream, &refusal).await;
                Err(refusal.into())
            }
            Err(lost) => Err(lost),
        }
    }

    /// Opens the database and sends it the startup message.
    async fn admit(
        &self,
        client: &mut (impl AsyncRead + Unpin),
        named: Option<DatabaseName>,
        mut startup: StartupMessage,
    ) -> Result<Admitted, HandshakeEnd> {
        let wish = startup.take_wish()?;
        let database = match (named, wish.database) {
            (Some(named), Some(wished)) if named != wished => return Err(ClientRefusal::TwoDatabases.into()),
            (None, None) => return Err(ClientRefusal::NoDatabase { suffix: self.context.suffix.clone() }.into()),
            (Some(database), _) | (None, Some(database)) => database,
        };
        let ask = OpenRequest { database, port: wish.port, peer: self.peer, purpose: OpenPurpose::Tunnel };
        let held = self.context.figures.hold();
        let opening = self.open_seated(ask, startup.packet());
        let mut early = vec![0; EARLY_BYTES_MAX];
        let mut early_bytes = 0;
        // Polled by reference: the opening goes on if the client says something meanwhile.
        let mut opening = std::pin::pin!(opening);
        let opened = tokio::select! {
            () = self.context.stop.cancelled() => return Err(ClientRefusal::Stopping.into()),
            opened = opening.as_mut() => opened,
            read = client.read(&mut early) => match read? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                read => {
                    early_bytes = read;
                    opening.await
                }
            }
        };
        drop(held);
        let SeatedBackend { login, seat, backend } = opened?;
        if backend.start == BackendStart::Woken {
            self.context.figures.woke();
        }
        early.truncate(early_bytes);
        let (keys, stop) = (self.context.keys.clone(), self.context.stop.clone());
        let (figures, login_max) = (self.context.figures.clone(), self.context.login_max);
        let context = TunnelContext { database, port: wish.port, login_max, keys, figures, stop };
        Ok(Admitted { tunnel: OpenTunnel { backend, early, login, context }, _seat: seat })
    }

    /// Takes the seats of a tunnel and opens its stream. A client that waits for its turn to log in
    /// has no tunnel's seat meanwhile, and does not wake the database.
    async fn open_seated(&self, ask: OpenRequest, packet: Vec<u8>) -> Result<SeatedBackend, HandshakeEnd> {
        let login = self.login_seat(ask.database).await?;
        let seat = self.seat.tunnel(ask.database)?;
        let opened = timeout(self.context.open_max, self.open_with(ask, packet)).await;
        let backend = opened.map_err(|_| ClientRefusal::Slow(ask.database))??;
        Ok(SeatedBackend { login, seat, backend })
    }

    /// Waits for a turn to log in: large pools open all their connections at once.
    async fn login_seat(&self, database: DatabaseName) -> Result<LoginSeat, ClientRefusal> {
        let waiting = async {
            loop {
                match self.seat.login(database) {
                    Some(seat) => return seat,
                    None => sleep(LOGIN_RETRY).await,
                }
            }
        };
        timeout(self.context.login_wait_max, waiting).await.map_err(|_| ClientRefusal::LoginsBusy)
    }

    /// Opens a stream and sends the first packet.
    async fn open_with(&self, ask: OpenRequest, packet: Vec<u8>) -> Result<OpenedBackend, HandshakeEnd> {
        let mut backend = self.context.databases.open(ask).await.map_err(|refusal| {
            if matches!(refusal, OpenRefusal::Unknown | OpenRefusal::Unavailable) {
                self.context.figures.not_found();
            }
            ClientRefusal::Open { database: ask.database, refusal }
        })?;
        let sent = async {
            backend.stream.write_all(&packet).await?;
            backend.stream.flush().await
        };
        match sent.await {
            Ok(()) => Ok(backend),
            Err(error) => {
                tracing::debug!(%error, database = %ask.database, "the database closed before the first packet");
                Err(ClientRefusal::Open { database: ask.database, refusal: OpenRefusal::Unavailable }.into())
            }
        }
    }

    /// Passes a cancel request on. The client gets no answer, as from PostgreSQL: it only sees the
    /// end of the connection, once the request has been seen.
    async fn cancel(
        &self,
        mut client: impl AsyncWrite + Unpin,
        key: &CancelKey,
        named: Option<DatabaseName>,
    ) -> Result<(), HandshakeEnd> {
        let target = self.context.keys.find(key);
        if let Some(target) = target.filter(|target| named.is_none_or(|named| named == target.database)) {
            let (database, port) = (target.database, target.port);
            let ask = OpenRequest { database, port, peer: self.peer, purpose: OpenPurpose::Cancel };
            let passing = async {
                let mut backend = self.open_with(ask, target.key.packet()).await?;
                // It sends nothing, and closes.
                let _ = backend.stream.read(&mut [0]).await;
                Ok::<_, HandshakeEnd>(())
            };
            tokio::select! {
                () = self.context.stop.cancelled() => {}
                passed = timeout(CANCEL_MAX, passing) => passed.map_err(io::Error::from)??,
            }
        }
        let _ = timeout(CLIENT_LINGER_MAX, client.shutdown()).await;
        Ok(())
    }
}

/// Answers encryption requests until the client begins TLS, or cancels.
async fn negotiate(tcp: &mut TcpStream) -> Result<Negotiated, HandshakeEnd> {
    for _ in 0..ENCRYPTION_ROUNDS_MAX {
        let mut first = [0];
        if tcp.peek(&mut first).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if first[0] == HANDSHAKE_RECORD {
            return Ok(Negotiated::Tls(TlsEntry::Direct));
        }
        match FirstPacket::read(tcp).await? {
            FirstPacket::TlsRequest => {
                tcp.write_all(b"S").await?;
                return Ok(Negotiated::Tls(TlsEntry::Requested));
            }
            FirstPacket::GssRequest => tcp.write_all(b"N").await?,
            FirstPacket::Cancel(key) => return Ok(Negotiated::Cancel(key)),
            FirstPacket::Startup(_) => return Err(ClientRefusal::Plain.into()),
        }
    }
    Err(ClientRefusal::Rounds.into())
}

/// Makes the TLS handshake and reads the first packet. What is wrong with it is told later: only
/// a client that has sent its startup message reads the answer.
async fn greet(tcp: TcpStream, entry: TlsEntry, context: &ProxyContext) -> Result<Greeted, HandshakeEnd> {
    let hello = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
    let named = hello.client_hello().server_name().and_then(|host| context.suffix.database(host).ok());
    let is_postgres = hello.client_hello().alpn().is_some_and(|mut offered| offered.any(|name| name == ALPN));
    let mut stream = hello.into_stream(context.tls.clone()).await?;
    // A client of another protocol must not be led to send it here.
    let packet = match entry == TlsEntry::Direct && !is_postgres {
        true => Err(ClientRefusal::NoAlpn),
        false => match FirstPacket::read(&mut stream).await {
            Ok(packet) => Ok(packet),
            Err(HandshakeEnd::Refused(refusal)) => Err(refusal),
            Err(lost) => return Err(lost),
        },
    };
    Ok(Greeted { stream, named, packet })
}

/// Sends the refusal and waits until the client closes: bytes that nobody reads would reset the
/// connection before the client has read the refusal.
async fn refuse(client: &mut (impl AsyncRead + AsyncWrite + Unpin), refusal: &ClientRefusal) {
    let farewell = async {
        client.write_all(&refusal.packet()).await?;
        client.shutdown().await?;
        let (mut left, mut buffer) = (LINGER_BYTES_MAX, [0; 1024]);
        while left > 0 {
            match client.read(&mut buffer).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        io::Result::Ok(())
    };
    let _ = timeout(CLIENT_LINGER_MAX, farewell).await;
}

/// Small answers must not wait for a full packet, and peers that vanished must be noticed.
fn set_options(tcp: &TcpStream) {
    let set = || {
        tcp.set_nodelay(true)?;
        setsockopt(tcp, sockopt::KeepAlive, &true)?;
        setsockopt(tcp, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_SECONDS)?;
        setsockopt(tcp, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL_SECONDS)?;
        setsockopt(tcp, sockopt::TcpKeepCount, &KEEPALIVE_PROBES)?;
        io::Result::Ok(())
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "could not set the options of a connection");
    }
}
