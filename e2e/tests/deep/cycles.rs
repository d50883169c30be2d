//! Hundreds of sandboxes come and go on real machines, some of them forked, some put to sleep and
//! woken, and nothing is left.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use pandastack_e2e::PATIENCE;
use pandastack_host::{HostSettings, net::NetSettings};
use pandastack_model::ByteSize;
use pandastack_testbed::{Bed, processes, spec, wait_for, with_bed};
use pandastack_wire_fleet::HostPort;

/// Short enough for every test run. `PANDASTACK_CYCLES=1000` makes a long one.
const CYCLES: usize = 300;
const AT_A_TIME: usize = 4;
/// Network slots made in advance.
const READY: usize = 2;
/// Descriptors and threads that may stay: pools of the runtime grow with use and shrink later.
const SLACK: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn mixed_cycles_leave_nothing_behind() {
    let cycles = std::env::var("PANDASTACK_CYCLES").map_or(CYCLES, |count| count.parse().unwrap());
    // One host is started and closed first, so that resources made once per process are not
    // counted.
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
        |net| NetSettings { ready: READY, ..net },
        async |bed| {
            let left = AtomicUsize::new(cycles);
            let work = async || {
                let next = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                while let Ok(number) = next() {
                    cycle(bed, number).await;
                }
            };
            futures_util::future::join_all((0..AT_A_TIME).map(|_| work())).await;
            println!("{cycles} cycles, {AT_A_TIME} at a time: {:.1} s", started.elapsed().as_secs_f32());
            wait_for("nothing but what is kept ready", PATIENCE, async || only_ready(bed).await.then_some(())).await;
            let report = bed.host.audit().await.unwrap();
            assert_eq!((report.leaks, report.layers), (Vec::new(), 1), "only the template's layer is left");
        },
    )
    .await;
    // `with_bed` has found no process, namespace, link, mount, loop device, file or ledger entry.
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

/// Tells whether a running host has only its ready machines, processes and slots: nothing else in
/// its folders, ledger or network, and no other memory promised.
async fn only_ready(bed: &Bed) -> bool {
    let (status, Ok(left)) = (bed.host.status().await, bed.leftovers().await) else { return false };
    let kept = status.standby + status.blanks;
    let counts = [processes(&bed.run_root).len(), left.groups.len(), left.ledger.len(), left.files.len() / 2];
    // A slot is a namespace and a link. One link and one table belong to the host.
    let network = 2 * (kept + READY) + 2;
    let template = bed.layers.template(&spec("mini").template).expect("mini is there");
    let memory = bed.layers.manifest(template).expect("mini can be read").memory;
    let promised = ByteSize::new(memory.get() * status.standby as u64);
    let seen = (status.sandboxes, counts, left.network.len(), status.memory_promised);
    let wanted = (0, [kept; 4], network, promised);
    let audit = bed.host.audit().await.expect("the audit is made");
    assert_eq!(audit.leaks, [""; 0]);
    seen == wanted && audit.slots == kept + READY
}

/// One sandbox from create to delete. Every fourth is forked, every fourth sleeps, every fourth
/// does both.
async fn cycle(bed: &Bed, number: usize) {
    let id = bed.create().await.unwrap();
    bed.out(id, &format!("echo {number} > /dev/shm/number")).await;
    if number % 4 == 1 || number % 4 == 3 {
        let child = bed.fork(id, 1).await.unwrap()[0];
        assert_eq!(bed.out(child, "cat /dev/shm/number").await, number.to_string());
        bed.host.remove(child).await.unwrap();
    }
    if number % 4 == 2 || number % 4 == 3 {
        bed.host.sleep(id).await.unwrap();
        // The command wakes it.
        assert_eq!(bed.out(id, "cat /dev/shm/number").await, number.to_string());
    }
    bed.host.remove(id).await.unwrap();
}

fn count(folder: &str) -> usize {
    fs::read_dir(folder).unwrap().count()
}
