//! The per-host agent: owns machines, their disks and networks, and knows what really runs here.
//! `bins` passes it a machine driver; it never imports one.

mod audit;
pub mod bake;
mod beyond;
mod consoles;
mod denials;
mod fork;
mod guest;
mod host;
mod ledger;
mod level;
mod modes;
pub mod net;
mod port;
mod recover;
mod sandbox;
mod settings;
mod steady;
mod succession;
mod trim;
mod usage;
mod volumes;

pub use host::{Host, HostSetup, StartUpError};
pub use ledger::{BilledSize, Ledger, LedgerError, MachineRow, SandboxRecord, VolumeUse};
#[cfg(feature = "faults")]
pub use ledger::{LedgerFaults, WriteLoss};
pub use modes::{OpenPath, close_paths, open_paths};
pub use recover::{RecoverError, RecoveryReport, clear_abandoned};
pub use sandbox::ShutdownMode;
pub use settings::{HostSettings, MemorySource};
pub use steady::{ClockReading, ClockSource};
pub use volumes::{HostVolumes, VolumeClaim, VolumeGrowth, VolumesError};
