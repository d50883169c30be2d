//! The built server as a separate process: the API over HTTP, its start and its end.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use futures_util::StreamExt;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_client::{
    Client, Config, ExecOutput,
    wire::{CreateSandbox, ExecRequest, Sandbox},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, InstanceLeftovers, TestServer, built, run_root_of, wait_for};

#[tokio::test]
async fn the_api_creates_runs_stores_lists_and_deletes() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &[]).unwrap();
    let client = client(&server);
    let health = client.health().await.unwrap();
    assert_eq!(health.status, "ok", "{health:?}");
    assert!(!client.version().await.unwrap().semver.is_empty());
    assert!(client.templates().await.unwrap().iter().any(|template| template.name == "mini"));

    let sandbox = create(&client).await;
    assert_eq!((sandbox.status.as_str(), sandbox.template.as_str()), ("running", "mini"));
    assert_eq!(client.get(&sandbox.id).await.unwrap().id, sandbox.id);
    assert!(client.list().await.unwrap().iter().any(|listed| listed.id == sandbox.id));

    let ran = client.exec(&sandbox.id, &line("echo out; echo err >&2; exit 3")).await.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.exit_code), ("out\n", "err\n", 3));
    let mut stream = client.exec_stream(&sandbox.id, &line("echo é; sleep 0.1; echo 😀")).await.unwrap();
    let (mut text, mut exit) = (String::new(), None);
    while let Some(output) = stream.next().await {
        match output.unwrap() {
            ExecOutput::Stdout(piece) => text.push_str(&piece),
            ExecOutput::Stderr(piece) => panic!("{piece}"),
            ExecOutput::Exit(code) => exit = Some(code),
        }
    }
    assert_eq!((text.as_str(), exit), ("é\n😀\n", Some(0)));
    let late =
        client.exec(&sandbox.id, &ExecRequest { timeout_seconds: Some(0.5), ..line("sleep 60") }).await.unwrap_err();
    assert!(late.is_timeout(), "{late}");

    files(&client, &sandbox.id).await;
    client.delete(&sandbox.id).await.unwrap();
    assert_eq!(client.get(&sandbox.id).await.unwrap_err().status(), Some(404));
    let unknown = CreateSandbox { template: Some("never-baked".into()), ..CreateSandbox::default() };
    let unknown = client.create(&unknown).await.unwrap_err();
    assert_eq!((unknown.status(), unknown.code()), (Some(400), Some("template.unknown")));
}

async fn files(client: &Client, id: &str) {
    let written = client.write(id, "/srv/notes.txt", "hello").await.unwrap();
    assert_eq!(written.bytes, 5);
    let body: Vec<_> = client.read(id, "/srv/notes.txt").await.unwrap().collect().await;
    let whole: Vec<u8> = body.into_iter().flat_map(|piece| piece.unwrap().to_vec()).collect();
    assert_eq!(whole, b"hello");
    let entry = client.stat(id, "/srv/notes.txt").await.unwrap();
    assert_eq!((entry.size, entry.is_dir), (5, false));
    let names: Vec<_> =
        client.list_dir(id, "/srv").await.unwrap().entries.into_iter().map(|entry| entry.name).collect();
    assert!(names.contains(&"notes.txt".to_owned()), "{names:?}");
    client.delete_path(id, "/srv/notes.txt").await.unwrap();
    let missing = client.stat(id, "/srv/notes.txt").await.unwrap_err();
    assert_eq!(missing.status(), Some(404), "{missing}");
    let relative = client.stat(id, "srv").await.unwrap_err();
    assert_eq!(relative.status(), Some(400), "{relative}");
}

#[tokio::test]
async fn a_server_whose_log_finds_no_room_serves_on_and_ends_in_order() {
    let data = DataFolder::with_templates().unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let talkative = |command: &mut Command| {
        command.arg("--no-config").env("PANDASTACK_LOG", "trace").stderr(full);
    };
    let mut server = TestServer::start_with(data.path(), talkative).unwrap();
    let client = client(&server);
    let sandbox = create(&client).await;
    assert_eq!(client.exec(&sandbox.id, &line("echo out")).await.unwrap().stdout, "out\n");
    client.delete(&sandbox.id).await.unwrap();
    server.stop().unwrap();
}

#[tokio::test]
async fn nobody_gets_in_without_the_key() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = |path: &str| http.get(format!("{}/v1/{path}", server.url));
    assert_eq!(ask("healthz").send().await.unwrap().status(), 200, "health needs no key");
    for request in [
        ask("sandboxes"),
        ask("sandboxes").bearer_auth("pds_ffffffffffffffffffffffffffffffff"),
        ask("sandboxes").bearer_auth(&server.key[..server.key.len() - 1]),
        ask("templates"),
        http.post(format!("{}/v1/sandboxes", server.url)).json(&serde_json::json!({ "template": "mini" })),
    ] {
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    assert_eq!(ask("sandboxes").bearer_auth(&server.key).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn ctrl_c_puts_sandboxes_to_sleep_and_leaves_nothing_else() {
    // Its own volume, so that the server must release its mount and loop device.
    let data = DataFolder::with_own_volume().unwrap();
    let mut server = TestServer::start(data.path(), &[]).unwrap();
    let before = client(&server);
    let sandboxes = [create(&before).await, create(&before).await];
    let pids = [resident(&before, &sandboxes[0].id).await, resident(&before, &sandboxes[1].id).await];
    let run_root = run_root(data.path()).await;
    let held = leftovers(data.path(), &run_root).await;
    assert!(!held.processes.is_empty() && !held.network.is_empty() && !held.files.is_empty(), "{held:?}");
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert_eq!(leftovers(data.path(), &run_root).await, InstanceLeftovers::default());
    assert!(!run_root.exists());

    let mut server =
        TestServer::start(data.path(), &["--standby", "0", "--blanks", "0", "--on-stop", "remove"]).unwrap();
    let after = client(&server);
    for (sandbox, pid) in sandboxes.iter().zip(&pids) {
        assert_eq!(after.get(&sandbox.id).await.unwrap().status, "hibernated");
        assert_eq!(after.exec(&sandbox.id, &line(&format!("kill -0 {pid} && echo on"))).await.unwrap().stdout, "on\n");
    }
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert_eq!(leftovers(data.path(), &run_root).await, InstanceLeftovers::default());

    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    for sandbox in client.list().await.unwrap() {
        assert!(!["running", "hibernated"].contains(&sandbox.status.as_str()), "{sandbox:?} was removed");
    }
    let audit = client.audit().await.unwrap();
    assert_eq!((audit.leaks.len(), audit.machines, audit.layers), (0, 0, 1), "{audit:?}");
}

#[tokio::test]
async fn sandboxes_left_running_run_on() {
    let data = DataFolder::with_own_volume().unwrap();
    let _tidy = CleanUp(data.path().to_owned());
    let mut server =
        TestServer::start(data.path(), &["--standby", "0", "--blanks", "0", "--on-stop", "leave"]).unwrap();
    let before = client(&server);
    let sandbox = create(&before).await;
    let pid = resident(&before, &sandbox.id).await;
    let run_root = run_root(data.path()).await;
    let machines = pandastack_testbed::processes(&run_root);
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert_eq!(pandastack_testbed::processes(&run_root), machines, "the machine was not left as it was");

    let mut server =
        TestServer::start(data.path(), &["--standby", "0", "--blanks", "0", "--on-stop", "remove"]).unwrap();
    let after = client(&server);
    assert_eq!(after.get(&sandbox.id).await.unwrap().status, "running");
    assert_eq!(after.exec(&sandbox.id, &line(&format!("kill -0 {pid} && echo on"))).await.unwrap().stdout, "on\n");
    assert_eq!(pandastack_testbed::processes(&run_root), machines, "another machine was made");
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert_eq!(leftovers(data.path(), &run_root).await, InstanceLeftovers::default());
}

#[tokio::test]
async fn after_kill_9_sandboxes_run_on_and_what_nobody_owned_is_gone() {
    let data = DataFolder::with_own_volume().unwrap();
    let _tidy = CleanUp(data.path().to_owned());
    let mut server = TestServer::start(data.path(), &[]).unwrap();
    let before = client(&server);
    let (one, two) = (create(&before).await, create(&before).await);
    let pid = resident(&before, &one.id).await;
    let run_root = run_root(data.path()).await;
    let doomed = machine_of(data.path(), &two.id).await;
    server.kill().unwrap();
    kill(Pid::from_raw(doomed), Signal::SIGKILL).unwrap();
    let orphans = leftovers(data.path(), &run_root).await;
    assert!(orphans.ledger.len() >= 2 && !orphans.network.is_empty(), "{orphans:?}");

    let mut server =
        TestServer::start(data.path(), &["--standby", "0", "--blanks", "0", "--on-stop", "remove"]).unwrap();
    assert!(server.said().contains("1 sandboxes running"), "{}", server.said());
    let client = client(&server);
    assert_eq!(client.get(&one.id).await.unwrap().status, "running");
    assert_eq!(client.exec(&one.id, &line(&format!("kill -0 {pid} && echo on"))).await.unwrap().stdout, "on\n");
    let lost = client.get(&two.id).await.unwrap();
    assert_eq!(lost.status, "failed");
    assert!(lost.status_reason.is_some_and(|reason| !reason.is_empty()));
    let refused = client.exec(&two.id, &line("true")).await.unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    let InstanceLeftovers { processes, ledger, .. } = leftovers(data.path(), &run_root).await;
    assert_eq!((processes.len(), ledger.len()), (1, 1), "standby machines of the last run were not ended");
    let fresh = create(&client).await;
    assert_eq!(client.exec(&fresh.id, &line("echo again")).await.unwrap().stdout, "again\n");
    client.delete(&two.id).await.unwrap();
    assert_eq!(client.get(&two.id).await.unwrap_err().status(), Some(404));
    assert_eq!(server.stop().unwrap(), Some(0));
    assert_eq!(leftovers(data.path(), &run_root).await, InstanceLeftovers::default());
}

#[tokio::test]
async fn a_machine_that_dies_shows_as_failed() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let sandbox = create(&client).await;
    let mut stream = client.exec_stream(&sandbox.id, &line("echo up; sleep 600")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ExecOutput::Stdout("up\n".to_owned()));
    let [pid] = &pandastack_testbed::processes(&run_root(data.path()).await)[..] else { panic!("one machine") };
    kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
    let end = stream.next().await.unwrap();
    assert!(end.is_err(), "the command of a dead machine ended with {end:?}");
    let failed = async || {
        let now = client.get(&sandbox.id).await.ok()?;
        (now.status == "failed").then_some(now.status_reason)
    };
    assert!(wait_for("the failure's record", PATIENCE, failed).await.is_some());
    client.delete(&sandbox.id).await.unwrap();
    assert!(client.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_second_server_on_one_data_folder_is_refused() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let refused = TestServer::start(data.path().join("..").join(data.path().file_name().unwrap()).as_path(), &[]);
    let refused = refused.err().expect("two servers on one folder").to_string();
    assert!(refused.contains("another pandastack server uses"), "{refused}");
    assert_eq!(client(&server).health().await.unwrap().status, "ok", "the first one goes on");
}

#[tokio::test]
async fn a_tier_that_is_not_there_is_not_pretended() {
    let tier = pandastack_vmm_qemu::choose_tier(None, None).unwrap();
    if tier.tier == pandastack_model::Tier::Kvm {
        println!("skipped: this host gives the kvm tier, so requiring it refuses nothing");
        return;
    }
    let data = DataFolder::with_templates().unwrap();
    let refused = TestServer::start(data.path(), &["--require-isolation", "kvm"]).err().expect("a refusal").to_string();
    assert!(refused.contains("isolation kvm is required") && refused.contains("emulated"), "{refused}");
    let refused = TestServer::start(data.path(), &["--tier", "kvm"]).err().expect("a refusal").to_string();
    assert!(refused.contains("tier kvm was requested"), "{refused}");
}

#[tokio::test]
async fn emulation_is_warned_of_at_start_by_doctor_by_the_version_and_per_sandbox() {
    let is_emulated = pandastack_vmm_qemu::choose_tier(None, None).unwrap().tier == pandastack_model::Tier::Emulated;
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let doctor = Command::new(built("pandastack")).args(["doctor", "--data-dir"]).arg(data.path()).output().unwrap();
    let version = client(&server).version().await.unwrap();
    let created = cli(&server, &["sandbox", "create", "--template", "mini"]);
    let id = created.out.split_whitespace().next().unwrap().to_owned();
    let shown = cli(&server, &["sandbox", "get", &id]);
    let said = [
        server.said(),
        String::from_utf8_lossy(&doctor.stdout).into_owned(),
        version.isolation_warning.unwrap_or_default(),
        created.err,
        shown.out,
        client(&server).get(&id).await.unwrap().isolation_warning.unwrap_or_default(),
    ];
    for said in &said {
        assert_eq!(said.contains("QEMU gives no security guarantee"), is_emulated, "{said}");
    }
    assert_eq!(said[..2].iter().filter(|said| said.contains("--require-isolation kvm")).count() == 2, is_emulated);
}

#[tokio::test]
async fn clients_are_configured_unless_told_not_to() {
    use std::os::unix::fs::PermissionsExt;
    let data = DataFolder::with_templates().unwrap();
    let home = tempfile::tempdir().unwrap();
    let at_home = |arguments: &'static [&'static str]| {
        TestServer::start_with(data.path(), |command| {
            command.args(["--standby", "0", "--blanks", "0"]).args(arguments).env("HOME", home.path());
        })
    };
    let mut quiet = at_home(&["--no-config"]).unwrap();
    assert_eq!(quiet.stop().unwrap(), Some(0));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "--no-config wrote something");
    let server = at_home(&[]).unwrap();
    let path = home.path().join(".config/pandastack/config.json");
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        (config["api_url"].as_str(), config["token"].as_str()),
        (Some(server.url.as_str()), Some(server.key.as_str()))
    );
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // The file alone is enough for the command line client.
    let listed = Command::new(built("pandastack"))
        .args(["sandbox", "list", "--json"])
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&listed.stdout).unwrap(), serde_json::json!([]));
}

#[tokio::test]
async fn the_command_line_runs_one_command_and_leaves_no_sandbox() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &[]).unwrap();
    let ran = cli(&server, &["run", "--template", "mini", "--", "sh", "-c", "echo hi; echo no >&2; exit 3"]);
    assert_eq!((ran.out.as_str(), ran.code), ("hi\n", Some(3)), "{}", ran.err);
    assert!(ran.err.contains("no\n"), "{}", ran.err);
    assert!(client(&server).list().await.unwrap().is_empty());
    let ran = cli(&server, &["run", "--template", "never-baked", "true"]);
    assert!(ran.code != Some(0) && ran.err.contains("unknown template \"never-baked\""), "{}", ran.err);
}

#[tokio::test]
async fn the_command_line_creates_lists_runs_and_deletes_with_json() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &[]).unwrap();
    let created = cli(&server, &["sandbox", "create", "--template", "mini", "--json"]).json();
    let id = created["id"].as_str().unwrap().to_owned();
    assert_eq!(created["status"], "running");
    let listed = cli(&server, &["sandbox", "list", "--json"]).json();
    assert_eq!(listed[0]["id"], id.as_str());
    let ran = cli(&server, &["sandbox", "exec", &id, "--json", "--", "echo out; exit 4"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((said["stdout"].as_str(), said["exit_code"].as_i64()), (Some("out\n"), Some(4)), "{said}");
    let deleted = cli(&server, &["sandbox", "delete", &id]);
    assert_eq!(deleted.code, Some(0), "{}", deleted.err);
    assert_eq!(cli(&server, &["sandbox", "list", "--json"]).json(), serde_json::json!([]));
    let again = cli(&server, &["sandbox", "exec", &id, "true"]);
    assert!(again.code != Some(0) && again.err.contains("not found"), "{}", again.err);
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

async fn create(client: &Client) -> Sandbox {
    client.create(&CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() }).await.unwrap()
}

/// Starts a process and returns its id: only the same memory has it.
async fn resident(client: &Client, id: &str) -> u32 {
    let start = "setsid sleep 100000 > /dev/null 2>&1 < /dev/null & echo $!";
    client.exec(id, &line(start)).await.unwrap().stdout.trim().parse().unwrap()
}

/// The process of a sandbox's machine, from the ledger.
pub async fn machine_of(data_dir: &Path, id: &str) -> i32 {
    let ledger = pandastack_host::Ledger::open(&data_dir.join("ledger.db")).await.unwrap();
    let machines = ledger.machines().await.unwrap();
    ledger.close().await;
    let own = machines.iter().find(|machine| machine.sandbox.is_some_and(|sandbox| sandbox.to_string() == id));
    own.unwrap().pid.unwrap().try_into().unwrap()
}

fn line(text: &str) -> ExecRequest {
    ExecRequest { cmd: Some(text.to_owned()), ..ExecRequest::default() }
}

async fn run_root(data_dir: &Path) -> PathBuf {
    wait_for("a machine of the server", PATIENCE, async || run_root_of(data_dir)).await
}

async fn leftovers(data_dir: &Path, run_root: &Path) -> InstanceLeftovers {
    let data_dir = data_dir.canonicalize().unwrap();
    InstanceLeftovers::find(&data_dir.display().to_string(), run_root, &data_dir).await.unwrap()
}

/// Starts a server that cleans up after one that a failed test had killed.
struct CleanUp(PathBuf);

impl Drop for CleanUp {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(mut server) =
                TestServer::start(&self.0, &["--standby", "0", "--blanks", "0", "--on-stop", "remove"])
        {
            let _ = server.stop();
        }
    }
}

struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Said {
    fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, Some(0), "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
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
