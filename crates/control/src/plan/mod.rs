//! Pure decisions over a view of the state: no clock, no I/O.

mod copies;
mod family;
mod fork;
mod orphans;
mod place;
mod retry;

pub use copies::{CopiedMount, source_name};
pub use family::family;
pub use fork::{ForkPlanRequest, ForkState, fork};
pub use orphans::{NewOwner, OrphanRefusal, OrphanRequest, OrphanState, RemovalCause, step as orphan_step};
pub use place::{PlacementRequest, PlacementState, full, place};
pub use retry::{DeliveryTry, after};
