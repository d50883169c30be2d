//! Tests of how much of the host's connection table one guest can take. Each world has its own
//! table, so the table of the machine that runs the tests is not used.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use crate::net_support::{
    Guest, PATIENCE, World, here,
    outside::{OutsideNetwork, run},
};
use pandastack_host::net::{CONNECTIONS_MAX, GATEWAY};
use pandastack_sys::netns::Netns;

const WEB: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
/// Many more than a guest may open at once.
const ATTEMPTS: u32 = 4 * CONNECTIONS_MAX;
/// Attempts between two reads of the counter.
const CHUNK: u32 = 256;
/// Entries that are not the guest's: connections of the test itself.
const OWN: u32 = 64;

fn entries(netns: &Netns) -> u32 {
    let read = || std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
    netns.run(read).unwrap().unwrap().trim().parse().unwrap()
}

/// Returns the number of connections that the slot's rules refused.
fn refused(slot: &Netns) -> u64 {
    let list = || run("nft", &["list", "counter", "inet", "pandastack", "refused_flows"], "");
    let text = slot.run(list).unwrap().unwrap();
    let packets = text.split("packets ").nth(1).and_then(|rest| rest.split_whitespace().next());
    packets.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

fn outside() -> OutsideNetwork {
    let mut outside = OutsideNetwork::new(&[WEB]).unwrap();
    outside.greet(SocketAddr::from((WEB, 80))).unwrap();
    // Accepts connections and closes them at once.
    let listener = outside.netns().listen_tcp(SocketAddr::from((WEB, 81))).unwrap();
    listener.set_nonblocking(false).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if stream.is_err() {
                return;
            }
        }
    });
    outside
}

#[test]
fn short_connections_cannot_fill_the_hosts_table() {
    World::run(|world| async move {
        let _outside = outside();
        let host = Arc::new(here());
        let pool = world.pool(world.settings()).await;
        let (slot, other) = (pool.take().await.unwrap(), pool.take().await.unwrap());
        let (guest, neighbour) = (Guest::in_slot(&slot), Guest::in_slot(&other));
        let netns = slot.netns().clone();
        world
            .block(move || {
                let mut tried = 0;
                while tried < ATTEMPTS && refused(&netns) == 0 {
                    for _ in 0..CHUNK {
                        // Dropped at once: closed, but still in the kernel's table.
                        drop(guest.netns.connect((WEB, 81).into(), Duration::from_millis(100)));
                    }
                    tried += CHUNK;
                }
                let taken = entries(&host);
                eprintln!("{tried} connections left {taken} entries; {} refused", refused(&netns));
                assert!(refused(&netns) > 0, "{tried} connections in a row must meet a limit; {taken} entries");
                assert!(taken < ATTEMPTS, "{taken} entries");
                assert!(neighbour.greeting((WEB, 80).into()).is_ok(), "other guests are not held back");
            })
            .await;
        pool.close().await.unwrap();
    });
}

#[test]
fn open_flows_of_one_guest_are_bounded() {
    World::run(|world| async move {
        let _outside = outside();
        let host = Arc::new(here());
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        let netns = slot.netns().clone();
        world
            .block(move || {
                // One socket, and a flow for every port: UDP flows stay open until they time out.
                guest
                    .netns
                    .run(|| {
                        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                        for port in 1000..1000 + 2 * CONNECTIONS_MAX as u16 {
                            // A closed port makes a later call fail.
                            let _ = socket.send_to(b"flow", (WEB, port));
                        }
                    })
                    .unwrap();
                let taken = entries(&host);
                assert!(taken > CONNECTIONS_MAX / 2, "the flows do arrive: {taken}");
                assert!(taken <= CONNECTIONS_MAX + OWN, "{taken} entries");
                assert!(refused(&netns) > 0);
            })
            .await;
        pool.close().await.unwrap();
    });
}

#[test]
fn dns_questions_leave_nothing_in_the_table() {
    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        let netns = slot.netns().clone();
        world
            .block(move || {
                let question = crate::net_support::zone::question("a.test.", hickory_proto::rr::RecordType::AXFR);
                let asked = guest.netns.run(|| {
                    for _ in 0..2000 {
                        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                        socket.set_read_timeout(Some(PATIENCE)).unwrap();
                        socket.send_to(&question, (GATEWAY, 53)).unwrap();
                        socket.recv(&mut [0; 64]).expect("the relay refuses a transfer itself");
                    }
                });
                asked.unwrap();
                assert!(entries(&netns) <= OWN, "{} entries", entries(&netns));
            })
            .await;
        pool.close().await.unwrap();
    });
}
