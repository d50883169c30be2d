//! Carries bytes between a client and its database. One buffer per direction: a slow reader stops
//! the reading on the other side, and nothing grows. After the login there is no timer while both
//! sides are open.
//!
//! The database's side is plain, so it never offers SCRAM with channel binding, which would fail:
//! the client sees the proxy's certificate.

use std::{
    io::{self, ErrorKind},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cancel::{CancelKeys, KeyLease},
    databases::{BackendPort, OpenedBackend},
    figures::ProxyFigures,
    frames::{StartupPart, StartupScan, StartupStep},
    limits::{CLIENT_LINGER_MAX, FULL_BUFFER_BYTES, QUIET_BUFFER_BYTES, TUNNEL_STOP_MAX},
    name::DatabaseName,
    refusal::ClientRefusal,
    seats::LoginSeat,
    session::QueryTracker,
};

/// What a tunnel needs besides its two ends.
pub struct TunnelContext {
    pub database: DatabaseName,
    pub port: BackendPort,
    pub login_max: Duration,
    pub keys: CancelKeys,
    pub figures: Arc<ProxyFigures>,
    pub stop: CancellationToken,
}

/// A tunnel whose database has the startup message.
pub struct OpenTunnel {
    pub backend: OpenedBackend,
    /// What the client sent after its startup message.
    pub early: Vec<u8>,
    pub login: LoginSeat,
    pub context: TunnelContext,
}

/// A login in progress. Its seat is free as soon as the database has let the client in.
struct PendingLogin {
    _seat: LoginSeat,
    deadline: Instant,
    over: CancellationToken,
}

impl PendingLogin {
    fn succeeded(self) {
        self.over.cancel();
    }
}

/// Carries bytes until one side ends, the login takes too long, or the proxy stops.
pub async fn carry<C>(client: C, tunnel: OpenTunnel) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Send + Unpin,
{
    let OpenTunnel { backend, early, login, context } = tunnel;
    let (logged_in, deadline) = (CancellationToken::new(), Instant::now() + context.login_max);
    let login = PendingLogin { _seat: login, deadline, over: logged_in.clone() };
    let session = Mutex::new(QueryTracker::new(backend.activity));
    let (client_reader, client_writer) = split(client);
    let (backend_reader, backend_writer) = split(backend.stream);
    let client_ended = CancellationToken::new();
    let forth = async {
        client_to_backend(client_reader, backend_writer, &early, (&session, &context.figures)).await?;
        client_ended.cancel();
        // The database answers what it got, and then ends the tunnel.
        std::future::pending().await
    };
    let back = async {
        backend_to_client((backend_reader, client_writer), login, &session, &context).await?;
        tokio::select! {
            () = client_ended.cancelled() => {}
            () = sleep(CLIENT_LINGER_MAX) => {}
        }
        Ok(())
    };
    let stopped = async {
        context.stop.cancelled().await;
        sleep(TUNNEL_STOP_MAX).await;
    };
    // A client that does not read cannot be told.
    let late = async {
        tokio::select! {
            () = logged_in.cancelled() => std::future::pending().await,
            () = sleep_until(deadline + CLIENT_LINGER_MAX) => {}
        }
    };
    let ended = tokio::select! {
        ended = forth => ended,
        ended = back => ended,
        () = stopped => Ok(()),
        () = late => Ok(()),
    };
    if !logged_in.is_cancelled() && Instant::now() >= deadline {
        context.figures.failed(&ClientRefusal::LoginSlow(context.login_max).into());
    }
    ended
}

async fn client_to_backend(
    mut client: impl AsyncRead + Unpin,
    mut backend: impl AsyncWrite + Unpin,
    early: &[u8],
    (session, figures): (&Mutex<QueryTracker>, &ProxyFigures),
) -> io::Result<()> {
    if !early.is_empty() {
        figures.came_from_client(early.len());
        session.lock().unwrap_or_else(PoisonError::into_inner).client_sends(early);
        backend.write_all(early).await?;
        backend.flush().await?;
    }
    let mut buffer = CarryBuffer::default();
    loop {
        let read = match client.read(buffer.free()).await {
            Ok(0) => break,
            Ok(read) => read,
            // Many clients close without the end of TLS.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        };
        let bytes = buffer.filled(read);
        figures.came_from_client(read);
        session.lock().unwrap_or_else(PoisonError::into_inner).client_sends(bytes);
        backend.write_all(bytes).await?;
        backend.flush().await?;
        buffer.passed(read);
    }
    backend.shutdown().await
}

async fn backend_to_client(
    (mut backend, mut client): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    login: PendingLogin,
    session: &Mutex<QueryTracker>,
    context: &TunnelContext,
) -> io::Result<()> {
    let mut buffer = CarryBuffer::default();
    let mut startup = Some(StartupScan::default());
    let mut login = Some(login);
    // Valid until the tunnel ends.
    let mut lease: Option<KeyLease> = None;
    loop {
        let read = tokio::select! {
            read = backend.read(buffer.free()) => read?,
            refusal = must_end(login.as_ref(), context) => {
                let is_between = match &startup {
                    Some(startup) => startup.is_between_messages(),
                    None => session.lock().unwrap_or_else(PoisonError::into_inner).is_backend_between_messages(),
                };
                if is_between && buffer.held == 0 {
                    client.write_all(&refusal.packet()).await?;
                }
                break;
            }
        };
        let bytes = buffer.filled(read);
        let step = match &mut startup {
            _ if read == 0 => StartupStep::Pass(bytes.len()),
            Some(startup) => startup.step(bytes, |part| match part {
                StartupPart::LoggedIn => login.take().into_iter().for_each(PendingLogin::succeeded),
                StartupPart::Key(body) => lease = context.keys.issue(context.database, context.port, body),
            }),
            None => StartupStep::Over(0),
        };
        let pass = match step {
            StartupStep::Pass(upto) => upto,
            StartupStep::Over(from) => {
                startup = None;
                login.take().into_iter().for_each(PendingLogin::succeeded);
                session.lock().unwrap_or_else(PoisonError::into_inner).backend_sends(&bytes[from..]);
                bytes.len()
            }
        };
        client.write_all(&bytes[..pass]).await?;
        client.flush().await?;
        context.figures.went_to_client(pass);
        if read == 0 {
            break;
        }
        buffer.passed(pass);
    }
    client.shutdown().await
}

/// Waits until the client must be told that its tunnel ends, and why.
async fn must_end(login: Option<&PendingLogin>, context: &TunnelContext) -> ClientRefusal {
    let late = async {
        match login {
            Some(login) => sleep_until(login.deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = context.stop.cancelled() => ClientRefusal::Stopping,
        () = late => ClientRefusal::LoginSlow(context.login_max),
    }
}

/// A buffer that is small while little passes: most connections are idle most of the time.
#[derive(Default)]
struct CarryBuffer {
    bytes: Vec<u8>,
    /// Bytes at the beginning that were read and could not pass yet.
    held: usize,
    last: usize,
}

impl CarryBuffer {
    /// The place for the next read.
    fn free(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; QUIET_BUFFER_BYTES];
        } else if self.last == self.bytes.len() && self.bytes.len() < FULL_BUFFER_BYTES {
            self.bytes.resize(FULL_BUFFER_BYTES, 0);
        } else if self.last < QUIET_BUFFER_BYTES / 4 && self.bytes.len() > QUIET_BUFFER_BYTES {
            self.bytes.truncate(QUIET_BUFFER_BYTES);
            self.bytes.shrink_to_fit();
        }
        &mut self.bytes[self.held..]
    }

    /// All bytes that may pass after a read.
    fn filled(&mut self, read: usize) -> &mut [u8] {
        self.last = self.held + read;
        &mut self.bytes[..self.last]
    }

    /// Forgets the first bytes and keeps the others.
    fn passed(&mut self, upto: usize) {
        self.bytes.copy_within(upto..self.last, 0);
        self.held = self.last - upto;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_under_load_and_shrinks_when_it_is_over() {
        let mut buffer = CarryBuffer::default();
        assert_eq!(buffer.free().len(), QUIET_BUFFER_BYTES);
        let size = buffer.filled(QUIET_BUFFER_BYTES).len();
        buffer.passed(size);
        assert_eq!(buffer.free().len(), FULL_BUFFER_BYTES);
        buffer.filled(100);
        buffer.passed(90);
        assert_eq!(buffer.free().len(), QUIET_BUFFER_BYTES - 10);
        assert_eq!(buffer.filled(5).len(), 15);
    }
}
