//! Sandboxes on this host: how a machine is prepared, launched and sealed, and the one task that
//! owns each sandbox.

mod admission;
mod blanks;
mod change;
mod driver;
mod ending;
mod fault;
mod held;
mod identity;
mod last_copy;
mod launch;
mod layers;
mod living;
mod owners;
mod prepare;
mod prime;
mod publish;
mod removal;
mod seal;
mod shutdown;
mod standby;
mod starting;

pub use driver::{Assignment, DriverRequest, DriverStart, ReachOutcome, ReplySender, TracedRequest, dial_again, drive};
pub use fault::{prepare_fault, refusal_fault};
pub use held::HeldMemory;
pub use identity::GuestIdentity;
pub use last_copy::LastCopy;
pub use launch::{greet, open_slot};
pub use living::LivingMachine;
pub use owners::OwnerShares;
pub use prepare::{HostContext, MachineShape, PrepareError, SlotHandle, hold_machine};
pub use publish::PublishedState;
pub use removal::RemovalRequests;
pub use shutdown::{ShutdownDecision, ShutdownMode};
pub use standby::StandbyPool;
pub use starting::{StartingMachine, StartingMachines};
