//! Pure values of the product: ids, sizes, states and faults. No I/O, no async, no clock.

mod bytes;
mod fault;
mod id;
mod name;
mod spec;
pub mod state;
mod tier;

pub use bytes::Bytes;
pub use fault::{Fault, FaultKind};
pub use id::{BadId, HostId, LayerId, MachineId, SandboxId};
pub use name::{BadName, TemplateName};
pub use spec::{SandboxSpec, TTL_SECONDS_DEFAULT};
pub use state::{Ask, Next, Refusal, SandboxState};
pub use tier::{BadTier, Tier};
