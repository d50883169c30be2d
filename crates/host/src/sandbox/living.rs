//! A machine whose guest answers, with all its resources.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use pandastack_kit::{Secret, Undo};
use pandastack_layers::Layer;
use pandastack_vmm::Machine;

use super::{last_copy::LastCopy, prepare::SlotHandle};
use crate::{
    guest::{GuestSession, SpareHolder},
    volumes::VolumeClaim,
};

/// The machine of a sandbox that is not asleep.
pub struct LivingMachine {
    pub machine: Arc<dyn Machine>,
    pub session: GuestSession,
    /// Spare link that a seal records for copies of this guest.
    pub spare: SpareHolder,
    /// Secret that the agent requires on a new link.
    pub secret: Secret<Vec<u8>>,
    /// Layer that the machine was restored from. Its memory file is the base of the machine's
    /// memory.
    pub layer: Layer,
    /// The memory of the last seal, to start the next one from.
    pub last_copy: LastCopy,
    /// The machine's own root disk.
    pub disk: PathBuf,
    pub slot: SlotHandle,
    /// The volumes in the machine's slots.
    pub claim: VolumeClaim,
    pub undo: Undo,
    pub boot: Duration,
    /// The part of `boot` before the guest ran.
    pub prepared: Duration,
    /// When the guest answered first. Unknown if an earlier process started the machine.
    pub since: Option<Instant>,
    pub boot_mode: &'static str,
    /// Value of `Machine::went_on` when the clock was last set because of it.
    pub waits: u64,
}
