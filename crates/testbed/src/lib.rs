//! Starts real parts for tests: a host on real machines with a baked template, a host on fake
//! machines with a scripted guest, or the built server binary. Waits for conditions with a timeout,
//! and finds leftovers of a test.

mod alarms;
mod bed;
mod collector;
mod complaints;
mod data;
mod fake_bed;
mod fake_guest;
mod leftovers;
pub mod outside;
mod prepared;
mod server;
mod surroundings;
mod wait;

pub use alarms::{alarms, listen_for_alarms};
pub use bed::{Bed, spec, template_data_dir, with_bed};
pub use collector::{CollectedRequest, CollectedSpan, Collector, CollectorMode};
pub use data::{DataFolder, copy_templates};
pub use fake_bed::{FakeBed, FakeHostState, finish, with_fake_bed, with_small_fake_bed};
pub use fake_guest::{GuestScript, HandshakeBehaviour, SEALED_SECRET, ScriptedGuest};
pub use leftovers::{InstanceLeftovers, processes, run_root_of};
pub use server::{TestServer, built};
pub use surroundings::{PATIENCE, machine_driver, machine_tier, stretched};
pub use wait::{block_until, wait_for};
