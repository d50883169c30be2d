//! The jail as the built server uses it: the full jail by default, no start on a host that cannot
//! provide it, and less only by an explicit option.

use std::{fs, path::Path, process::Command};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
};
use pandastack_client::{Client, Config, wire::CreateSandbox};
use pandastack_e2e::{PATIENCE, RELEASE_FOREIGN_VOLUMES};
use pandastack_testbed::{DataFolder, TestServer, processes, run_root_of, wait_for};

/// The lowest user id of a machine's process.
const FIRST_USER: u32 = 900_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_machine_has_a_user_of_its_own_by_default() {
    let data = DataFolder::with_own_volume().unwrap();
    let mut server = TestServer::start(data.path(), &ARGUMENTS).unwrap();
    let client = client(&server);
    let sandbox = client.create(&plain()).await.unwrap();
    assert!(user_of_machine(data.path()).await >= FIRST_USER);
    client.delete(&sandbox.id).await.unwrap();
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_control_groups_nothing_starts_unless_asked_for_less() {
    let data = DataFolder::with_own_volume().unwrap();
    let mut server = without_groups(data.path(), &ARGUMENTS);
    let refused = client(&server);
    let error = refused.create(&plain()).await.unwrap_err();
    assert!(error.status().is_some_and(|status| status >= 500), "{error}");
    assert!(server.said().contains("find its control groups"), "the step is named: {}", server.said());
    assert_eq!(run_root_of(data.path()), None, "no machine is left");
    assert_eq!(refused.list().await.unwrap().iter().filter(|sandbox| sandbox.status == "running").count(), 0);
    let audit = refused.audit().await.unwrap();
    assert_eq!((audit.leaks.as_slice(), audit.machines), (&[][..], 0), "{}", server.said());
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    drop(server);

    let mut server = without_groups(data.path(), &[&ARGUMENTS[..], &["--jail", "none"]].concat());
    let client = client(&server);
    let sandbox = client.create(&plain()).await.unwrap();
    assert_eq!(user_of_machine(data.path()).await, 0);
    assert!(server.said().contains("WARNING: --jail none"), "{}", server.said());
    client.delete(&sandbox.id).await.unwrap();
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
}

const ARGUMENTS: [&str; 6] = ["--standby", "0", "--blanks", "0", "--on-stop", "remove"];

/// Starts a server that sees no control groups: a process inherits the mounts of the thread that
/// starts it.
fn without_groups(data: &Path, arguments: &[&str]) -> TestServer {
    let none: Option<&str> = None;
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            umount2("/sys/fs/cgroup", MntFlags::MNT_DETACH).unwrap();
            assert!(Command::new("sh").args(["-c", RELEASE_FOREIGN_VOLUMES]).status().unwrap().success());
            TestServer::start(data, arguments).unwrap()
        });
        started.join().unwrap()
    })
}

/// The user id of a server's only machine.
async fn user_of_machine(data: &Path) -> u32 {
    let run_root = wait_for("a machine of the server", PATIENCE, async || run_root_of(data)).await;
    let [pid] = &processes(&run_root)[..] else { panic!("one machine") };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    users.split_whitespace().next().unwrap().parse().unwrap()
}

fn plain() -> CreateSandbox {
    CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() }
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}
