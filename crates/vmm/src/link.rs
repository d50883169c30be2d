//! Connections to a guest agent, and how one outlives its machine.
//!
//! A guest that is sealed with an open connection believes in every copy that it is still
//! connected. The host's end of the connection is re-created for the copy from a [`LinkState`]: no
//! handshake, no accept, no greeting.

use std::{io, net::SocketAddrV4};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream to the guest agent.
pub trait Link: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

/// A stream whose state can be sealed with the guest. It must be idle then: everything sent has
/// arrived, everything received is read.
pub trait KeptLink: Link {
    /// Tells what a copy's host needs to go on with the stream, which itself goes on as before. The
    /// guest must be paused and stay so until it is sealed.
    fn state(&self) -> io::Result<LinkState>;
}

/// An idle TCP connection as the host's end sees it; part of a layer's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    pub local: SocketAddrV4,
    pub peer: SocketAddrV4,
    /// The next byte that the host sends.
    pub send_sequence: u32,
    /// The next byte that the host expects.
    pub receive_sequence: u32,
    pub segment_max: u32,
    pub selective_acks: bool,
    /// The host's timestamp clock, if segments carry timestamps.
    pub timestamp: Option<u32>,
    /// Shifts of the windows sent and received.
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
