//! What a wake keeps and what it renews.

use pandastack_model::SandboxId;
use pandastack_testbed::{Bed, spec, with_bed};
use pandastack_wire_fleet::{EnsureParams, HostPort};

use super::{ask, number, opens, secret_of, settle_resident};

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_keeps_everything_but_secret_generation_and_time() {
    with_bed(
        pandastack_e2e::without_standby(),
        |net| net,
        async |bed| {
            let id = SandboxId::random();
            let mut spec = spec("mini");
            spec.env.insert("FLAVOUR".to_owned(), "plain".to_owned());
            bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.unwrap();
            settle_resident(bed, id).await;
            bed.out(id, "echo kept > /dev/shm/note; echo kept > /root/note; sleep 1000 > /dev/null 2>&1 &").await;
            let (before, secret) = (self_of(bed, id).await, secret_of(bed, id).await);
            let (uptime, generation) = (number(bed, id, UPTIME).await, ask(bed, id, "generation()").await);
            assert!(opens(bed, id, &secret).await);
            bed.host.sleep(id).await.unwrap();
            bed.host.wake(id).await.unwrap();
            assert_eq!(self_of(bed, id).await, before);
            assert!(number(bed, id, UPTIME).await >= uptime);
            assert_ne!(ask(bed, id, "generation()").await, generation);
            assert!(!opens(bed, id, &secret).await, "the secret from before the sleep still opens");
            assert!(opens(bed, id, &secret_of(bed, id).await).await);
        },
    )
    .await;
}

const UPTIME: &str = "open('/proc/uptime').read().split()[0]";

/// Everything that must not change: names, environment, processes, files in memory and on disk,
/// listening sockets.
async fn self_of(bed: &Bed, id: SandboxId) -> Vec<String> {
    let commands = [
        "hostname; cat /etc/hostname /etc/machine-id /etc/hosts /etc/resolv.conf",
        "cat /proc/sys/kernel/random/boot_id",
        "echo $PANDASTACK_SANDBOX_ID $FLAVOUR",
        "cat /dev/shm/note /root/note",
        "pgrep -f '^python3 /root/resident|^sleep 1000'",
        "ip -4 -o addr show dev eth0; ip route",
    ];
    let mut all = Vec::new();
    for command in commands {
        all.push(bed.out(id, command).await);
    }
    let mut ports: Vec<u16> = bed.host.ports(id).await.unwrap().iter().map(|port| port.port).collect();
    ports.sort_unstable();
    all.push(format!("{ports:?}"));
    all.push(ask(bed, id, "os.getpid()").await);
    all
}
