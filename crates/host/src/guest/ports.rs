//! The guest's own ports: which ones are listened on, and connections to them. A connection is made
//! inside the machine's namespace, like the link. The guest's agent takes no part in it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use pandastack_model::{AGENT_PORT, Fault, FaultKind, GuestPort};
use pandastack_sys::netns::Netns;
use pandastack_wire_fleet::{GuestStream, ListeningPort, UseKind};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream},
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{
    activity::UseGuard,
    limits::{CONNECT_MAX, PROCESS_BYTES_MAX},
    session::GuestSession,
};
use crate::net::GUEST;

const _: () = assert!(AGENT_PORT == pandastack_wire_guest::AGENT_PORT, "the refused port must be the agent's");

/// Asks the guest for its listening ports. The answer is not trusted and is checked.
pub async fn listening(session: &GuestSession) -> Result<Vec<ListeningPort>, Fault> {
    let told = session.ports(UseKind::Client).await?.ports;
    let known = |told: pandastack_wire_guest::PortReport| {
        let port = GuestPort::try_from(i64::from(told.port)).ok()?;
        let process = told.process.map(|name| {
            name.chars().filter(|c| !c.is_control()).take(PROCESS_BYTES_MAX / char::MAX.len_utf8()).collect()
        });
        Some(ListeningPort { port, loopback_only: told.loopback_only, process })
    };
    Ok(told.into_iter().filter_map(known).collect())
}

/// Connects to a port. The use lasts as long as the connection.
pub async fn connect(
    session: &GuestSession,
    using: UseGuard,
    netns: &Netns,
    port: GuestPort,
) -> Result<GuestStream, Fault> {
    let room = session.stream_room()?;
    let ended = session.ended();
    let dialled = tokio::select! {
        dialled = timeout(CONNECT_MAX, dial(netns, port)) => dialled,
        () = ended.cancelled() => return Err(super::session::LinkError::Retired.into()),
    };
    match dialled {
        Ok(Ok(stream)) => {
            let over = Box::pin(ended.cancelled_owned());
            Ok(Box::new(PortStream { stream, over, _using: using, _room: room }))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(refused(session, port, using.by()).await)
        }
        Ok(Err(error)) => {
            let text = format!("upstream: port {port} of the sandbox cannot be reached");
            Err(Fault::new(FaultKind::Conflict, "port.bad_answer", text).with_detail(error))
        }
        Err(_) => {
            let text = format!("timeout: port {port} did not accept a connection within {} s", CONNECT_MAX.as_secs());
            Err(Fault::new(FaultKind::Timeout, "port.silent", text))
        }
    }
}

async fn dial(netns: &Netns, port: GuestPort) -> io::Result<TcpStream> {
    let socket = TcpSocket::from_std_stream(std::net::TcpStream::from(netns.tcp_socket()?));
    socket.connect(SocketAddr::from((GUEST, port.get()))).await
}

/// Returns the reason for a refused connection: often a program listens on 127.0.0.1 only.
async fn refused(session: &GuestSession, port: GuestPort, by: UseKind) -> Fault {
    let ports = session.ports(by).await.map(|list| list.ports).unwrap_or_default();
    let inward = ports.iter().any(|listening| listening.port == port.get() && listening.loopback_only);
    let text = if inward {
        format!(
            "upstream: connection refused: port {port} listens on 127.0.0.1 only; make the program listen on 0.0.0.0"
        )
    } else {
        format!("upstream: connection refused: nothing listens on port {port} in the sandbox")
    };
    Fault::new(FaultKind::Conflict, "port.not_listening", text)
}

/// A connection to a port. It fails when the machine is given up, because a stopped machine closes
/// no connections.
struct PortStream {
    stream: TcpStream,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _using: UseGuard,
    _room: OwnedSemaphorePermit,
}

impl PortStream {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.over.as_mut().poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionReset, "the sandbox's machine has ended")),
        }
    }
}

impl AsyncRead for PortStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
