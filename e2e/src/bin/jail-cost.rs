//! Measures the cost of the jail at the start of a machine: restores from `mini` with and without
//! it, alternately, so that other load affects both equally.

use std::time::Instant;

use anyhow::Result;
use pandastack_e2e::Rig;
use pandastack_kit::Scope;
use pandastack_testbed::template_data_dir;
use pandastack_vmm::Driver;
use pandastack_vmm_qemu::{Jail, QemuDriver};

const ROUNDS: usize = 40;

#[tokio::main]
async fn main() -> Result<()> {
    let rig = Rig::start().await;
    let bundles = template_data_dir().join("runtime");
    let driver = |jail| QemuDriver::new(rig.driver.tier(), &bundles, Scope::new()).map(|driver| driver.with_jail(jail));
    let kinds = [Jail::Full, Jail::None].map(driver);
    let mut times: [Vec<f64>; 2] = Default::default();
    // The first round makes each driver's root and is not counted.
    for round in 0..=ROUNDS {
        for (driver, times) in kinds.iter().zip(&mut times) {
            let driver = driver.as_ref().expect("the first driver was made in the same way");
            let spec = rig.place().await;
            let begun = Instant::now();
            let machine = driver.restore(spec, &rig.layer.files).await?;
            if round > 0 {
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            machine.stop().await;
        }
    }
    for (name, times) in ["jailed", "not jailed"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!("restore, {name}: least {:.1} ms, p25 {:.1} ms, p50 {:.1} ms", at(0), at(25), at(50));
    }
    rig.close().await;
    Ok(())
}
