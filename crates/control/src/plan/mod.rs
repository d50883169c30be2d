//! Pure decisions over a view of the state: no clock, no I/O.

mod family;
mod fork;
mod place;
mod retry;

pub use family::family;
pub use fork::{ForkPlanAsk, ForkView, fork};
pub use place::{Ask, View, full, place};
pub use retry::{Try, after};
