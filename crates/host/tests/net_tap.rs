//! Tests of the rules through the real tap, with the frames that a machine's network card would
//! send.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, UdpSocket},
    os::fd::AsFd as _,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use crate::net_support::{Guest, PATIENCE, World, outside, outside::ip, until_up};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pandastack_host::net::{GATEWAY, GUEST, NetPool, NetSettings, NetSlot, TAP};
use pandastack_kit::Scope;
use pandastack_model::Egress;
use pandastack_sys::tap;

const GATEWAY_MAC: [u8; 6] = [0x06, 0, 0xac, 0x10, 0, 1];
const GUEST_MAC: [u8; 6] = [0x06, 0, 0xac, 0x10, 0, 2];
const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);

/// Attaches to the tap as a machine does, and waits until the kernel has noticed. Before that it
/// drops frames to the guest.
fn plug_in(slot: &NetSlot) -> File {
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

/// The sender of an ARP request.
#[derive(Clone, Copy)]
struct Asker {
    /// Source MAC of the frame.
    frame: [u8; 6],
    /// Sender MAC in the request.
    card: [u8; 6],
    address: Ipv4Addr,
}

const HONEST: Asker = Asker { frame: GUEST_MAC, card: GUEST_MAC, address: GUEST };

/// An ARP request for the gateway's MAC. `tag` is empty or a VLAN tag.
fn question(asker: Asker, tag: &[u8]) -> Vec<u8> {
    let Asker { frame, card, address } = asker;
    let head = [&[0xff; 6][..], &frame, tag, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    [&head[..], &card, &address.octets(), &[0; 6], &GATEWAY.octets(), &[0; 18]].concat()
}

/// Waits for the answer to such a request.
fn is_told_the_gateways_card(card: &mut File) -> bool {
    let told = |frame: &[u8]| frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 2];
    hear(card, PATIENCE, told).is_some_and(|frame| frame[22..28] == GATEWAY_MAC)
}

/// Returns the neighbours that a slot has on the guest's link.
fn neighbours(slot: &NetSlot) -> Vec<String> {
    let shown = ip(&["-n", slot.name(), "neigh", "show", "nud", "all", "dev", TAP], "").unwrap();
    let known = shown.lines().filter(|line| !line.contains("NOARP"));
    known.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// Waits for a UDP frame to the guest's port. Skips other frames, such as ARP.
fn receive(card: &mut File, patience: Duration) -> Option<Vec<u8>> {
    let datagram = |frame: &[u8]| frame.len() > 42 && frame[23] == 17 && frame[36..38] == 4000_u16.to_be_bytes();
    let frame = hear(card, patience, datagram)?;
    assert_eq!(frame[..6], GUEST_MAC, "frames come to the guest's own card");
    Some(frame[42..].to_vec())
}

/// Waits for a frame that matches. Skips others.
fn hear(card: &mut File, patience: Duration, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let deadline = Instant::now() + patience;
    let mut buffer = [0; 2048];
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let timeout = PollTimeout::try_from(left.as_millis() as i32).unwrap();
        if poll(&mut [PollFd::new(card.as_fd(), PollFlags::POLLIN)], timeout).unwrap() == 0 {
            return None;
        }
        let length = card.read(&mut buffer).unwrap();
        if wanted(&buffer[..length]) {
            return Some(buffer[..length].to_vec());
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
        // The guest's side answers no ARP here. The frame arrives because the namespace has a
        // static entry for the guest's MAC.
        assert_eq!(receive(&mut card, PATIENCE).as_deref(), Some(&b"hello"[..]));
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
        // The valid frame is sent last: once its echo arrives, the others would have been counted.
        card.write_all(&datagram(GUEST_MAC, GUEST, PUBLIC, 7, b"honest")).unwrap();
        assert_eq!(receive(&mut card, PATIENCE).as_deref(), Some(&b"honest"[..]));
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
        assert_eq!(receive(&mut card, PATIENCE).as_deref(), Some(&b"direct"[..]));
        drop(card);
        pool.close().await.unwrap();
    });
}

#[test]
fn a_guest_that_asks_in_many_names_is_remembered_in_none() {
    World::run(|world| async move {
        let (_outside, _) = outside(&["203.0.113.7"]);
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        slot.set_egress(&Egress::Only(Vec::new())).await.unwrap();
        let mut card = plug_in(&slot);
        let stranger = [2, 0, 0, 0, 0, 9];
        // The kernel removes a tag with VLAN id zero, so the frame behind it arrives.
        let (plain, zero, other): (&[u8], &[u8], &[u8]) = (&[], &[0x81, 0, 0, 0], &[0x81, 0, 0, 5]);
        for number in 0..2000_u16 {
            let [high, low] = number.to_be_bytes();
            let address = Ipv4Addr::new(172, 17, high, low);
            let forged = match number % 4 {
                0 => Asker { address, ..HONEST },
                1 => Asker { frame: stranger, card: stranger, address },
                2 => Asker { card: stranger, address, ..HONEST },
                _ => Asker { address: Ipv4Addr::new(172, 16, 0, 3), ..HONEST },
            };
            card.write_all(&question(forged, [plain, zero, other][usize::from(number % 3)])).unwrap();
        }
        for asker in [Asker { card: stranger, ..HONEST }, Asker { frame: stranger, ..HONEST }] {
            card.write_all(&question(asker, plain)).unwrap();
        }
        // The valid request is sent last: once its answer arrives, the others have been processed.
        card.write_all(&question(HONEST, plain)).unwrap();
        assert!(is_told_the_gateways_card(&mut card), "whoever asks for itself is answered");
        assert_eq!(neighbours(&slot), [GUEST.to_string()]);

        let second = pool.take().await.unwrap();
        let neighbour = Guest::in_slot(&second);
        neighbour.greeting("203.0.113.7:80".parse().unwrap()).expect("another guest has room to find its way");
        drop(card);
        pool.close().await.unwrap();
    });
}

#[test]
fn without_the_rule_every_name_is_remembered() {
    World::run(|world| async move {
        let earlier = Scope::new();
        let pool = NetPool::start(NetSettings { ready: 0, ..world.settings() }, &earlier).await.unwrap();
        let slot = pool.take().await.unwrap();
        let mut card = plug_in(&slot);
        ip(&["netns", "exec", slot.name(), "nft", "delete", "table", "arp", "pandastack"], "").unwrap();
        for last in 1..=9 {
            let address = Ipv4Addr::new(172, 17, 0, last);
            card.write_all(&question(Asker { address, ..HONEST }, &[])).unwrap();
        }
        card.write_all(&question(HONEST, &[])).unwrap();
        assert!(is_told_the_gateways_card(&mut card));
        assert!(neighbours(&slot).len() > 9, "{:?}", neighbours(&slot));
        // A slot of an earlier version has no such rule. Adoption writes the rules anew.
        let name = slot.name().to_owned();
        earlier.close(Duration::from_secs(20)).await;
        drop((slot, pool));
        let pool = world.pool(world.settings()).await;
        let slot = pool.adopt(&name, &Egress::Open).await.unwrap();
        card.write_all(&question(Asker { address: Ipv4Addr::new(172, 17, 1, 1), ..HONEST }, &[])).unwrap();
        card.write_all(&question(HONEST, &[])).unwrap();
        assert!(is_told_the_gateways_card(&mut card));
        assert!(!neighbours(&slot).contains(&"172.17.1.1".to_owned()));
        drop(card);
        pool.close().await.unwrap();
    });
}
