//! The identity of a restored guest: its own, and different from every other guest's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_e2e::{PATIENCE, python, run, shell, with_sandbox, without_standby};
use pandastack_host::{HostSettings, MemorySource};
use pandastack_model::{ByteSize, SandboxId};
use pandastack_testbed::{Bed, processes, spec, stretched, wait_for, with_bed};
use pandastack_wire_fleet::{EnsureParams, HostPort};

/// Maximum difference between a guest's clock and its host's.
const CLOCK_SKEW_MAX: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_sandbox_knows_its_id_and_its_name() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let id = SandboxId::random();
            let mut spec = spec("mini");
            spec.env.insert("FLAVOUR".to_owned(), "plain".to_owned());
            bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.unwrap();
            let ran = run(bed, id, shell("echo $PANDASTACK_SANDBOX_ID $FLAVOUR; hostname; cat /etc/hostname")).await;
            let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
            assert_eq!(lines[0], format!("{id} plain"));
            assert_eq!(lines[1], lines[2]);
            assert!(id.to_string().contains(lines[1].trim_start_matches("sandbox-")), "{lines:?}");
        },
    )
    .await;
}

#[tokio::test]
async fn the_guest_has_its_own_kernel_and_sees_only_its_own_processes() {
    with_sandbox(async |bed, id| {
        // Every kernel generates this at boot. The release may be equal by chance.
        let host_boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let ran = run(bed, id, shell("cat /proc/sys/kernel/random/boot_id")).await;
        let guest_boot = ran.out().trim().to_owned();
        assert_eq!(guest_boot.len(), host_boot.trim().len(), "{guest_boot}");
        assert_ne!(guest_boot, host_boot.trim());
        // A process of the host with a name that no guest would use.
        let mark = format!("86400.{}", std::process::id());
        let mut witness = std::process::Command::new("sleep").arg(&mark).spawn().unwrap();
        let ran = run(bed, id, shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).await;
        witness.kill().unwrap();
        witness.wait().unwrap();
        assert!(!ran.out().contains(&mark), "{}", ran.out());
        assert!(!ran.out().contains("qemu"), "{}", ran.out());
    })
    .await;
}

#[tokio::test]
async fn the_clock_of_a_restored_guest_is_the_hosts() {
    with_sandbox(async |bed, id| clock_is_right(bed, id).await).await;
}

#[tokio::test]
async fn the_clock_of_a_guest_from_standby_is_the_hosts() {
    with_bed(
        HostSettings { standby: 1, ..HostSettings::default() },
        |net| net,
        async |bed| {
            standby_is_ready(bed, 1).await;
            // A clock that stopped while the machine waited would be this much behind.
            tokio::time::sleep(stretched(CLOCK_SKEW_MAX) * 3).await;
            let id = bed.create().await.unwrap();
            assert_eq!(bed.host.observe(id).await.unwrap().boot_mode, "standby");
            clock_is_right(bed, id).await;
        },
    )
    .await;
}

#[tokio::test]
async fn siblings_of_one_template_share_no_secret() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let (one, two) = tokio::join!(bed.create(), bed.create());
            are_no_twins(bed, one.unwrap(), two.unwrap()).await;
        },
    )
    .await;
}

#[tokio::test]
async fn siblings_from_standby_share_no_secret() {
    with_bed(
        HostSettings { standby: 2, ..HostSettings::default() },
        |net| net,
        async |bed| {
            standby_is_ready(bed, 2).await;
            let (one, two) = tokio::join!(bed.create(), bed.create());
            let (one, two) = (one.unwrap(), two.unwrap());
            for id in [one, two] {
                assert_eq!(bed.host.observe(id).await.unwrap().boot_mode, "standby");
            }
            are_no_twins(bed, one, two).await;
        },
    )
    .await;
}

/// The number for one template overrides the number for all.
#[tokio::test]
async fn a_template_that_is_to_be_warm_is_started_from_standby() {
    let settings = HostSettings { warm: [(spec("mini").template, 1)].into(), ..without_standby() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            standby_is_ready(bed, 1).await;
            let id = bed.create().await.unwrap();
            assert_eq!(bed.host.observe(id).await.unwrap().boot_mode, "standby");
            assert_eq!(bed.out(id, "echo $PANDASTACK_SANDBOX_ID").await, id.to_string());
            standby_is_ready(bed, 1).await;
        },
    )
    .await;
}

/// No create happens, so only the host can find it dead.
#[tokio::test]
async fn a_standby_machine_that_is_killed_is_replaced() {
    let settings = HostSettings { warm: [(spec("mini").template, 1)].into(), ..without_standby() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            standby_is_ready(bed, 1).await;
            let killed = only_machine(bed).expect("it stands by");
            kill(Pid::from_raw(killed.parse().unwrap()), Signal::SIGKILL).unwrap();
            let other = async || only_machine(bed).filter(|process| *process != killed);
            wait_for("another machine", PATIENCE, other).await;
            standby_is_ready(bed, 1).await;
            let id = bed.create().await.unwrap();
            assert_eq!(bed.host.observe(id).await.unwrap().boot_mode, "standby");
            assert_eq!(bed.out(id, "echo $PANDASTACK_SANDBOX_ID").await, id.to_string());
        },
    )
    .await;
}

/// The process of the only machine.
fn only_machine(bed: &Bed) -> Option<String> {
    let mut all = processes(&bed.run_root);
    all.pop().filter(|_| all.is_empty())
}

/// Unused machines are removed when memory is short, with their processes and resources, and made
/// again later.
#[tokio::test]
async fn machines_that_stand_by_give_way_when_memory_is_short() {
    let free = Arc::new(AtomicU64::new(ByteSize::gib(64).get()));
    let told = free.clone();
    let memory = MemorySource::new(move || (ByteSize::gib(64), ByteSize::new(told.load(Ordering::Relaxed))));
    let warm = [(spec("mini").template, 1)].into();
    let settings = HostSettings { warm, blanks: 1, memory: Some(memory), ..without_standby() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            let comes_to = async |expected: (usize, usize)| {
                let ahead = async || {
                    let status = bed.host.status().await;
                    ((status.standby, status.blanks) == expected).then_some(())
                };
                wait_for(&format!("{expected:?}"), PATIENCE, ahead).await;
            };
            comes_to((1, 1)).await;
            assert_eq!(bed.host.audit().await.unwrap().machines, 1, "a process without a layer is none");
            free.store(ByteSize::mib(700).get(), Ordering::Relaxed);
            comes_to((0, 0)).await;
            let gone = async || processes(&bed.run_root).is_empty().then_some(());
            wait_for("no process", PATIENCE, gone).await;
            let clean = async || {
                let report = bed.host.audit().await.unwrap();
                (report.leaks.is_empty() && report.machines == 0).then_some(())
            };
            wait_for("a clean audit", PATIENCE, clean).await;
            free.store(ByteSize::gib(64).get(), Ordering::Relaxed);
            comes_to((1, 1)).await;
            let id = bed.create().await.unwrap();
            assert_eq!(bed.host.observe(id).await.unwrap().boot_mode, "standby");
        },
    )
    .await;
}

async fn standby_is_ready(bed: &Bed, machines: usize) {
    let ready = async || (bed.host.status().await.standby == machines).then_some(());
    wait_for("standby machines", PATIENCE, ready).await;
}

async fn clock_is_right(bed: &Bed, id: SandboxId) {
    // The guest read its clock between our request and its answer.
    let before = now();
    let ran = run(bed, id, shell("date +%s.%N")).await;
    let after = now();
    let guest = Duration::from_secs_f64(ran.out().trim().parse().unwrap());
    assert!(guest + stretched(CLOCK_SKEW_MAX) > before, "the guest is behind: {guest:?}, asked at {before:?}");
    assert!(guest < after + stretched(CLOCK_SKEW_MAX), "the guest is ahead: {guest:?}, answered at {after:?}");
}

async fn are_no_twins(bed: &Bed, one: SandboxId, two: SandboxId) {
    let script = "import os,uuid,random\n\
        print(os.urandom(16).hex())\nprint(open('/dev/urandom','rb').read(16).hex())\n\
        print(uuid.uuid4())\nprint(random.random())\n\
        print(open('/proc/sys/kernel/random/uuid').read().strip())\nprint(open('/etc/machine-id').read().strip())\n\
        print(os.uname().nodename)\nprint(os.environ['PANDASTACK_SANDBOX_ID'])";
    let (a, b) = tokio::join!(run(bed, one, python(script)), run(bed, two, python(script)));
    let (a, b) = (a.out(), b.out());
    assert_eq!((a.lines().count(), b.lines().count()), (8, 8), "{a}{b}");
    for (of_one, of_two) in a.lines().zip(b.lines()) {
        assert_ne!(of_one, of_two);
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
