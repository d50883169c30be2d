//! Permissions of a server's files. A bake and a server run in a new folder with the usual umask.
//! Every file of the data folder and of the machines' run folder is checked.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, ExecRequest},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, built, run_root_of, wait_for};
use serde_json::Value;

const ARGUMENTS: [&str; 4] = ["--standby", "1", "--blanks", "1"];

/// Readable by others on purpose, inside the private data folder: machines' processes have their
/// own users, and read these through a mount. They are copies of public programs without secrets.
const EXCEPTIONS: [&str; 3] = ["runtime/", "volume/boot/vmlinuz", "volume/boot/initramfs"];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_bake_or_a_server_keeps_is_open_to_other_users() {
    let folder = tempfile::tempdir().unwrap();
    // As an operator makes it. The folder around it belongs to the test, and is open too.
    let data = folder.path().join("data");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let mut bake = Command::new(built("pandastack"));
    bake.args(["template", "bake", "mini", "--data-dir"]).arg(&data).arg("--agent").arg(built("pandastack-guestd"));
    let baked = bake.output().unwrap();
    assert!(baked.status.success(), "{}", String::from_utf8_lossy(&baked.stderr));
    assert_eq!(opened(&data), Vec::<String>::new(), "after the bake");

    let mut server = TestServer::start(&data, &ARGUMENTS).unwrap();
    let client = client(&server);
    let kept = client.create(&plain()).await.unwrap();
    let running = client.create(&plain()).await.unwrap();
    // A guest's own files keep the modes from its packages.
    let modes = "stat -c %a / /etc /etc/passwd /usr/bin/env /workspace";
    let said = client.exec(&running.id, &ExecRequest { cmd: Some(modes.into()), ..ExecRequest::default() }).await;
    assert_eq!(said.unwrap().stdout, "755\n755\n644\n755\n755\n");
    // Leaves a layer and a console log.
    client.hibernate(&kept.id).await.unwrap();
    let run_root = wait_for("a machine of the server", PATIENCE, async || run_root_of(&data)).await;
    assert_eq!(opened(&data), Vec::<String>::new(), "of the data folder");
    assert_eq!(opened(&run_root), Vec::<String>::new(), "of the folder of running machines");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!([mode(&data), mode(run_root.parent().unwrap()), mode(&run_root)], [0o700; 3]);
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert_eq!(opened(&data), Vec::<String>::new(), "after the stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_closes_what_an_older_version_left_open_and_doctor_and_audit_see_it() {
    let data = DataFolder::with_own_volume().unwrap();
    let set = |name: &str, mode| fs::set_permissions(data.path().join(name), Permissions::from_mode(mode)).unwrap();
    let loose = [("", 0o755), ("volume.users", 0o644)];
    loose.iter().for_each(|(name, mode)| set(name, *mode));
    let doctor = doctor(data.path());
    assert!(doctor["ok"] == false && doctor["found"].as_str().unwrap().contains("volume.users"), "{doctor}");

    let mut server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    assert_eq!(self::doctor(data.path())["ok"], true);
    let client = client(&server);
    assert_eq!(client.audit().await.unwrap().leaks, Vec::<String>::new());
    for (name, mode) in [("ledger.db", 0o644), ("control.db-wal", 0o640), ("volume/disks", 0o711), ("volume", 0o755)] {
        set(name, mode);
        let seen = self::doctor(data.path());
        assert!(seen["ok"] == false && seen["fix"].as_str().unwrap().contains(name), "{seen}");
        let report = client.audit().await.unwrap();
        let leak = format!("{} is accessible to other users (mode {mode:04o})", real(data.path()).join(name).display());
        assert_eq!((&report.leaks, &report.repaired), (&vec![leak.clone()], &vec![leak]));
        assert_eq!(self::doctor(data.path())["ok"], true, "{name} is not repaired");
    }
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
}

#[tokio::test]
async fn the_first_key_is_in_no_log_but_in_a_private_file() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [&["--no-config"][..], &[]] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut server = TestServer::start_with(&data, |command| {
            command.args(["--standby", "0", "--blanks", "0"]).args(arguments);
            command.env_remove("PANDASTACK_BOOTSTRAP_KEY").env("HOME", home.path());
        })
        .unwrap();
        let said = server.said();
        assert!(!said.contains("pds_"), "the key is in the log: {said}");
        let (path, key) = if arguments.is_empty() {
            let path = home.path().join(".config/pandastack/config.json");
            let config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            (path, config["token"].as_str().unwrap().to_owned())
        } else {
            let path = real(&data).join("first-key");
            (path.clone(), fs::read_to_string(&path).unwrap().trim().to_owned())
        };
        assert!(said.contains(&path.display().to_string()), "nobody is told where the key is: {said}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
        assert_eq!(Client::new(config.with_key(key)).unwrap().list().await.unwrap(), []);
        assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    }
}

#[test]
fn a_folder_of_other_users_is_not_taken_for_data() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    fs::write(folder.path().join("notes"), "somebody's").unwrap();
    let refused = TestServer::start(folder.path(), &[]).err().expect("a refusal").to_string();
    assert!(refused.contains("contains other files") && refused.contains("--data-dir"), "{refused}");
    assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o7777, 0o1777);
}

/// Lists all paths in a folder, itself included, that the group or others may access, without the
/// exceptions.
fn opened(top: &Path) -> Vec<String> {
    let (mut waiting, mut open) = (vec![top.to_owned()], Vec::new());
    while let Some(path) = waiting.pop() {
        // Standby machines come and go meanwhile.
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        let name = path.strip_prefix(top).unwrap().display().to_string();
        if about.is_symlink() || EXCEPTIONS.iter().any(|exception| name.starts_with(exception)) {
            continue;
        }
        let mode = about.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            open.push(format!("{name} {mode:04o}"));
        }
        if about.is_dir() {
            waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    open
}

/// The doctor's finding about the data folder's privacy.
fn doctor(data: &Path) -> Value {
    let said = Command::new(built("pandastack")).args(["doctor", "--json", "--data-dir"]).arg(data).output().unwrap();
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let check = said["checks"].as_array().unwrap().iter().find(|check| check["check"] == "privacy");
    check.unwrap().clone()
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap()
}

fn plain() -> CreateSandbox {
    CreateSandbox { template: Some("mini".into()), persistent: Some(true), ..CreateSandbox::default() }
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}
