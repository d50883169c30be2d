//! Owns one slot: a network namespace with a tap for the guest and an uplink to the host. Makes it,
//! adopts it after a restart of the host's process, and removes it. Never reuses a slot: a new one
//! costs less than proving that the old one is clean.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nix::net::if_::if_nametoindex;
use pandastack_kit::Scope;
use pandastack_model::Egress;
use pandastack_sys::netns::Netns;
use pandastack_vmm::NetworkAttachment;
use pandastack_wire_guest::AGENT_PORT;
use tokio::sync::{Semaphore, broadcast};

use super::{
    NetError,
    bandwidth::{AppliedLimit, BandwidthLimit},
    cidr::Cidr,
    command::{BatchMode, ip, nft},
    denials::{Denial, DenialReporter},
    dns::DnsRelay,
    egress::{AppliedEgress, EgressGate, EgressGateSetup, NameCounts, NameTtlBounds},
    gateway::{GatewayGuest, GatewayListener},
    names::{NetNames, Uplink},
    policy::{GATEWAY, GATEWAY_MAC, GUEST, GUEST_MAC, PolicyExceptions, TAP, UPLINK},
};

/// What all slots of an instance share.
#[derive(Debug)]
pub(super) struct SlotContext {
    pub names: NetNames,
    pub block: Cidr,
    pub exceptions: Arc<PolicyExceptions>,
    pub resolvers: Arc<[SocketAddr]>,
    pub named_for: NameTtlBounds,
    pub denials: broadcast::Sender<Denial>,
    /// Bounds the writes of names' addresses in progress.
    pub writers: Arc<Semaphore>,
    pub scope: Scope,
}

/// The network slot of one machine. Dropping it ends what it serves to the guest, but keeps the
/// namespace and its number, so that machines outlive the host's process. `NetPool::give_back`
/// removes it.
#[derive(Debug)]
pub struct NetSlot {
    number: usize,
    name: String,
    netns: Arc<Netns>,
    uplink: Uplink,
    gate: Arc<EgressGate>,
    pipe: Arc<BandwidthLimit>,
    relay: DnsRelay,
    gateway: Mutex<Option<GatewayListener>>,
    scope: Scope,
}

impl NetSlot {
    /// Sets what the guest may reach, for new and open connections. The change is one transaction
    /// and completes even if this call is dropped. Does nothing if the list is applied already.
    /// After a failure the old rules stay and the relay answers nothing until a later call
    /// succeeds.
    pub async fn set_egress(&self, egress: &Egress) -> Result<(), NetError> {
        if self.gate.is(egress) {
            return Ok(());
        }
        let (gate, egress) = (self.gate.clone(), egress.clone());
        self.scope.run("set egress", async move { gate.set(&egress).await }).await?
    }

    /// Sets what the guest may reach like `set_egress`, and serves the guest at its gateway until
    /// the slot is removed.
    pub async fn serve_gateway(&self, egress: &Egress, guest: GatewayGuest) -> Result<(), NetError> {
        let earlier = self.listener().take();
        if let Some(earlier) = earlier {
            earlier.stop().await;
        }
        let failed = |cause| NetError::Namespace { action: "serve the gateway in", name: self.name.clone(), cause };
        *self.listener() = Some(GatewayListener::start(&self.netns, guest, &self.scope).map_err(failed)?);
        let (gate, egress) = (self.gate.clone(), egress.clone());
        self.scope.run("open gateway", async move { gate.set_and_open(&egress).await }).await?
    }

    fn listener(&self) -> MutexGuard<'_, Option<GatewayListener>> {
        // Each change under this lock is one step, so a panic elsewhere cannot leave it half done.
        self.gateway.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits the guest's bandwidth to the outside, in megabits per second in each direction, or
    /// removes the limit. Does nothing if nothing changes.
    pub async fn set_bandwidth(&self, mbps: Option<u32>) -> Result<(), NetError> {
        if self.pipe.is(mbps) {
            return Ok(());
        }
        let pipe = self.pipe.clone();
        self.scope.run("set bandwidth", async move { pipe.limit(mbps).await }).await?
    }

    /// Returns the cost counters of the names on its egress list.
    pub fn name_counts(&self) -> NameCounts {
        self.gate.name_counts()
    }

    /// Returns the name of its namespace, which the ledger stores for adoption after a restart.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what a machine needs to use this slot's network.
    pub fn port(&self) -> NetworkAttachment {
        NetworkAttachment {
            netns: path_of(&self.name),
            tap: TAP.to_owned(),
            mac: GUEST_MAC.to_owned(),
            guest_address: GUEST,
            guest_port: AGENT_PORT,
        }
    }

    /// Returns the open namespace, for connections to the guest.
    pub fn netns(&self) -> &Arc<Netns> {
        &self.netns
    }

    /// Returns the address that the guest's traffic has between the namespace and the host.
    pub fn uplink_address(&self) -> Ipv4Addr {
        self.uplink.inner
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Makes a slot. Removes the remains of a failed attempt.
    pub(super) async fn make(site: &SlotContext, number: usize) -> Result<NetSlot, NetError> {
        match NetSlot::build(site, number).await {
            Ok(slot) => Ok(slot),
            Err(error) => {
                // The first error is the useful one. If the removal fails too, the next sweep
                // repeats it.
                let _ = remove(&[site.names.slot(number)]).await;
                Err(error)
            }
        }
    }

    async fn build(site: &SlotContext, number: usize) -> Result<NetSlot, NetError> {
        let name = site.names.slot(number);
        let uplink = Uplink::of(site.block, number);
        let failed = |action| move |cause| NetError::Command { action, cause };
        ip(BatchMode::StopAtError, &outer_links(&name, uplink), None)
            .await
            .map_err(failed("create a slot's namespace"))?;
        let slot = NetSlot::open(number, name, uplink)?;
        let inside = Some(&*slot.netns);
        slot.netns.run(route_only_ipv4).and_then(|done| done).map_err(slot.io("set up routing in"))?;
        // Rules may name links that do not exist yet, so both programs can run at the same time.
        let rules = EgressGate::first_rules(uplink, &site.exceptions);
        let links = inner_links(uplink);
        let (linked, ruled) = tokio::join!(ip(BatchMode::StopAtError, &links, inside), nft(&rules, inside));
        linked.map_err(failed("set up a slot's links"))?;
        ruled.map_err(failed("set up a slot's rules"))?;
        let gate = slot.gate(site, AppliedEgress::As(Egress::Open));
        slot.serve(site, gate, AppliedLimit::Limited(None))
    }

    /// Takes over a slot that an earlier process of this instance made. Always writes the rules
    /// anew and starts the relay after that.
    pub(super) async fn adopt(site: &SlotContext, number: usize, egress: &Egress) -> Result<NetSlot, NetError> {
        let slot = NetSlot::open(number, site.names.slot(number), Uplink::of(site.block, number))?;
        let gate = slot.gate(site, AppliedEgress::Unknown);
        if let Err(error) = gate.set(egress).await {
            gate.close().await;
            return Err(error);
        }
        slot.serve(site, gate, AppliedLimit::Unknown)
    }

    fn open(number: usize, name: String, uplink: Uplink) -> Result<OpenedSlot, NetError> {
        let opened = Netns::open(&path_of(&name));
        let netns = opened.map_err(|cause| NetError::Namespace { action: "open", name: name.clone(), cause })?;
        Ok(OpenedSlot { number, name, uplink, netns: Arc::new(netns) })
    }
}

/// A slot whose DNS relay is not running yet.
struct OpenedSlot {
    number: usize,
    name: String,
    uplink: Uplink,
    netns: Arc<Netns>,
}

impl OpenedSlot {
    fn gate(&self, site: &SlotContext, applied: AppliedEgress) -> Arc<EgressGate> {
        Arc::new(EgressGate::new(EgressGateSetup {
            netns: self.netns.clone(),
            uplink: self.uplink,
            exceptions: site.exceptions.clone(),
            named_for: site.named_for,
            reporter: Arc::new(DenialReporter::new(self.name.clone(), site.denials.clone())),
            scope: site.scope.clone(),
            writers: site.writers.clone(),
            applied,
        }))
    }

    fn serve(self, site: &SlotContext, gate: Arc<EgressGate>, shape: AppliedLimit) -> Result<NetSlot, NetError> {
        let started = DnsRelay::start(&self.netns, site.resolvers.clone(), gate.clone(), &site.scope);
        let relay = started.map_err(self.io("answer DNS in"))?;
        let OpenedSlot { number, name, uplink, netns } = self;
        let pipe = Arc::new(BandwidthLimit::new(name.clone(), netns.clone(), shape));
        let (gateway, scope) = (Mutex::new(None), site.scope.clone());
        Ok(NetSlot { number, name, netns, uplink, gate, pipe, relay, gateway, scope })
    }

    fn io(&self, action: &'static str) -> impl FnOnce(io::Error) -> NetError + use<> {
        let name = self.name.clone();
        move |cause| NetError::Namespace { action, name, cause }
    }
}

/// Ends what a slot serves and removes the slot.
pub(super) async fn destroy(slot: NetSlot) -> Result<(), NetError> {
    let NetSlot { name, netns, relay, gateway, gate, pipe, .. } = slot;
    let gateway = gateway.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Open sockets and handles would keep the namespace alive without its name.
    relay.stop().await;
    if let Some(gateway) = gateway {
        gateway.stop().await;
    }
    gate.close().await;
    pipe.close().await;
    drop((netns, gate, pipe));
    remove(&[name]).await
}

/// Removes namespaces and the links that lead to them, and checks that they are gone.
pub(super) async fn remove(names: &[String]) -> Result<(), NetError> {
    let mut lines = String::new();
    for name in names {
        // The link first: it is gone at once, while the kernel removes a namespace later.
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
    let ran = ip(BatchMode::GoOn, &lines, None).await;
    let left: Vec<_> =
        names.iter().filter(|name| path_of(name).exists() || if_nametoindex(name.as_str()).is_ok()).cloned().collect();
    match ran {
        // An error about an object that is gone does not matter: two removals may have run at once.
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

/// Must run inside the namespace: these settings apply to the namespace of the writing thread.
fn route_only_ipv4() -> io::Result<()> {
    for every in ["all", "default"] {
        match std::fs::write(format!("/proc/sys/net/ipv6/conf/{every}/disable_ipv6"), "1") {
            // A kernel without IPv6 has nothing to disable.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            written => written?,
        }
    }
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
}
