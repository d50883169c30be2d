//! Sandboxes on this host: how a machine is prepared, launched and sealed, and the one task that
//! owns each sandbox.

mod admission;
mod blanks;
mod change;
mod closing;
mod driver;
mod ending;
mod fault;
mod given_up;
mod held;
mod launch;
mod layers;
mod life;
mod living;
mod owners;
mod prepare;
mod prime;
mod publish;
mod seal;
mod standby;
mod starting;

pub use closing::{ShutdownDecision, ShutdownMode};
pub use driver::{Assignment, DriverRequest, DriverStart, ReachOutcome, ReplySender, TracedRequest, dial_again, drive};
pub use fault::{prepare_fault, refusal_fault};
pub use given_up::RemovalRequests;
pub use held::HeldMemory;
pub use launch::greet;
pub use life::GuestIdentity;
pub use living::LivingMachine;
pub use owners::OwnerShares;
pub use prepare::{HostContext, MachineShape, PrepareError, SlotHandle, hold_machine};
pub use publish::PublishedState;
pub use standby::StandbyPool;
pub use starting::{StartingMachine, StartingMachines};
