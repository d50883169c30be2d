//! The machine contract that every driver fulfils. `conformance` is the suite that each driver
//! passes. `bins` passes a driver to the host; the host imports none.
//!
//! ```text
//! boot ----> Running <--resume/pause--> Paused <---- restore
//!               \                          |
//!                `------> Dead <----------'     (stop, or the process died)
//! ```
//! `restore` ends in `Paused`: the host decides when a guest first runs, and keeps paused machines
//! as standby.

pub mod conformance;
mod contract;
mod files;
mod groups;
mod link;
mod memory;
mod slot;

pub use contract::{
    Blank, BootImage, Driver, Machine, MachineError, MachineLimits, MachineProfile, MachineSpec, MachineStartError,
    MachineState, NetworkAttachment, Power,
};
pub use files::LayerFiles;
pub use groups::{group_of, groups_of};
pub use link::{Link, LinkState, LinkWindow, SealableLink};
pub use memory::{AheadCopy, MemoryDelta, MemoryPart, MemoryRange, MemoryUse};
pub use slot::{BadVolumeSlot, SlotVolume, VOLUME_SLOTS, VolumeSlot};
