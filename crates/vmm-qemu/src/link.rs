//! Streams to the guest agent over TCP inside the machine's namespace. All namespaces have the same
//! addresses, so a connection's host end can be made again in another namespace.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll},
};

use pandastack_sys::{
    interface::InterfaceSocket,
    netns::Netns,
    tcp_repair::{self, TakeDownError, TcpConnectionState, TcpWindowScale, TcpWindows},
};
use pandastack_vmm::{LinkState, LinkWindow, NetworkAttachment, SealableLink};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream},
    time::{Instant, sleep},
};

use crate::limits::{CARRIER_DEADLINE, CARRIER_POLL};

/// Connects to the guest agent.
pub async fn dial(netns: &Netns, network: &NetworkAttachment) -> io::Result<TcpStream> {
    let socket: OwnedFd = netns.tcp_socket()?;
    let socket = TcpSocket::from_std_stream(std::net::TcpStream::from(socket));
    socket.connect(agent(network)).await
}

/// Makes the host's end of a sealed connection. Does not contact the guest.
pub async fn take_up(netns: &Netns, network: &NetworkAttachment, state: &LinkState) -> io::Result<TcpStream> {
    let connection = connection_of(state);
    if !connection.leads_to(agent(network)) {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the link belongs to another guest"));
    }
    carrier(netns, &network.tap).await?;
    let socket = tcp_repair::set_up(netns, &connection)?;
    TcpStream::from_std(std::net::TcpStream::from(socket))
}

/// Waits until the kernel reports carrier on the tap. An earlier frame is lost, and a connection
/// that has never measured a round trip repeats it only after a second.
async fn carrier(netns: &Netns, tap: &str) -> io::Result<()> {
    let interfaces = netns.run(InterfaceSocket::open)??;
    let deadline = Instant::now() + CARRIER_DEADLINE;
    while !interfaces.runs(tap)? {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no machine is attached to the tap"));
        }
        sleep(CARRIER_POLL).await;
    }
    Ok(())
}

fn agent(network: &NetworkAttachment) -> SocketAddr {
    SocketAddr::from((network.guest_address, network.guest_port))
}

/// A TCP stream that can be sealed.
pub struct SealableStream(pub TcpStream);

impl SealableLink for SealableStream {
    fn state(&self) -> io::Result<LinkState> {
        match tcp_repair::take_down(self.0.as_fd()) {
            Ok(connection) => Ok(state_of(&connection)),
            Err(TakeDownError::Io(error)) => Err(error),
            Err(error @ (TakeDownError::Busy { .. } | TakeDownError::NotEstablished)) => Err(io::Error::other(error)),
        }
    }
}

impl AsyncRead for SealableStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for SealableStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn state_of(connection: &TcpConnectionState) -> LinkState {
    let TcpConnectionState {
        local,
        peer,
        send_sequence,
        receive_sequence,
        segment_max,
        selective_acks,
        timestamp,
        window_scale,
        window,
    } = *connection;
    let TcpWindows { send_updated, send, send_max, receive, receive_updated } = window;
    LinkState {
        local,
        peer,
        send_sequence,
        receive_sequence,
        segment_max,
        selective_acks,
        timestamp,
        window_scale: window_scale.map(|TcpWindowScale { send, receive }| (send, receive)),
        window: LinkWindow { send_updated, send, send_max, receive, receive_updated },
    }
}

fn connection_of(state: &LinkState) -> TcpConnectionState {
    let LinkState {
        local,
        peer,
        send_sequence,
        receive_sequence,
        segment_max,
        selective_acks,
        timestamp,
        window_scale,
        window,
    } = *state;
    let LinkWindow { send_updated, send, send_max, receive, receive_updated } = window;
    TcpConnectionState {
        local,
        peer,
        send_sequence,
        receive_sequence,
        segment_max,
        selective_acks,
        timestamp,
        window_scale: window_scale.map(|(send, receive)| TcpWindowScale { send, receive }),
        window: TcpWindows { send_updated, send, send_max, receive, receive_updated },
    }
}
