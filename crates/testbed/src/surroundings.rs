//! What the machine that tests run on asks of them: the least tier of their machines
//! (`PANDASTACK_TEST_TIER`), and to bear with a machine that is so many times slower than a usual
//! one (`PANDASTACK_TEST_SLOWNESS`).

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

/// How long a test waits for anything. Guests may be emulated on a busy machine, or live in a
/// machine that is emulated itself.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Chooses the tier of a test's machines as a host does, and refuses one below what this run of the
/// tests is to prove.
pub fn machine_tier() -> Result<Tier> {
    let required = std::env::var(TIER).ok().map(|name| name.parse::<Tier>()).transpose().context(TIER)?;
    Ok(choose_tier(None, required)?.tier)
}

/// Gives what a time or tolerance of a usual machine is on this one. For what a test measures; what
/// it waits for has [`PATIENCE`] anyway.
///
/// # Panics
/// If the environment says how slow this machine is, and not as a number.
pub fn stretched(usual: Duration) -> Duration {
    let times = std::env::var(SLOWNESS).map_or(1, |times| times.parse().expect(SLOWNESS));
    usual * times
}

/// Makes a driver of machines on the runtime bundles of the templates. What it finds out about
/// QEMU, which takes seconds where everything is emulated, is found out once per process.
pub fn machine_driver() -> Result<QemuDriver> {
    static FIRST: Mutex<Option<QemuDriver>> = Mutex::new(None);
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = match first.take() {
        Some(driver) => driver,
        // Bundles are kept with the templates: making one copies a hundred megabytes.
        None => QemuDriver::new(machine_tier()?, &template_data_dir().join("runtime"), Scope::new())?,
    };
    Ok(first.insert(driver).clone().with_scope(Scope::new()))
}
