//! Test settings from the environment: the lowest tier of the machines (`PANDASTACK_TEST_TIER`),
//! and how many times slower than usual this machine is (`PANDASTACK_TEST_SLOWNESS`).

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use pandastack_kit::Scope;
use pandastack_model::Tier;
use pandastack_vmm_qemu::{QemuDriver, choose_tier};

use crate::template_data_dir;

const TIER: &str = "PANDASTACK_TEST_TIER";
const SLOWNESS: &str = "PANDASTACK_TEST_SLOWNESS";

/// Timeout of all waits in tests. Guests may be emulated on a busy machine, or run in a machine
/// that is emulated itself.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Chooses the tier of a test's machines as a host does. Fails below the tier that this test run
/// requires.
pub fn machine_tier() -> Result<Tier> {
    let required = std::env::var(TIER).ok().map(|name| name.parse::<Tier>()).transpose().context(TIER)?;
    Ok(choose_tier(None, required)?.tier)
}

/// Scales a duration or tolerance for this machine. For measured times; waits have [`PATIENCE`].
///
/// # Panics
/// If the environment variable is set and not a number.
pub fn stretched(usual: Duration) -> Duration {
    let times = std::env::var(SLOWNESS).map_or(1, |times| times.parse().expect(SLOWNESS));
    usual * times
}

/// Makes a driver with the runtime bundles of the templates. It probes QEMU once per process,
/// because that takes seconds under emulation.
pub fn machine_driver() -> Result<QemuDriver> {
    static FIRST: Mutex<Option<QemuDriver>> = Mutex::new(None);
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = match first.take() {
        Some(driver) => driver,
        // Bundles are shared with the templates: making one copies a hundred megabytes.
        None => QemuDriver::new(machine_tier()?, &template_data_dir().join("runtime"), Scope::new())?,
    };
    Ok(first.insert(driver).clone().with_scope(Scope::new()))
}
