//! Owns what a guest may reach, as nftables rules. Pure text: `slot` and `pool` apply it. The rules
//! in the slot's namespace check the guest's address, MAC and destinations. The rules on the host
//! know only which links lead to slots, and hold even without the inner rules. Both are tables of
//! our own, and no other table is read or changed. `listed` has the chains of an egress list.

use std::{fmt::Write as _, net::Ipv4Addr};

use pandastack_wire_fleet::GATEWAY_PORT;

use super::{
    cidr::Cidr,
    limits::{CONNECTIONS_MAX, FLOWS_AT_ONCE, FLOWS_PER_SECOND},
    listed::{self, ListedTargets},
    names::{NetNames, Uplink},
};

/// The namespace's address on the tap: the guest's gateway and resolver.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
/// The gateway's MAC, the same in every slot: a restored guest still has it in its neighbour table.
pub const GATEWAY_MAC: &str = "06:00:ac:10:00:01";
/// The guest's address, the same in every slot.
pub const GUEST: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
/// The guest's MAC, the same in every slot.
pub const GUEST_MAC: &str = "06:00:ac:10:00:02";
/// The guest's link in the namespace.
pub const TAP: &str = "tap0";
/// The namespace's link towards the host.
pub const UPLINK: &str = "up0";

/// The table of a slot's rules, in family `inet`.
pub const TABLE: &str = "pandastack";

/// Networks that no guest may reach unless the operator allows them.
const DENIED: [Cidr; 14] = [
    Cidr::new(Ipv4Addr::new(0, 0, 0, 0), 8), // "this" network; Linux takes 0.0.0.0 for the host itself
    Cidr::new(Ipv4Addr::new(10, 0, 0, 0), 8), // private
    Cidr::new(Ipv4Addr::new(100, 64, 0, 0), 10), // carriers' shared space: our uplinks, VPNs, metadata of some clouds
    Cidr::new(Ipv4Addr::new(127, 0, 0, 0), 8), // loopback
    Cidr::new(Ipv4Addr::new(168, 63, 129, 16), 32), // a public address at which one cloud serves its hosts
    Cidr::new(Ipv4Addr::new(169, 254, 0, 0), 16), // link-local, with most clouds' metadata service
    Cidr::new(Ipv4Addr::new(172, 16, 0, 0), 12), // private; also our guests' own network
    Cidr::new(Ipv4Addr::new(192, 0, 0, 0), 24), // protocol assignments, with one cloud's metadata service
    Cidr::new(Ipv4Addr::new(192, 88, 99, 0), 24), // retired relays into IPv6
    Cidr::new(Ipv4Addr::new(192, 168, 0, 0), 16), // private
    Cidr::new(Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarks; our second choice for uplinks
    Cidr::new(Ipv4Addr::new(224, 0, 0, 0), 4), // multicast
    Cidr::new(Ipv4Addr::new(240, 0, 0, 0), 4), // reserved
    Cidr::new(Ipv4Addr::new(255, 255, 255, 255), 32), // broadcast
];

/// The operator's changes to the default policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyExceptions {
    /// Networks that guests may reach although they are private. Never opens the host itself or
    /// another sandbox.
    pub allow: Vec<Cidr>,
    /// Networks that guests may not reach although they are public.
    pub deny: Vec<Cidr>,
}

impl PolicyExceptions {
    /// Returns whether the policy lets guests reach an address. Ignores egress lists and the owner
    /// of the address.
    pub fn permits(&self, address: Ipv4Addr) -> bool {
        let among = |networks: &[Cidr]| networks.iter().any(|network| network.overlaps(Cidr::new(address, 32)));
        !among(&self.deny) && (among(&self.allow) || !among(&DENIED))
    }

    /// Returns the sets of networks, strongest first: `refused` wins over `allowed`, and `allowed`
    /// wins over the built-in `denied`.
    fn networks(&self) -> [(&'static str, &[Cidr]); 3] {
        [("refused", &self.deny), ("allowed", &self.allow), ("denied", &DENIED)]
    }

    /// Declares the sets of networks, with their elements.
    fn sets(&self) -> String {
        let mut text = String::new();
        for (name, networks) in self.networks() {
            let _ = write!(text, "  set {name} {{ type ipv4_addr; flags interval; auto-merge; ");
            if !networks.is_empty() {
                let _ = write!(text, "elements = {{ {} }}; ", listed::joined(networks));
            }
            text.push_str("}\n");
        }
        text
    }
}

/// The parts from which the rules in a slot's namespace are built.
pub struct SlotFirewall<'a> {
    pub uplink: Uplink,
    pub exceptions: &'a PolicyExceptions,
    /// The egress list. Without one, everything that the policy permits is open.
    pub listed: Option<ListedTargets>,
    pub gateway: GatewayAccess,
}

/// Whether a guest may connect to the service at its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayAccess {
    Closed,
    Open,
}

/// Returns the change that opens or closes the service at the gateway.
pub fn gateway_rules(gateway: GatewayAccess) -> String {
    match gateway {
        GatewayAccess::Closed => listed::refill("served", ""),
        GatewayAccess::Open => listed::refill("served", &GATEWAY_PORT.to_string()),
    }
}

/// Returns the rules inside a slot's namespace. One transaction replaces our older rules there.
/// Connections survive, and so do the elements of `named` unless the list defines them.
///
/// A guest that was sealed with open connections from its gateway goes on with them after a
/// restore. The new namespace does not know them: they are reset, and nothing is reported.
pub fn slot_rules(wall: &SlotFirewall) -> String {
    let SlotFirewall { uplink, exceptions, listed, gateway } = wall;
    let inner = uplink.inner;
    let flows = flows();
    let way_out = listed.as_ref().map_or_else(open_chains, listed::chains);
    // Without a list there is no receiver of reports.
    let told = listed.as_ref().map_or_else(String::new, |_| format!("\n    iifname \"{TAP}\" jump report"));
    let mut text = format!("table inet {TABLE} {{\n{}{}}}\nflush table inet {TABLE}\n", declared(), listed::declared());
    text.push_str(&own_arp());
    text.push_str(&listed::at_the_link(listed.as_ref()));
    for (name, networks) in exceptions.networks() {
        text.push_str(&listed::refill(name, &listed::joined(networks)));
    }
    text.push_str(&listed::elements(listed.as_ref()));
    text.push_str(&gateway_rules(*gateway));
    let _ = write!(
        text,
        r#"table inet {TABLE} {{
  chain prerouting {{
    iifname "{TAP}" ether saddr {GUEST_MAC} ip saddr {GUEST} ip daddr {GATEWAY} udp dport 53 notrack accept
    iifname "{TAP}" ether saddr {GUEST_MAC} ip saddr {GUEST} accept{told}
    iifname "{TAP}" drop
    meta nfproto ipv6 drop
  }}
  chain input {{
    iifname "lo" accept
    iifname "{TAP}" ct state established,related accept
    iifname "{TAP}" ip daddr {GATEWAY} udp dport 53 accept
    iifname "{TAP}" ip daddr {GATEWAY} tcp dport 53 jump flows
    iifname "{TAP}" ip daddr {GATEWAY} tcp dport 53 accept
    iifname "{TAP}" ip daddr {GATEWAY} tcp dport @served jump flows
    iifname "{TAP}" ip daddr {GATEWAY} tcp dport @served accept
    iifname "{TAP}" ip daddr {GATEWAY} tcp flags & (syn | rst | ack) != syn reject with tcp reset{told}
    iifname "{TAP}" reject with icmpx type admin-prohibited
  }}
  chain forward {{
    iifname "{TAP}" oifname "{UPLINK}" jump egress
    iifname "{UPLINK}" oifname "{TAP}" jump replies
  }}
{way_out}
{flows}
  chain untracked {{
    oifname "{TAP}" ip saddr {GATEWAY} udp sport 53 notrack
  }}
  chain output {{
    oifname "lo" accept
    oifname "{TAP}" accept
  }}
  chain postrouting {{
    oifname "{UPLINK}" snat ip to {inner}
  }}
}}
"#
    );
    text
}

/// Accepts ARP from the guest only for its own MAC and address; no other rule sees ARP. The kernel
/// stores each sender in a neighbour table that all namespaces share, so a guest with many sender
/// addresses could fill it.
fn own_arp() -> String {
    format!(
        "table arp {TABLE} {{
  chain input {{ type filter hook input priority filter; policy accept; }}
}}
flush table arp {TABLE}
table arp {TABLE} {{
  chain input {{
    iifname \"{TAP}\" ether saddr {GUEST_MAC} arp htype 1 arp ptype ip arp hlen 6 arp plen 4 \
    arp saddr ether {GUEST_MAC} arp saddr ip {GUEST} accept
    iifname \"{TAP}\" drop
  }}
}}
"
    )
}

/// The sets and chains of every slot. Declaring them again changes nothing.
fn declared() -> &'static str {
    "  set refused { type ipv4_addr; flags interval; auto-merge; }
  set allowed { type ipv4_addr; flags interval; auto-merge; }
  set denied { type ipv4_addr; flags interval; auto-merge; }
  set served { type inet_service; }
  chain prerouting { type filter hook prerouting priority raw; policy accept; }
  chain input { type filter hook input priority filter; policy drop; }
  chain forward { type filter hook forward priority filter; policy drop; }
  chain output { type filter hook output priority filter; policy drop; }
  chain postrouting { type nat hook postrouting priority srcnat; policy accept; }
  chain egress { }
  chain replies { }
  chain connect { }
  chain flows { }
  chain untracked { type filter hook output priority raw; policy accept; }
  counter refused_flows { }
"
}

/// The limits for new connections of the guest. The first rule bounds open connections. It does not
/// count closed TCP connections, which stay in the kernel's table for two minutes, so the second
/// rule bounds the rate. Both count what they drop. DNS over UDP is not tracked (`prerouting`,
/// `untracked`).
fn flows() -> String {
    let refuse = "counter name refused_flows drop";
    format!(
        "  chain flows {{
    ct state new ct count over {CONNECTIONS_MAX} {refuse}
    ct state new limit rate over {FLOWS_PER_SECOND}/second burst {FLOWS_AT_ONCE} packets {refuse}
  }}"
    )
}

/// The chains for outgoing packets and replies of a slot without a list.
fn open_chains() -> String {
    "  chain egress {
    ct state invalid drop
    ct state established,related accept
    ip daddr @refused reject with icmpx type admin-prohibited
    ip daddr @allowed jump connect
    ip daddr @denied reject with icmpx type admin-prohibited
    jump connect
  }
  chain connect {
    jump flows
    accept
  }
  chain replies {
    ct state established,related accept
  }"
    .to_owned()
}

/// Returns the rules on the host, for all slots of the instance. Replaces an older version in the
/// same transaction.
pub fn host_rules(names: &NetNames, block: Cidr, exceptions: &PolicyExceptions) -> String {
    let sets = exceptions.sets();
    let table = names.table();
    let ours = format!("\"{}*\"", names.prefix());
    format!(
        r#"table inet {table} {{ }}
delete table inet {table}
table inet {table} {{
{sets}
  chain prerouting {{
    type filter hook prerouting priority raw; policy accept;
    iifname {ours} jump arrival
  }}
  chain arrival {{
    meta nfproto ipv6 drop
    ip saddr != {block} drop
    fib daddr type != unicast drop
  }}
  chain input {{
    type filter hook input priority filter - 10; policy accept;
    iifname {ours} drop
  }}
  chain forward {{
    type filter hook forward priority filter - 10; policy accept;
    iifname {ours} oifname {ours} drop
    iifname {ours} jump egress
    oifname {ours} ct state established,related accept
    oifname {ours} drop
  }}
  chain egress {{
    tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu
    ct state established,related accept
    ip daddr @refused drop
    ip daddr @allowed accept
    ip daddr @denied drop
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {block} oifname != {ours} masquerade
  }}
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(address: &str) -> bool {
        let address: Cidr = address.parse().unwrap();
        DENIED.iter().any(|network| network.overlaps(address))
    }

    #[test]
    fn private_and_metadata_addresses_are_denied() {
        for address in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "127.0.0.1",
            "0.0.0.0",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.192",
            "168.63.129.16",
        ] {
            assert!(denied(address), "{address}");
        }
        for address in
            ["192.0.2.1", "198.51.100.1", "203.0.113.80", "8.8.8.8", "172.32.0.1", "100.128.0.1", "168.63.129.17"]
        {
            assert!(!denied(address), "{address}");
        }
    }

    #[test]
    fn exceptions_become_set_elements() {
        let none = PolicyExceptions::default().sets();
        assert!(none.contains("set allowed { type ipv4_addr; flags interval; auto-merge; }"), "{none}");
        let some = PolicyExceptions {
            allow: vec!["10.9.0.0/16".parse().unwrap()],
            deny: vec!["203.0.113.9".parse().unwrap()],
        }
        .sets();
        assert!(some.contains("elements = { 10.9.0.0/16 }"), "{some}");
        assert!(some.contains("elements = { 203.0.113.9/32 }"), "{some}");
    }

    proptest::proptest! {
        #[test]
        fn the_operators_word_is_heard_in_order(bits: u32, allow: u32, deny: u32, size in 8_u8..=32) {
            let address = Ipv4Addr::from_bits(bits);
            let (allow, deny) = (Cidr::new(allow.into(), size), Cidr::new(deny.into(), size));
            let exceptions = |allow: &[Cidr], deny: &[Cidr]| PolicyExceptions { allow: allow.to_vec(), deny: deny.to_vec() };
            let within = |network: Cidr| network.overlaps(Cidr::new(address, 32));
            let by_default = exceptions(&[], &[]).permits(address);
            proptest::prop_assert_eq!(by_default, !denied(&address.to_string()));
            proptest::prop_assert_eq!(exceptions(&[allow], &[]).permits(address), by_default || within(allow));
            proptest::prop_assert_eq!(exceptions(&[], &[deny]).permits(address), by_default && !within(deny));
            let all = Cidr::new(Ipv4Addr::UNSPECIFIED, 0);
            proptest::prop_assert_eq!(exceptions(&[all], &[deny]).permits(address), !within(deny));
        }
    }

    #[test]
    fn host_rules_name_only_their_own_table() {
        let names = NetNames::of("x");
        let rules = host_rules(&names, "100.64.4.0/22".parse().unwrap(), &PolicyExceptions::default());
        for line in rules.lines().filter(|line| line.contains("table ")) {
            assert!(line.contains(&names.table()), "{line}");
        }
    }
}
