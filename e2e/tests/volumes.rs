//! Volumes on real machines: durable, at the path that their owner chose, one writer or many
//! readers, growing in use.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_e2e::{PATIENCE, without_standby};
use pandastack_host::HostSettings;
use pandastack_model::{
    ByteSize, Fault, FaultKind, LayerId, SandboxId, SandboxOrigin, SandboxSpec, VolumeAccess, VolumeId, VolumeMount,
};
use pandastack_testbed::{Bed, spec, wait_for, with_bed};
use pandastack_wire_fleet::{EnsureParams, ForkParams, HostPort, LayerHold, SandboxView, SealParams};

const SIZE: ByteSize = ByteSize::mib(64);

#[tokio::test]
async fn fsynced_data_survives_the_kill_of_its_machine() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let (first, second) = (volume(bed).await, volume(bed).await);
            let mounts = [writer(first, "/data"), writer(second, "/srv/deep/er")];
            let id = create(bed, &mounts).await.unwrap().id;
            assert_eq!(
                said(bed, id, "awk '$2 ~ /data|deep/ {print $1, $2, $3}' /proc/mounts").await,
                "/dev/vdb /data \
                ext4\n/dev/vdc /srv/deep/er ext4\n"
            );
            said(
                bed,
                id,
                "echo one | dd of=/data/file conv=fsync; mkdir /srv/deep/er/x; seq 100000 | dd \
                of=/srv/deep/er/x/two conv=fsync",
            )
            .await;
            kill_machine(bed, id).await;
            let free =
                async || bed.host.volumes().await.unwrap().iter().all(|view| view.users.is_empty()).then_some(());
            wait_for("the dead sandbox let its volumes go", PATIENCE, free).await;
            // The journal is not replayed yet, so a reader might miss data in it.
            let fault = create(bed, &[reader(first, "/data")]).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "volume.unfinished"), "{fault}");
            let again = create(bed, &[writer(second, "/elsewhere"), writer(first, "/data")]).await.unwrap().id;
            assert_eq!(
                said(
                    bed,
                    again,
                    "cat /data/file; tail -1 /elsewhere/x/two; seq 100000 | cmp - \
                /elsewhere/x/two"
                )
                .await,
                "one\n100000\n"
            );
            bed.host.remove(again).await.unwrap();
            let reading = create(bed, &[reader(first, "/data")]).await.unwrap().id;
            assert_eq!(said(bed, reading, "cat /data/file").await, "one\n");
        },
    )
    .await;
}

/// An ext4 file system that has had an error is marked, and may not be grown. Its owner still needs
/// the data.
#[tokio::test]
async fn a_volume_that_has_seen_an_error_can_still_be_used_and_its_user_wakes() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let marked = volume(bed).await;
            let id = create(bed, &[writer(marked, "/data")]).await.unwrap().id;
            said(bed, id, "echo kept > /data/file").await;
            bed.host.remove(id).await.unwrap();
            let file = volume_file(bed, marked);
            let mark = Command::new("debugfs").args(["-w", "-R", "ssv state 2"]).arg(&file).output().unwrap();
            assert!(mark.status.success(), "{}", String::from_utf8_lossy(&mark.stderr));
            let id = create(bed, &[writer(marked, "/data")]).await.unwrap().id;
            assert_eq!(said(bed, id, "cat /data/file; echo more >> /data/file").await, "kept\n");
            bed.host.sleep(id).await.unwrap();
            assert_eq!(said(bed, id, "cat /data/file").await, "kept\nmore\n");
        },
    )
    .await;
}

#[tokio::test]
async fn a_volume_outlives_its_sandbox_with_everything_that_was_written() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let kept = volume(bed).await;
            let id = create(bed, &[writer(kept, "/data")]).await.unwrap().id;
            // Not flushed by the guest, and a program still has the file open.
            said(bed, id, "echo kept > /data/file; sleep 600 >> /data/file < /dev/null 2> /dev/null &").await;
            let fault = bed.host.remove_volume(kept).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "volume.attached"), "{fault}");
            assert!(fault.text.contains(&id.to_string()), "{fault}");
            for access in [VolumeAccess::ReadWrite, VolumeAccess::ReadOnly] {
                let other = VolumeMount { access, ..writer(kept, "/other") };
                let fault = create(bed, &[other]).await.unwrap_err();
                assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "volume.in_use"), "{fault}");
            }
            bed.host.remove(id).await.unwrap();
            let id = create(bed, &[reader(kept, "/data")]).await.unwrap().id;
            assert_eq!(said(bed, id, "cat /data/file").await, "kept\n");
            bed.host.remove(id).await.unwrap();
            bed.host.remove_volume(kept).await.unwrap();
            bed.host.remove_volume(kept).await.expect("removing twice is fine");
            assert_eq!(bed.host.volumes().await.unwrap(), []);
            let fault = create(bed, &[writer(kept, "/data")]).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Missing, "volume.not_found"), "{fault}");
        },
    )
    .await;
}

#[tokio::test]
async fn readers_share_a_volume_and_cannot_write_it() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let (shared, own) = (volume(bed).await, volume(bed).await);
            let id = create(bed, &[writer(shared, "/data")]).await.unwrap().id;
            said(bed, id, "echo shared > /data/file").await;
            bed.host.remove(id).await.unwrap();
            let mut readers = Vec::new();
            for _ in 0..2 {
                readers.push(create(bed, &[reader(shared, "/data")]).await.unwrap().id);
            }
            for id in &readers {
                assert_eq!(said(bed, *id, "cat /data/file").await, "shared\n");
                for attempt in [
                    "echo x > /data/file",
                    "mount -o remount,rw /data",
                    "dd if=/dev/zero of=/dev/vdb bs=4096 count=1 conv=fsync",
                    "blockdev --setrw /dev/vdb && dd if=/dev/zero of=/dev/vdb bs=4096 count=1 conv=fsync",
                ] {
                    let (text, code) = bed.sh(*id, attempt).await.unwrap();
                    assert_ne!(code, 0, "{attempt}: {text}");
                }
                // Whatever its guest does, the machine's process cannot write the file.
                let pid = bed.host.machine_pid(*id).await.unwrap();
                let modes = open_modes(pid, &shared.to_string());
                assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0), "{modes:?}");
            }
            let view = bed.host.volumes().await.unwrap().into_iter().find(|view| view.volume == shared).unwrap();
            assert_eq!(view.users.len(), 2);
            let fault = create(bed, &[writer(shared, "/data")]).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "volume.in_use"), "{fault}");
            for id in readers {
                bed.host.remove(id).await.unwrap();
            }
            // Devices follow the order of the request, whatever their access.
            let id = create(bed, &[reader(shared, "/a"), writer(own, "/b")]).await.unwrap().id;
            assert_eq!(
                said(bed, id, "awk '$1 ~ /vd[b-z]/ {print $1, $2}' /proc/mounts").await,
                "/dev/vdb /a\n/dev/vdc /b\n"
            );
            assert_eq!(
                said(bed, id, "cat /a/file; umount /a; mount -o ro /dev/vdb /mnt; cat /mnt/file; touch /b/x").await,
                "shared\nshared\n"
            );
        },
    )
    .await;
}

#[tokio::test]
async fn a_volume_grows_under_use_and_between_uses() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let growing = volume(bed).await;
            let id = create(bed, &[writer(growing, "/data")]).await.unwrap().id;
            said(bed, id, "echo kept > /data/file").await;
            let before = mib(bed, id).await;
            assert!(before < SIZE.as_mib(), "{before}");
            let view = bed.host.grow_volume(growing, ByteSize::mib(512)).await.unwrap();
            assert_eq!((view.size, view.users), (ByteSize::mib(512), vec![id]));
            let after = mib(bed, id).await;
            assert!(after > 450, "the file system has {after} MiB of 512");
            said(bed, id, "dd if=/dev/zero of=/data/large bs=1M count=200 conv=fsync && rm /data/large").await;
            let fault = bed.host.grow_volume(growing, SIZE).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Caller, "volume.shrink"), "{fault}");
            bed.host.remove(id).await.unwrap();
            bed.host.grow_volume(growing, ByteSize::gib(3)).await.unwrap();
            let id = create(bed, &[writer(growing, "/data")]).await.unwrap().id;
            let later = mib(bed, id).await;
            assert!(later > 2800, "the file system has {later} MiB of 3072");
            assert_eq!(said(bed, id, "cat /data/file").await, "kept\n");
        },
    )
    .await;
}

/// Many concurrent growths each send the machine a size. None may truncate what another has added.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growths_at_once_leave_the_largest_whole() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let growing = volume(bed).await;
            let id = create(bed, &[writer(growing, "/data")]).await.unwrap().id;
            let file = volume_file(bed, growing);
            for round in 1..=3 {
                let sizes = (1..=8).map(|step| ByteSize::mib(512 * (round - 1) + 64 * step));
                let asks = sizes.clone().map(|size| bed.host.grow_volume(growing, size));
                for (size, outcome) in sizes.zip(futures_util::future::join_all(asks).await) {
                    // A growth after a larger one is refused, and does nothing.
                    if let Err(fault) = outcome {
                        assert_eq!(fault.code, "volume.shrink", "{size}: {fault}");
                    }
                }
                let largest = ByteSize::mib(512 * round);
                assert_eq!(std::fs::metadata(&file).unwrap().len(), largest.get(), "round {round}");
                let disk = said(bed, id, "cat /sys/block/vdb/size").await;
                assert_eq!(disk.trim().parse::<u64>().unwrap() * 512, largest.get(), "round {round}");
                let inside = mib(bed, id).await;
                assert!(
                    inside > largest.as_mib() * 9 / 10,
                    "round {round}: the file system has {inside} MiB of {largest}"
                );
                // Writes to the grown part: there must be a disk under it.
                let fill = format!("head -c {} /dev/zero > /data/{round} && sync", 100 << 20);
                said(bed, id, &fill).await;
            }
            bed.host.remove(id).await.unwrap();
            assert_eq!(std::fs::metadata(&file).unwrap().len(), ByteSize::mib(1536).get());
            is_whole(&file);
        },
    )
    .await;
}

#[tokio::test]
async fn a_standby_machine_takes_volumes_as_well() {
    let settings = HostSettings { standby: 1, ..HostSettings::default() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            let own = volume(bed).await;
            for round in 0..2 {
                let ready = async || (bed.host.status().await.standby == 1).then_some(());
                wait_for("a standby machine", PATIENCE, ready).await;
                let access = if round == 0 { VolumeAccess::ReadWrite } else { VolumeAccess::ReadOnly };
                let view = create(bed, &[VolumeMount { access, ..writer(own, "/data") }]).await.unwrap();
                assert_eq!(view.boot_mode, "standby");
                let command = if round == 0 { "echo warm > /data/file" } else { "cat /data/file" };
                assert_eq!(said(bed, view.id, command).await, if round == 0 { "" } else { "warm\n" });
                bed.host.remove(view.id).await.unwrap();
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_path_that_cannot_be_is_refused_and_nothing_is_left() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let own = volume(bed).await;
            for path in ["/", "data", "/data/../etc", "/etc/hostname", "/etc/passwd/x", "/proc/x"] {
                let fault = create(bed, &[writer(own, path)]).await.unwrap_err();
                assert_eq!((fault.kind, fault.code), (FaultKind::Caller, "volume.path"), "{path}: {fault}");
                assert!(fault.text.contains(path.split("/x").next().unwrap()), "{path}: {fault}");
                assert_eq!(bed.host.volumes().await.unwrap()[0].users, [], "{path}");
                assert_eq!(bed.host.observe_all().await, [], "{path}");
            }
            let many: Vec<_> = (0..5).map(|number| writer(VolumeId::random(), &format!("/{number}"))).collect();
            let fault = create(bed, &many).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Caller, "volume.too_many"), "{fault}");
            let id = create(bed, &[writer(own, "/data")]).await.expect("the volume is as good as before").id;
            assert_eq!(said(bed, id, "ls /data").await, "lost+found\n");
        },
    )
    .await;
}

#[tokio::test]
async fn a_sleeper_wakes_with_its_volume_as_it_was_and_as_large_as_it_is() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let own = volume(bed).await;
            let id = create(bed, &[writer(own, "/data")]).await.unwrap().id;
            let program = "(while :; do date >> /data/log; sleep 0.1; done) > /dev/null 2>&1 < /dev/null & echo kept \
                > /data/file";
            said(bed, id, program).await;
            for round in 0..3 {
                bed.host.sleep(id).await.unwrap();
                let fault = create(bed, &[reader(own, "/data")]).await.unwrap_err();
                assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "volume.in_use"), "{fault}");
                bed.host.grow_volume(own, ByteSize::mib(256 << round)).await.unwrap();
                bed.host.wake(id).await.unwrap();
                assert_eq!(said(bed, id, "cat /data/file").await, "kept\n");
                let size = mib(bed, id).await;
                assert!(size > (200 << round), "the file system has {size} MiB in round {round}");
                // The program that was writing continues.
                said(bed, id, "n=$(wc -l < /data/log); while [ $(wc -l < /data/log) = $n ]; do sleep 0.05; done").await;
            }
            // Deleted without a wake: its data was flushed before it slept.
            said(bed, id, "echo late > /data/late").await;
            bed.host.sleep(id).await.unwrap();
            bed.host.remove(id).await.unwrap();
            let id = create(bed, &[reader(own, "/data")]).await.unwrap().id;
            assert_eq!(said(bed, id, "cat /data/file /data/late").await, "kept\nlate\n");
        },
    )
    .await;
}

#[tokio::test]
async fn forks_read_what_their_parent_reads() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let (shared, own) = (volume(bed).await, volume(bed).await);
            let parent = create(bed, &[writer(shared, "/data"), writer(own, "/own")]).await.unwrap().id;
            said(bed, parent, "seq 50000 > /data/file").await;
            bed.host.remove(parent).await.unwrap();
            let mounts = [reader(own, "/own"), reader(shared, "/data")];
            let parent = create(bed, &mounts).await.unwrap().id;
            let child = fork(bed, parent, &mounts).await;
            let grandchild = fork(bed, child, &mounts).await;
            bed.host.remove(parent).await.unwrap();
            for id in [child, grandchild] {
                // Bypasses the guest's cache and reads the machine's own disk.
                let read = "echo 3 > /proc/sys/vm/drop_caches; seq 50000 | cmp - /data/file && ls /own";
                assert_eq!(said(bed, id, read).await, "lost+found\n");
            }
            let views = bed.host.volumes().await.unwrap();
            assert!(views.iter().all(|view| view.users.len() == 2), "{views:?}");
        },
    )
    .await;
}

/// Writes a number past the guest's cache and reads it back, for ever. It ends if the disk has
/// another number than its memory: then they were not sealed at one moment.
const COUNTER: &str = r#"
import mmap, os
disk = os.open("/data/counter", os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_SYNC)
ours, theirs, number = mmap.mmap(-1, 4096), mmap.mmap(-1, 4096), 0
while True:
    number += 1
    ours[:8] = number.to_bytes(8, "little")
    os.pwritev(disk, [ours], 0)
    os.preadv(disk, [theirs], 0)
    if ours[:8] != theirs[:8]:
        open("/data/wrong", "w").write(f"{number} {theirs[:8]}")
        break
"#;

/// The counter goes on and never found a wrong number.
const COUNTS: &str = "n=$(md5sum < /data/counter); for i in $(seq 2000); do sleep 0.05; \
    [ \"$(md5sum < /data/counter)\" = \"$n\" ] || break; done; [ $i -lt 2000 ] && ls /data/wrong 2> /dev/null || echo fine";

#[tokio::test]
async fn a_fork_has_memory_and_volume_of_one_moment_and_lives_apart() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let own = volume(bed).await;
            let parent = create(bed, &[writer(own, "/data")]).await.unwrap().id;
            let start =
                format!("cat > /data/counter.py << 'END'\n{COUNTER}\nEND\npython3 /data/counter.py > /dev/null 2>&1 &");
            said(bed, parent, &start).await;
            let mut children = Vec::new();
            for number in 0..3 {
                assert_eq!(said(bed, parent, COUNTS).await, "fine\n");
                said(bed, parent, &format!("echo {number} > /data/number")).await;
                let clone = VolumeId::random();
                children.push((fork(bed, parent, &[writer(clone, "/data")]).await, clone));
            }
            said(bed, parent, "echo parent > /data/number").await;
            for (number, (child, _)) in children.iter().enumerate() {
                assert_eq!(said(bed, *child, COUNTS).await, "fine\n");
                assert_eq!(said(bed, *child, "cat /data/number").await, format!("{number}\n"));
                said(bed, *child, "echo child > /data/number; sync; echo 3 > /proc/sys/vm/drop_caches").await;
            }
            assert_eq!(said(bed, parent, COUNTS).await, "fine\n");
            assert_eq!(said(bed, parent, "cat /data/number").await, "parent\n");
            for (child, clone) in children {
                assert_eq!(said(bed, child, "cat /data/number").await, "child\n");
                bed.host.remove(child).await.unwrap();
                is_whole(&volume_file(bed, clone));
            }
            bed.host.remove(parent).await.unwrap();
            is_whole(&volume_file(bed, own));
        },
    )
    .await;
}

#[tokio::test]
async fn a_snapshot_brings_the_volume_back_as_it_was() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let (own, layer) = (volume(bed).await, LayerId::random());
            let id = create(bed, &[writer(own, "/data")]).await.unwrap().id;
            // The second line is only in the guest's cache.
            said(bed, id, "echo flushed > /data/file; sync; echo cached >> /data/file").await;
            bed.host.seal(id, SealParams { layer, hold: LayerHold::Kept }).await.unwrap();
            said(bed, id, "echo later >> /data/file; sync").await;
            bed.host.remove(id).await.unwrap();
            bed.host.remove_volume(own).await.unwrap();
            for _ in 0..2 {
                let clone = VolumeId::random();
                let spec = SandboxSpec {
                    origin: SandboxOrigin::Layer(layer),
                    volumes: vec![writer(clone, "/data")],
                    ..spec("mini")
                };
                let id = SandboxId::random();
                bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.unwrap();
                assert_eq!(said(bed, id, "cat /data/file; echo mine >> /data/file").await, "flushed\ncached\n");
                bed.host.remove(id).await.unwrap();
                is_whole(&volume_file(bed, clone));
                let id = create(bed, &[reader(clone, "/data")]).await.unwrap().id;
                assert_eq!(said(bed, id, "cat /data/file").await, "flushed\ncached\nmine\n");
            }
        },
    )
    .await;
}

async fn fork(bed: &Bed, parent: SandboxId, volumes: &[VolumeMount]) -> SandboxId {
    let spec = SandboxSpec { volumes: volumes.to_vec(), ..spec("mini") };
    let children = vec![EnsureParams { id: SandboxId::random(), generation: 1, spec }];
    let ask = ForkParams { parent, layer: LayerId::random(), children };
    bed.host.fork(ask).await.unwrap().children.remove(0).unwrap().id
}

async fn volume(bed: &Bed) -> VolumeId {
    let volume = VolumeId::random();
    bed.host.make_volume(volume, SIZE).await.unwrap();
    volume
}

fn writer(volume: VolumeId, path: &str) -> VolumeMount {
    VolumeMount { volume, path: path.to_owned(), access: VolumeAccess::ReadWrite }
}

fn reader(volume: VolumeId, path: &str) -> VolumeMount {
    VolumeMount { access: VolumeAccess::ReadOnly, ..writer(volume, path) }
}

async fn create(bed: &Bed, volumes: &[VolumeMount]) -> Result<SandboxView, Fault> {
    let spec = SandboxSpec { volumes: volumes.to_vec(), ..spec("mini") };
    bed.host.ensure(EnsureParams { id: SandboxId::random(), generation: 1, spec }).await
}

/// Runs a command that must succeed, and returns its standard output.
async fn said(bed: &Bed, id: SandboxId, command: &str) -> String {
    let ran = pandastack_e2e::run(bed, id, pandastack_e2e::shell(command)).await;
    assert_eq!(ran.code(), 0, "{command}: {} {}", ran.out(), ran.err());
    ran.out()
}

/// Size of the file system at `/data`.
async fn mib(bed: &Bed, id: SandboxId) -> u64 {
    said(bed, id, "df -m --output=size /data | tail -1").await.trim().parse().unwrap()
}

/// Path of a volume's file.
fn volume_file(bed: &Bed, volume: VolumeId) -> PathBuf {
    bed.data_dir.join("volume/volumes").join(volume.to_string()).join("disk")
}

/// Checks an unused file system without changing it.
fn is_whole(file: &Path) {
    let checked = Command::new("e2fsck").args(["-f", "-n"]).arg(file).env("LC_ALL", "C").output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said} {}", String::from_utf8_lossy(&checked.stderr));
}

async fn kill_machine(bed: &Bed, id: SandboxId) {
    let pid = bed.host.machine_pid(id).await.unwrap();
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
}

/// Access modes of a process's open files whose path contains a text: 0 is read-only.
fn open_modes(pid: u32, text: &str) -> Vec<u32> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let ours = files.filter(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().contains(text)));
    let mode = |file: &Path| {
        let notes = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", file.file_name()?.to_str()?)).ok()?;
        let flags = notes.lines().find_map(|line| line.strip_prefix("flags:"))?;
        Some(u32::from_str_radix(flags.trim(), 8).ok()? & 3)
    };
    ours.filter_map(|file| mode(&file.path())).collect()
}
