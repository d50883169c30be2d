//! Owns the nftables rules of a slot with an egress list. Pure text, like `policy`. A connection
//! with the list's mark passes. Others are checked against the policy, then `nets` (networks),
//! `named` (addresses of allowed names, which expire) and, for open connections, `kept` (such
//! addresses, expired or not). Replies are checked by the connection's destination.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Write as _},
    net::Ipv4Addr,
    time::Duration,
};

use super::{
    cidr::Cidr,
    denials::{LOG_BYTES, LOG_GROUP},
    limits::{DENIALS_PER_WINDOW, DENIALS_WINDOW, NAMED_MAX},
    policy::{TABLE, TAP},
};

/// The parts of an egress list from which its rules are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTargets {
    /// Identifies the connections and addresses of this list. See `mark_of`.
    pub mark: u32,
    pub nets: Vec<Cidr>,
    /// Addresses of the list's names. `None` keeps the addresses that the kernel has.
    pub answers: Option<ListedAddresses>,
}

/// Addresses of allowed names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedAddresses {
    /// Open for new connections, and for how long.
    pub named: BTreeMap<Ipv4Addr, Duration>,
    /// Open for existing connections.
    pub kept: BTreeSet<Ipv4Addr>,
}

/// Declares the sets and chains of lists. Every slot has them, so that a list can be applied at any
/// time. `named` also has space for addresses of an earlier list.
pub fn declared() -> String {
    let (room, seen, window) = (NAMED_MAX * 2, DENIALS_PER_WINDOW, DENIALS_WINDOW.as_secs());
    format!(
        "  set nets {{ type ipv4_addr; flags interval; auto-merge; }}
  set named {{ type mark . ipv4_addr; flags timeout; size {room}; }}
  set kept {{ type mark . ipv4_addr; size {room}; }}
  set seen_ports {{ type ipv4_addr . inet_proto . inet_service; flags dynamic,timeout; timeout {window}s; \
  size {seen}; }}
  set seen_others {{ type ipv4_addr . inet_proto; flags dynamic,timeout; timeout {window}s; size {seen}; }}
  chain listed {{ }}
  chain report {{ }}
  chain report_port {{ }}
  chain report_other {{ }}
"
    )
}

/// Returns the elements of a list's sets. Without a list they are emptied. The sets of reported
/// targets are emptied too, because there may be a new receiver.
pub fn elements(listed: Option<&ListedTargets>) -> String {
    let forgotten = ["seen_ports", "seen_others"].map(|set| refill(set, "")).concat();
    let Some(ListedTargets { mark, nets, answers }) = listed else {
        return forgotten + &["nets", "named", "kept"].map(|set| refill(set, "")).concat();
    };
    let mut text = forgotten + &refill("nets", &joined(nets));
    if let Some(ListedAddresses { named, kept }) = answers {
        let named: Vec<_> = named.iter().map(|(address, left)| timed(*mark, *address, *left)).collect();
        let kept: Vec<_> = kept.iter().map(|address| format!("{mark:#x} . {address}")).collect();
        text.push_str(&refill("named", &joined(&named)));
        text.push_str(&refill("kept", &joined(&kept)));
    }
    text
}

/// Returns the chains for outgoing packets and replies of a slot with a list, and for reports.
pub fn chains(listed: &ListedTargets) -> String {
    let mark = listed.mark;
    let log = log();
    // The connection's original destination: the same for the guest's packets and for replies.
    let to = "ct original ip daddr";
    format!(
        "  chain egress {{
    ct state invalid drop
    jump listed
    jump report
    ct state established meta l4proto tcp reject with tcp reset
    reject with icmpx type admin-prohibited
  }}
  chain replies {{
    ct state established,related jump listed
  }}
  chain listed {{
    ct state established,related ct mark {mark:#x} accept
    {to} @refused return
    {to} != @allowed {to} @denied return
    meta mark set {mark:#x}
    {to} @nets goto connect
    meta mark . {to} @named goto connect
    ct state established,related meta mark . {to} @kept goto connect
    meta mark set 0
  }}
  chain connect {{
    meta mark set 0
    jump flows
    ct mark set {mark:#x}
    accept
  }}
  chain report {{
    meta l4proto {{ tcp, udp }} jump report_port
    meta l4proto != {{ tcp, udp }} jump report_other
  }}
  chain report_port {{
    ip daddr . meta l4proto . th dport != @seen_ports add @seen_ports {{ ip daddr . meta l4proto . th dport }} {log}
  }}
  chain report_other {{
    ip daddr . meta l4proto != @seen_others add @seen_others {{ ip daddr . meta l4proto }} {log}
  }}"
    )
}

/// Returns the rules that report IPv6 packets, if there is a list. A slot has IPv6 disabled, so
/// rules of other families never see these packets. ICMPv6 multicast is not reported, because the
/// guest's network stack sends it by itself.
pub fn at_the_link(listed: Option<&ListedTargets>) -> String {
    let none = format!("table netdev {TABLE} {{ }}\ndelete table netdev {TABLE}\n");
    if listed.is_none() {
        return none;
    }
    let (seen, window, log) = (DENIALS_PER_WINDOW, DENIALS_WINDOW.as_secs(), log());
    let (port, other) = ("ip6 daddr . meta l4proto . th dport", "ip6 daddr . meta l4proto");
    format!(
        "{none}table netdev {TABLE} {{
  set seen_ports {{ type ipv6_addr . inet_proto . inet_service; flags dynamic,timeout; timeout {window}s; \
  size {seen}; }}
  set seen_others {{ type ipv6_addr . inet_proto; flags dynamic,timeout; timeout {window}s; size {seen}; }}
  chain report {{
    meta l4proto icmpv6 ip6 daddr ff00::/8 drop
    meta l4proto {{ tcp, udp }} {port} != @seen_ports add @seen_ports {{ {port} }} {log}
    meta l4proto != {{ tcp, udp }} {other} != @seen_others add @seen_others {{ {other} }} {log}
    drop
  }}
  chain ingress {{
    type filter hook ingress device \"{TAP}\" priority filter; policy accept;
    meta protocol ip6 goto report
  }}
}}
"
    )
}

fn log() -> String {
    format!("log group {LOG_GROUP} snaplen {LOG_BYTES}")
}

/// Opens addresses of names for a list. Deletes and adds each address, because on most kernels
/// adding an existing element keeps its old timeout.
pub fn add_named(mark: u32, addresses: impl Iterator<Item = (Ipv4Addr, Duration)>) -> String {
    let mut longest: BTreeMap<Ipv4Addr, Duration> = BTreeMap::new();
    for (address, left) in addresses {
        let known = longest.entry(address).or_default();
        *known = left.max(*known);
    }
    let timed: Vec<_> = longest.iter().map(|(address, left)| timed(mark, *address, *left)).collect();
    let bare: Vec<_> = longest.keys().map(|address| format!("{mark:#x} . {address}")).collect();
    let (timed, bare) = (joined(&timed), joined(&bare));
    format!(
        "add element inet {TABLE} named {{ {timed} }}\n\
         delete element inet {TABLE} named {{ {bare} }}\n\
         add element inet {TABLE} named {{ {timed} }}\n"
    )
}

/// Replaces the elements of a set.
pub fn refill(set: &str, elements: &str) -> String {
    let mut text = format!("flush set inet {TABLE} {set}\n");
    if !elements.is_empty() {
        let _ = writeln!(text, "add element inet {TABLE} {set} {{ {elements} }}");
    }
    text
}

/// Joins the elements of a set with commas.
pub fn joined(items: &[impl Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn timed(mark: u32, address: Ipv4Addr, left: Duration) -> String {
    // Zero would mean no timeout.
    format!("{mark:#x} . {address} timeout {}ms", left.as_millis().max(1))
}
