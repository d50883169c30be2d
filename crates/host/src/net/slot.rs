//! Owns one slot: a network namespace with a tap for the guest and an uplink to the host. Makes it, adopts it after a restart
//! of the host's process, removes it.
//! Never reuses one: a slot that had a guest is removed, because a new one costs less than the proof that the old one is clean.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use nix::net::if_::if_nametoindex;
use pandastack_kit::Scope;
use pandastack_sys::netns::Netns;
use pandastack_vmm::NetworkPort;
use pandastack_wire_guest::AGENT_PORT;

use super::{
    NetError,
    cidr::Cidr,
    command::{Batch, ip, nft},
    dns::Relay,
    names::{Names, Uplink},
    policy::{Exceptions, GATEWAY, GATEWAY_MAC, GUEST, GUEST_MAC, TAP, UPLINK, slot_rules},
};

/// What all slots of an instance have in common.
#[derive(Debug)]
pub(super) struct Site {
    pub names: Names,
    pub block: Cidr,
    pub exceptions: Exceptions,
    pub resolvers: Arc<[SocketAddr]>,
    pub scope: Scope,
}

/// A place in the network for one machine. Dropping it ends its DNS relay but leaves the namespace where it is, with its
/// number taken: that is how machines outlive the host's process. `NetPool::give_back` removes it.
#[derive(Debug)]
pub struct Slot {
    number: usize,
    name: String,
    netns: Arc<Netns>,
    uplink: Uplink,
    relay: Relay,
}

impl Slot {
    /// Gives the name of its namespace, to be written down and adopted after a restart.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the machine's place in the network.
    pub fn port(&self) -> NetworkPort {
        NetworkPort {
            netns: path_of(&self.name),
            tap: TAP.to_owned(),
            mac: GUEST_MAC.to_owned(),
            guest_address: GUEST,
            guest_port: AGENT_PORT,
        }
    }

    /// Gives the open namespace, for dialling the guest.
    pub fn netns(&self) -> &Arc<Netns> {
        &self.netns
    }

    /// Gives the address that the guest's traffic has between the namespace and the host.
    pub fn uplink_address(&self) -> Ipv4Addr {
        self.uplink.inner
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Makes a slot. What a failed attempt had made is removed.
    pub(super) async fn make(site: &Site, number: usize) -> Result<Slot, NetError> {
        match Slot::build(site, number).await {
            Ok(slot) => Ok(slot),
            Err(error) => {
                // The first error tells what went wrong; should the removal fail as well, the next sweep repeats it.
                let _ = remove(&[site.names.slot(number)]).await;
                Err(error)
            }
        }
    }

    async fn build(site: &Site, number: usize) -> Result<Slot, NetError> {
        let name = site.names.slot(number);
        let uplink = Uplink::of(site.block, number);
        let failed = |action| move |cause| NetError::Command { action, cause };
        ip(Batch::StopAtError, &outer_links(&name, uplink), None).await.map_err(failed("make a slot's namespace"))?;
        let slot = Slot::open(number, name, uplink)?;
        let inside = Some(&*slot.netns);
        slot.netns.run(route_only_ipv4).and_then(|done| done).map_err(slot.io("set up routing in"))?;
        // Rules name links that need not exist yet, so the two programs can run side by side.
        let rules = slot_rules(uplink, &site.exceptions);
        let links = inner_links(uplink);
        let (linked, ruled) = tokio::join!(ip(Batch::StopAtError, &links, inside), nft(&rules, inside));
        linked.map_err(failed("set up a slot's links"))?;
        ruled.map_err(failed("set up a slot's rules"))?;
        slot.serve(site)
    }

    /// Takes over a slot that an earlier process of this instance made.
    pub(super) fn adopt(site: &Site, number: usize) -> Result<Slot, NetError> {
        Slot::open(number, site.names.slot(number), Uplink::of(site.block, number))?.serve(site)
    }

    fn open(number: usize, name: String, uplink: Uplink) -> Result<Opened, NetError> {
        let opened = Netns::open(&path_of(&name));
        let netns = opened.map_err(|cause| NetError::Namespace { action: "open", name: name.clone(), cause })?;
        Ok(Opened { number, name, uplink, netns: Arc::new(netns) })
    }
}

/// A slot whose DNS relay does not run yet.
struct Opened {
    number: usize,
    name: String,
    uplink: Uplink,
    netns: Arc<Netns>,
}

impl Opened {
    fn serve(self, site: &Site) -> Result<Slot, NetError> {
        let started = Relay::start(&self.netns, site.resolvers.clone(), &site.scope);
        let relay = started.map_err(self.io("answer DNS in"))?;
        let Opened { number, name, uplink, netns } = self;
        Ok(Slot { number, name, netns, uplink, relay })
    }

    fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> NetError + use<> {
        let name = self.name.clone();
        move |cause| NetError::Namespace { action, name, cause }
    }
}

/// Ends a slot's relay and removes it.
pub(super) async fn destroy(slot: Slot) -> Result<(), NetError> {
    let Slot { name, netns, relay, .. } = slot;
    // Open sockets and handles would keep the namespace alive behind its name.
    relay.stop().await;
    drop(netns);
    remove(&[name]).await
}

/// Removes namespaces and the links that lead to them, and makes sure that they are gone.
pub(super) async fn remove(names: &[String]) -> Result<(), NetError> {
    let mut lines = String::new();
    for name in names {
        // The link first: removing it takes effect at once, while the kernel takes a namespace apart later.
        if if_nametoindex(name.as_str()).is_ok() {
            lines.push_str(&format!("link del {name}\n"));
        }
        if path_of(name).exists() {
            lines.push_str(&format!("netns del {name}\n"));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let ran = ip(Batch::GoOn, &lines, None).await;
    let left: Vec<_> =
        names.iter().filter(|name| path_of(name).exists() || if_nametoindex(name.as_str()).is_ok()).cloned().collect();
    match ran {
        // A complaint about something that is gone anyway is of no interest: two removals may have met.
        _ if left.is_empty() => Ok(()),
        Ok(()) => Err(NetError::Remains { names: left }),
        Err(cause) => Err(NetError::Command { action: "remove slots", cause }),
    }
}

pub(super) fn path_of(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

fn outer_links(name: &str, uplink: Uplink) -> String {
    let Uplink { outer, .. } = uplink;
    let bits = Uplink::BITS;
    format!(
        "netns add {name}\n\
         link add {name} type veth peer name {UPLINK} netns {name}\n\
         link set {name} addrgenmode none\n\
         addr add {outer}/{bits} dev {name}\n\
         link set {name} up\n"
    )
}

fn inner_links(uplink: Uplink) -> String {
    let Uplink { outer, inner } = uplink;
    let bits = Uplink::BITS;
    format!(
        "link set lo up\n\
         tuntap add dev {TAP} mode tap\n\
         link set {TAP} address {GATEWAY_MAC}\n\
         addr add {GATEWAY}/30 dev {TAP}\n\
         link set {TAP} up\n\
         neigh replace {GUEST} lladdr {GUEST_MAC} dev {TAP} nud permanent\n\
         addr add {inner}/{bits} dev {UPLINK}\n\
         link set {UPLINK} up\n\
         route add default via {outer}\n"
    )
}

/// Runs inside the namespace: these settings belong to the namespace of the thread that writes them.
fn route_only_ipv4() -> io::Result<()> {
    for every in ["all", "default"] {
        match std::fs::write(format!("/proc/sys/net/ipv6/conf/{every}/disable_ipv6"), "1") {
            // A kernel without IPv6 has nothing to switch off.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            written => written?,
        }
    }
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
}
