//! The machine contract in memory, for most tests. A machine is a few flags, and a test supplies
//! its guest as a future. Calls can fail, hang or kill by plan. Never starts a process or opens a
//! network.

mod clock;
mod driver;
mod faults;
mod guest;
mod machine;

pub use clock::FakeClock;
pub use driver::FakeDriver;
pub use faults::{DriverCall, FaultEffect, FaultedCalls, Faults};
pub use guest::FakeGuest;
pub use machine::GivenSize;
