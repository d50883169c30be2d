//! Baking with the built program: interrupted by a request, after which it cleans up itself, or
//! killed, after which the next bake does; and beside machines that a killed server has left.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, ExecRequest},
};
use pandastack_e2e::PATIENCE;
use pandastack_host::net;
use pandastack_testbed::{DataFolder, TestServer, built, processes, wait_for};
use serde_json::{Value, json};

/// Counts forever in its own memory, and prints its process id.
const COUNTER: &str = "setsid sh -c 'n=0; while :; do n=$((n+1)); echo $n > /dev/shm/next; mv /dev/shm/next \
    /dev/shm/count; \
                       sleep 0.05; done' > /dev/null 2>&1 < /dev/null & echo $!";

#[tokio::test]
async fn a_bake_that_is_killed_or_stopped_leaves_nothing() {
    let data = DataFolder::with_templates().unwrap();
    // Without its layer it is baked again.
    let volume = data.path().join("volume");
    std::fs::remove_file(volume.join("templates/mini")).unwrap();
    for layer in std::fs::read_dir(volume.join("layers")).unwrap().flatten() {
        std::fs::remove_dir_all(layer.path()).unwrap();
    }

    let mut killed = begin(data.path());
    let folder = booting(&killed).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!processes(&folder).is_empty(), "the machine of a killed bake runs on");

    let stopped = begin(data.path());
    booting(&stopped).await;
    assert_eq!(processes(&folder), Vec::<String>::new(), "the next bake ends it");
    kill(Pid::from_raw(stopped.id() as i32), Signal::SIGTERM).unwrap();
    let stopped_id = stopped.id();
    let ended = stopped.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("no template was baked"), "{}: {said}", ended.status);

    let instance = data.path().canonicalize().unwrap().display().to_string();
    for process in [killed.id(), stopped_id] {
        assert_eq!(folder_of(process), None);
        let net::NetLeftovers { namespaces, links, tables } =
            net::leftovers(&format!("{instance} bake {process}")).await.unwrap();
        assert_eq!([namespaces, links, tables].concat(), Vec::<String>::new());
    }
    assert_eq!(std::fs::read_dir(volume.join("disks")).unwrap().count(), 0);
    assert!(!volume.join("templates/mini").exists());
}

/// The next server takes the machines over, and needs the layer that they run on, although no
/// template names it any more.
#[tokio::test]
async fn a_template_baked_anew_keeps_the_old_layer_under_machines_that_a_killed_server_left() {
    let data = DataFolder::with_templates().unwrap();
    let _clean = CleanUp(data.path());
    let (named, layers) = (data.path().join("volume/templates/mini"), data.path().join("volume/layers"));
    let old = std::fs::read_to_string(&named).unwrap();
    let old_layer = layers.join(old.trim());
    // As if it had been made from other inputs.
    let manifest = old_layer.join("manifest.json");
    let mut written: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    written["inputs"] = json!("something else");
    std::fs::write(&manifest, written.to_string()).unwrap();

    let mut server = start(data.path());
    let first = client(&server);
    let ask = CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() };
    let id = first.create(&ask).await.unwrap().id;
    let process = run(&first, &id, COUNTER).await;
    let count = counts_on(&first, &id, &process, 0).await;
    server.kill().unwrap();

    let baked = begin(data.path()).wait_with_output().unwrap();
    assert!(baked.status.success(), "{}", String::from_utf8_lossy(&baked.stderr));
    assert_ne!(std::fs::read_to_string(&named).unwrap(), old, "it was baked anew");
    assert!(old_layer.exists(), "a machine runs on it");

    server = start(data.path());
    let second = client(&server);
    let count = counts_on(&second, &id, &process, count).await;
    second.hibernate(&id).await.unwrap();
    second.wake(&id).await.unwrap();
    counts_on(&second, &id, &process, count).await;
    second.delete(&id).await.unwrap();
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    // The layer is removed with its last machine.
    assert!(begin(data.path()).wait_with_output().unwrap().status.success());
    assert!(!old_layer.exists(), "nobody needs it any more");
}

/// Waits until a live process has counted further, and returns the count.
async fn counts_on(client: &Client, id: &str, process: &str, before: u64) -> u64 {
    let further = async || {
        let look = format!("kill -0 {process} && cat /dev/shm/count || echo 0");
        run(client, id, &look).await.trim().parse().ok().filter(|count| *count > before)
    };
    wait_for("the counter goes on", PATIENCE, further).await
}

async fn run(client: &Client, id: &str, line: &str) -> String {
    let ran = client.exec(id, &ExecRequest { cmd: Some(line.to_owned()), ..ExecRequest::default() }).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{line}: {} {}", ran.stdout, ran.stderr);
    ran.stdout.trim().to_owned()
}

fn start(data: &Path) -> TestServer {
    TestServer::start(data, &["--standby", "0", "--blanks", "0"]).unwrap()
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

/// Starts a server that cleans up after one that a failed test had killed.
struct CleanUp<'a>(&'a Path);

impl Drop for CleanUp<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(mut server) = TestServer::start(self.0, &["--standby", "0", "--on-stop", "remove"])
        {
            let _ = server.stop();
        }
    }
}

fn begin(data: &Path) -> Child {
    let mut bake = Command::new(built("pandastack"));
    bake.args(["template", "bake", "mini", "--data-dir"]).arg(data);
    // Built programs need not be in the same folder.
    bake.arg("--agent").arg(built("pandastack-guestd"));
    bake.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a bake has a machine, and returns the folder of its machines.
async fn booting(bake: &Child) -> PathBuf {
    let machine = async || folder_of(bake.id()).filter(|folder| !processes(folder).is_empty());
    wait_for("the machine of a bake", PATIENCE, machine).await
}

pub fn folder_of(process: u32) -> Option<PathBuf> {
    let folders = std::fs::read_dir("/run/pandastack").into_iter().flatten().flatten().map(|entry| entry.path());
    folders.into_iter().find(|folder| folder.to_string_lossy().ends_with(&format!(".bake-{process}")))
}
