//! One file per verb. A verb reads a view, plans, commits, and asks the host.

mod attempts;
mod audit;
mod authenticate;
mod bootstrap;
mod change;
mod create;
mod delete;
mod egress;
mod fork;
mod lifecycle;
mod pause;
mod ports;
mod preview;
mod promote;
mod reach;
mod resume;
mod settle;
mod sleep;
mod snapshot;
mod tree;
mod volumes;
mod wake;

pub use authenticate::KeyCache;
pub use bootstrap::{BootstrapError, BootstrapKey};
pub(crate) use bootstrap::{FIRST_WORKSPACE, shown_prefix};
pub(crate) use create::{observed, public_boot_mode, size};
pub(crate) use fork::{Family, Forks};
pub(crate) use ports::SeenPort;
pub(crate) use preview::PreviewSigner;
pub(crate) use promote::Promotions;
pub(crate) use settle::Settle;
pub(crate) use snapshot::no_snapshot;
pub(crate) use volumes::{SeenVolume, no_volume};
