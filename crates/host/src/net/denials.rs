//! Reports what restricted guests were refused: names that the relay refused, and packets that the
//! slot's rules logged. Reports each target once a minute, and a limited number of targets per slot
//! and minute. Never decides what is refused.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use pandastack_kit::Scope;
use pandastack_sys::{netns::Netns, nflog::PacketLog};
use tokio::{io::unix::AsyncFd, sync::broadcast, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::limits::{DENIALS_PER_WINDOW, DENIALS_WINDOW};

/// The netfilter log group, in the slot's namespace, that receives refused packets.
pub const LOG_GROUP: u16 = 57;
/// Bytes logged of a refused packet: enough for the longest IPv4 header or the IPv6 header, and the
/// ports after it.
pub const LOG_BYTES: u32 = 64;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_OF_IPV6: u8 = 58;
/// Pause after a failed read: the kernel had more to report than the socket's buffer holds.
const TROUBLE_PAUSE: Duration = Duration::from_millis(50);

/// A target that a restricted guest tried to reach and could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The slot's name.
    pub slot: String,
    /// The name that the guest asked for, or `name (address)` if the name is allowed but its
    /// address is not, or the packet's destination: `203.0.113.9:443/tcp`, `203.0.113.9/icmp`,
    /// `[2001:db8::9]:443/tcp`.
    pub target: String,
}

/// Reports the denials of one slot.
#[derive(Debug)]
pub struct DenialReporter {
    slot: String,
    out: broadcast::Sender<Denial>,
    recent: Mutex<RecentDenials>,
}

impl DenialReporter {
    pub fn new(slot: String, out: broadcast::Sender<Denial>) -> DenialReporter {
        DenialReporter { slot, out, recent: Mutex::default() }
    }

    /// Reports a target, unless it was reported recently or the slot has reached its limit.
    pub fn report(&self, target: String) {
        let news = self.recent.lock().unwrap_or_else(PoisonError::into_inner).is_news(&target, Instant::now());
        if news {
            // Sending fails if there is no receiver, which is not an error.
            let _ = self.out.send(Denial { slot: self.slot.clone(), target });
        }
    }
}

/// The targets reported within the window, and when.
#[derive(Debug, Default)]
struct RecentDenials(HashMap<String, Instant>);

impl RecentDenials {
    fn is_news(&mut self, target: &str, now: Instant) -> bool {
        self.0.retain(|_, told| now.saturating_duration_since(*told) < DENIALS_WINDOW);
        if self.0.contains_key(target) || self.0.len() >= DENIALS_PER_WINDOW {
            return false;
        }
        self.0.insert(target.to_owned(), now);
        true
    }
}

/// A task that reads a slot's log of refused packets. Dropping it ends the task soon. `stop` also
/// waits for the end.
#[derive(Debug)]
pub struct DenialWatch {
    end: DropGuard,
    task: JoinHandle<()>,
}

impl DenialWatch {
    /// Subscribes to the log inside the namespace and starts reporting.
    pub fn start(netns: &Netns, reporter: Arc<DenialReporter>, scope: &Scope) -> io::Result<DenialWatch> {
        let log = awaited(netns.run(|| PacketLog::open(LOG_GROUP, LOG_BYTES))??)?;
        let token = scope.token().child_token();
        let task = scope.start("denial watch", watch(log, reporter, token.clone()));
        Ok(DenialWatch { end: token.drop_guard(), task })
    }

    /// Ends the watch. Its socket is closed when this returns.
    pub async fn stop(self) {
        drop(self.end);
        let _ = self.task.await;
    }
}

/// `AsyncFd::new` is deprecated because it accepts types that may not own their descriptor. A
/// `PacketLog` owns its descriptor, and the replacement is `unsafe`, which this room does not use.
#[expect(deprecated)]
fn awaited(log: PacketLog) -> io::Result<AsyncFd<PacketLog>> {
    AsyncFd::new(log)
}

async fn watch(log: AsyncFd<PacketLog>, reporter: Arc<DenialReporter>, token: CancellationToken) {
    loop {
        let ready = tokio::select! {
            () = token.cancelled() => return,
            ready = log.readable() => ready,
        };
        let Ok(mut ready) = ready else { return };
        match ready.try_io(|log| log.get_ref().read()) {
            Ok(Ok(packets)) => packets.iter().filter_map(|packet| target_of(packet)).for_each(|it| reporter.report(it)),
            Ok(Err(_)) => tokio::time::sleep(TROUBLE_PAUSE).await,
            Err(_would_block) => {}
        }
    }
}

/// Returns the destination of a packet, or `None` if the bytes are not the start of a packet.
fn target_of(packet: &[u8]) -> Option<String> {
    let (to, protocol, rest) = match packet.first()? >> 4 {
        4 => of_version_4(packet)?,
        6 => of_version_6(packet)?,
        _ => return None,
    };
    let ports = rest.and_then(|rest| rest.first_chunk::<4>());
    let end = ports.map(|ports| SocketAddr::new(to, u16::from_be_bytes([ports[2], ports[3]])));
    Some(match (protocol, end) {
        (TCP, Some(end)) => format!("{end}/tcp"),
        (UDP, Some(end)) => format!("{end}/udp"),
        (ICMP, _) => format!("{to}/icmp"),
        (ICMP_OF_IPV6, _) if to.is_ipv6() => format!("{to}/icmpv6"),
        (other, _) => format!("{to}/protocol-{other}"),
    })
}

/// The destination address, the protocol, and the bytes after the header.
type PacketFields<'a> = (IpAddr, u8, Option<&'a [u8]>);

fn of_version_4(packet: &[u8]) -> Option<PacketFields<'_>> {
    let header = packet.first_chunk::<20>()?;
    let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    Some((to.into(), header[9], packet.get(usize::from(header[0] & 0xf) * 4..)))
}

/// Does not skip extension headers: the target then shows the number of the first extension header.
fn of_version_6(packet: &[u8]) -> Option<PacketFields<'_>> {
    let (header, rest) = packet.split_first_chunk::<40>()?;
    let to: &[u8; 16] = header.last_chunk()?;
    Some((Ipv6Addr::from(*to).into(), header[6], Some(rest)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_target_is_told_once_a_window_and_a_slot_only_so_often() {
        let mut recent = RecentDenials::default();
        let start = Instant::now();
        assert!(recent.is_news("a", start));
        assert!(!recent.is_news("a", start + DENIALS_WINDOW / 2));
        assert!(recent.is_news("a", start + DENIALS_WINDOW));
        let told = (0..1000).filter(|target| recent.is_news(&target.to_string(), start + DENIALS_WINDOW)).count();
        assert_eq!(told, DENIALS_PER_WINDOW - 1);
        assert!(recent.is_news("b", start + DENIALS_WINDOW * 2));
    }

    #[test]
    fn targets_are_read_out_of_packets() {
        let mut packet = vec![0x45; 24];
        packet[16..20].copy_from_slice(&[203, 0, 113, 9]);
        packet[20..24].copy_from_slice(&[0, 1, 1, 187]);
        for (protocol, target) in [
            (6, "203.0.113.9:443/tcp"),
            (17, "203.0.113.9:443/udp"),
            (1, "203.0.113.9/icmp"),
            (47, "203.0.113.9/protocol-47"),
        ] {
            packet[9] = protocol;
            assert_eq!(target_of(&packet).as_deref(), Some(target));
        }
        for version in [0x05, 0x55, 0x65] {
            packet[0] = version;
            assert_eq!(target_of(&packet), None, "not IPv4, and too short for IPv6");
        }
    }

    #[test]
    fn targets_are_read_out_of_packets_of_ipv6() {
        let mut packet = vec![0x60; 44];
        packet[24..40].copy_from_slice(&"2001:db8::9".parse::<Ipv6Addr>().unwrap().octets());
        packet[40..44].copy_from_slice(&[0, 1, 1, 187]);
        for (protocol, target) in [
            (6, "[2001:db8::9]:443/tcp"),
            (17, "[2001:db8::9]:443/udp"),
            (58, "2001:db8::9/icmpv6"),
            (47, "2001:db8::9/protocol-47"),
        ] {
            packet[6] = protocol;
            assert_eq!(target_of(&packet).as_deref(), Some(target));
        }
        packet[6] = 6;
        assert_eq!(target_of(&packet[..43]).as_deref(), Some("2001:db8::9/protocol-6"), "cut before its port");
        assert_eq!(target_of(&packet[..39]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = target_of(&bytes);
        }
    }
}
