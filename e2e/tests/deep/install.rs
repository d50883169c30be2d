//! The Debian package in a fresh system: installed, used, upgraded, removed and purged, with the
//! unit under systemd and real machines.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use pandastack_e2e::{
    PATIENCE,
    fresh_root::{FreshRoot, unpacked},
    project,
};
use pandastack_testbed::{built, copy_templates};

const DATA: &str = "/var/lib/pandastack";
const UNIT: &str = "pandastack.service";
const SETTINGS: &str = "/etc/pandastack/pandastack.env";

/// Writes to the disk and to the memory of a sandbox, and reads both back.
const REMEMBER: &str = "echo on disk > /root/note; echo in memory > /dev/shm/note";
const RECALL: &str = "cat /root/note /dev/shm/note";

/// The package in a fresh system.
struct Installed {
    system: FreshRoot,
    key: String,
}

impl Installed {
    /// Installs the package and gives it the template.
    fn first() -> Self {
        let system = FreshRoot::boot(&needed_packages());
        build("1.0.0", &system.path("/root/first.deb"));
        build("1.1.0", &system.path("/root/second.deb"));
        let said = system.run(&["apt-get", "install", "-q", "-y", "/root/first.deb"]);
        assert!(said.contains("first-key"), "it says what to do next: {said}");
        let installed = Self { key: system.run(&["cat", &format!("{DATA}/first-key")]).trim().to_owned(), system };
        installed.assert_active();
        copy_templates(&installed.system.path(DATA)).unwrap();
        installed.system.run(&["systemctl", "restart", UNIT]);
        installed
    }

    fn pandastack(&self, words: &[&str]) -> String {
        let key = format!("PANDASTACK_API_KEY={}", self.key);
        self.system.run(&[&["env", &key, "pandastack"], words].concat())
    }

    fn shell(&self, sandbox: &str, line: &str) -> String {
        self.pandastack(&["sandbox", "exec", sandbox, "--", "sh", "-c", line])
    }

    fn assert_recalls(&self, sandbox: &str) {
        assert_eq!(self.shell(sandbox, RECALL), "on disk\nin memory\n");
    }

    fn property(&self, name: &str) -> String {
        self.system.run(&["systemctl", "show", "--value", "--property", name, UNIT]).trim().to_owned()
    }

    /// With `Type=notify` the unit is active only after the server said that it serves.
    fn assert_active(&self) {
        assert_eq!(self.property("ActiveState"), "active", "{}", self.journal());
        assert_eq!(self.property("StatusText"), "serving");
    }

    fn journal(&self) -> String {
        self.system.run(&["journalctl", "--no-pager", "--unit", UNIT])
    }

    /// Nothing of the server is left but its files.
    fn assert_nothing_runs(&self) {
        let mounts = fs::read_to_string(self.system.path("/proc/1/mounts")).unwrap();
        assert!(!mounts.contains(DATA) && !mounts.contains("/run/netns/"), "{mounts}");
        let names = |folder: &str| {
            let entries = fs::read_dir(self.system.path(folder)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        assert!(names("/run/netns").is_empty(), "{:?}", names("/run/netns"));
        assert_eq!(self.system.run(&["nft", "list", "tables"]), "");
        let processes = names("/proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
        let command = |pid: String| fs::read_to_string(self.system.path(&format!("/proc/{pid}/cmdline")));
        let left: Vec<_> = processes.filter_map(|pid| command(pid).ok()).collect();
        assert!(!left.iter().any(|line| line.contains("pandastack") || line.contains("qemu")), "{left:?}");
    }
}

/// The packages that ours depends on, so that it is installed without a network.
fn needed_packages() -> Vec<&'static str> {
    let control = include_str!("../../../packaging/deb/control.in");
    let depends = control.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap();
    depends.split(", ").map(|need| need.split(' ').next().unwrap()).collect()
}

fn build(version: &str, out: &Path) {
    let share = tempfile::tempdir().unwrap();
    let binaries = built("pandastack");
    let completions = share.path().join("zsh/site-functions");
    fs::create_dir_all(&completions).unwrap();
    let zsh = Command::new(&binaries).args(["completion", "zsh"]).output().unwrap();
    fs::write(completions.join("_pandastack"), zsh.stdout).unwrap();
    let mut command = Command::new(project().join("packaging/build-deb"));
    command.arg(version).arg(binaries.parent().unwrap()).arg(share.path()).arg(out).env("COMPRESSION", "none");
    assert!(command.status().unwrap().success());
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn sandboxes_outlive_a_crash_an_upgrade_and_a_removal_of_the_package() {
    let installed = Installed::first();
    let system = &installed.system;
    let sandbox = installed.pandastack(&["sandbox", "create", "--template", "mini", "--persistent", "--quiet"]);
    let sandbox = sandbox.trim();
    installed.shell(sandbox, REMEMBER);

    // A crash: systemd starts the server again, and it takes over the running machine.
    system.run(&["systemctl", "kill", "--signal", "KILL", "--kill-whom", "main", UNIT]);
    wait_until("the server starts again", || {
        (installed.property("NRestarts").as_str(), installed.property("ActiveState").as_str()) == ("1", "active")
    });
    assert!(installed.journal().contains("1 sandboxes running"), "{}", installed.journal());
    installed.assert_recalls(sandbox);

    // An upgrade keeps the administrator's settings and restarts the server.
    let settings = system.path(SETTINGS);
    fs::write(&settings, "PANDASTACK_FLAGS=--standby 1 --blanks 1\n").unwrap();
    let before = installed.property("MainPID");
    system.run(&["apt-get", "install", "-q", "-y", "/root/second.deb"]);
    assert_eq!(system.run(&["dpkg-query", "--show", "--showformat=${Version}", "pandastack"]), "1.1.0");
    installed.assert_active();
    assert_ne!(installed.property("MainPID"), before);
    assert!(fs::read_to_string(&settings).unwrap().contains("--standby 1"));
    installed.assert_recalls(sandbox);

    // A removal keeps settings and data.
    system.run(&["apt-get", "remove", "-q", "-y", "pandastack"]);
    installed.assert_nothing_runs();
    assert!(settings.exists() && system.path(DATA).join("control.db").exists());
    system.run(&["apt-get", "install", "-q", "-y", "/root/second.deb"]);
    installed.assert_active();
    installed.assert_recalls(sandbox);
    assert!(!installed.journal().contains("Operation not permitted"), "{}", installed.journal());

    // A purge leaves nothing.
    system.run(&["apt-get", "purge", "-q", "-y", "pandastack"]);
    installed.assert_nothing_runs();
    for gone in [DATA, "/etc/pandastack", "/usr/lib/pandastack", "/usr/lib/systemd/system/pandastack.service"] {
        assert!(!system.path(gone).exists(), "{gone}");
    }
    assert_eq!(
        system.run(&["find", "/etc/systemd", "/var/lib/systemd/deb-systemd-helper-enabled", "-name", "pandastack*"]),
        ""
    );
    assert_eq!(system.run(&["systemctl", "is-system-running"]).trim(), "running");
}

#[test]
fn the_unit_is_locked_down_and_shares_the_mounts_of_the_host() {
    let installed = Installed::first();
    let server = installed.property("MainPID");
    let namespace = |pid: &str| fs::metadata(installed.system.path(&format!("/proc/{pid}/ns/mnt"))).unwrap().ino();
    assert_eq!(namespace(&server), namespace("1"), "the next start must see the mounts of this one");
    let status = fs::read_to_string(installed.system.path(&format!("/proc/{server}/status"))).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    };
    assert_eq!((field("NoNewPrivs").as_str(), field("Seccomp").as_str()), ("1", "2"));
    let bounding = u64::from_str_radix(&field("CapBnd"), 16).unwrap();
    for (number, name) in [(16, "SYS_MODULE"), (17, "SYS_RAWIO"), (22, "SYS_BOOT"), (25, "SYS_TIME"), (39, "BPF")] {
        assert_eq!(bounding >> number & 1, 0, "CAP_{name}");
    }
    // What a sandbox can do must work under the locks: fork, sleep, wake, volumes and the network.
    installed.pandastack(&["volume", "create", "disk", "--size", "16"]);
    let create = ["sandbox", "create", "--template", "mini", "--volume", "disk", "--egress", "127.0.0.9", "--quiet"];
    let sandbox = installed.pandastack(&create);
    let sandbox = sandbox.trim();
    installed.shell(sandbox, &format!("{REMEMBER}; touch /mnt/disk/file"));
    installed.pandastack(&["sandbox", "hibernate", sandbox]);
    installed.assert_recalls(sandbox);
    assert!(!installed.journal().contains("Operation not permitted"), "{}", installed.journal());
}

/// The client in a folder as its root. It looks up a name, and nobody answers there.
fn assert_client_runs(root: &Path) {
    fs::copy(built("pandastack-client"), root.join("pandastack")).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/hosts"), "127.0.0.1 elsewhere\n").unwrap();
    let mut command = Command::new("chroot");
    command.arg(root).args(["/pandastack", "sandbox", "list", "--api-url", "http://elsewhere:1"]);
    let output =
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin").env("PANDASTACK_API_KEY", "none").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Connection refused"), "{}: {said}", output.status);
}

#[test]
fn the_client_runs_with_another_c_library_and_with_none() {
    assert_client_runs(tempfile::tempdir().unwrap().path());
    // Modules of a newer C library, which must not be loaded into the client.
    let (_folder, root) = unpacked("trixie", &["libnss-myhostname", "libnss-mymachines"]);
    fs::write(root.join("etc/nsswitch.conf"), "passwd: files systemd\nhosts: mymachines myhostname files dns\n")
        .unwrap();
    assert_client_runs(&root);
}
