//! The same walls seen through the real tap, frame by frame: what a machine's virtual network card would put there.

#![allow(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

mod net_support;

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, UdpSocket},
    os::fd::AsFd as _,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use net_support::{World, outside, until_up};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pandastack_host::net::{GATEWAY, GUEST, Slot, TAP};
use pandastack_sys::tap;

const GATEWAY_MAC: [u8; 6] = [0x06, 0, 0xac, 0x10, 0, 1];
const GUEST_MAC: [u8; 6] = [0x06, 0, 0xac, 0x10, 0, 2];
const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);

/// Attaches as a machine does, and waits until the kernel has noticed: before that it drops frames to the guest.
fn plug_in(slot: &Slot) -> File {
    let card = slot.netns().run(|| tap::attach(TAP)).unwrap().unwrap();
    until_up(slot.name(), TAP);
    card.into()
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An Ethernet frame with a UDP datagram, without a UDP checksum, which IPv4 allows.
fn datagram(mac: [u8; 6], from: Ipv4Addr, to: Ipv4Addr, port: u16, body: &[u8]) -> Vec<u8> {
    let udp_length = (8 + body.len()) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
    ip[2..4].copy_from_slice(&(20 + udp_length).to_be_bytes());
    ip.extend(from.octets());
    ip.extend(to.octets());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [&GATEWAY_MAC[..], &mac, &[8, 0], &ip].concat();
    for word in [4000, port, udp_length, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(body);
    frame
}

/// Waits for a UDP frame to the guest's port; other frames, such as ARP, are passed over.
fn receive(card: &mut File, patience: Duration) -> Option<Vec<u8>> {
    let deadline = Instant::now() + patience;
    let mut buffer = [0; 2048];
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let timeout = PollTimeout::try_from(left.as_millis() as i32).unwrap();
        if poll(&mut [PollFd::new(card.as_fd(), PollFlags::POLLIN)], timeout).unwrap() == 0 {
            return None;
        }
        let length = card.read(&mut buffer).unwrap();
        let frame = &buffer[..length];
        if length > 42 && frame[23] == 17 && frame[36..38] == 4000_u16.to_be_bytes() {
            assert_eq!(frame[..6], GUEST_MAC, "frames come to the guest's own card");
            return Some(frame[42..].to_vec());
        }
    }
    None
}

#[test]
fn a_machines_card_needs_no_arp_and_cannot_forge() {
    World::run(|world| async move {
        let (_outside, count) = outside(&["10.9.8.7", "203.0.113.7"]);
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let mut card = plug_in(&slot);
        let start = Instant::now();
        card.write_all(&datagram(GUEST_MAC, GUEST, PUBLIC, 7, b"hello")).unwrap();
        // Nobody answers ARP here: the frame comes back because the namespace knows the guest's card already.
        assert_eq!(receive(&mut card, Duration::from_secs(2)).as_deref(), Some(&b"hello"[..]));
        eprintln!("first echo through the tap: {:?}", start.elapsed());

        let before = count.load(Ordering::Relaxed);
        let stranger = Ipv4Addr::new(172, 16, 0, 3);
        for forged in [
            datagram(GUEST_MAC, stranger, PUBLIC, 7, b"forged"),
            datagram(GUEST_MAC, GATEWAY, PUBLIC, 7, b"forged"),
            datagram(GUEST_MAC, slot.uplink_address(), PUBLIC, 7, b"forged"),
            datagram(GATEWAY_MAC, GUEST, PUBLIC, 7, b"forged"),
            datagram([2, 0, 0, 0, 0, 9], GUEST, PUBLIC, 7, b"forged"),
        ] {
            card.write_all(&forged).unwrap();
        }
        // The honest frame comes last: once its echo is here, the others would have been counted.
        card.write_all(&datagram(GUEST_MAC, GUEST, PUBLIC, 7, b"honest")).unwrap();
        assert_eq!(receive(&mut card, Duration::from_secs(2)).as_deref(), Some(&b"honest"[..]));
        assert_eq!(count.load(Ordering::Relaxed), before + 1);
        drop(card);
        pool.give_back(slot).await.unwrap();
        pool.close().await.unwrap();
    });
}

#[test]
fn the_host_speaks_to_the_guest_without_asking_for_its_card() {
    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let mut card = plug_in(&slot);
        let sent = slot.netns().run(|| UdpSocket::bind("0.0.0.0:0")?.send_to(b"direct", (GUEST, 4000))).unwrap();
        sent.unwrap();
        assert_eq!(receive(&mut card, Duration::from_secs(2)).as_deref(), Some(&b"direct"[..]));
        drop(card);
        pool.close().await.unwrap();
    });
}
