//! A machine whose guest answers, with everything it holds.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_kit::{Secret, Undo};
use pandastack_layers::Layer;
use pandastack_vmm::Machine;

use super::prepare::SlotHandle;
use crate::{
    guest::{Session, SparePlace},
    volumes::Claim,
};

/// What a sandbox that is not asleep consists of.
pub struct Living {
    pub machine: Arc<dyn Machine>,
    pub session: Session,
    /// A connection for copies of this guest.
    pub spare: SparePlace,
    /// What the agent wants to hear from who connects.
    pub secret: Secret<Vec<u8>>,
    /// What the machine was restored from; its memory file is the base of the machine's own.
    pub layer: Layer,
    /// The machine's own root disk.
    pub disk: PathBuf,
    pub slot: SlotHandle,
    /// The durable disks in the machine's slots.
    pub claim: Claim,
    pub undo: Undo,
    pub boot: Duration,
    /// The part of it before the guest ran.
    pub prepared: Duration,
    /// When it came to life; unknown of one that an earlier process started.
    pub since: Option<Instant>,
    pub boot_mode: &'static str,
    /// How often it had gone on after a wait for room when its clock was set last.
    pub waits: u64,
}
