//! Pure decisions over a view: no clock, no I/O.

mod place;

pub use place::{Ask, View, full, place};
