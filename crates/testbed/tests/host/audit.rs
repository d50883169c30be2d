//! The audit finds resources without an owner: one leak of each kind is planted, reported, removed,
//! and not found again.

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use pandastack_host::{HostSettings, Ledger, SandboxRecord, VolumeUse, net::SLOTS_MAX};
use pandastack_model::{LayerId, MachineId, SandboxId, SandboxState, VolumeId};
use pandastack_sys::cgroup::{CgroupHierarchy, CgroupLimits};
use pandastack_testbed::{
    FakeBed, FakeHostState, InstanceLeftovers, alarms, spec, wait_for, with_fake_bed, with_small_fake_bed,
};
use pandastack_vmm::group_of;
use pandastack_wire_fleet::{HostPort, LayerHold, SealParams};

use crate::SOON;

/// Audits twice: the first reports the leak and removes it, the second finds nothing.
async fn named_and_gone(bed: &FakeBed, expected: &[String]) {
    let mut expected = expected.to_vec();
    expected.sort();
    let mut first = bed.host.audit().await.unwrap();
    first.leaks.sort();
    first.repaired.sort();
    assert_eq!((&first.leaks, &first.repaired), (&expected, &expected));
    assert_eq!(bed.audited().await, (1, bed.driver.live().len()));
}

/// Runs a body on a host whose automatic first audit is over, so that it does not find the planted
/// leak. An audit on request comes after it.
async fn with_quiet_bed(body: impl AsyncFnOnce(&FakeBed)) {
    with_fake_bed(FakeBed::settings(), async |bed| {
        assert_eq!(bed.audited().await, (1, 0));
        body(bed).await;
    })
    .await;
}

#[tokio::test]
async fn what_other_users_could_read_is_named_and_closed() {
    use std::os::unix::fs::PermissionsExt;
    with_quiet_bed(async |bed| {
        let folder = bed.ground.ledger().parent().unwrap().to_owned();
        let paths = [bed.ground.ledger(), folder.join("volume/disks"), bed.run_root.clone(), folder];
        let expected: Vec<String> = paths
            .iter()
            .map(|path| {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
                format!("{} is accessible to other users (mode 0755)", path.display())
            })
            .collect();
        named_and_gone(bed, &expected).await;
        for path in &paths {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
        }
    })
    .await;
}

async fn ledger(ground: &FakeHostState) -> Ledger {
    Ledger::open(&ground.ledger()).await.unwrap()
}

/// A name for a namespace or link in the host's name range that is not in use.
async fn stray_name(ground: &FakeHostState) -> String {
    let network = ground.leftovers().await.unwrap().network;
    let anchor = network.iter().find_map(|name| name.strip_suffix("net")).expect("a host has its anchor");
    format!("{anchor}{}", SLOTS_MAX - 1)
}

fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "{words:?}");
}

fn plant_disk(ground: &FakeHostState) -> String {
    let name = MachineId::random().to_string();
    std::fs::write(ground.layers.disk(&name), "a disk").unwrap();
    format!("disk {name} is not in the ledger")
}

fn plant_folder(ground: &FakeHostState) -> (PathBuf, String) {
    let name = MachineId::random().to_string();
    let folder = ground.run_root.join(&name);
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    (folder, format!("machine folder {name} is not in the ledger"))
}

/// A process that looks like a machine's and waits for input that never comes.
fn plant_process(ground: &FakeHostState) -> (Child, String) {
    let name = MachineId::random().to_string();
    let socket = ground.run_root.join(&name).join("socket");
    let mut waiting = Command::new("sh");
    waiting.args(["-c", "echo ready; read word", "-accel"]).arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = waiting.spawn().unwrap();
    // After its output it has set its own arguments.
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    (child, format!("machine process {name} is not in the ledger"))
}

#[tokio::test]
async fn a_disk_and_a_folder_of_no_machine_are_removed() {
    with_quiet_bed(async |bed| {
        let (id, _) = bed.create().await;
        let (folder, named) = plant_folder(bed);
        named_and_gone(bed, &[plant_disk(bed), named]).await;
        assert!(!folder.exists());
        assert_eq!(bed.layers.disks().len(), 1, "the disk of a sandbox is not a leak");
        assert_eq!(bed.run(id, "echo here").await.unwrap().0, "here\n");
    })
    .await;
}

#[tokio::test]
async fn a_process_of_no_machine_is_ended() {
    with_quiet_bed(async |bed| {
        let (mut child, named) = plant_process(bed);
        named_and_gone(bed, &[named]).await;
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    })
    .await;
}

#[tokio::test]
async fn a_control_group_of_no_machine_is_removed() {
    with_quiet_bed(async |bed| {
        let name = MachineId::random().to_string();
        let limits = CgroupLimits { cpu_percent: 100, memory_bytes: 1 << 26, pids: 16 };
        CgroupHierarchy::find().unwrap().group(&group_of(&bed.run_root.join(&name))).limit(&limits).unwrap();
        named_and_gone(bed, &[format!("control group of machine {name} is not in the ledger")]).await;
        assert_eq!(bed.leftovers().await.unwrap().groups, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_namespace_and_a_link_of_no_slot_are_removed() {
    with_quiet_bed(async |bed| {
        let name = stray_name(bed).await;
        ip(&["netns", "add", &name]);
        named_and_gone(bed, &[format!("network namespace {name} is not in use")]).await;
        // Removing one end removes both.
        ip(&["link", "add", &name, "type", "veth", "peer", "name", &name.replace("pds-", "far-")]);
        named_and_gone(bed, &[format!("network link {name} has no namespace")]).await;
    })
    .await;
}

/// The host's only slot cannot be removed after its use. No sandbox gets one until the audit has
/// removed it.
#[tokio::test]
async fn a_slot_whose_removal_failed_is_removed_by_the_audit_and_its_number_comes_back() {
    with_small_fake_bed(FakeBed::settings(), 1, async |bed| {
        assert_eq!(bed.audited().await, (1, 0));
        let (id, _) = bed.create().await;
        let ledger = ledger(bed).await;
        let slot = ledger.machines().await.unwrap()[0].slot.clone();
        ledger.close().await;
        // A second mount on its name: the first removal removes only that.
        let name = PathBuf::from("/run/netns").join(&slot);
        let (kind, flags): (Option<&str>, _) = (None, nix::mount::MsFlags::MS_BIND);
        nix::mount::mount(Some(&name), &name, kind, flags, kind).unwrap();
        bed.host.remove(id).await.unwrap();
        let [alarm] = &alarms()[..] else { panic!("somebody should know") };
        assert!(alarm.contains("could not remove a network slot"), "{alarm}");
        let refused = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!(refused.code, "host.full", "{refused:?}");
        named_and_gone(bed, &[format!("network namespace {slot} is not in use")]).await;
        bed.create().await;
    })
    .await;
}

#[tokio::test]
async fn a_layer_without_a_line_and_a_line_without_a_layer_are_removed() {
    with_quiet_bed(async |bed| {
        let (id, _) = bed.create().await;
        let (unrecorded, missing) = (LayerId::random(), LayerId::random());
        bed.host.seal(id, SealParams { layer: unrecorded, hold: LayerHold::Kept }).await.unwrap();
        let ledger = ledger(bed).await;
        ledger.layer_gone(unrecorded).await.unwrap();
        ledger.sealing(missing, id).await.unwrap();
        let unrecorded = format!("layer {unrecorded} is not in the ledger");
        named_and_gone(bed, &[unrecorded, format!("layer {missing} is recorded but missing")]).await;
        ledger.close().await;
    })
    .await;
}

/// It is in use, so its loss must be reported as long as it lasts.
#[tokio::test]
async fn a_kept_layer_that_is_not_there_is_named_again_and_again() {
    with_quiet_bed(async |bed| {
        let (ledger, missing) = (ledger(bed).await, LayerId::random());
        ledger.sealing(missing, SandboxId::random()).await.unwrap();
        ledger.keep(missing).await.unwrap();
        for _ in 0..2 {
            let report = bed.host.audit().await.unwrap();
            assert_eq!(report.leaks, [format!("layer {missing} is recorded but missing")]);
            assert_eq!(report.repaired, [""; 0]);
        }
        bed.host.release(missing).await.unwrap();
        assert_eq!(bed.audited().await, (1, 0));
        ledger.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_use_of_a_volume_by_nobody_is_ended() {
    with_quiet_bed(async |bed| {
        let (volume, user) = (VolumeId::random(), SandboxId::random());
        bed.host.make_volume(volume, pandastack_model::ByteSize::mib(16)).await.unwrap();
        let ledger = ledger(bed).await;
        let used = VolumeUse { volume, path: "/data".to_owned(), slot: "rw0".parse().unwrap() };
        ledger.claim_volumes(user, &[used]).await.unwrap();
        ledger.close().await;
        bed.host.remove_volume(volume).await.unwrap_err();
        named_and_gone(bed, &[format!("volumes are held by sandbox {user}, which does not exist")]).await;
        bed.host.remove_volume(volume).await.unwrap();
    })
    .await;
}

/// It has no owner: its process is dead, and its sandbox is not here. Its resources are removed
/// with its ledger entry.
#[tokio::test]
async fn a_line_of_a_dead_machine_goes_with_all_that_it_names() {
    with_quiet_bed(async |bed| {
        let (id, _) = bed.create().await;
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let (ledger, bare, whole) = (ledger(bed).await, MachineId::random(), MachineId::random());
        let layer = bed.layers.template(&spec("mini").template).unwrap();
        ledger.intend(bare, "gone", Some(layer)).await.unwrap();
        let slot = stray_name(bed).await;
        ip(&["netns", "add", &slot]);
        ledger.intend(whole, &slot, Some(layer)).await.unwrap();
        ledger.started(whole, Some(dead.id())).await.unwrap();
        ledger.assigned(whole, SandboxId::random()).await.unwrap();
        std::fs::create_dir_all(bed.run_root.join(whole.to_string())).unwrap();
        std::fs::write(bed.layers.disk(&whole.to_string()), "a disk").unwrap();
        let named = |machine| format!("machine {machine} is recorded but not in use");
        named_and_gone(bed, &[named(bare), named(whole)]).await;
        let left = bed.leftovers().await.unwrap();
        assert!(!left.network.contains(&slot) && left.files.len() == 2, "{left:?}");
        assert_eq!(ledger.machines().await.unwrap().len(), 1);
        ledger.close().await;
        assert_eq!(bed.run(id, "echo here").await.unwrap().0, "here\n");
    })
    .await;
}

#[tokio::test]
async fn a_line_of_a_sandbox_that_was_never_made_is_removed() {
    with_quiet_bed(async |bed| {
        let (ledger, id) = (ledger(bed).await, SandboxId::random());
        ledger.wanted(id, 1, &spec("mini")).await.unwrap();
        named_and_gone(bed, &[format!("sandbox {id} is recorded but was never created, or was removed")]).await;
        ledger.close().await;
    })
    .await;
}

/// Only an operator can decide whether it may be removed, so it is reported, with its machine, at
/// every audit.
#[tokio::test]
async fn a_sandbox_that_nobody_drives_is_named_again_and_again() {
    with_quiet_bed(async |bed| {
        for state in [SandboxState::Running, SandboxState::Paused] {
            let (ledger, id, machine) = (ledger(bed).await, SandboxId::random(), MachineId::random());
            ledger.wanted(id, 1, &spec("mini")).await.unwrap();
            ledger.record(id, &SandboxRecord { state, layer: None, secret: Some(vec![1]) }).await.unwrap();
            ledger.intend(machine, "gone", None).await.unwrap();
            ledger.assigned(machine, id).await.unwrap();
            let folder = bed.run_root.join(machine.to_string());
            std::fs::create_dir(&folder).unwrap();
            for _ in 0..2 {
                let report = bed.host.audit().await.unwrap();
                let sandbox = format!("sandbox {id} is recorded but has no driver task; inspect it by hand");
                let machine = format!("machine {machine} serves a sandbox without a driver task; inspect it by hand");
                assert_eq!((report.leaks, report.repaired), (vec![sandbox, machine], Vec::new()));
            }
            std::fs::remove_dir(folder).unwrap();
            ledger.gone(machine).await.unwrap();
            ledger.sandbox_gone(id).await.unwrap();
            ledger.close().await;
            assert_eq!(bed.audited().await, (1, 0));
        }
    })
    .await;
}

#[tokio::test]
async fn a_draft_of_an_earlier_process_is_removed_and_one_of_this_is_not() {
    with_quiet_bed(async |bed| {
        let (old, own) = (LayerId::random().to_string(), LayerId::random().to_string());
        for draft in [&old, &own] {
            std::fs::create_dir(bed.staging().join(draft)).unwrap();
        }
        let folder = std::fs::File::open(bed.staging().join(&old)).unwrap();
        folder.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        named_and_gone(bed, &[format!("draft layer {old} was left by an earlier process")]).await;
        std::fs::remove_dir(bed.staging().join(own)).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_leak_goes_without_anybody_asking() {
    let settings = HostSettings { audit_every: Duration::from_millis(50), ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        bed.create().await;
        plant_disk(bed);
        let (folder, _) = plant_folder(bed);
        wait_for("the audit", SOON, async || (bed.layers.disks().len() == 1 && !folder.exists()).then_some(())).await;
    })
    .await;
}

/// Resources found at start have no owner. They are removed before the first request.
#[tokio::test]
async fn leaks_of_an_earlier_process_are_gone_after_the_start() {
    let ground = Arc::new(FakeHostState::make().await.unwrap());
    let bed = FakeBed::start_over(ground.clone(), FakeBed::settings()).await.unwrap();
    let slot = stray_name(&bed).await;
    bed.host.close().await;
    let (folder, _) = plant_folder(&ground);
    plant_disk(&ground);
    let (mut child, _) = plant_process(&ground);
    // Waiting for a child closes its input, which would end this one.
    let _input = child.stdin.take();
    // Reaped as soon as it ends, because the host waits until it is gone.
    let reaped = std::thread::spawn(move || child.wait().unwrap());
    ip(&["netns", "add", &slot]);
    let mut draft = std::fs::File::create(ground.staging().join("half")).unwrap();
    draft.write_all(b"half a layer").unwrap();
    let ledger = ledger(&ground).await;
    ledger.intend(MachineId::random(), &slot, None).await.unwrap();
    ledger.wanted(SandboxId::random(), 1, &spec("mini")).await.unwrap();
    ledger.sealing(LayerId::random(), SandboxId::random()).await.unwrap();
    ledger.close().await;

    let bed = FakeBed::start_over(ground.clone(), FakeBed::settings()).await.unwrap();
    let found = bed.host.recovered();
    assert_eq!((found.machines, found.disks, found.folders, found.adopted), (1, 1, 1, 0));
    assert_eq!(bed.audited().await, (1, 0));
    assert!(!folder.exists());
    reaped.join().unwrap();
    bed.host.close().await;
    assert_eq!(ground.leftovers().await.unwrap(), InstanceLeftovers::default());
}
