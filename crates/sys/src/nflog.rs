//! Reads packets that firewall rules log: the kernel's netfilter log of one network namespace, over
//! netlink. Costs nothing while no rule logs. Never decides about a packet: the rule has done that.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, recvfrom, send, socket,
};

/// Several times the size of one logged packet with its attributes.
const BUFFER_BYTES: usize = 8 * 1024;

// From linux/netlink.h and linux/netfilter/nfnetlink_log.h. These numbers are stable.
const MESSAGE_HEADER_BYTES: usize = 16;
const FAMILY_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ERROR: u16 = 2;
const LOGGED_PACKET: u16 = 4 << 8;
const CONFIGURE: u16 = 4 << 8 | 1;
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
const ATTRIBUTE_COMMAND: u16 = 1;
const ATTRIBUTE_MODE: u16 = 2;
const ATTRIBUTE_THRESHOLD: u16 = 5;
const ATTRIBUTE_PAYLOAD: u16 = 9;
const COMMAND_BIND: u8 = 1;
const MODE_COPY_PACKET: u8 = 2;

/// A subscription to one log group of a namespace. One reader per group and namespace.
#[derive(Debug)]
pub struct PacketLog {
    socket: OwnedFd,
}

impl PacketLog {
    /// Subscribes in the namespace of the calling thread, nonblocking. Keeps at most
    /// `packet_bytes_max` bytes of each packet.
    pub fn open(group: u16, packet_bytes_max: u32) -> io::Result<PacketLog> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        send(socket.as_raw_fd(), &subscription(group, packet_bytes_max), MsgFlags::empty())?;
        // The kernel has answered when `send` returns.
        let mut buffer = [0; BUFFER_BYTES];
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        acknowledged(&buffer[..length])?;
        Ok(PacketLog { socket })
    }

    /// Returns the waiting packets, each from its network header on. `WouldBlock` if there are
    /// none.
    pub fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut buffer = [0; BUFFER_BYTES];
        let (length, from) = recvfrom::<NetlinkAddr>(self.socket.as_raw_fd(), &mut buffer)?;
        // Ignores netlink messages that do not come from the kernel.
        if from.is_some_and(|from| from.pid() != 0) {
            return Ok(Vec::new());
        }
        Ok(packets(&buffer[..length]))
    }
}

impl AsFd for PacketLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for PacketLog {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn subscription(group: u16, packet_bytes_max: u32) -> Vec<u8> {
    let mut body = vec![0, 0];
    body.extend(group.to_be_bytes());
    attribute(&mut body, ATTRIBUTE_COMMAND, &[COMMAND_BIND]);
    let [a, b, c, d] = packet_bytes_max.to_be_bytes();
    attribute(&mut body, ATTRIBUTE_MODE, &[a, b, c, d, MODE_COPY_PACKET, 0]);
    // Report each packet at once rather than wait for a hundred.
    attribute(&mut body, ATTRIBUTE_THRESHOLD, &1_u32.to_be_bytes());
    let length = (MESSAGE_HEADER_BYTES + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(CONFIGURE.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend(((ATTRIBUTE_HEADER_BYTES + value.len()) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

fn acknowledged(bytes: &[u8]) -> io::Result<()> {
    let odd = || io::Error::from(io::ErrorKind::InvalidData);
    let (kind, body) = messages(bytes).next().ok_or_else(odd)?;
    let code = body.first_chunk().map(|code| i32::from_ne_bytes(*code)).ok_or_else(odd)?;
    match (kind, code) {
        (ERROR, 0) => Ok(()),
        (ERROR, code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(odd()),
    }
}

fn packets(bytes: &[u8]) -> Vec<Vec<u8>> {
    let logged = messages(bytes).filter(|(kind, _)| *kind == LOGGED_PACKET);
    let attributes = logged.flat_map(|(_, body)| attributes(body.get(FAMILY_HEADER_BYTES..).unwrap_or_default()));
    attributes.filter(|(kind, _)| *kind == ATTRIBUTE_PAYLOAD).map(|(_, value)| value.to_vec()).collect()
}

/// Splits the bytes read into messages: kind and body.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
        let body = rest.get(MESSAGE_HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_packet_is_found_among_other_things() {
        let mut body = vec![2, 0, 0, 57];
        attribute(&mut body, 1, &[8, 0, 2, 0]);
        attribute(&mut body, ATTRIBUTE_PAYLOAD, b"packet");
        let mut bytes = Vec::new();
        for kind in [3, LOGGED_PACKET] {
            bytes.extend(((MESSAGE_HEADER_BYTES + body.len()) as u32).to_ne_bytes());
            bytes.extend(u16::to_ne_bytes(kind));
            bytes.extend([0; 10]);
            bytes.extend(&body);
        }
        assert_eq!(packets(&bytes), [b"packet"]);
        for end in 0..bytes.len() {
            // A truncated message is parsed as far as it goes.
            let _ = (packets(&bytes[..end]), acknowledged(&bytes[..end]));
        }
        assert!(packets(&[0xff; 64]).is_empty() && packets(&[0; 64]).is_empty());
    }

    #[test]
    fn a_group_has_one_reader_per_namespace() {
        std::thread::spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let first = PacketLog::open(57, 64).unwrap();
            assert!(PacketLog::open(57, 64).is_err());
            assert_eq!(first.read().unwrap_err().kind(), io::ErrorKind::WouldBlock);
            drop(first);
            PacketLog::open(57, 64).unwrap();
        })
        .join()
        .unwrap();
    }
}
