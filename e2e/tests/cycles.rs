//! Two hundred sandboxes come and go on real machines, and nothing stays.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use pandastack_e2e::PATIENCE;
use pandastack_host::HostSettings;
use pandastack_testbed::{processes, wait_for, with_bed};
use pandastack_wire_fleet::HostPort;

const CYCLES: usize = 200;
const AT_A_TIME: usize = 4;
/// Descriptors and threads that may stay: pools of the runtime grow with use and shrink later.
const SLACK: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_cycles_leave_nothing_behind() {
    // One host is started and taken down first, so that what a process makes once for all hosts is not counted.
    with_bed(
        HostSettings::default(),
        |net| net,
        async |bed| {
            bed.create().await.unwrap();
        },
    )
    .await;
    let (descriptors, threads) = (count("/proc/self/fd"), count("/proc/self/task"));
    let started = Instant::now();
    with_bed(
        HostSettings::default(),
        |net| net,
        async |bed| {
            let left = AtomicUsize::new(CYCLES);
            let cycle = async || {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    let id = bed.create().await.unwrap();
                    bed.host.ping(id).await.unwrap();
                    bed.host.remove(id).await.unwrap();
                }
            };
            futures_util::future::join_all((0..AT_A_TIME).map(|_| cycle())).await;
            println!("{CYCLES} cycles, {AT_A_TIME} at a time: {:.1} s", started.elapsed().as_secs_f32());
            // While the host runs, it holds its standby machines and not one more.
            let only_standby = async || {
                let (status, left) = (bed.host.status().await, bed.leftovers().await.ok()?);
                let counts = [processes(&bed.run_root).len(), left.ledger.len(), left.files.len() / 2];
                (status.sandboxes == 0 && counts == [status.standby; 3]).then_some(())
            };
            wait_for("nothing but standby machines", PATIENCE, only_standby).await;
        },
    )
    .await;
    // `with_bed` has found no process, namespace, link, mount, loop device, file or ledger line.
    let back = async || {
        (count("/proc/self/fd") <= descriptors + SLACK && count("/proc/self/task") <= threads + SLACK).then_some(())
    };
    wait_for("descriptors and threads as before", PATIENCE, back).await;
    println!(
        "descriptors {descriptors} -> {}, threads {threads} -> {}",
        count("/proc/self/fd"),
        count("/proc/self/task")
    );
}

fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}
