//! What the machine that tests run on asks of them: the least tier of their machines (`PANDASTACK_TEST_TIER`).

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use pandastack_kit::Scope;
use pandastack_model::Tier;
use pandastack_vmm_qemu::{QemuDriver, choose_tier};

use crate::template_data_dir;

const TIER: &str = "PANDASTACK_TEST_TIER";

/// Chooses the tier of a test's machines as a host does, and refuses one below what this run of the tests is to prove.
pub fn machine_tier() -> Result<Tier> {
    let required = std::env::var(TIER).ok().map(|name| name.parse::<Tier>()).transpose().context(TIER)?;
    Ok(choose_tier(None, required)?.tier)
}

/// Makes a driver of machines on the runtime bundles of the templates. What it finds out about QEMU, which takes seconds where
/// everything is emulated, is found out once per process.
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
