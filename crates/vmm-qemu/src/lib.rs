//! The machine contract over QEMU processes: `microvm` machines on KVM or on TCG emulation.

mod blank;
mod bundle;
mod command;
mod driver;
mod jail;
mod limits;
mod link;
mod machine;
mod memory;
mod probe;
mod process;
mod qmp;
mod room;
mod runtime;
mod state;
mod volume;

pub use bundle::{Bundle, BundleError};
pub use driver::{QemuDriver, SetUpError};
pub use jail::Jail;
pub use probe::{TierChoice, TierError, choose_tier};
