//! The warm pool: as many machines as each template should have, and fewer when the host's memory
//! is short.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use pandastack_host::{HostSettings, MemorySource};
use pandastack_model::{ByteSize, SandboxId};
use pandastack_testbed::{FakeBed, spec, wait_for, with_fake_bed};
use pandastack_wire_fleet::HostPort;

use crate::SOON;

/// Number of standby machines and blanks of a host.
async fn ahead(bed: &FakeBed) -> (usize, usize) {
    let status = bed.host.status().await;
    (status.standby, status.blanks)
}

async fn comes_to(bed: &FakeBed, expected: (usize, usize)) {
    wait_for(&format!("{expected:?}"), SOON, async || (ahead(bed).await == expected).then_some(())).await;
}

#[tokio::test]
async fn a_template_has_as_many_machines_as_it_is_to_have() {
    let warm = [(spec("mini").template, 3)].into();
    with_fake_bed(HostSettings { warm, ..FakeBed::settings() }, async |bed| {
        comes_to(bed, (3, 0)).await;
        for _ in 0..3 {
            assert_eq!(bed.ensure(SandboxId::random()).await.unwrap().boot_mode, "standby");
        }
        comes_to(bed, (3, 0)).await;
        assert_eq!(bed.driver.live().len(), 6);
    })
    .await;
}

#[tokio::test]
async fn a_template_that_is_to_have_none_has_none() {
    let warm = [(spec("mini").template, 0)].into();
    with_fake_bed(HostSettings { warm, standby: 2, blanks: 1, ..FakeBed::settings() }, async |bed| {
        // Blanks are made after standby machines: when there is one, the standby pool is as full as
        // it gets.
        comes_to(bed, (0, 1)).await;
        assert_eq!(bed.ensure(SandboxId::random()).await.unwrap().boot_mode, "cold");
    })
    .await;
}

/// The machines that save the least time are removed first, and sandboxes never. Everything is made
/// again when there is memory.
#[tokio::test]
async fn machines_that_nobody_uses_give_way_when_memory_is_short() {
    let free = Arc::new(AtomicU64::new(ByteSize::gib(8).get()));
    let told = free.clone();
    let memory = MemorySource::new(move || (ByteSize::gib(8), ByteSize::new(told.load(Ordering::Relaxed))));
    let settings = HostSettings { standby: 1, blanks: 1, memory: Some(memory), ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        comes_to(bed, (1, 1)).await;
        let id = bed.ensure(SandboxId::random()).await.unwrap().id;
        comes_to(bed, (1, 1)).await;
        // Between the reserve and twice the reserve: no new standby machines, but a create
        // succeeds.
        free.store(ByteSize::mib(700).get(), Ordering::Relaxed);
        comes_to(bed, (1, 0)).await;
        comes_to(bed, (0, 0)).await;
        let other = bed.ensure(SandboxId::random()).await.unwrap();
        assert_eq!((other.boot_mode, bed.driver.live().len()), ("cold", 2));
        // Below the reserve: no create succeeds, and existing sandboxes keep their machines.
        free.store(ByteSize::mib(100).get(), Ordering::Relaxed);
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!(fault.code, "host.full", "{fault:?}");
        for id in [id, other.id] {
            assert_eq!(bed.run(id, "echo here").await.unwrap().0, "here\n");
        }
        free.store(ByteSize::gib(8).get(), Ordering::Relaxed);
        comes_to(bed, (1, 1)).await;
        assert_eq!((bed.audited().await, bed.driver.live().len()), ((1, 4), 4));
    })
    .await;
}
