//! Tests that IPv6 is blocked. A slot has IPv6 disabled, and both the inner and the outer rules
//! refuse it too. The test enables IPv6, shows that it works without any rules, and then tries each
//! set of rules alone.

use std::{
    net::{SocketAddr, TcpListener},
    time::Instant,
};

use crate::net_support::{
    Guest, PATIENCE, SILENCE, World,
    outside::{OutsideNetwork, ip, run},
};
use pandastack_host::net::{GATEWAY_MAC, GUEST_MAC, NetSlot, TAP};
use pandastack_model::Egress;

/// The far end of each hop on the way out: gateway, host, server.
const STEPS: [&str; 3] = ["fd00::1", "fd01::1", "fd02::2"];
const PORT: u16 = 80;

/// Returns the hops that a guest reaches.
fn reached(guest: &Guest) -> Vec<&'static str> {
    let answers = |step: &&str| {
        let address: SocketAddr = format!("[{step}]:{PORT}").parse().unwrap();
        guest.netns.connect(address, SILENCE).is_ok()
    };
    STEPS.into_iter().filter(answers).collect()
}

/// Waits until a guest reaches exactly these hops: on a busy machine an answer may take longer.
fn reaches(guest: &Guest, steps: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = reached(guest);
        if found == steps {
            return;
        }
        assert!(Instant::now() < deadline, "{found:?} are reached, not {steps:?}");
    }
}

/// Configures IPv6 on the whole path. All neighbour entries are static, so that blocking neighbour
/// discovery alone does not make the test pass.
fn switch_on(slot: &NetSlot, guest: &Guest, outside: &OutsideNetwork) {
    let on = || {
        for setting in ["all/disable_ipv6", "default/disable_ipv6", "all/forwarding"] {
            let value = if setting.ends_with("forwarding") { "1" } else { "0" };
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{setting}"), value).unwrap();
        }
    };
    on();
    slot.netns().run(on).unwrap();
    let (link, far) = (slot.name(), outside.name());
    let (outer, inner) = (card(&["-o", "link", "show", link]), card(&["-n", link, "-o", "link", "show", "up0"]));
    guest.ip(&format!(
        "addr add fd00::2/64 dev eth0 nodad\n\
         neigh replace fd00::1 lladdr {GATEWAY_MAC} dev eth0 nud permanent\n\
         route add ::/0 via fd00::1\n"
    ));
    guest.in_slot_ip(&format!(
        "addr add fd00::1/64 dev {TAP} nodad\n\
         neigh replace fd00::2 lladdr {GUEST_MAC} dev {TAP} nud permanent\n\
         addr add fd01::2/64 dev up0 nodad\n\
         neigh replace fd01::1 lladdr {outer} dev up0 nud permanent\n\
         route add ::/0 via fd01::1\n"
    ));
    let host = format!(
        "addr add fd01::1/64 dev {link} nodad\n\
         neigh replace fd01::2 lladdr {inner} dev {link} nud permanent\n\
         route add fd00::/64 via fd01::2\n\
         addr add fd02::1/64 dev {far} nodad\n"
    );
    ip(&["-batch", "-"], &host).unwrap();
    let there = "addr add fd02::2/64 dev eth0 nodad\nroute add ::/0 via fd02::1\n";
    ip(&["-n", far, "-batch", "-"], there).unwrap();
}

/// Parses the MAC from the output of `ip link`.
fn card(arguments: &[&str]) -> String {
    let shown = ip(arguments, "").unwrap();
    shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap().to_owned()
}

#[test]
fn each_wall_alone_keeps_ipv6_in() {
    World::run(|world| async move {
        let mut outside = OutsideNetwork::new(&[]).unwrap();
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        switch_on(&slot, &guest, &outside);
        outside.greet(format!("[::]:{PORT}").parse().unwrap()).unwrap();
        let listen = || TcpListener::bind(("::", PORT)).unwrap();
        let _servers = (listen(), slot.netns().run(listen).unwrap());
        assert_eq!(reached(&guest), [""; 0], "both walls");

        let outer = run("nft", &["list", "ruleset"], "").unwrap();
        assert!(outer.contains("pandastack_"), "{outer}");
        let open_inner = || slot.netns().run(|| run("nft", &["flush", "ruleset"], "")).unwrap().unwrap();
        open_inner();
        run("nft", &["flush", "ruleset"], "").unwrap();
        reaches(&guest, &STEPS);

        for list in [Egress::Only(Vec::new()), Egress::Open] {
            slot.set_egress(&list).await.unwrap();
            assert_eq!(reached(&guest), [""; 0], "the inner wall with {list:?}");
        }
        open_inner();
        run("nft", &["-f", "-"], &outer).unwrap();
        // Behind the outer wall only the slot itself is left.
        reaches(&guest, &STEPS[..1]);
        pool.close().await.unwrap();
    });
}
