//! The jail of machine processes, examined from outside on real machines, and attacked from inside
//! by a test program in QEMU's place. Every refused target is first reached from the host.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::{SocketAddr as UnixAddress, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command},
};

use pandastack_e2e::{PATIENCE, Rig, python, run, shell, start, with_sandbox, without_standby};
use pandastack_model::{ByteSize, SandboxState, Tier};
use pandastack_sys::cgroup::CgroupHierarchy;
use pandastack_testbed::{Bed, processes, spec, template_data_dir, wait_for, with_bed};
use pandastack_vmm::{Driver, Machine, MachineLimits, MachineSpec, MachineStartError, Power, group_of, groups_of};
use pandastack_vmm_qemu::Jail;
use pandastack_wire_fleet::{ExecParams, HostPort};

/// Default user ids of machines' processes.
const USERS: std::ops::Range<u32> = 900_000..965_536;

/// Calls that only the system call filter refuses to an unprivileged process, with the error
/// numbers.
const FILTERED: [(&str, i32); 15] = [
    ("clone a namespace of users", 1),
    ("clone3 a namespace of users", 38),
    ("set up io_uring", 1),
    ("add a key", 1),
    ("join a ring of keys", 1),
    ("request a key", 1),
    ("handle page faults", 1),
    ("watch a child", 1),
    ("call in another way", 38),
    ("make a socket of vsock", 97),
    ("make a socket of alg", 97),
    ("make a socket of netlink", 97),
    ("make a socket of inet", 97),
    ("make a socket of inet6", 97),
    ("make a socket of packet", 97),
];

#[tokio::test]
async fn a_machine_process_has_no_rights_and_shares_nothing() {
    let rig = Rig::start().await;
    let (first, spec) = restored(&rig).await;
    let (second, _) = restored(&rig).await;
    let (pid, other) = (first.pid().unwrap(), second.pid().unwrap());
    let status = status(pid);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
    assert_eq!((status["NoNewPrivs"].as_str(), status["Seccomp"].as_str()), ("1", "2"));
    assert!(status["Seccomp_filters"].parse::<u32>().unwrap() >= 2, "our filter and QEMU's own");
    let ids: HashSet<&str> = status["Uid"].split_whitespace().chain(status["Gid"].split_whitespace()).collect();
    let [id] = ids.iter().collect::<Vec<_>>()[..] else { panic!("one number for all: {ids:?}") };
    assert!(USERS.contains(&id.parse().unwrap()), "{id}");
    assert_eq!(status["Groups"], "");
    assert_ne!(status["Uid"], self::status(other)["Uid"], "no two machines share a user");
    let namespace = |pid: &str, kind: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
    for kind in ["mnt", "net", "pid", "ipc", "uts"] {
        let ours = namespace(&pid.to_string(), kind);
        assert_ne!(ours, namespace("self", kind), "{kind} is the host's");
        assert_ne!(ours, namespace(&other.to_string(), kind), "{kind} is another machine's");
    }
    // Only the process itself is left, without a helper.
    assert_eq!(processes(&rig.run_root).len(), 2);
    assert_eq!(status["NSpid"].split_whitespace().last(), Some("1"));
    assert_eq!(held(&format!("/proc/{pid}/root")), root_of(rig.driver.tier()));
    let limits = |name: &str| -> String {
        let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().nth(4).unwrap().to_owned()
    };
    assert_eq!(limits("Max core file size"), "0");
    let group = group_of(&spec.run_dir);
    let mine = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let inside = mine.lines().filter(|line| line.ends_with(&group)).count();
    assert!(inside == 1 || inside == 3, "in all trees or in the unified one: {mine}");
    for machine in [first, second] {
        machine.stop().await;
    }
    assert_eq!(CgroupHierarchy::find().unwrap().names(&groups_of(&rig.run_root)), Vec::<String>::new());
    rig.close().await;
}

#[tokio::test]
async fn a_machine_process_holds_only_its_own_files_open() {
    let rig = Rig::start().await;
    let (machine, spec) = restored(&rig).await;
    machine.resume().await.unwrap();
    let pid = machine.pid().unwrap();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open: Vec<PathBuf> = open.filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
    let own = [
        spec.disk.clone(),
        spec.run_dir.join("console.log"),
        spec.run_dir.join("machine.log"),
        spec.run_dir.join("state"),
    ];
    for file in open.iter().filter(|path| path.is_absolute()) {
        let allowed = own.contains(file)
            || file.starts_with("/dev")
            || file.starts_with("/run/pandastack/users")
            || file == Path::new("/mem")
            || *file == rig.layer.files.mem
            || file.to_string_lossy().starts_with("/memfd:")
            || *file == rig.layer.files.dev;
        assert!(allowed, "{} is open", file.display());
        assert!(!file.is_dir(), "{} is a folder", file.display());
    }
    assert!(open.contains(&spec.disk), "the check sees files: {open:?}");
    // The layer's memory is open read-only and mapped privately.
    let mem = fs::metadata(&rig.layer.files.mem).unwrap();
    for fd in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        if fs::metadata(fd.path()).is_ok_and(|file| (file.dev(), file.ino()) == (mem.dev(), mem.ino())) {
            let fd = fd.file_name().into_string().unwrap();
            let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            assert_eq!(u32::from_str_radix(flags, 8).unwrap() & 3, 0, "the layer's memory is open for writing");
        }
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mapped: Vec<&str> = maps.lines().filter(|line| line.contains(&format!(" {} ", mem.ino()))).collect();
    assert!(
        !mapped.is_empty() && mapped.iter().all(|line| line.split(' ').nth(1).unwrap().ends_with('p')),
        "{mapped:?}"
    );
    machine.stop().await;
    rig.close().await;
}

#[tokio::test]
async fn a_program_in_the_jail_reaches_nothing_of_the_host() {
    let bundles = tempfile::tempdir().unwrap();
    let rig = Rig::start_with(bundles.path()).await;
    // Before the addresses are listed: its own link is one of them.
    let spec = rig.place().await;
    let aims = Aims::of(&rig).await;
    let runtime = probe_bundle(bundles.path(), &aims.targets);
    let said = probe(&rig, MachineSpec { runtime: Some(runtime), ..spec }).await;
    println!("{said}");
    let attempts: Vec<(&str, &str)> =
        said.lines().filter_map(|line| line.split_once(": ")).filter(|(_, end)| !end.is_empty()).collect();
    let refused = attempts.iter().filter(|(_, end)| end.starts_with("refused")).count();
    let done: Vec<_> = attempts.iter().filter(|(_, end)| *end == "done").collect();
    assert_eq!(done, Vec::<&(&str, &str)>::new(), "a jailed program did what it must not");
    let end = |attempt: &str| {
        let found = attempts.iter().find(|(name, _)| *name == attempt);
        found.unwrap_or_else(|| panic!("{attempt} was not tried:\n{said}")).1
    };
    assert_eq!(end("attempts").parse(), Ok(refused), "each of them was refused:\n{said}");
    for target in &aims.targets {
        assert!(end(target).starts_with("refused"), "{target}: {}", end(target));
    }
    assert_eq!(end("holds /"), root_of(rig.driver.tier()));
    if rig.driver.tier() == Tier::Kvm {
        assert_eq!(end("holds /dev"), "kvm");
    }
    for (attempt, errno) in FILTERED {
        assert!(end(attempt).ends_with(&format!("(os error {errno})")), "{attempt}: {}", end(attempt));
    }
    assert_eq!(end("local socket"), "there", "the monitor is one");
    assert_eq!(end("parent"), "0", "the host's processes have no number in there");
    assert_eq!(end("name"), "machine");
    aims.end().await;
    rig.close().await;
}

#[tokio::test]
async fn without_a_jail_the_same_program_sees_the_host() {
    let bundles = tempfile::tempdir().unwrap();
    let mut rig = Rig::start_with(bundles.path()).await;
    let spec = rig.place().await;
    let aims = Aims::of(&rig).await;
    // Without attempts that would change the host, because there is no jail to prevent them.
    let targets = [&["spare the host".to_owned()], &aims.targets[..]].concat();
    let runtime = probe_bundle(bundles.path(), &targets);
    let spec = MachineSpec { runtime: Some(runtime), ..spec };
    let driver = pandastack_vmm_qemu::QemuDriver::new(rig.driver.tier(), bundles.path(), pandastack_kit::Scope::new());
    let _jailer = std::mem::replace(&mut rig.driver, driver.unwrap().with_jail(Jail::None));
    let said = probe(&rig, spec).await;
    let end = |attempt: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(attempt)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("{attempt} was not tried:\n{said}"))
    };
    // The probe works outside the jail, so a failure inside is caused by the jail.
    for attempt in ["see processes", "see the kernel", "run a shell", "open /dev/null", "become user 0"] {
        assert_eq!(end(attempt), "done", "{attempt}");
    }
    for target in &aims.targets {
        // The machine's network namespace blocks these two even without a jail. In the jail the
        // filter already refuses IP sockets, so only this test covers the namespace.
        let held = target.starts_with("connect ") || target.starts_with("abstract ");
        assert!(
            if held { end(target).starts_with("refused") } else { end(target) == "done" },
            "{target}: {}",
            end(target)
        );
    }
    for (attempt, errno) in FILTERED {
        // A kernel may lack one of them, and returns its own error then.
        let lacking = [nix::errno::Errno::ENOSYS, nix::errno::Errno::EAFNOSUPPORT].map(|errno| errno as i32);
        let ends = |errno: &i32| end(attempt).ends_with(&format!("(os error {errno})"));
        assert!(end(attempt) == "done" || lacking.iter().any(ends), "{attempt}: {}", end(attempt));
        assert!(errno != 1 || !ends(&errno), "{attempt}: only the filter may refuse this");
    }
    for kind in ["inet", "netlink"] {
        assert_eq!(end(&format!("make a socket of {kind}")), "done");
    }
    aims.end().await;
    rig.close().await;
}

#[tokio::test]
async fn a_start_that_cannot_be_jailed_fails_unless_asked_for_less() {
    let mut rig = Rig::start().await;
    let bundles = template_data_dir().join("runtime");
    let driver =
        || pandastack_vmm_qemu::QemuDriver::new(rig.driver.tier(), &bundles, pandastack_kit::Scope::new()).unwrap();
    let (users_gone, no_jail) = (driver().with_users(7..7), driver().with_users(7..7).with_jail(Jail::None));
    rig.driver = users_gone;
    match rig.driver.restore(rig.place().await, &rig.layer.files).await {
        Err(MachineStartError::Jail { step, .. }) => assert_eq!(step, "reserve a user id"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("a machine without a user of its own was started"),
    }
    assert_eq!(rig.live(), 0);
    assert_eq!(CgroupHierarchy::find().unwrap().names(&groups_of(&rig.run_root)), Vec::<String>::new());
    rig.driver = no_jail;
    let (machine, _) = restored(&rig).await;
    assert_eq!(status(machine.pid().unwrap())["Uid"].split_whitespace().next(), Some("0"));
    machine.stop().await;
    rig.close().await;
}

#[tokio::test]
async fn an_older_runtime_runs_the_layers_that_name_it_and_is_collected_when_none_does() {
    let bundles = tempfile::tempdir().unwrap();
    let rig = Rig::start_with(bundles.path()).await;
    let newest = rig.driver.bundle().digest().to_owned();
    let older = "0123456789abcdef".repeat(2);
    copy_folder(&bundles.path().join(&newest), &bundles.path().join(&older));
    assert_eq!(rig.driver.profile().runtime, newest);
    assert_eq!(rig.driver.profile_of(&older).unwrap().runtime, older);
    assert_eq!(rig.driver.profile_of(&"f".repeat(32)), None);
    let spec = MachineSpec { runtime: Some(older.clone()), ..rig.place().await };
    let machine = rig.driver.restore(spec, &rig.layer.files).await.unwrap();
    let program = fs::read_link(format!("/proc/{}/exe", machine.pid().unwrap())).unwrap();
    assert!(program.ends_with("lib/ld.so"), "{}", program.display());
    let exe = fs::metadata(format!("/proc/{}/exe", machine.pid().unwrap())).unwrap();
    assert_eq!(exe.ino(), fs::metadata(bundles.path().join(&older).join("lib/ld.so")).unwrap().ino());
    let needed = HashSet::from([older.clone()]);
    assert_eq!(rig.driver.collect(&needed), Vec::<String>::new(), "both are needed");
    machine.stop().await;
    assert_eq!(rig.driver.collect(&HashSet::new()), std::slice::from_ref(&older));
    assert_eq!(rig.driver.profile_of(&older), None);
    let spec = MachineSpec { runtime: Some(older), ..rig.place().await };
    assert!(matches!(rig.driver.restore(spec, &rig.layer.files).await, Err(MachineStartError::Profile { .. })));
    let (machine, _) = restored(&rig).await;
    assert_eq!(machine.power().await.unwrap(), Power::Paused, "the newest is never collected");
    machine.stop().await;
    rig.close().await;
}

#[tokio::test]
async fn a_guest_that_uses_all_its_memory_and_writes_its_disk_lives() {
    with_sandbox(async |bed, id| {
        // More than the guest has left would trigger the guest's own OOM killer. This leaves memory
        // for its kernel.
        let fill = "
import os
free = [int(l.split()[1]) for l in open('/proc/meminfo') if l.startswith('MemAvailable')][0] << 10
kept = bytearray(free - (24 << 20))
for at in range(0, len(kept), 4096): kept[at] = 1
with open('/var/big', 'wb') as f:
    for _ in range(96): f.write(os.urandom(1 << 20))
    os.fsync(f.fileno())
print(len(kept) >> 20, 'MiB')
";
        let ran = run(bed, id, python(fill)).await;
        assert_eq!(ran.code(), 0, "{ran:?}");
        assert_eq!(run(bed, id, shell("echo alive")).await.out(), "alive\n");
    })
    .await;
}

#[tokio::test]
async fn a_machines_group_has_the_limits_of_its_size() {
    with_sandbox(async |bed, _| {
        let layer = bed.layers.template(&spec("mini").template).unwrap();
        let manifest = bed.layers.open_layer(layer).unwrap().manifest;
        let limits = MachineLimits::of(manifest.memory, manifest.cpus);
        assert!(limits.memory > manifest.memory && limits.pids > 0 && limits.cpu_percent >= 100);
        let [pid] = &processes(&bed.run_root)[..] else { panic!("one machine") };
        let hierarchy = CgroupHierarchy::find().unwrap();
        let [machine] = &hierarchy.names(&groups_of(&bed.run_root))[..] else { panic!("one group") };
        let group = Path::new(&groups_of(&bed.run_root)).join(machine);
        let (tops, files, unified) = match hierarchy {
            CgroupHierarchy::Unified(top) => {
                ([top.clone(), top.clone(), top], ["cpu.max", "memory.max", "pids.max"], true)
            }
            CgroupHierarchy::Separate(tops) => (tops, ["cpu.cfs_quota_us", "memory.limit_in_bytes", "pids.max"], false),
        };
        let read = |top: &Path, file: &str| fs::read_to_string(top.join(&group).join(file)).unwrap().trim().to_owned();
        let [cpu, memory, pids] = [0, 1, 2].map(|at| read(&tops[at], files[at]));
        let (quota, period) = match unified {
            true => cpu.split_once(' ').map(|(quota, period)| (quota.to_owned(), period.to_owned())).unwrap(),
            false => (cpu, read(&tops[0], "cpu.cfs_period_us")),
        };
        let number = |text: &str| text.parse::<u64>().unwrap();
        assert_eq!(number(&quota) * 100 / number(&period), u64::from(limits.cpu_percent));
        // The kernel counts in whole pages.
        assert_eq!(number(&memory), limits.memory.get() / 4096 * 4096);
        assert_eq!(number(&pids), u64::from(limits.pids));
        for top in &tops {
            let members = read(top, "cgroup.procs");
            // The kernel's own helper thread of a KVM machine is in the group too, and has no
            // program.
            let program = |pid: &&str| fs::read_link(format!("/proc/{pid}/exe")).is_ok();
            assert_eq!(members.lines().filter(program).collect::<Vec<_>>(), [pid], "the process is in there, alone");
        }
    })
    .await;
}

#[tokio::test]
async fn a_guest_that_fills_its_disk_is_told_and_lives() {
    with_sandbox(async |bed, id| {
        let layer = bed.layers.template(&spec("mini").template).unwrap();
        let whole = bed.layers.open_layer(layer).unwrap().manifest.disk;
        let fill = "
import errno, os
block, written = os.urandom(1 << 20), 0
fd = os.open('/var/fill', os.O_WRONLY | os.O_CREAT)
try:
    while True:
        written += os.write(fd, block)
        if written % (64 << 20) == 0: os.fsync(fd)
except OSError as error:
    print(errno.errorcode[error.errno])
print(written)
";
        let ask = ExecParams { deadline: Some(PATIENCE * 4), ..python(fill) };
        let ran = run(bed, id, ask).await;
        let said = ran.out();
        let (reason, written) = said.split_once('\n').unwrap_or_else(|| panic!("{ran:?}"));
        assert_eq!(reason, "ENOSPC");
        let written: u64 = written.trim().parse().unwrap();
        assert!(written > whole.get() / 8 && written < whole.get(), "{written} bytes of a disk of {whole:?}");
        let [pid] = &processes(&bed.run_root)[..] else { panic!("the machine lives") };
        let disks = bed.layers.disk("");
        let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let disk = open.filter_map(|fd| fs::read_link(fd.path()).ok()).find(|file| file.starts_with(&disks)).unwrap();
        assert_eq!(fs::metadata(&disk).unwrap().len(), whole.get(), "the file is as long as the layer says");
        let after = "rm /var/fill && echo again > /var/again && sync && cat /var/again";
        assert_eq!(run(bed, id, shell(after)).await.out(), "again\n");
    })
    .await;
}

#[tokio::test]
async fn a_machine_that_uses_more_than_its_memory_says_so_when_it_dies() {
    let eats = async |bed: &Bed| {
        // Cached by this process: pages that the machine reads first count as its own, and a
        // machine short of memory would wait for them repeatedly instead of dying.
        let layer = bed.layers.template(&spec("mini").template).unwrap();
        fs::read(bed.layers.open_layer(layer).unwrap().files.mem).unwrap();
        let id = bed.create().await.unwrap();
        let [pid] = &processes(&bed.run_root)[..] else { panic!("one machine") };
        tighten(pid, ByteSize::mib(24));
        let eat = python("kept = bytearray(120 << 20)\nfor at in range(0, len(kept), 4096): kept[at] = 1");
        let _eating = start(bed, id, eat).await;
        let failed = async || match bed.host.observe(id).await.map(|view| view.state) {
            Some(SandboxState::Failed { reason }) => Some(reason),
            _ => None,
        };
        let reason = wait_for("the sandbox's failure", PATIENCE, failed).await;
        assert_eq!(reason, "killed: the machine used more than its 512 MiB");
    };
    with_bed(without_standby(), |net| net, eats).await;
}

/// Existing host resources that a machine's process must not reach, and the probe's targets for
/// them.
struct Aims {
    targets: Vec<String>,
    other: Box<dyn Machine>,
    _bystander: Bystander,
    _tcp: TcpListener,
    _local: UnixListener,
}

impl Aims {
    async fn of(rig: &Rig) -> Self {
        let (other, other_spec) = restored(rig).await;
        let bystander = Bystander(Command::new("sleep").arg("600").spawn().unwrap());
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let name = format!("pandastack-jail-{}", std::process::id());
        let address = UnixAddress::from_abstract_name(&name).unwrap();
        let local = UnixListener::bind_addr(&address).unwrap();
        assert!(UnixStream::connect_addr(&address).is_ok());
        let secret = rig.folder().join("secret");
        fs::write(&secret, "for the host only").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o666)).unwrap();
        let mut targets = vec![
            format!("kill {}", bystander.0.id()),
            format!("kill {}", other.pid().unwrap()),
            format!("abstract {name}"),
            format!("unix {}", other_spec.run_dir.join("qmp").display()),
        ];
        for file in ["/etc/passwd".into(), secret, other_spec.disk, rig.layer.files.disk.clone()] {
            assert!(fs::File::open(&file).is_ok(), "the host itself reads {}", file.display());
            targets.extend(["read", "write", "climb"].map(|attempt| format!("{attempt} {}", file.display())));
        }
        // Loopback, and every other address of the host, including those of the machines' links.
        for address in host_addresses() {
            assert!(TcpStream::connect((address, port)).is_ok(), "the host itself connects to {address}");
            targets.push(format!("connect {address}:{port}"));
        }
        Self { targets, other, _bystander: bystander, _tcp: tcp, _local: local }
    }

    async fn end(self) {
        self.other.stop().await;
    }
}

/// An idle process of ours.
struct Bystander(Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn restored(rig: &Rig) -> (Box<dyn Machine>, MachineSpec) {
    let spec = rig.place().await;
    (rig.driver.restore(spec.clone(), &rig.layer.files).await.unwrap(), spec)
}

/// Restores with the probe as runtime, which answers no monitor, and returns its output.
async fn probe(rig: &Rig, spec: MachineSpec) -> String {
    let log = spec.run_dir.join("machine.log");
    match rig.driver.restore(spec, &rig.layer.files).await {
        Err(MachineStartError::Died { .. }) => {}
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("the probe is no machine"),
    }
    fs::read_to_string(log).unwrap()
}

/// Makes a bundle whose QEMU is the probe, and returns its digest.
fn probe_bundle(bundles: &Path, targets: &[String]) -> String {
    let digest = "badc0de1".repeat(4);
    let folder = bundles.join(&digest);
    for part in ["bin", "lib", "share", "modules"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_jail-probe"));
    let libraries = Command::new("ldd").arg(program).output().unwrap();
    for library in String::from_utf8_lossy(&libraries.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let name = Path::new(library).file_name().unwrap().to_str().unwrap();
        let name = if name.starts_with("ld-linux") { "ld.so" } else { name };
        fs::copy(library, folder.join("lib").join(name)).unwrap();
    }
    fs::copy(program, folder.join("bin/qemu")).unwrap();
    fs::write(folder.join("share/targets"), targets.join("\n")).unwrap();
    fs::write(folder.join("complete"), "").unwrap();
    digest
}

fn host_addresses() -> Vec<Ipv4Addr> {
    let every = nix::ifaddrs::getifaddrs().unwrap().filter_map(|interface| interface.address);
    let found: Vec<Ipv4Addr> = every.filter_map(|address| Some(address.as_sockaddr_in()?.ip())).collect();
    assert!(found.len() >= 2, "loopback and at least one link: {found:?}");
    found
}

fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

fn status(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let pair = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    text.lines().filter_map(pair).collect()
}

/// The expected root of a machine process: the runtime, and the one device that its tier needs.
fn root_of(tier: Tier) -> &'static str {
    match tier {
        Tier::Kvm => "dev initramfs kernel runtime",
        _ => "initramfs kernel runtime",
    }
}

/// The names in a folder.
fn held(folder: &str) -> String {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names.join(" ")
}

/// Lowers the memory limit of a process's group to its own written memory plus `more`. Cached files
/// do not count: their amount varies, and the kernel reclaims them.
fn tighten(pid: &str, more: ByteSize) {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let line = own.lines().find(|line| line.contains(":memory:") || line.starts_with("0::/pandastack")).unwrap();
    let path = line.splitn(3, ':').nth(2).unwrap();
    let (top, written, limit) = match line.contains(":memory:") {
        true => ("/sys/fs/cgroup/memory", "rss ", "memory.limit_in_bytes"),
        false => ("/sys/fs/cgroup", "anon ", "memory.max"),
    };
    let folder = Path::new(top).join(path.trim_start_matches('/'));
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap();
    let written: u64 = stat.lines().find_map(|line| line.strip_prefix(written)).unwrap().parse().unwrap();
    fs::write(folder.join(limit), (written + more.get()).to_string()).unwrap();
}
