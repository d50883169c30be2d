//! The machine contract in memory: what most tests run on. A machine is a few flags, its guest is a
//! future that a test hands in, and calls can be made to fail, hang or kill by plan. Nothing here
//! starts a process or opens a network.

mod clock;
mod driver;
mod faults;
mod guest;
mod machine;

pub use clock::FakeClock;
pub use driver::FakeDriver;
pub use faults::{Faults, Step, Trouble, When};
pub use guest::FakeGuest;
pub use machine::ToldSize;
