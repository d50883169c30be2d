//! The built server over HTTP: forks, trees, promotion, snapshots, sleep, volumes and egress,
//! through the typed client and through the command line.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
};

use pandastack_client::{
    Client, Config,
    wire::{
        CreateSandbox, CreateVolume, EgressList, ExecRequest, ForkRequest, PromoteRequest, Sandbox, SetLifecycle,
        VolumeAttachment,
    },
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, built, wait_for};
use serde_json::{Value, json};

#[tokio::test]
async fn forks_are_running_copies_and_one_is_promoted() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let parent = create(&client, plain()).await;
    let pid = resident(&client, &parent.id).await;

    let fork = client.fork(&parent.id, &ForkRequest::default()).await.unwrap();
    let child = fork.sandbox;
    assert_eq!((fork.parent_id.as_str(), child.boot_mode.as_str()), (parent.id.as_str(), "fork"));
    assert_eq!((child.status.as_str(), child.metadata["fork_parent_id"].as_str()), ("running", parent.id.as_str()));
    for id in [&parent.id, &child.id] {
        assert_eq!(run(&client, id, &format!("cat /srv/mark; kill -0 {pid} && echo alive")).await, "before\nalive\n");
    }
    run(&client, &child.id, "echo child > /srv/mark").await;
    assert_eq!(run(&client, &parent.id, "cat /srv/mark").await, "before\n", "a copy is independent");

    let metadata = [("explore_ttl".to_owned(), json!("120"))].into();
    let ask = ForkRequest { count: Some(3), metadata: Some(metadata) };
    let tree = client.fork_tree(&child.id, &ask).await.unwrap();
    assert_eq!((tree.children.len(), tree.errors.len()), (3, 0), "{:?}", tree.errors);
    for (index, branch) in tree.children.iter().enumerate() {
        assert_eq!(branch.metadata["fork_tree_id"], tree.tree_id);
        assert_eq!((branch.metadata["fork_index"].as_str(), branch.ttl_seconds), (index.to_string().as_str(), 120));
        assert_eq!(
            run(&client, &branch.id, &format!("cat /srv/mark; kill -0 {pid} && echo alive")).await,
            "child\nalive\n"
        );
    }
    let winner = &tree.children[1].id;
    let family = client.tree(winner).await.unwrap();
    assert_eq!((family.root_id.as_str(), family.nodes.len()), (parent.id.as_str(), 5));

    let ask = PromoteRequest { cleanup_siblings: true, tree_id: None };
    let done = client.promote(winner, &ask).await.unwrap();
    assert_eq!((&done.winner, &done.tree_id, done.deleted.len()), (winner, &tree.tree_id, 2), "{done:?}");
    assert!(done.failures.is_empty() && client.promote(winner, &ask).await.unwrap().deleted.is_empty());
    assert_eq!(client.lifecycle(winner).await.unwrap().ttl_seconds, parent.ttl_seconds);
    client.delete(&child.id).await.unwrap();
    assert_eq!(run(&client, winner, "cat /srv/mark").await, "child\n", "the winner survives its parent");
    clean(&client, &server).await;
}

#[tokio::test]
async fn a_snapshot_outlives_its_sandbox_and_starts_others() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let source = create(&client, plain()).await;
    let pid = resident(&client, &source.id).await;
    let snapshot = client.snapshot(&source.id).await.unwrap();
    assert_eq!((&snapshot.sandbox_id, snapshot.template.as_str()), (&source.id, "mini"));
    assert!(snapshot.size_bytes > 0);
    run(&client, &source.id, "echo after > /srv/mark").await;
    client.delete(&source.id).await.unwrap();
    assert_eq!(client.snapshots(Some(&source.id)).await.unwrap(), std::slice::from_ref(&snapshot));

    let from = || CreateSandbox { from_snapshot: Some(snapshot.id.clone()), ..plain() };
    let (one, two) = (create(&client, from()).await, create(&client, from()).await);
    for made in [&one, &two] {
        assert_eq!((made.from_snapshot.as_ref(), made.boot_mode.as_str()), (Some(&snapshot.id), "snapshot"));
        let seen = run(&client, &made.id, &format!("cat /srv/mark; kill -0 {pid} && echo alive")).await;
        assert_eq!(seen, "before\nalive\n", "memory and disk of that moment");
    }
    client.delete_snapshot(&snapshot.id).await.unwrap();
    assert_eq!(client.get_snapshot(&snapshot.id).await.unwrap_err().status(), Some(404));
    assert_eq!(run(&client, &one.id, "cat /srv/mark").await, "before\n", "who runs on it goes on");
    let refused = client.create(&from()).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (Some(404), Some("snapshot.not_found")));
    clean(&client, &server).await;
}

#[tokio::test]
async fn sleep_keeps_everything_and_any_use_wakes() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let sandbox = create(&client, plain()).await;
    let pid = resident(&client, &sandbox.id).await;
    for _ in 0..3 {
        assert_eq!(client.hibernate(&sandbox.id).await.unwrap().status, "hibernated");
        assert_eq!(client.get(&sandbox.id).await.unwrap().status, "hibernated", "looking does not wake");
        client.lifecycle(&sandbox.id).await.unwrap();
        assert!(client.list().await.unwrap().iter().any(|one| one.id == sandbox.id && one.status == "hibernated"));
        let seen = run(&client, &sandbox.id, &format!("cat /srv/mark; kill -0 {pid} && echo alive")).await;
        assert_eq!(seen, "before\nalive\n");
        let awake = async || (client.get(&sandbox.id).await.unwrap().status == "running").then_some(());
        wait_for("the wake's record", PATIENCE, awake).await;
    }
    assert_eq!(client.wake(&sandbox.id).await.unwrap().status, "running", "waking one that is awake");
    client.hibernate(&sandbox.id).await.unwrap();
    assert_eq!(client.pause(&sandbox.id).await.unwrap_err().code(), Some("sandbox.invalid_state"));
    // Concurrent requests share one wake.
    let all = futures_util::future::join_all((0..5).map(|_| run(&client, &sandbox.id, "cat /srv/mark"))).await;
    assert_eq!(all, ["before\n"; 5]);

    client.pause(&sandbox.id).await.unwrap();
    assert_eq!(client.get(&sandbox.id).await.unwrap().status, "paused");
    let refused = client.exec(&sandbox.id, &line("true")).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (Some(409), Some("sandbox.invalid_state")));
    assert_eq!(client.snapshot(&sandbox.id).await.unwrap_err().status(), Some(409));
    client.resume(&sandbox.id).await.unwrap();
    assert_eq!(run(&client, &sandbox.id, &format!("kill -0 {pid} && echo alive")).await, "alive\n");
    let kinds: Vec<_> = client.events(&sandbox.id).await.unwrap().into_iter().map(|event| event.kind).collect();
    for kind in ["sandbox.running", "sandbox.hibernated", "sandbox.woken", "sandbox.paused", "sandbox.resumed"] {
        assert!(kinds.iter().any(|seen| seen == kind), "{kind} is not in {kinds:?}");
    }
    clean(&client, &server).await;
}

#[tokio::test]
async fn an_idle_sandbox_ends_and_a_persistent_one_sleeps() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let mortal = create(&client, CreateSandbox { ttl_seconds: Some(1), ..plain() }).await;
    let lasting = create(&client, CreateSandbox { ttl_seconds: Some(1), persistent: Some(true), ..plain() }).await;
    let gone = async || (client.get(&mortal.id).await.err()?.status() == Some(404)).then_some(());
    wait_for("the idle one's end", PATIENCE, gone).await;
    client.delete(&mortal.id).await.unwrap();
    let asleep = async || (client.get(&lasting.id).await.unwrap().status == "hibernated").then_some(());
    wait_for("the persistent one's sleep", PATIENCE, asleep).await;
    let change = SetLifecycle { ttl_seconds: Some(600), persistent: None };
    let changed = client.set_lifecycle(&lasting.id, &change).await.unwrap();
    assert_eq!((changed.ttl_seconds, changed.persistent), (600, true));
    assert_eq!(client.get(&lasting.id).await.unwrap().status, "hibernated", "changing the limit does not wake");
    assert_eq!(run(&client, &lasting.id, "echo up").await, "up\n");
    clean(&client, &server).await;
}

#[tokio::test]
async fn a_volume_outlives_its_sandboxes_and_has_one_writer() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let made = client.create_volume(&CreateVolume { name: "data".into(), size_mb: Some(64) }).await.unwrap();
    assert_eq!((made.size_mb, made.attached_to.len()), (64, 0));
    let with = |path: Option<&str>, read_only: bool| CreateSandbox {
        volumes: Some(vec![VolumeAttachment {
            name: "data".into(),
            read_only: Some(read_only),
            mount_path: path.map(str::to_owned),
        }]),
        ..plain()
    };
    let writer = create(&client, with(None, false)).await;
    assert_eq!(writer.volumes[0].mount_path.as_deref(), Some("/mnt/data"));
    run(&client, &writer.id, "echo kept > /mnt/data/file && sync").await;
    assert_eq!(client.get_volume("data").await.unwrap().attached_to, std::slice::from_ref(&writer.id));
    assert_eq!(client.create(&with(None, false)).await.unwrap_err().status(), Some(409), "a second writer");
    assert_eq!(client.delete_volume("data").await.unwrap_err().status(), Some(409));
    let child = client.fork(&writer.id, &ForkRequest::default()).await.unwrap().sandbox;
    let copy = client.get_volume(&child.volumes[0].name).await.unwrap();
    assert_eq!(copy.sandbox_id, Some(child.id.clone()));
    let written = "cat /mnt/data/file && echo the child > /mnt/data/file && sync";
    assert_eq!(run(&client, &child.id, written).await, "kept\n");
    client.delete(&child.id).await.unwrap();
    assert_eq!(client.get_volume(&copy.name).await.unwrap_err().status(), Some(404), "it goes with its sandbox");

    let before: u64 =
        run(&client, &writer.id, "df -k /mnt/data | tail -n 1 | awk '{print $2}'").await.trim().parse().unwrap();
    assert_eq!(client.grow_volume("data", 128).await.unwrap().size_mb, 128);
    let larger = async || {
        let now = run(&client, &writer.id, "df -k /mnt/data | tail -n 1 | awk '{print $2}'").await;
        (now.trim().parse::<u64>().unwrap() > before * 3 / 2).then_some(())
    };
    wait_for("more room in the guest", PATIENCE, larger).await;
    assert_eq!(client.grow_volume("data", 64).await.unwrap_err().code(), Some("volume.shrink"));
    client.delete(&writer.id).await.unwrap();

    let (one, two) = (create(&client, with(Some("/srv/shared"), true)).await, create(&client, with(None, true)).await);
    assert_eq!(run(&client, &one.id, "cat /srv/shared/file").await, "kept\n");
    assert_eq!(
        run(&client, &two.id, "cat /mnt/data/file; touch /mnt/data/new 2>/dev/null || echo refused").await,
        "kept\nrefused\n"
    );
    client.delete(&one.id).await.unwrap();
    client.delete(&two.id).await.unwrap();
    client.delete_volume("data").await.unwrap();
    assert_eq!(client.get_volume("data").await.unwrap_err().status(), Some(404));
    clean(&client, &server).await;
}

#[tokio::test]
async fn an_egress_list_is_echoed_inherited_and_changed() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let hosts = |list: &[&str]| Some(list.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>());
    let ask = CreateSandbox {
        egress_allowlist: hosts(&["PyPI.org", "*.debian.org", "203.0.113.0/24"]),
        egress_mbps: Some(20),
        ..plain()
    };
    let sandbox = create(&client, ask).await;
    let listed = hosts(&["pypi.org", "*.debian.org", "203.0.113.0/24"]);
    assert_eq!((&sandbox.egress_allowlist, sandbox.egress_mbps), (&listed, Some(20)));
    let child = client.fork(&sandbox.id, &ForkRequest::default()).await.unwrap().sandbox;
    assert_eq!((&child.egress_allowlist, child.egress_mbps), (&listed, Some(20)));
    for list in [hosts(&[]), None, hosts(&["example.org"])] {
        let list = EgressList { egress_allowlist: list };
        assert_eq!(client.set_egress(&sandbox.id, &list).await.unwrap(), list);
        assert_eq!(client.egress(&sandbox.id).await.unwrap(), list);
    }
    assert_eq!(client.egress(&child.id).await.unwrap().egress_allowlist, listed, "the child has its own");
    clean(&client, &server).await;
}

#[tokio::test]
async fn the_command_line_does_all_of_it() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let cli = |arguments: &[&str]| cli(&server, arguments);
    assert_eq!(cli(&["volume", "create", "data", "--size", "64M", "--json"]).json()["size_mb"], 64);
    assert_eq!(cli(&["volume", "grow", "data", "128", "--json"]).json()["size_mb"], 128);
    let create = ["sandbox", "create", "--template", "mini", "--json"];
    let egress = ["--persistent", "--ttl", "600", "--egress", "pypi.org", "--egress-mbps", "50"];
    let parent = cli(&[&create[..], &egress[..]].concat()).json();
    assert_eq!((&parent["egress_allowlist"], &parent["persistent"]), (&json!(["pypi.org"]), &json!(true)));
    let parent = parent["id"].as_str().unwrap().to_owned();
    let user = cli(&[&create[..], &["--volume", "data:/srv/data:ro", "--no-egress"][..]].concat()).json();
    assert_eq!((&user["volumes"][0]["mount_path"], &user["egress_allowlist"]), (&json!("/srv/data"), &json!([])));
    let refused = cli(&["volume", "delete", "data"]);
    assert!(refused.code == Some(1) && refused.err.contains("data"), "{}", refused.err);

    for (verb, status) in [("pause", "paused"), ("resume", "running"), ("hibernate", "hibernated"), ("wake", "running")]
    {
        assert_eq!(cli(&["sandbox", verb, &parent, "--json"]).json(), json!({"id": parent, "status": status}));
        assert_eq!(cli(&["sandbox", "get", &parent, "--json"]).json()["status"], status);
    }
    cli(&["sandbox", "hibernate", &parent]).text();
    assert_eq!(cli(&["sandbox", "exec", &parent, "--", "echo awake"]).text(), "awake\n");
    assert_eq!(cli(&["sandbox", "lifecycle", &parent, "--ttl", "900", "--json"]).json()["ttl_seconds"], 900);
    let list = cli(&["sandbox", "egress", &parent, "--allow", "a.example", "--allow", "*.b.example", "--json"]).json();
    assert_eq!(list, json!({"egress_allowlist": ["a.example", "*.b.example"]}));
    assert_eq!(cli(&["sandbox", "egress", &parent, "--none"]).text(), "nothing\n");

    let snapshot = cli(&["sandbox", "snapshot", &parent, "--quiet"]).text().trim().to_owned();
    assert_eq!(cli(&["snapshot", "list", "--sandbox", &parent, "--json"]).json()[0]["id"], snapshot.as_str());
    assert_eq!(cli(&["snapshot", "get", &snapshot, "--json"]).json()["sandbox_id"], parent.as_str());
    let restored = cli(&["sandbox", "create", "--from-snapshot", &snapshot, "--json"]).json();
    assert_eq!(restored["from_snapshot"], snapshot.as_str());
    cli(&["snapshot", "delete", &snapshot]).text();
    assert_eq!(cli(&["snapshot", "list", "--json"]).json(), json!([]));

    let copies: Vec<_> =
        cli(&["sandbox", "fork", &parent, "--count", "3", "-q"]).text().lines().map(str::to_owned).collect();
    assert_eq!(copies.len(), 3);
    let drawn = cli(&["sandbox", "tree", &copies[0]]).text();
    let lines: Vec<_> = drawn.lines().collect();
    assert!(lines[0].starts_with(&format!("● {parent}  mini  running  1 CPU, ")), "{drawn}");
    let this = lines[1].starts_with(&format!("├── ● {}  mini  running  1 CPU, ", copies[0]));
    assert!(this && lines[1].ends_with("/h  ← this one"), "{drawn}");
    let promoted = cli(&["sandbox", "promote", &copies[2], "--json"]).json();
    assert_eq!(promoted["deleted"], json!([copies[0], copies[1]]));
    let missing = cli(&["sandbox", "pause", &copies[0]]);
    assert!(missing.code == Some(3) && missing.err.contains("pandastack sandbox list"), "{}", missing.err);

    for sandbox in cli(&["sandbox", "list", "-q"]).text().lines() {
        cli(&["sandbox", "delete", sandbox]).text();
    }
    cli(&["volume", "delete", "data"]).text();
    let audit = cli(&["host", "audit", "--json"]).json();
    assert_eq!((&audit["leaks"], &audit["machines"]), (&json!([]), &json!(0)));
}

#[tokio::test]
async fn a_restart_of_the_server_keeps_snapshots_volumes_and_sleepers() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let before = client(&server);
    let sandbox = create(&before, CreateSandbox { persistent: Some(true), ..plain() }).await;
    let pid = resident(&before, &sandbox.id).await;
    let snapshot = before.snapshot(&sandbox.id).await.unwrap();
    before.create_volume(&CreateVolume { name: "data".into(), size_mb: Some(64) }).await.unwrap();
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());

    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    assert_eq!(client.get(&sandbox.id).await.unwrap().status, "hibernated", "a persistent one sleeps through it");
    assert_eq!(run(&client, &sandbox.id, &format!("kill -0 {pid} && echo alive")).await, "alive\n");
    assert_eq!(client.snapshots(None).await.unwrap(), std::slice::from_ref(&snapshot));
    let made = create(&client, CreateSandbox { from_snapshot: Some(snapshot.id.clone()), ..plain() }).await;
    assert_eq!(run(&client, &made.id, "cat /srv/mark").await, "before\n");
    assert_eq!(client.get_volume("data").await.unwrap().size_mb, 64);
    client.delete_snapshot(&snapshot.id).await.unwrap();
    client.delete_volume("data").await.unwrap();
    clean(&client, &server).await;
}

/// Deletes every sandbox and checks with an audit that nothing is left.
async fn clean(client: &Client, server: &TestServer) {
    for sandbox in client.list().await.unwrap() {
        client.delete(&sandbox.id).await.unwrap();
    }
    let audit = client.audit().await.unwrap();
    assert_eq!((audit.leaks, audit.machines), (Vec::new(), 0), "{}", server.said());
}

/// Starts a process and writes a file, and returns the process id: only a restore of memory has
/// both.
async fn resident(client: &Client, id: &str) -> u32 {
    let said =
        run(client, id, "echo before > /srv/mark; setsid sleep 100000 > /dev/null 2>&1 < /dev/null & echo $!").await;
    said.trim().parse().unwrap()
}

async fn run(client: &Client, id: &str, text: &str) -> String {
    let ran = client.exec(id, &line(text)).await.unwrap();
    assert_eq!((ran.exit_code, ran.stderr.as_str()), (0, ""), "{text}: {}", ran.stdout);
    ran.stdout
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

fn plain() -> CreateSandbox {
    let metadata: BTreeMap<_, _> = [("test".to_owned(), json!("lifecycle"))].into();
    CreateSandbox { template: Some("mini".into()), metadata: Some(metadata), ..CreateSandbox::default() }
}

async fn create(client: &Client, ask: CreateSandbox) -> Sandbox {
    let sandbox = client.create(&ask).await.unwrap();
    assert_eq!(sandbox.status, "running");
    sandbox
}

fn line(text: &str) -> ExecRequest {
    ExecRequest { cmd: Some(text.to_owned()), ..ExecRequest::default() }
}

struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Said {
    fn text(&self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out.clone()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }
}

fn cli(server: &TestServer, arguments: &[&str]) -> Said {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(built("pandastack"));
    command.args(arguments).env("PANDASTACK_API_URL", &server.url).env("PANDASTACK_API_KEY", &server.key);
    let output = command.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { out: text(&output.stdout), err: text(&output.stderr), code: output.status.code() }
}
