//! The host's network: a pool of namespaces, one per machine, with the same addresses in each. Owns
//! names, addresses, links, rules, egress lists, DNS relays and gateway listeners of one instance,
//! and removes them. Never starts a machine, talks to a guest's agent, or changes a table or link
//! that it did not make. See `docs/network.md`.

mod bandwidth;
mod block;
mod cidr;
mod command;
mod denials;
mod dns;
mod egress;
mod filter;
mod gateway;
mod limits;
mod listed;
mod names;
mod policy;
mod pool;
mod query;
mod slot;
mod sweep;
mod token_bucket;

use std::{io, net::SocketAddr};

pub use cidr::{BadCidr, Cidr};
pub use command::CommandError;
pub use denials::Denial;
pub use egress::{NameCounts, NameTtlBounds};
pub use gateway::GatewayGuest;
pub use limits::{CONNECTIONS_MAX, GATEWAY_CONNECTIONS_MAX, NAMED_WRITES_AT_ONCE, NAMED_WRITES_PER_SECOND, SLOTS_MAX};
use limits::{DESCRIPTORS_PER_SLOT, SLOTS_PART_OF_DESCRIPTORS};
use pandastack_kit::ScopeError;
pub use policy::{GATEWAY, GATEWAY_MAC, GUEST, GUEST_MAC, TAP};
pub use pool::{NetPool, SlotCounts};
pub use query::{BadQuery, BadQueryReason, DnsQuery, check_query};
pub use slot::NetSlot;
pub use sweep::{NetLeftovers, leftovers, sweep};

/// The network settings of one instance.
#[derive(Clone, Debug)]
pub struct NetSettings {
    /// Identifies this instance on the host: the path of its data folder.
    pub instance: String,
    /// Slots to make ahead.
    pub ready: usize,
    /// Largest number of slots, at most [`SLOTS_MAX`].
    pub max: usize,
    /// Resolvers for guests' questions. If empty, those of the host's `/etc/resolv.conf`.
    pub resolvers: Vec<SocketAddr>,
    /// Networks that guests may reach although the default policy refuses them. Never opens the
    /// host or other sandboxes.
    pub allow_nets: Vec<Cidr>,
    /// Networks that guests may not reach in addition to the default policy. Takes precedence over
    /// `allow_nets`.
    pub deny_nets: Vec<Cidr>,
    /// How long addresses stay open to a restricted guest after an answer.
    pub named_for: NameTtlBounds,
}

impl NetSettings {
    /// Limits the number of slots to what a process with this many descriptors can serve.
    pub fn within(self, descriptors: u64) -> NetSettings {
        let slots = descriptors / SLOTS_PART_OF_DESCRIPTORS / DESCRIPTORS_PER_SLOT;
        let max = usize::try_from(slots).unwrap_or(usize::MAX).clamp(1, self.max);
        NetSettings { max, ready: self.ready.min(max), ..self }
    }

    /// Returns the default settings of an instance.
    pub fn of(instance: impl Into<String>) -> NetSettings {
        NetSettings {
            instance: instance.into(),
            ready: 4,
            max: SLOTS_MAX,
            resolvers: Vec::new(),
            allow_nets: Vec::new(),
            deny_nets: Vec::new(),
            named_for: NameTtlBounds { floor: limits::NAMED_FLOOR, ceiling: limits::NAMED_CEILING },
        }
    }
}

/// A slot could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("cannot keep {ready} network slots ready of at most {max}; the limit is {SLOTS_MAX}")]
    Settings { ready: usize, max: usize },
    #[error("all {max} network slots are in use")]
    Full { max: usize },
    #[error("no free block of addresses: this host has routes in both 100.64.0.0/10 and 198.18.0.0/15")]
    NoBlock,
    #[error("the network pool is closed")]
    Closed,
    #[error("{name} is not an adoptable network slot of an earlier run")]
    Unknown { name: String },
    #[error("{names:?} still exist after their removal")]
    Remains { names: Vec<String> },
    #[error("{action}")]
    Command {
        action: &'static str,
        #[source]
        cause: CommandError,
    },
    #[error("{action} namespace {name}")]
    Namespace {
        action: &'static str,
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("{action}")]
    Host {
        action: &'static str,
        #[source]
        cause: io::Error,
    },
    #[error(transparent)]
    Task(#[from] ScopeError),
}
