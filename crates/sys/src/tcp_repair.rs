//! Reads the kernel's state of an idle TCP connection, and makes a socket from it in another
//! namespace with the same addresses, for a copy of the peer. Sends no packet. Only idle
//! connections qualify: sequence numbers are then the whole state. Needs network administration
//! rights and a kernel with checkpoint support.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{SocketAddr, SocketAddrV4},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use nix::sys::socket::{SockaddrIn, bind, connect, getpeername, getsockname, setsockopt, sockopt};

use crate::netns::Netns;

/// The state of an idle connection, as this end sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConnectionState {
    pub local: SocketAddrV4,
    pub peer: SocketAddrV4,
    /// Sequence number of the next byte that this end sends.
    pub send_sequence: u32,
    /// Sequence number of the next byte that this end expects.
    pub receive_sequence: u32,
    /// The largest segment that the peer accepts.
    pub segment_max: u32,
    pub selective_acks: bool,
    /// This end's timestamp clock, if segments carry timestamps. The peer drops segments with an
    /// older timestamp.
    pub timestamp: Option<u32>,
    /// Window scaling in both directions, if it is used.
    pub window_scale: Option<TcpWindowScale>,
    pub window: TcpWindows,
}

/// Number of bits by which window sizes are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpWindowScale {
    pub send: u8,
    pub receive: u8,
}

/// Windows of both directions; the kernel's `tcp_repair_window`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TcpWindows {
    /// Sequence number of the segment that last changed the send window.
    pub send_updated: u32,
    pub send: u32,
    pub send_max: u32,
    pub receive: u32,
    /// The next expected sequence number when the receive window was last announced.
    pub receive_updated: u32,
}

/// A connection whose state could not be read. It continues as before.
#[derive(Debug, thiserror::Error)]
pub enum TakeDownError {
    #[error("the connection is not established, or not over IPv4")]
    NotEstablished,
    #[error("{unsent} bytes are not acknowledged and {unread} not read")]
    Busy { unsent: u32, unread: u32 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

// From linux/tcp.h.
const REPAIR_ON: libc::c_int = 1;
/// Ends the repair without a window probe, which would be a packet.
const REPAIR_OFF_SILENTLY: libc::c_int = -1;
const QUEUE_NONE: libc::c_int = 0;
const QUEUE_RECEIVE: libc::c_int = 1;
const QUEUE_SEND: libc::c_int = 2;
const STATE_ESTABLISHED: u8 = 1;
const OPTION_TIMESTAMPS: u8 = 1;
const OPTION_SELECTIVE_ACKS: u8 = 2;
const OPTION_WINDOW_SCALE: u8 = 4;

// Numbers of TCP options on the wire.
const CODE_SEGMENT_MAX: u32 = 2;
const CODE_WINDOW_SCALE: u32 = 3;
const CODE_SELECTIVE_ACKS: u32 = 4;
const CODE_TIMESTAMPS: u32 = 8;

/// The kernel's `tcp_repair_opt`.
#[derive(Clone, Copy)]
#[repr(C)]
struct TcpRepairOption {
    code: u32,
    value: u32,
}

/// The first bytes of the kernel's `tcp_info`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct TcpInfoHead {
    state: u8,
    congestion_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    window_scale: u8,
    more: u8,
}

/// Reads the state of a connection. The connection continues as before.
pub fn take_down(socket: BorrowedFd<'_>) -> Result<TcpConnectionState, TakeDownError> {
    let TcpInfoHead { state, options, window_scale, .. } = get(socket, libc::TCP_INFO)?;
    if state != STATE_ESTABLISHED {
        return Err(TakeDownError::NotEstablished);
    }
    let local: SockaddrIn = getsockname(socket.as_raw_fd()).map_err(|_| TakeDownError::NotEstablished)?;
    let peer: SockaddrIn = getpeername(socket.as_raw_fd()).map_err(|_| TakeDownError::NotEstablished)?;
    let repair = RepairMode::start(socket)?;
    let (unsent, unread) = (queued(socket, libc::TIOCOUTQ)?, queued(socket, libc::FIONREAD)?);
    if (unsent, unread) != (0, 0) {
        return Err(TakeDownError::Busy { unsent, unread });
    }
    let has = |option| options & option != 0;
    let connection = TcpConnectionState {
        local: local.into(),
        peer: peer.into(),
        receive_sequence: repair.sequence(QUEUE_RECEIVE)?,
        send_sequence: repair.sequence(QUEUE_SEND)?,
        segment_max: get(socket, libc::TCP_MAXSEG)?,
        selective_acks: has(OPTION_SELECTIVE_ACKS),
        timestamp: if has(OPTION_TIMESTAMPS) { Some(get(socket, libc::TCP_TIMESTAMP)?) } else { None },
        // Two bit fields of four bits; the first declared is the lower one.
        window_scale: has(OPTION_WINDOW_SCALE)
            .then_some(TcpWindowScale { send: window_scale & 0xf, receive: window_scale >> 4 }),
        window: get(socket, libc::TCP_REPAIR_WINDOW)?,
    };
    set(socket, libc::TCP_REPAIR_QUEUE, &QUEUE_NONE)?;
    repair.end()?;
    Ok(connection)
}

/// Makes a socket inside a namespace that is connected with this state: nonblocking, without
/// Nagle's delay.
pub fn set_up(netns: &Netns, connection: &TcpConnectionState) -> io::Result<OwnedFd> {
    let TcpConnectionState { local, peer, send_sequence, receive_sequence, segment_max, .. } = connection;
    let socket = netns.tcp_socket()?;
    let fd = socket.as_fd();
    let repair = RepairMode::start(fd)?;
    repair.set_sequence(QUEUE_SEND, *send_sequence)?;
    repair.set_sequence(QUEUE_RECEIVE, *receive_sequence)?;
    set(fd, libc::TCP_REPAIR_QUEUE, &QUEUE_NONE)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(*local))?;
    // In repair mode this only sets the kernel's state and sends nothing.
    connect(fd.as_raw_fd(), &SockaddrIn::from(*peer))?;
    let mut options = vec![TcpRepairOption { code: CODE_SEGMENT_MAX, value: *segment_max }];
    if connection.selective_acks {
        options.push(TcpRepairOption { code: CODE_SELECTIVE_ACKS, value: 0 });
    }
    if let Some(TcpWindowScale { send, receive }) = connection.window_scale {
        options.push(TcpRepairOption { code: CODE_WINDOW_SCALE, value: u32::from(send) | u32::from(receive) << 16 });
    }
    if connection.timestamp.is_some() {
        options.push(TcpRepairOption { code: CODE_TIMESTAMPS, value: 0 });
    }
    set_bytes(fd, libc::TCP_REPAIR_OPTIONS, options.as_ptr().cast(), mem::size_of_val(&options[..]))?;
    if let Some(timestamp) = connection.timestamp {
        set(fd, libc::TCP_TIMESTAMP, &timestamp)?;
    }
    set(fd, libc::TCP_REPAIR_WINDOW, &connection.window)?;
    repair.end()?;
    Ok(socket)
}

/// A socket in repair mode. On drop after an error, the socket leaves repair mode.
struct RepairMode<'a> {
    socket: BorrowedFd<'a>,
    over: bool,
}

impl<'a> RepairMode<'a> {
    fn start(socket: BorrowedFd<'a>) -> io::Result<Self> {
        set(socket, libc::TCP_REPAIR, &REPAIR_ON)?;
        Ok(Self { socket, over: false })
    }

    fn sequence(&self, queue: libc::c_int) -> io::Result<u32> {
        set(self.socket, libc::TCP_REPAIR_QUEUE, &queue)?;
        get(self.socket, libc::TCP_QUEUE_SEQ)
    }

    fn set_sequence(&self, queue: libc::c_int, sequence: u32) -> io::Result<()> {
        set(self.socket, libc::TCP_REPAIR_QUEUE, &queue)?;
        set(self.socket, libc::TCP_QUEUE_SEQ, &sequence)
    }

    fn end(mut self) -> io::Result<()> {
        self.over = true;
        set(self.socket, libc::TCP_REPAIR, &REPAIR_OFF_SILENTLY)
    }
}

impl Drop for RepairMode<'_> {
    fn drop(&mut self) {
        if !self.over {
            let _ = set(self.socket, libc::TCP_REPAIR, &REPAIR_OFF_SILENTLY);
        }
    }
}

/// Values that the kernel may read or write byte by byte: plain numbers without padding.
trait KernelBytes: Copy + Default {}
impl KernelBytes for u32 {}
impl KernelBytes for libc::c_int {}
impl KernelBytes for TcpInfoHead {}
impl KernelBytes for TcpWindows {}

fn get<T: KernelBytes>(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`, which is exclusively ours, as
    // long, and valid with any bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, (&raw mut value).cast(), &raw mut length)
    };
    match result {
        0 if length as usize == mem::size_of::<T>() => Ok(value),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set<T: KernelBytes>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    set_bytes(socket, option, (&raw const *value).cast(), mem::size_of::<T>())
}

fn set_bytes(socket: BorrowedFd<'_>, option: libc::c_int, value: *const libc::c_void, length: usize) -> io::Result<()> {
    // SAFETY: both callers give the address and the length of a value that lives through the call;
    // the kernel only reads it.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, value, length as libc::socklen_t) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn queued(socket: BorrowedFd<'_>, request: libc::c_ulong) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one `int`, which `bytes` is.
    if unsafe { libc::ioctl(socket.as_raw_fd(), request as libc::Ioctl, &raw mut bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.max(0) as u32)
}

impl TcpConnectionState {
    /// Whether the peer has this address.
    pub fn leads_to(&self, peer: SocketAddr) -> bool {
        SocketAddr::V4(self.peer) == peer
    }
}

#[cfg(test)]
mod tests;
