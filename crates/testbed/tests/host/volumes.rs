//! Volumes on fake machines: which sandbox gets them, what a failure of each step leaves, and what
//! the machine and its guest receive.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf};

use pandastack_host::HostSettings;
use pandastack_model::{
    ByteSize, Fault, FaultKind, LayerId, SandboxId, SandboxOrigin, SandboxSpec, VolumeAccess, VolumeId, VolumeMount,
};
use pandastack_testbed::{FakeBed, FakeHostState, PATIENCE, spec, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{EnsureParams, ForkParams, HostPort, LayerHold, SealParams, VolumeView};

use crate::SOON;

const SIZE: ByteSize = ByteSize::mib(16);

async fn volume(bed: &FakeBed) -> VolumeId {
    let volume = VolumeId::random();
    bed.host.make_volume(volume, SIZE).await.unwrap();
    volume
}

fn mount(volume: VolumeId, path: &str, access: VolumeAccess) -> VolumeMount {
    VolumeMount { volume, path: path.to_owned(), access }
}

async fn users(bed: &FakeBed, volume: VolumeId) -> Vec<SandboxId> {
    let volumes = bed.host.volumes().await.unwrap();
    volumes.into_iter().find(|view| view.volume == volume).expect("the volume is here").users
}

/// The volumes of the host with their sizes and users.
async fn present(bed: &FakeBed) -> Vec<(VolumeId, ByteSize, Vec<SandboxId>)> {
    let volumes = bed.host.volumes().await.unwrap();
    volumes.into_iter().map(|VolumeView { volume, size, created_ns: _, users }| (volume, size, users)).collect()
}

/// All claims are gone with their sandbox. The volume stays.
async fn is_free(bed: &FakeBed, volume: VolumeId) {
    assert_eq!(present(bed).await, [(volume, SIZE, Vec::new())]);
}

fn refused(outcome: Result<pandastack_wire_fleet::SandboxView, Fault>) -> (FaultKind, &'static str) {
    let fault = outcome.expect_err("this must be refused");
    (fault.kind, fault.code)
}

#[tokio::test]
async fn a_sandbox_gets_its_volumes_before_its_first_step() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (first, second, id) = (volume(bed).await, volume(bed).await, SandboxId::random());
        let mounts =
            vec![mount(first, "/models", VolumeAccess::ReadOnly), mount(second, "/data", VolumeAccess::ReadWrite)];
        let view = bed.ensure_with(id, mounts.clone()).await.unwrap();
        assert_eq!(bed.ensure_with(id, mounts).await.unwrap(), view);
        assert_eq!(bed.driver.faults().calls(DriverCall::Attach), 2, "asking twice attaches nothing twice");
        let attached = bed.driver.attached(bed.driver.live()[0]);
        let slots: Vec<_> = attached.iter().map(|(port, size)| (port.slot.to_string(), *size)).collect();
        assert_eq!(slots, [("rw0".to_owned(), SIZE), ("ro0".to_owned(), SIZE)]);
        assert!(attached[0].0.file.to_string_lossy().contains(&second.to_string()));
        let told = bed.script.volume_at("/models").expect("the guest mounts it");
        assert_eq!((told.serial.as_str(), told.read_only, told.size), ("ro0", true, SIZE.get()));
        assert!(!bed.script.volume_at("/data").unwrap().read_only);
        assert_eq!((users(bed, first).await, users(bed, second).await), (vec![id], vec![id]));
        bed.host.remove(id).await.unwrap();
        assert_eq!(bed.script.flushes(), 1, "what the guest had not written out yet is not lost");
        assert_eq!((users(bed, first).await, users(bed, second).await), (vec![], vec![]));
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn one_writer_or_many_readers() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let shared = volume(bed).await;
        let (one, two, three) = (SandboxId::random(), SandboxId::random(), SandboxId::random());
        let ask = |id, access| bed.ensure_with(id, vec![mount(shared, "/data", access)]);
        ask(one, VolumeAccess::ReadWrite).await.unwrap();
        let in_use = (FaultKind::Conflict, "volume.in_use");
        assert_eq!(refused(ask(two, VolumeAccess::ReadWrite).await), in_use);
        assert_eq!(refused(ask(two, VolumeAccess::ReadOnly).await), in_use);
        bed.host.remove(one).await.unwrap();
        ask(one, VolumeAccess::ReadOnly).await.unwrap();
        ask(two, VolumeAccess::ReadOnly).await.unwrap();
        assert_eq!(refused(ask(three, VolumeAccess::ReadWrite).await), in_use);
        assert_eq!(users(bed, shared).await.len(), 2);
        let fault = bed.host.remove_volume(shared).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "volume.attached"));
        bed.host.remove(one).await.unwrap();
        bed.host.remove(two).await.unwrap();
        assert_eq!(bed.script.flushes(), 1, "who only reads has nothing to write out");
        is_free(bed, shared).await;
        bed.host.remove_volume(shared).await.unwrap();
        assert_eq!(refused(ask(three, VolumeAccess::ReadOnly).await), (FaultKind::Missing, "volume.not_found"));
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_writers_at_once_one_wins() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let wanted = volume(bed).await;
        let ids: Vec<_> = (0..6).map(|_| SandboxId::random()).collect();
        let asks = ids.iter().map(|id| bed.ensure_with(*id, vec![mount(wanted, "/data", VolumeAccess::ReadWrite)]));
        let outcomes = futures_util::future::join_all(asks).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        assert_eq!((bed.driver.live().len(), users(bed, wanted).await.len()), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_never_removed_under_a_sandbox() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        for _ in 0..8 {
            let (wanted, id) = (volume(bed).await, SandboxId::random());
            let ask = bed.ensure_with(id, vec![mount(wanted, "/data", VolumeAccess::ReadWrite)]);
            let (made, removed) = tokio::join!(ask, bed.host.remove_volume(wanted));
            match (made, removed) {
                (Ok(_), Err(fault)) => assert_eq!(fault.code, "volume.attached"),
                (Err(fault), Ok(())) => assert_eq!(fault.code, "volume.not_found"),
                both => panic!("{both:?}"),
            }
            bed.host.remove(id).await.unwrap();
        }
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn whichever_step_fails_the_volume_is_free_again() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let wanted = volume(bed).await;
        let mounts = vec![mount(wanted, "/data", VolumeAccess::ReadWrite)];
        for step in [DriverCall::Restore, DriverCall::Attach, DriverCall::Resume] {
            for trouble in [FaultEffect::Fail, FaultEffect::Die] {
                bed.driver.faults().plan(FaultedCalls::Nth(step, 1), trouble);
                let fault = bed.ensure_with(SandboxId::random(), mounts.clone()).await.unwrap_err();
                assert_eq!(fault.kind, FaultKind::Unavailable, "{step:?} {trouble:?}: {fault}");
                is_free(bed, wanted).await;
                bed.is_idle().await;
            }
        }
        bed.driver.faults().clear();
        let a_file = vec![mount(wanted, "/files/x", VolumeAccess::ReadWrite)];
        let fault = bed.ensure_with(SandboxId::random(), a_file).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Caller, "volume.path"), "{fault}");
        is_free(bed, wanted).await;
        bed.is_idle().await;
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        let bad = bed.ensure_with(SandboxId::random(), vec![mount(wanted, "/", VolumeAccess::ReadWrite)]).await;
        assert_eq!(refused(bad), (FaultKind::Caller, "volume.path"));
        let unknown = vec![mounts[0].clone(), mount(VolumeId::random(), "/other", VolumeAccess::ReadOnly)];
        let unknown = bed.ensure_with(SandboxId::random(), unknown).await;
        assert_eq!(refused(unknown), (FaultKind::Missing, "volume.not_found"));
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores, "no machine was started for these");
        is_free(bed, wanted).await;
    })
    .await;
}

#[tokio::test]
async fn a_dead_machine_gives_its_volumes_back() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (wanted, id) = (volume(bed).await, SandboxId::random());
        bed.ensure_with(id, vec![mount(wanted, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
        bed.driver.kill(bed.driver.live()[0]);
        let free = async || users(bed, wanted).await.is_empty().then_some(());
        wait_for("the volume is free", SOON, free).await;
        bed.ensure_with(SandboxId::random(), vec![mount(wanted, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn growth_reaches_the_machine_and_its_guest() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (growing, id) = (volume(bed).await, SandboxId::random());
        assert_eq!(bed.host.grow_volume(growing, ByteSize::mib(32)).await.unwrap().size, ByteSize::mib(32));
        bed.ensure_with(id, vec![mount(growing, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
        assert_eq!(bed.script.volume_at("/data").unwrap().size, ByteSize::mib(32).get());
        for _ in 0..2 {
            let view = bed.host.grow_volume(growing, ByteSize::mib(64)).await.unwrap();
            assert_eq!((view.size, view.users), (ByteSize::mib(64), vec![id]));
            assert_eq!(bed.script.volume_at("/data").unwrap().size, ByteSize::mib(64).get());
            assert_eq!(bed.driver.attached(bed.driver.live()[0])[0].1, ByteSize::mib(64));
        }
        for (size, code) in [(32, "volume.shrink"), (1, "volume.size"), (1 << 30, "volume.size")] {
            let fault = bed.host.grow_volume(growing, ByteSize::mib(size)).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Caller, code));
        }
        let fault = bed.host.grow_volume(VolumeId::random(), ByteSize::mib(64)).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Missing, "volume.not_found"));
    })
    .await;
}

/// Checks that no size given to a machine was smaller than before, and that the last one is the
/// real size.
async fn is_never_cut(bed: &FakeBed, growing: VolumeId) {
    let told = bed.driver.given_sizes(bed.driver.live()[0]);
    assert!(told.is_sorted_by_key(|told| told.size), "a machine was told of less than before: {told:?}");
    assert!(told.iter().all(|told| told.size >= told.present), "a machine was told to cut its disk: {told:?}");
    let view = bed.host.volumes().await.unwrap().into_iter().find(|view| view.volume == growing).unwrap();
    let last = told.last().map(|told| told.size);
    assert_eq!((last, bed.script.volume_at("/data").unwrap().size), (Some(view.size), view.size.get()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growths_at_once_never_tell_a_machine_of_less_than_before() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (growing, id) = (volume(bed).await, SandboxId::random());
        bed.ensure_with(id, vec![mount(growing, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
        let mut largest = SIZE;
        for round in 1..=20 {
            let sizes = (1..=8).map(|step| ByteSize::mib(round * 100 + step));
            let asks = sizes.clone().map(|size| bed.host.grow_volume(growing, size));
            for (size, outcome) in sizes.zip(futures_util::future::join_all(asks).await) {
                match outcome {
                    Ok(view) => largest = largest.max(view.size),
                    Err(fault) => assert_eq!(fault.code, "volume.shrink", "{size}: {fault}"),
                }
            }
            assert_eq!(largest, ByteSize::mib(round * 100 + 8), "the largest wins");
            is_never_cut(bed, growing).await;
        }
    })
    .await;
}

/// The size is read when it is sent, not when the resume starts.
#[tokio::test]
async fn a_volume_that_grows_while_its_sandbox_goes_on_is_not_cut() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (growing, id) = (volume(bed).await, SandboxId::random());
        bed.ensure_with(id, vec![mount(growing, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
        for (round, asleep) in [(1, false), (2, true), (3, false)] {
            let struck = bed.driver.faults().faults_applied();
            match asleep {
                true => bed.host.sleep(id).await.map(drop).unwrap(),
                false => bed.host.pause(id).await.map(drop).unwrap(),
            }
            bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Resume, 1), FaultEffect::Hang);
            let goes_on = async {
                match asleep {
                    true => bed.host.wake(id).await,
                    false => bed.host.resume(id).await,
                }
            };
            let grows = async {
                let hangs = async || (bed.driver.faults().faults_applied() > struck).then_some(());
                wait_for("the sandbox to go on", SOON, hangs).await;
                let wanted = ByteSize::mib(100 * round);
                let grown = async || {
                    let views = bed.host.volumes().await.unwrap();
                    (views[0].size == wanted).then(|| bed.driver.faults().clear())
                };
                tokio::join!(bed.host.grow_volume(growing, wanted), wait_for("the growth", SOON, grown)).0
            };
            let (went_on, grew) = tokio::join!(goes_on, grows);
            went_on.unwrap();
            assert_eq!(grew.unwrap().size, ByteSize::mib(100 * round));
            is_never_cut(bed, growing).await;
        }
    })
    .await;
}

#[tokio::test]
async fn making_a_volume_twice_makes_one() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let id = VolumeId::random();
        let view = bed.host.make_volume(id, SIZE).await.unwrap();
        assert_eq!(bed.host.make_volume(id, SIZE).await.unwrap(), view);
        let fault = bed.host.make_volume(id, ByteSize::mib(32)).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "volume.exists"));
        for size in [ByteSize::mib(1), ByteSize::gib(1025)] {
            let fault = bed.host.make_volume(VolumeId::random(), size).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Caller, "volume.size"));
        }
        is_free(bed, id).await;
    })
    .await;
}

#[tokio::test]
async fn a_sleeper_keeps_its_volumes_and_learns_of_growth_when_it_wakes() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (own, id) = (volume(bed).await, SandboxId::random());
        bed.ensure_with(id, vec![mount(own, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
        bed.host.sleep(id).await.unwrap();
        assert_eq!((bed.driver.live().len(), bed.script.flushes()), (0, 1), "written out before it sleeps");
        assert_eq!(users(bed, own).await, [id]);
        let fault = bed.host.remove_volume(own).await.unwrap_err();
        assert_eq!(fault.code, "volume.attached");
        let other = bed.ensure_with(SandboxId::random(), vec![mount(own, "/data", VolumeAccess::ReadWrite)]).await;
        assert_eq!(refused(other), (FaultKind::Conflict, "volume.in_use"));
        bed.host.grow_volume(own, ByteSize::mib(64)).await.unwrap();
        assert_eq!(bed.script.volume_at("/data").unwrap().size, SIZE.get(), "nobody can be told yet");
        bed.host.wake(id).await.unwrap();
        assert_eq!(bed.script.volume_at("/data").unwrap().size, ByteSize::mib(64).get());
        assert_eq!(bed.driver.attached(bed.driver.live()[0]).len(), 1);
        bed.host.sleep(id).await.unwrap();
        bed.host.remove(id).await.unwrap();
        assert_eq!(users(bed, own).await, []);
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_paused_sandbox_learns_of_growth_when_it_goes_on() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (own, id) = (volume(bed).await, SandboxId::random());
        bed.ensure_with(id, vec![mount(own, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
        bed.host.pause(id).await.unwrap();
        bed.host.grow_volume(own, ByteSize::mib(64)).await.unwrap();
        bed.host.resume(id).await.unwrap();
        assert_eq!(bed.script.volume_at("/data").unwrap().size, ByteSize::mib(64).get());
        assert_eq!(bed.driver.attached(bed.driver.live()[0])[0].1, ByteSize::mib(64));
    })
    .await;
}

/// Starts a sandbox from a layer.
async fn restore(bed: &FakeBed, layer: LayerId, volumes: Vec<VolumeMount>) -> Result<SandboxId, Fault> {
    let id = SandboxId::random();
    let spec = SandboxSpec { origin: SandboxOrigin::Layer(layer), volumes, ..spec("mini") };
    bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.map(|_| id)
}

async fn fork(bed: &FakeBed, parent: SandboxId, volumes: Vec<VolumeMount>) -> Result<SandboxId, Fault> {
    let child = SandboxId::random();
    let children = vec![EnsureParams { id: child, generation: 1, spec: SandboxSpec { volumes, ..spec("mini") } }];
    let mut forked = bed.host.fork(ForkParams { parent, layer: LayerId::random(), children }).await?;
    forked.children.remove(0).map(|_| child)
}

/// The file of a volume.
fn disk(bed: &FakeBed, volume: VolumeId) -> PathBuf {
    bed.volumes().join(volume.to_string()).join("disk")
}

/// Writes a mark into a volume, where the file system is not.
fn mark(bed: &FakeBed, volume: VolumeId, text: &str) {
    let file = File::options().write(true).open(disk(bed, volume)).unwrap();
    file.write_all_at(format!("{text:\0<64}").as_bytes(), SIZE.get() - 64).unwrap();
}

fn marked(bed: &FakeBed, volume: VolumeId) -> String {
    let mut bytes = [0; 64];
    File::open(disk(bed, volume)).unwrap().read_exact_at(&mut bytes, SIZE.get() - 64).unwrap();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

#[tokio::test]
async fn children_read_what_their_parent_reads() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (shared, reading) = (volume(bed).await, SandboxId::random());
        let mounts = vec![mount(shared, "/models", VolumeAccess::ReadOnly)];
        bed.ensure_with(reading, mounts.clone()).await.unwrap();
        let child = fork(bed, reading, mounts.clone()).await.unwrap();
        let mut both = vec![reading, child];
        both.sort();
        assert_eq!(users(bed, shared).await, both);
        let grandchild = fork(bed, child, mounts).await.unwrap();
        assert_eq!(users(bed, shared).await.len(), 3);
        for id in [reading, child, grandchild] {
            bed.host.remove(id).await.unwrap();
        }
        is_free(bed, shared).await;
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_child_gets_a_clone_of_what_its_parent_writes() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (own, shared, parent) = (volume(bed).await, volume(bed).await, SandboxId::random());
        let mounts = |writes| {
            vec![mount(shared, "/models", VolumeAccess::ReadOnly), mount(writes, "/data", VolumeAccess::ReadWrite)]
        };
        bed.ensure_with(parent, mounts(own)).await.unwrap();
        mark(bed, own, "before the fork");
        let clone = VolumeId::random();
        let child = fork(bed, parent, mounts(clone)).await.unwrap();
        assert_eq!(marked(bed, clone), "before the fork");
        let images = bed
            .layers
            .layers()
            .into_iter()
            .filter(|layer| bed.layers.files(*layer).volume("rw0".parse().unwrap()).exists());
        assert_eq!(images.count(), 0, "an image would keep blocks that only it has");
        assert_eq!((users(bed, own).await, users(bed, clone).await), (vec![parent], vec![child]));
        assert_eq!(users(bed, shared).await.len(), 2, "what is only read is shared");
        mark(bed, clone, "the child");
        mark(bed, own, "the parent");
        assert_eq!((marked(bed, own), marked(bed, clone)), ("the parent".to_owned(), "the child".to_owned()));
        for id in [parent, child] {
            bed.host.remove(id).await.unwrap();
        }
        assert_eq!(marked(bed, clone), "the child", "a clone outlives its sandbox like every volume");
        for volume in [own, shared, clone] {
            bed.host.remove_volume(volume).await.unwrap();
        }
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_kept_layer_has_all_volumes_as_they_were() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (own, shared, parent, layer) =
            (volume(bed).await, volume(bed).await, SandboxId::random(), LayerId::random());
        let mounts = |reads, writes| {
            vec![mount(reads, "/models", VolumeAccess::ReadOnly), mount(writes, "/data", VolumeAccess::ReadWrite)]
        };
        mark(bed, shared, "a model");
        bed.ensure_with(parent, mounts(shared, own)).await.unwrap();
        mark(bed, own, "at the snapshot");
        bed.host.seal(parent, SealParams { layer, hold: LayerHold::Kept }).await.unwrap();
        mark(bed, own, "later");
        bed.host.remove(parent).await.unwrap();
        for volume in [own, shared] {
            bed.host.remove_volume(volume).await.unwrap();
        }
        let mut made = Vec::new();
        for _ in 0..2 {
            let (reads, writes) = (VolumeId::random(), VolumeId::random());
            let id = restore(bed, layer, mounts(reads, writes)).await.unwrap();
            assert_eq!((marked(bed, reads), marked(bed, writes)), ("a model".into(), "at the snapshot".into()));
            mark(bed, writes, "its own");
            made.push((id, [reads, writes]));
        }
        for (id, volumes) in made {
            bed.host.remove(id).await.unwrap();
            for volume in volumes {
                bed.host.remove_volume(volume).await.unwrap();
            }
        }
        bed.host.release(layer).await.unwrap();
        bed.is_idle().await;
    })
    .await;
}

/// Two sandboxes have the same volumes in different order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seals_of_the_same_volumes_do_not_wait_for_each_other() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (a, b) = (volume(bed).await, volume(bed).await);
        let (one, two) = (SandboxId::random(), SandboxId::random());
        let reads = |first, second| {
            vec![mount(first, "/first", VolumeAccess::ReadOnly), mount(second, "/second", VolumeAccess::ReadOnly)]
        };
        bed.ensure_with(one, reads(a, b)).await.unwrap();
        bed.ensure_with(two, reads(b, a)).await.unwrap();
        for _ in 0..20 {
            let layers = [LayerId::random(), LayerId::random()];
            let seal = |id, layer| bed.host.seal(id, SealParams { layer, hold: LayerHold::Kept });
            let both = async { tokio::join!(seal(one, layers[0]), seal(two, layers[1])) };
            let sealed = tokio::time::timeout(PATIENCE, both).await.expect("the seals wait for each other");
            sealed.0.unwrap();
            sealed.1.unwrap();
            for layer in layers {
                bed.host.release(layer).await.unwrap();
            }
        }
        for id in [one, two] {
            bed.host.remove(id).await.unwrap();
        }
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn the_layer_of_a_fork_cannot_be_kept_without_its_volumes() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (own, parent, layer, child) =
            (volume(bed).await, SandboxId::random(), LayerId::random(), SandboxId::random());
        let data = |volume| vec![mount(volume, "/data", VolumeAccess::ReadWrite)];
        bed.ensure_with(parent, data(own)).await.unwrap();
        let volumes = data(VolumeId::random());
        let children = vec![EnsureParams { id: child, generation: 1, spec: SandboxSpec { volumes, ..spec("mini") } }];
        bed.host.fork(ForkParams { parent, layer, children }).await.unwrap().children.remove(0).unwrap();
        let fault = bed.host.seal(parent, SealParams { layer, hold: LayerHold::Kept }).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "layer.no_volumes"), "{fault}");
        for id in [parent, child] {
            bed.host.remove(id).await.unwrap();
        }
        bed.is_idle().await;
    })
    .await;
}

/// The memory of the layer would write to another volume than its own.
#[tokio::test]
async fn a_layer_with_volumes_starts_only_with_clones_of_them() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (own, other, parent, layer) =
            (volume(bed).await, volume(bed).await, SandboxId::random(), LayerId::random());
        let data = |volume| vec![mount(volume, "/data", VolumeAccess::ReadWrite)];
        bed.ensure_with(parent, data(own)).await.unwrap();
        bed.host.seal(parent, SealParams { layer, hold: LayerHold::Kept }).await.unwrap();
        let elsewhere = vec![mount(VolumeId::random(), "/elsewhere", VolumeAccess::ReadWrite)];
        let reader = vec![mount(VolumeId::random(), "/data", VolumeAccess::ReadOnly)];
        for (volumes, code) in [
            (Vec::new(), "volume.missing"),
            (elsewhere, "volume.missing"),
            (reader, "volume.missing"),
            (data(own), "volume.exists"),
            (data(other), "volume.exists"),
        ] {
            assert_eq!(restore(bed, layer, volumes).await.unwrap_err().code, code);
        }
        bed.host.remove(parent).await.unwrap();
        bed.host.release(layer).await.unwrap();
        assert_eq!(bed.host.volumes().await.unwrap().len(), 2, "nothing was made");
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn whichever_step_of_a_fork_fails_no_clone_is_left_and_the_parent_goes_on() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (own, parent) = (volume(bed).await, SandboxId::random());
        bed.ensure_with(parent, vec![mount(own, "/data", VolumeAccess::ReadWrite)]).await.unwrap();
        for step in [DriverCall::Restore, DriverCall::Attach] {
            for trouble in [FaultEffect::Fail, FaultEffect::Die] {
                bed.driver.faults().plan(FaultedCalls::Nth(step, 1), trouble);
                let clone = vec![mount(VolumeId::random(), "/data", VolumeAccess::ReadWrite)];
                fork(bed, parent, clone).await.unwrap_err();
                assert_eq!(present(bed).await, [(own, SIZE, vec![parent])], "{step:?} {trouble:?}");
                assert_eq!(bed.run(parent, "echo here").await.unwrap().0, "here\n");
            }
        }
        bed.driver.faults().clear();
        bed.host.remove(parent).await.unwrap();
        is_free(bed, own).await;
        bed.is_idle().await;
    })
    .await;
}

/// Together they would exceed the limit of all volumes, also with parallel requests.
#[tokio::test]
async fn volumes_made_or_grown_side_by_side_do_not_get_more_than_all_may_have() {
    let ground = std::sync::Arc::new(FakeHostState::with_small_volume(64 << 20).await.unwrap());
    let settings = HostSettings { disk_reserve: ByteSize::new(0), ..FakeBed::settings() };
    let bed = FakeBed::start_over(ground, settings).await.unwrap();
    // Three times the disk is 192 MiB, less what its file system may need.
    let makes = (0..6).map(|_| bed.host.make_volume(VolumeId::random(), ByteSize::mib(50)));
    let outcomes = futures_util::future::join_all(makes).await;
    let made: Vec<VolumeId> = outcomes.iter().flatten().map(|view| view.volume).collect();
    assert_eq!(made.len(), 3, "{outcomes:?}");
    for fault in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!((fault.kind, fault.code), (FaultKind::Storage, "host.storage"), "{fault}");
    }
    let grows = made.iter().map(|volume| bed.host.grow_volume(*volume, ByteSize::mib(80)));
    let outcomes = futures_util::future::join_all(grows).await;
    assert_eq!(outcomes.iter().flatten().count(), 1, "{outcomes:?}");
    bed.host.close().await;
}
