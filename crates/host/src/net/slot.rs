//! Owns one slot: a network namespace with a tap for the guest and an uplink to the host. Makes it,
//! adopts it after a restart of the host's process, removes it. Never reuses one: a slot that had a
//! guest is removed, because a new one costs less than the proof that the old one is clean.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use nix::net::if_::if_nametoindex;
use pandastack_kit::Scope;
use pandastack_model::Egress;
use pandastack_sys::netns::Netns;
use pandastack_vmm::NetworkPort;
use pandastack_wire_guest::AGENT_PORT;
use tokio::sync::{Semaphore, broadcast};

use super::{
    NetError,
    bandwidth::{Pipe, Shape},
    cidr::Cidr,
    command::{Batch, ip, nft},
    denials::{Denial, Reporter},
    dns::Relay,
    egress::{Applied, Gate, GateParts, NameCounts, NamedFor},
    names::{Names, Uplink},
    policy::{Exceptions, GATEWAY, GATEWAY_MAC, GUEST, GUEST_MAC, TAP, UPLINK},
};

/// What all slots of an instance have in common.
#[derive(Debug)]
pub(super) struct Site {
    pub names: Names,
    pub block: Cidr,
    pub exceptions: Arc<Exceptions>,
    pub resolvers: Arc<[SocketAddr]>,
    pub named_for: NamedFor,
    pub denials: broadcast::Sender<Denial>,
    /// Bounds the writes of names' addresses under way.
    pub writers: Arc<Semaphore>,
    pub scope: Scope,
}

/// A place in the network for one machine. Dropping it ends its DNS relay but leaves the namespace
/// where it is, with its number taken: that is how machines outlive the host's process.
/// `NetPool::give_back` removes it.
#[derive(Debug)]
pub struct Slot {
    number: usize,
    name: String,
    netns: Arc<Netns>,
    uplink: Uplink,
    gate: Arc<Gate>,
    pipe: Arc<Pipe>,
    relay: Relay,
    scope: Scope,
}

impl Slot {
    /// Says what the guest may reach, from now on and for connections it has open as well. All of
    /// it changes at once, also if this call is dropped. Nothing is done if nothing changes. When
    /// it fails, the rules are the old ones and the relay answers nothing until a later call
    /// succeeds.
    pub async fn set_egress(&self, egress: &Egress) -> Result<(), NetError> {
        if self.gate.is(egress) {
            return Ok(());
        }
        let (gate, egress) = (self.gate.clone(), egress.clone());
        self.scope.run("set egress", async move { gate.set(&egress).await }).await?
    }

    /// Limits how fast the guest talks to the outside, in megabits per second in each direction, or
    /// lifts the limit. Nothing is done if nothing changes.
    pub async fn set_bandwidth(&self, mbps: Option<u32>) -> Result<(), NetError> {
        if self.pipe.is(mbps) {
            return Ok(());
        }
        let pipe = self.pipe.clone();
        self.scope.run("set bandwidth", async move { pipe.limit(mbps).await }).await?
    }

    /// Counts what the names of its egress list have cost.
    pub fn name_counts(&self) -> NameCounts {
        self.gate.name_counts()
    }

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
                // The first error tells what went wrong; should the removal fail as well, the next
                // sweep repeats it.
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
        let rules = Gate::first_rules(uplink, &site.exceptions);
        let links = inner_links(uplink);
        let (linked, ruled) = tokio::join!(ip(Batch::StopAtError, &links, inside), nft(&rules, inside));
        linked.map_err(failed("set up a slot's links"))?;
        ruled.map_err(failed("set up a slot's rules"))?;
        let gate = slot.gate(site, Applied::As(Egress::Open));
        slot.serve(site, gate, Shape::Limited(None))
    }

    /// Takes over a slot that an earlier process of this instance made. What that one had applied
    /// is not asked for: the rules are written anew, and the relay starts when they are there.
    pub(super) async fn adopt(site: &Site, number: usize, egress: &Egress) -> Result<Slot, NetError> {
        let slot = Slot::open(number, site.names.slot(number), Uplink::of(site.block, number))?;
        let gate = slot.gate(site, Applied::Unknown);
        if let Err(error) = gate.set(egress).await {
            gate.close().await;
            return Err(error);
        }
        slot.serve(site, gate, Shape::Unknown)
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
    fn gate(&self, site: &Site, applied: Applied) -> Arc<Gate> {
        Arc::new(Gate::new(GateParts {
            netns: self.netns.clone(),
            uplink: self.uplink,
            exceptions: site.exceptions.clone(),
            named_for: site.named_for,
            reporter: Arc::new(Reporter::new(self.name.clone(), site.denials.clone())),
            scope: site.scope.clone(),
            writers: site.writers.clone(),
            applied,
        }))
    }

    fn serve(self, site: &Site, gate: Arc<Gate>, shape: Shape) -> Result<Slot, NetError> {
        let started = Relay::start(&self.netns, site.resolvers.clone(), gate.clone(), &site.scope);
        let relay = started.map_err(self.io("answer DNS in"))?;
        let Opened { number, name, uplink, netns } = self;
        let pipe = Arc::new(Pipe::new(name.clone(), netns.clone(), shape));
        Ok(Slot { number, name, netns, uplink, gate, pipe, relay, scope: site.scope.clone() })
    }

    fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> NetError + use<> {
        let name = self.name.clone();
        move |cause| NetError::Namespace { action, name, cause }
    }
}

/// Ends a slot's relay and removes it.
pub(super) async fn destroy(slot: Slot) -> Result<(), NetError> {
    let Slot { name, netns, relay, gate, pipe, .. } = slot;
    // Open sockets and handles would keep the namespace alive behind its name.
    relay.stop().await;
    gate.close().await;
    pipe.close().await;
    drop((netns, gate, pipe));
    remove(&[name]).await
}

/// Removes namespaces and the links that lead to them, and makes sure that they are gone.
pub(super) async fn remove(names: &[String]) -> Result<(), NetError> {
    let mut lines = String::new();
    for name in names {
        // The link first: removing it takes effect at once, while the kernel takes a namespace
        // apart later.
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
        // A complaint about something that is gone anyway is of no interest: two removals may have
        // met.
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

/// Runs inside the namespace: these settings belong to the namespace of the thread that writes
/// them.
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
