//! Tests of what a guest can and cannot reach. Each address that must be out of reach is first
//! shown to answer the host, so that no test passes because there is no server.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Instant,
};

use crate::net_support::{
    Guest, PATIENCE, SILENCE, World, here, outside,
    outside::{OutsideNetwork, ip, run},
};
use pandastack_host::net::{GATEWAY, GATEWAY_MAC, GUEST, NetSettings, NetSlot};

const PUBLIC: &str = "203.0.113.7";
const PRIVATE: [&str; 7] =
    ["10.9.8.7", "172.20.1.1", "192.168.77.1", "169.254.169.254", "100.100.100.200", "192.0.0.192", "198.19.0.1"];

fn at(address: impl std::fmt::Display, port: u16) -> SocketAddr {
    format!("{address}:{port}").parse().unwrap()
}

/// Listens on all addresses of the world's host and sends nothing. Returns the listener and its
/// port.
fn host_listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Tries many addresses at once and returns those that answered.
fn reachable(guest: &Guest, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    thread::scope(|scope| {
        let tries: Vec<_> =
            addresses.iter().map(|address| (address, scope.spawn(|| !refuses(guest, *address)))).collect();
        tries.into_iter().filter_map(|(address, answered)| answered.join().unwrap().then_some(*address)).collect()
    })
}

fn connects(guest: &Guest, address: SocketAddr) -> bool {
    guest.netns.connect(address, PATIENCE).is_ok()
}

fn refuses(guest: &Guest, address: SocketAddr) -> bool {
    guest.netns.connect(address, SILENCE).is_err()
}

/// Returns all addresses of the host itself.
fn host_addresses(outside: &OutsideNetwork, slots: &[&NetSlot], port: u16) -> Vec<SocketAddr> {
    let mut all = vec![at(outside.near_address(), port)];
    for slot in slots {
        let [a, b, c, d] = slot.uplink_address().octets();
        all.push(at(format!("{a}.{b}.{c}.{}", d - 1), port));
    }
    all
}

#[test]
fn the_outside_is_reached_through_nat() {
    World::run(|world| async move {
        let (outside, _) = outside(&[PUBLIC]);
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        assert_eq!(guest.greeting(at(PUBLIC, 80)).unwrap(), outside.near_address().to_string());
        assert_eq!(guest.greeting(at(outside.far_address(), 80)).unwrap(), outside.near_address().to_string());
        guest.echo(GUEST, at(PUBLIC, 7)).unwrap();
        let pinged = guest.netns.run(|| run("ping", &["-c1", "-W60", PUBLIC], "")).unwrap();
        assert!(
            pinged.is_ok() || pinged.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound),
            "{pinged:?}"
        );
        pool.close().await.unwrap();
    });
}

#[test]
fn private_addresses_and_the_host_are_out_of_reach() {
    World::run(|world| async move {
        let addresses: Vec<_> = PRIVATE.into_iter().chain([PUBLIC]).collect();
        let (outside, _) = outside(&addresses);
        let pool = world.pool(world.settings()).await;
        let (slot, other) = (pool.take().await.unwrap(), pool.take().await.unwrap());
        let guest = Guest::in_slot(&slot);
        let neighbour = Guest::in_slot(&other);
        let _agent = neighbour.netns.listen_tcp(at("0.0.0.0", 1050)).unwrap();
        let (_listener, port) = host_listener();

        let private: Vec<_> = PRIVATE.iter().map(|address| at(address, 80)).collect();
        let mut forbidden = host_addresses(&outside, &[&slot, &other], port);
        for address in private.iter().chain(&forbidden) {
            let answer = here().connect(*address, PATIENCE);
            assert!(answer.is_ok(), "{address} must answer the host, or the test proves nothing");
        }
        forbidden.extend(private);
        forbidden.extend([at("172.16.0.1", port), at("172.16.0.1", 80), at("172.16.0.1", 22), at("0.0.0.0", port)]);
        forbidden.extend([at(other.uplink_address(), 1050), at(slot.uplink_address(), 53)]);
        assert_eq!(reachable(&guest, &forbidden), []);
        assert!(connects(&guest, at(PUBLIC, 80)), "and the rest is still open");
        pool.close().await.unwrap();
    });
}

#[test]
fn a_refusal_by_policy_is_told() {
    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        let refused = guest.netns.connect(at("10.9.8.7", 80), PATIENCE).unwrap_err();
        assert_ne!(refused.kind(), std::io::ErrorKind::TimedOut, "the guest must be told rather than wait");
        pool.close().await.unwrap();
    });
}

#[test]
fn the_hosts_wall_holds_without_the_inner_one() {
    World::run(|world| async move {
        let addresses: Vec<_> = PRIVATE.into_iter().chain([PUBLIC]).collect();
        let (outside, count) = outside(&addresses);
        let pool = world.pool(world.settings()).await;
        let (slot, other) = (pool.take().await.unwrap(), pool.take().await.unwrap());
        let guest = Guest::in_slot(&slot);
        let (_listener, port) = host_listener();
        let _neighbour = other.netns().listen_tcp(at("0.0.0.0", 2000)).unwrap();
        // Only the address translation is left, so the guest is in effect on the uplink. The
        // neighbour's inner rules are removed too.
        let open = format!(
            "flush ruleset\ntable ip x {{ chain c {{ type nat hook postrouting priority 100; oifname up0 snat to {}; \
                }}; }}\n",
            slot.uplink_address()
        );
        slot.netns().run(|| run("nft", &["-f", "-"], &open)).unwrap().unwrap();
        other.netns().run(|| run("nft", &["flush", "ruleset"], "")).unwrap().unwrap();

        let mut forbidden = host_addresses(&outside, &[&slot, &other], port);
        forbidden.extend(PRIVATE.iter().map(|address| at(address, 80)));
        forbidden.push(at(other.uplink_address(), 2000));
        assert_eq!(reachable(&guest, &forbidden), []);
        assert!(connects(&guest, at(PUBLIC, 80)));

        // Without translation the source address is not in our block, and the host drops the
        // packet.
        slot.netns().run(|| run("nft", &["flush", "ruleset"], "")).unwrap().unwrap();
        let before = count.load(Ordering::Relaxed);
        assert!(guest.has_no_echo(GUEST, at(PUBLIC, 7)));
        assert_eq!(count.load(Ordering::Relaxed), before);
        pool.close().await.unwrap();
    });
}

#[test]
fn a_forged_sender_is_dropped() {
    World::run(|world| async move {
        let (_outside, count) = outside(&[PUBLIC]);
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        guest.echo(GUEST, at(PUBLIC, 7)).unwrap();
        let before = count.load(Ordering::Relaxed);
        for forged in ["172.16.0.9", "198.51.100.250", "10.0.0.9"] {
            guest.ip(&format!("addr add {forged}/32 dev eth0\n"));
            assert!(guest.has_no_echo(forged.parse().unwrap(), at(PUBLIC, 7)), "{forged}");
            assert_eq!(count.load(Ordering::Relaxed), before, "{forged} may not leave");
        }
        // A change of the MAC clears the neighbour table, and ARP from a forged MAC gets no answer.
        // So the gateway's entry must be static.
        let knows = format!("neigh replace {GATEWAY} lladdr {GATEWAY_MAC} dev eth0 nud permanent\n");
        guest.ip(&format!("link set eth0 address 06:00:ac:10:00:03\n{knows}"));
        assert!(guest.has_no_echo(GUEST, at(PUBLIC, 7)), "wrong MAC");
        assert_eq!(count.load(Ordering::Relaxed), before, "nothing forged may leave");
        guest.ip("link set eth0 address 06:00:ac:10:00:02\n");
        guest.echo(GUEST, at(PUBLIC, 7)).unwrap();
        pool.close().await.unwrap();
    });
}

#[test]
fn only_the_namespace_itself_reaches_into_the_guest() {
    World::run(|world| async move {
        let (outside, _) = outside(&[PUBLIC]);
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        let port = slot.port();
        let _agent = guest.netns.listen_tcp(at("0.0.0.0", port.guest_port)).unwrap();
        let agent = at(port.guest_address, port.guest_port);
        let start = Instant::now();
        slot.netns().connect(agent, PATIENCE).unwrap();
        eprintln!("dial from the namespace: {:?}", start.elapsed());
        for address in [at(slot.uplink_address(), port.guest_port), at(slot.uplink_address(), 53)] {
            assert!(here().connect(address, SILENCE).is_err(), "host: {address}");
        }
        // Even an outside router with a route to the slot must not get in.
        ip(
            &[
                "-n",
                outside.name(),
                "route",
                "replace",
                &slot.uplink_address().to_string(),
                "via",
                &outside.near_address().to_string(),
            ],
            "",
        )
        .unwrap();
        assert!(outside.netns().connect(at(slot.uplink_address(), port.guest_port), SILENCE).is_err());
        // A process in the namespace, such as the machine's own, reaches only the guest.
        assert!(slot.netns().connect(at(PUBLIC, 80), SILENCE).is_err());
        pool.close().await.unwrap();
    });
}

#[test]
fn the_operator_can_open_and_close_networks() {
    World::run(|world| async move {
        let (outside, _) = outside(&["10.9.8.7", "10.9.8.8", PUBLIC, "203.0.113.9"]);
        let settings = NetSettings {
            allow_nets: vec!["0.0.0.0/0".parse().unwrap()],
            deny_nets: vec!["203.0.113.9".parse().unwrap(), "10.9.8.8".parse().unwrap()],
            ..world.settings()
        };
        let pool = world.pool(settings).await;
        let (slot, other) = (pool.take().await.unwrap(), pool.take().await.unwrap());
        let guest = Guest::in_slot(&slot);
        let neighbour = Guest::in_slot(&other);
        let _agent = neighbour.netns.listen_tcp(at("0.0.0.0", 1050)).unwrap();
        let (_listener, port) = host_listener();
        assert!(connects(&guest, at("10.9.8.7", 80)));
        assert!(connects(&guest, at(PUBLIC, 80)));
        let mut forbidden = host_addresses(&outside, &[&slot, &other], port);
        forbidden.extend([at("203.0.113.9", 80), at("10.9.8.8", 80), at(other.uplink_address(), 1050)]);
        assert_eq!(reachable(&guest, &forbidden), [], "no exception opens the host or a neighbour");
        pool.close().await.unwrap();
    });
}

#[test]
fn published_ports_of_the_host_are_out_of_reach() {
    World::run(|world| async move {
        // A container engine publishes a port like this: connections to the host's address are
        // redirected.
        let (outside, _) = outside(&[PUBLIC]);
        let publish = format!(
            "table ip other {{ chain c {{ type nat hook prerouting priority -100; tcp dport 8080 ip daddr {} dnat to \
                {PUBLIC}:80; }}; }}\n",
            outside.near_address()
        );
        run("nft", &["-f", "-"], &publish).unwrap();
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        assert!(connects(&guest, at(PUBLIC, 80)));
        assert!(refuses(&guest, at(outside.near_address(), 8080)));
        pool.close().await.unwrap();
        assert!(run("nft", &["list", "tables"], "").unwrap().contains("table ip other"), "other tables stay");
    });
}

#[test]
fn there_is_no_ipv6_for_a_guest() {
    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        for arguments in [["-n", slot.name(), "-6", "addr"], ["-6", "addr", "show", slot.name()]] {
            assert_eq!(
                ip(&arguments, "").unwrap().replace("inet6 ::1/128", "").matches("inet6").count(),
                0,
                "{arguments:?}"
            );
        }
        guest.ip("addr add fd00::2/64 dev eth0 nodad\n");
        assert!(refuses(&guest, "[fd00::1]:53".parse().unwrap()));
        pool.close().await.unwrap();
    });
}
