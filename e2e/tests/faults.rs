//! Injected faults: each is reported, and nothing is left of the sandbox.

use std::{
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_e2e::{PATIENCE, collect, read_until, shell, start, with_sandbox, without_standby};
use pandastack_host::{HostSettings, net::TAP};
use pandastack_model::{ByteSize, Fault, FaultKind, SandboxId, SandboxState};
use pandastack_sys::netns::Netns;
use pandastack_testbed::{Bed, InstanceLeftovers, built, outside::ip, processes, spec, stretched, wait_for, with_bed};
use pandastack_wire_fleet::{EnsureParams, ExecEvent, ExecParams, HostEvent, HostPort};

/// Waits until a sandbox has failed, and returns the reason.
async fn failure(bed: &Bed, id: SandboxId) -> String {
    let failed = async || match bed.host.observe(id).await?.state {
        SandboxState::Failed { reason } => Some(reason),
        _ => None,
    };
    wait_for("the machine to end", PATIENCE, failed).await
}

#[tokio::test]
async fn a_guest_whose_kernel_gave_up_says_why() {
    with_sandbox(async |bed, id| {
        let _crashing = start(bed, id, shell("echo c > /proc/sysrq-trigger")).await;
        let reason = failure(bed, id).await;
        assert!(reason.contains("kernel panicked") && reason.contains("sysrq"), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn a_guest_that_ran_out_of_memory_says_so() {
    with_sandbox(async |bed, id| {
        // Locked in memory, or the guest would spend minutes reading its programs again.
        let greed = "python3 -c 'import ctypes; ctypes.CDLL(None).mlockall(3)
x = [bytearray(1 << 20) for _ in range(1024)]'";
        // By default the guest's kernel kills the process that took too much, and the sandbox
        // survives.
        let (output, code) = bed.sh(id, greed).await.unwrap();
        assert_eq!(code, 137, "{output}");
        assert_eq!(bed.out(id, "echo alive").await, "alive");
        let _ = bed.sh(id, &format!("echo 2 > /proc/sys/vm/panic_on_oom; {greed}")).await;
        let reason = failure(bed, id).await;
        assert!(reason.contains("panicked") && reason.to_lowercase().contains("memory"), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn a_guest_that_floods_its_console_fills_no_memory_of_the_host() {
    with_sandbox(async |bed, id| {
        let console = || {
            let folders = std::fs::read_dir(&bed.run_root).unwrap().flatten();
            let files = folders.map(|folder| folder.path().join("console.log")).filter(|file| file.exists());
            files.max_by_key(|file| file.metadata().unwrap().len()).unwrap()
        };
        let length = async || Some(console().metadata().ok()?.len());
        // Every byte of a console stops the machine once: on an emulated KVM host a megabyte takes
        // ten minutes. So most of it is written in advance, and the guest's output reaches the
        // limit.
        let lines = "earlier lines of the console\n".repeat(34 * 1024);
        std::fs::OpenOptions::new().append(true).open(console()).unwrap().write_all(lines.as_bytes()).unwrap();
        let flood = "while :; do head -c 4096 /dev/zero | tr '\\0' x; echo; done > /dev/console";
        let _flood = start(bed, id, shell(flood)).await.unwrap();
        wait_for("a long console", PATIENCE, async || length().await.filter(|bytes| *bytes > 1 << 20)).await;
        wait_for("a short one again", PATIENCE, async || length().await.filter(|bytes| *bytes <= 1 << 20)).await;
        assert_eq!(bed.out(id, "echo alive").await, "alive");
    })
    .await;
}

#[tokio::test]
async fn a_machine_killed_during_an_exec_fails_its_sandbox_and_only_that() {
    with_sandbox(async |bed, id| {
        let other = bed.create().await.unwrap();
        let mut events = bed.host.events();
        let mut session = start(bed, id, shell("echo up; sleep 600")).await.unwrap();
        read_until(&mut session, "up").await;
        let pid = bed.host.machine_pid(id).await.unwrap();
        kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
        let ran = collect(session).await;
        assert!(matches!(&ran.end, ExecEvent::Failed(fault) if fault.kind == FaultKind::Unavailable), "{:?}", ran.end);
        let failed = async || match bed.host.observe(id).await?.state {
            SandboxState::Failed { reason } => Some(reason),
            _ => None,
        };
        let reason = wait_for("the sandbox's failure", PATIENCE, failed).await;
        assert!(!reason.is_empty());
        let told = tokio::time::timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
        assert_eq!(told, HostEvent::Failed { id, reason });
        let refused = start(bed, id, shell("true")).await.unwrap_err();
        assert_eq!((refused.kind, refused.code), (FaultKind::Conflict, "sandbox.failed"));
        let refused = bed.host.read_file(id, "/etc/hostname").await.err().unwrap();
        assert_eq!(refused.kind, FaultKind::Conflict);
        assert_eq!(bed.sh(other, "echo unharmed").await.unwrap(), ("unharmed\n".to_owned(), 0));
        bed.host.remove(id).await.unwrap();
        bed.host.remove(id).await.expect("removing twice is fine");
        assert_eq!(bed.host.observe(id).await, None);
        bed.host.remove(other).await.unwrap();
        nothing_is_held(bed).await;
    })
    .await;
}

#[tokio::test]
async fn a_guest_that_does_not_answer_in_time_is_given_up_and_released() {
    let settings = HostSettings { launch_deadline: Duration::from_millis(1), ..without_standby() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            let fault = create_refused(bed, "mini").await;
            assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "guest.silent"), "{fault}");
            nothing_is_held(bed).await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_guest_cut_off_from_its_host_is_given_up_and_released() {
    // The next machine must meet it too, also on a slow computer.
    let settings =
        HostSettings { standby: 1, blanks: 0, launch_deadline: Duration::from_secs(10), ..HostSettings::default() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            // The standby machine works except for its network.
            let ready = async || (bed.host.status().await.standby == 1).then(|| processes(&bed.run_root));
            let standby = wait_for("a standby machine", PATIENCE, ready).await;
            unplug(standby[0].parse().unwrap());
            let fault = create_refused(bed, "mini").await;
            assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "guest.silent"), "{fault}");
            let released = async || (!processes(&bed.run_root).contains(&standby[0])).then_some(());
            wait_for("the machine's end", PATIENCE, released).await;
            let id = bed.create().await.expect("the next machine is as good as any");
            assert_eq!(bed.sh(id, "echo fine").await.unwrap(), ("fine\n".to_owned(), 0));
        },
    )
    .await;
}

#[tokio::test]
async fn a_deadline_holds_even_if_the_guest_falls_silent() {
    with_sandbox(async |bed, id| {
        // Long enough for the guest to begin, and for the test to cut it off.
        let ask = ExecParams { deadline: Some(stretched(Duration::from_secs(6))), ..shell("echo up; sleep 600") };
        let mut session = start(bed, id, ask).await.unwrap();
        read_until(&mut session, "up").await;
        unplug(bed.host.machine_pid(id).await.unwrap());
        let ran = collect(session).await;
        assert!(matches!(&ran.end, ExecEvent::Failed(fault) if fault.code == "guest.silent"), "{:?}", ran.end);
        bed.host.remove(id).await.unwrap();
        nothing_is_held(bed).await;
    })
    .await;
}

#[tokio::test]
async fn a_guest_that_does_not_accept_our_secret_is_not_trusted() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let manifest = layer_of(bed).join("manifest.json");
            let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
            value["link_secret"] = "00".repeat(32).into();
            value.as_object_mut().unwrap().remove("link");
            std::fs::write(&manifest, serde_json::to_vec(&value).unwrap()).unwrap();
            let fault = create_refused(bed, "mini").await;
            assert_eq!(fault.kind, FaultKind::Unavailable, "{fault}");
            nothing_is_held(bed).await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_layer_is_refused_before_any_machine_starts() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let mem = std::fs::OpenOptions::new().read(true).write(true).open(layer_of(bed).join("mem")).unwrap();
            let (mut byte, middle) = ([0], mem.metadata().unwrap().len() / 2);
            mem.read_exact_at(&mut byte, middle).unwrap();
            mem.write_all_at(&[!byte[0]], middle).unwrap();
            drop(mem);
            let (ended, seen) = (AtomicBool::new(false), AtomicBool::new(false));
            let fault = std::thread::scope(|threads| {
                threads.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        seen.fetch_or(!processes(&bed.run_root).is_empty(), Ordering::Relaxed);
                    }
                });
                let fault = tokio::task::block_in_place(|| {
                    tokio::runtime::Handle::current().block_on(create_refused(bed, "mini"))
                });
                ended.store(true, Ordering::Relaxed);
                fault
            });
            assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "template.damaged"), "{fault}");
            assert!(fault.text.contains("template bake mini"), "{fault}");
            assert!(!seen.load(Ordering::Relaxed), "a machine was started from a damaged layer");
            nothing_is_held(bed).await;
        },
    )
    .await;
}

#[tokio::test]
async fn an_unknown_template_is_the_callers_mistake() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let fault = create_refused(bed, "never-baked").await;
            assert_eq!((fault.kind, fault.code), (FaultKind::Caller, "template.unknown"));
            assert!(fault.text.contains("template bake never-baked"), "{fault}");
            nothing_is_held(bed).await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_full_data_folder_refuses_new_sandboxes() {
    let settings = HostSettings { disk_reserve: ByteSize::gib(1 << 20), ..without_standby() };
    with_bed(
        settings,
        |net| net,
        async |bed| {
            let fault = create_refused(bed, "mini").await;
            assert_eq!((fault.kind, fault.code), (FaultKind::Storage, "host.storage"), "{fault}");
            nothing_is_held(bed).await;
        },
    )
    .await;
}

#[tokio::test]
async fn without_qemu_doctor_and_up_name_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let path = programs_without_qemu(folder.path());
    let data = folder.path().join("data");
    let doctor = said(Command::new(built("pandastack")).args(["doctor", "--data-dir"]).arg(&data).env("PATH", &path));
    assert_ne!(doctor.code, Some(0));
    assert!(doctor.text.contains("qemu-system-x86_64 is missing"), "{}", doctor.text);
    assert!(doctor.text.contains("apt-get install qemu-system-x86"), "{}", doctor.text);
    let mut up = Command::new(built("pandastack"));
    up.args(["up", "--listen", "127.0.0.1:0", "--no-config", "--data-dir"]).arg(&data).env("PATH", &path);
    let up = said(&mut up);
    assert_ne!(up.code, Some(0));
    assert!(up.text.contains("qemu-system-x86") && up.text.contains("pandastack doctor"), "{}", up.text);
    let data = data.canonicalize().unwrap();
    let left =
        InstanceLeftovers::find(&data.display().to_string(), Path::new("/run/pandastack/none"), &data).await.unwrap();
    assert_eq!(left, InstanceLeftovers::default(), "a start that failed left something behind");
}

#[tokio::test]
async fn without_root_up_says_so() {
    // The built binary may be in a folder that only root can read.
    let folder = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("pandastack");
    std::fs::copy(built("pandastack"), &program).unwrap();
    let mut up = Command::new("setpriv");
    up.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    up.args(["up", "--listen", "127.0.0.1:0", "--no-config", "--data-dir"]).arg(folder.path().join("data"));
    let up = said(up.current_dir(folder.path()));
    assert_ne!(up.code, Some(0));
    assert!(up.text.contains("need root") && up.text.contains("sudo"), "{}", up.text);
}

/// Requests a sandbox that cannot be made.
async fn create_refused(bed: &Bed, template: &str) -> Fault {
    let id = SandboxId::random();
    let refused = bed.host.ensure(EnsureParams { id, generation: 1, spec: spec(template) }).await.unwrap_err();
    assert_eq!(bed.host.observe(id).await, None, "a refused sandbox stays in the list");
    refused
}

/// Checks that no resource of a sandbox exists. Only the network's spare slots may.
async fn nothing_is_held(bed: &Bed) {
    let InstanceLeftovers { processes, groups, mounts, loops, files, ledger, network: _ } =
        bed.leftovers().await.unwrap();
    let held = [processes, groups, mounts, loops, files, ledger].concat();
    assert!(held.is_empty(), "still held: {held:?}");
}

/// Disconnects a machine's network. To its host it looks as if the guest hung.
fn unplug(pid: u32) {
    let netns = Netns::open(Path::new(&format!("/proc/{pid}/ns/net"))).unwrap();
    netns.run(|| ip(&["link", "set", TAP, "down"], "")).unwrap().unwrap();
}

fn layer_of(bed: &Bed) -> PathBuf {
    let layer = bed.layers.template(&"mini".parse().unwrap()).unwrap();
    bed.data_dir.join("volume/layers").join(layer.to_string())
}

struct Said {
    code: Option<i32>,
    text: String,
}

fn said(command: &mut Command) -> Said {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Said {
        code: status.code(),
        text: format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)),
    }
}

/// A folder with links to every program but QEMU.
fn programs_without_qemu(folder: &Path) -> PathBuf {
    let programs = folder.join("bin");
    std::fs::create_dir(&programs).unwrap();
    for source in ["/usr/bin", "/usr/sbin"] {
        for entry in std::fs::read_dir(source).unwrap().flatten() {
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with("qemu") {
                // Programs in both folders are linked once.
                let _ = std::os::unix::fs::symlink(entry.path(), programs.join(name));
            }
        }
    }
    programs
}
