//! Owners share the host: an owner at its share is refused, and another one is still served.

use pandastack_host::{HostSettings, MemorySource};
use pandastack_model::{ByteSize, Fault, FaultKind, Owner, SandboxId, SandboxSpec};
use pandastack_testbed::{FakeBed, spec, with_small_fake_bed};
use pandastack_wire_fleet::{EnsureParams, HostPort};

async fn ensure(bed: &FakeBed, owner: &str, id: SandboxId) -> Result<(), Fault> {
    let spec = SandboxSpec { owner: Some(Owner(owner.into())), ..spec("mini") };
    bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.map(drop)
}

/// One owner makes sandboxes until it is refused, then another owner makes one.
async fn check(settings: HostSettings, slots: usize, share: usize, code: &str) {
    with_small_fake_bed(settings, slots, async |bed| {
        let mut made = Vec::new();
        let fault = loop {
            let id = SandboxId::random();
            match ensure(bed, "greedy", id).await {
                Ok(()) => made.push(id),
                Err(fault) => break fault,
            }
            assert!(made.len() < 20, "never refused");
        };
        assert_eq!((made.len(), fault.kind, fault.code), (share, FaultKind::Quota, code), "{fault}");
        ensure(bed, "other", SandboxId::random()).await.unwrap();
        // The other owner's sandbox reduces what is left, so this wake is refused as a create would
        // be.
        bed.host.sleep(made[0]).await.unwrap();
        let fault = bed.host.wake(made[0]).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Quota, code), "{fault}");
        for id in &made[1..] {
            bed.host.remove(*id).await.unwrap();
        }
        bed.host.wake(made[0]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn network_slots_of_one_owner_leave_room_for_another() {
    check(FakeBed::settings(), 8, 6, "quota.running").await;
}

#[tokio::test]
async fn memory_of_one_owner_leaves_room_for_another() {
    // Guests of 1 MiB, on a host that may promise eight of them.
    let memory = MemorySource::new(|| (ByteSize::mib(8), ByteSize::gib(64)));
    let settings = HostSettings { memory: Some(memory), overcommit_percent: 100, ..FakeBed::settings() };
    check(settings, 100, 6, "quota.memory").await;
}
