//! The per-host agent: owns machines, their disks and networks, and knows what really runs here.
//! It is handed a machine driver by `bins` and never imports one.

pub mod bake;
mod guest;
mod host;
mod ledger;
pub mod net;
mod recover;
mod sandbox;
mod settings;

pub use host::{Host, HostParts, StartUpError};
pub use ledger::{Ledger, LedgerError, MachineRow};
pub use recover::{RecoverError, Recovered};
pub use settings::HostSettings;
