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

pub use closing::{Closing, Leave};
pub use driver::{Asked, Assignment, Reached, Reply, Request, Start, dial_again, drive};
pub use fault::{prepare_fault, refusal_fault};
pub use given_up::GivenUp;
pub use held::Held;
pub use launch::greet;
pub use life::Life;
pub use living::Living;
pub use owners::Owners;
pub use prepare::{HostContext, PrepareError, Shape, SlotHandle, hold_machine};
pub use publish::Condition;
pub use standby::Standby;
pub use starting::{Starting, Starts};
