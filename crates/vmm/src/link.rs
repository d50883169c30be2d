//! Connections to a guest agent, and how a connection survives a seal. Each copy of a guest sealed
//! with an open connection assumes that it is still connected. The host makes its end for the copy
//! from a [`LinkState`]: no handshake, no accept, no greeting.

use std::{io, net::SocketAddrV4};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream to the guest agent.
pub trait Link: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

/// A stream whose state can be sealed with the guest. It must be idle then: everything sent has
/// arrived, and everything received is read.
pub trait SealableLink: Link {
    /// Returns the state that the host of a copy needs to continue the stream. The stream itself
    /// continues as before. The guest must be paused until it is sealed.
    fn state(&self) -> io::Result<LinkState>;
}

/// An idle TCP connection as the host's end sees it. Part of a layer's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    pub local: SocketAddrV4,
    pub peer: SocketAddrV4,
    /// Sequence number of the next byte that the host sends.
    pub send_sequence: u32,
    /// Sequence number of the next byte that the host expects.
    pub receive_sequence: u32,
    pub segment_max: u32,
    pub selective_acks: bool,
    /// The host's timestamp clock, if segments carry timestamps.
    pub timestamp: Option<u32>,
    /// Window scaling: bits sent and received.
    pub window_scale: Option<(u8, u8)>,
    pub window: LinkWindow,
}

/// The windows of both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkWindow {
    pub send_updated: u32,
    pub send: u32,
    pub send_max: u32,
    pub receive: u32,
    pub receive_updated: u32,
}
