//! Sandboxes on this host: how a machine is prepared and launched, and the one task that owns each sandbox.

mod driver;
mod fault;
mod launch;
mod prepare;
mod prime;
mod publish;
mod standby;

pub use driver::{Charge, Request, drive};
pub use fault::refusal_fault;
pub use prepare::Parts;
pub use publish::Condition;
pub use standby::Standby;
