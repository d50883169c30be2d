//! The built server over HTTP: consoles, events, resource usage, boots, audit trail, metrics,
//! idempotency keys and limits, through the typed client, the command line and the published Python
//! SDK.

use std::{
    future::Future,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use pandastack_client::{
    AuditQuery, Client, Config, SandboxStream,
    wire::{AuditEntry, CreateSandbox, ExecRequest, ForkRequest, LogLine},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, built, wait_for};
use serde_json::Value;

const SDK: &str = "0.10.0";

#[tokio::test]
async fn a_console_is_read_and_followed_through_sleep_to_the_end() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let id = create(&client).await;
    let mut lines = client.follow_logs(&id, None).await.unwrap();
    say(&client, &id, "first é").await;
    until(&mut lines, "first é").await;
    say(&client, &id, "10%\\r20%\\r\\nsecond").await;
    until(&mut lines, "20%").await;
    until(&mut lines, "second").await;
    let whole = client.logs(&id, None).await.unwrap();
    assert!(whole.contains("first é\n") && whole.ends_with("10%\n20%\nsecond\n"), "{whole:?}");
    assert!(!whole.contains('\r'));
    assert_eq!(client.logs(&id, Some(1)).await.unwrap(), "second\n");

    client.hibernate(&id).await.unwrap();
    assert_eq!(client.logs(&id, Some(2)).await.unwrap(), "20%\nsecond\n");
    assert_eq!(client.get(&id).await.unwrap().status, "hibernated", "looking does not wake");
    say(&client, &id, "third").await;
    until(&mut lines, "third").await;
    assert_eq!(client.logs(&id, Some(2)).await.unwrap(), "second\nthird\n");

    let cut = "i=0; while [ $i -lt 40 ]; do head -c 32768 /dev/zero | tr '\\0' x | fold -w 127; i=$((i+1)); done > \
        /dev/console; echo > /dev/console";
    run(&client, &id, cut).await;
    say(&client, &id, "after the flood").await;
    until(&mut lines, "after the flood").await;
    client.delete(&id).await.unwrap();
    within("the stream's end", async { while lines.next().await.is_some() {} }).await;
    assert_eq!(client.logs(&id, None).await.unwrap_err().status(), Some(404));
}

#[tokio::test]
async fn consoles_survive_the_servers_restart() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let (one, id) = (client(&server), create(&client(&server)).await);
    say(&one, &id, "before").await;
    let said = async || one.logs(&id, None).await.unwrap().contains("before").then_some(());
    wait_for("the line", PATIENCE, said).await;
    server.stop().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    assert_eq!(client.get(&id).await.unwrap().status, "hibernated");
    assert!(client.logs(&id, None).await.unwrap().ends_with("before\n"));
    let kinds: Vec<_> = client.events(&id).await.unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["sandbox.hibernated", "recover.hibernated"]);
    client.delete(&id).await.unwrap();
    assert_eq!(std::fs::read_dir(data.path().join("volume/consoles")).unwrap().count(), 0, "nothing stays behind");
}

#[tokio::test]
async fn events_are_followed_and_machines_measured() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let id = create(&client).await;
    let mut events = client.follow_events(&id, None).await.unwrap();
    let first = within("an event", events.next()).await.unwrap().unwrap();
    assert_eq!(first.kind, "sandbox.running");
    assert!(
        first.payload["boot_ms"].as_u64().unwrap() > 0 && first.payload["phases"]["guest_ms"].is_u64(),
        "{first:?}"
    );

    let busy = client.metrics(&id).await.unwrap();
    let process = std::fs::read_to_string(format!("/proc/{}/cmdline", busy.pid)).unwrap();
    assert!(process.contains("qemu"), "{process}");
    assert!(busy.host_rss_bytes > 1 << 20 && busy.host_vsz_bytes > busy.host_rss_bytes && busy.threads > 1, "{busy:?}");

    client.hibernate(&id).await.unwrap();
    assert_eq!(client.metrics(&id).await.unwrap_err().status(), Some(503));
    client.wake(&id).await.unwrap();
    run(&client, &id, "mkdir /root/w && echo same > /root/w/kept && echo 1 > /root/w/gone").await;
    let fork = client.fork(&id, &ForkRequest::default()).await.unwrap();
    differ(&client, &id, &fork.sandbox.id).await;
    client.delete(&fork.sandbox.id).await.unwrap();
    let stats = client.boot_stats(10).await.unwrap();
    let modes: Vec<_> = stats.by_mode.keys().map(String::as_str).collect();
    assert_eq!((stats.total_samples, modes), (3, vec!["fork", "snapshot-natid", "wake"]));

    client.delete(&id).await.unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = within("an event", events.next()).await {
        kinds.push(event.unwrap().kind);
    }
    for kind in ["sandbox.hibernated", "sandbox.woken", "fork.staged", "sandbox.forked", "fork.completed"] {
        assert!(kinds.iter().any(|seen| seen == kind), "{kind} is not in {kinds:?}");
    }
    assert_eq!(kinds.last().map(String::as_str), Some("sandbox.deleted"));

    // Entries are written asynchronously, soon after the answers.
    let recorded = async || {
        let trail = client.audit_trail(&AuditQuery::default(), 50).await.unwrap();
        let deletes = |entry: &AuditEntry| entry.request.method == "DELETE" && entry.request.path.ends_with(&id);
        trail.entries.iter().any(deletes).then_some(())
    };
    wait_for("the delete is in the audit trail", PATIENCE, recorded).await;
    let meters = http().get(format!("{}/metrics", server.url)).send().await.unwrap().text().await.unwrap();
    for mode in ["cold", "fork", "wake"] {
        assert!(meters.contains(&format!("pandastack_boots_total{{mode=\"{mode}\"}} 1\n")), "{mode}: {meters}");
    }
    assert!(meters.contains("route=\"/v1/sandboxes/{id}/events\"") && !meters.contains(&id));
}

#[tokio::test]
async fn a_key_creates_once_through_a_crash_and_limits_hold() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0", "--max-sandboxes", "1"]).unwrap();
    let body = serde_json::json!({"template": "mini"});
    let (status, replayed, first) = post(&server, "once", &body).await;
    assert_eq!((status, replayed), (201, false), "{first}");
    assert_eq!(post(&server, "once", &body).await, (201, true, first.clone()));
    let (status, _, full) = post(&server, "other", &body).await;
    assert_eq!((status, full["code"].as_str()), (429, Some("quota.sandboxes")));
    server.kill().unwrap();
    let server = TestServer::start(data.path(), &["--rate-limit", "1", "--rate-burst", "3"]).unwrap();
    assert_eq!(post(&server, "once", &body).await, (201, true, first));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let asked = http().get(format!("{}/v1/me", server.url)).bearer_auth(&server.key).send().await.unwrap();
        statuses.push((asked.status().as_u16(), asked.headers().contains_key("retry-after")));
    }
    assert!(statuses.contains(&(429, true)), "{statuses:?}");
}

#[tokio::test]
async fn the_command_line_shows_what_there_is_to_see() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let id = create(&client).await;
    let mut following = cli(&server, &["sandbox", "logs", "-f", &id]).stdout(Stdio::piped()).spawn().unwrap();
    say(&client, &id, "from the guest").await;
    let lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let reading = tokio::task::spawn_blocking(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    let said = async || client.logs(&id, None).await.unwrap().contains("from the guest").then_some(());
    wait_for("the line", PATIENCE, said).await;
    assert!(shown(&server, &["sandbox", "logs", &id, "--tail", "1"]).contains("from the guest\n"));
    let metrics: Value = serde_json::from_str(&shown(&server, &["sandbox", "metrics", &id, "--json"])).unwrap();
    assert!(metrics["pid"].as_u64().unwrap() > 1);
    assert!(shown(&server, &["sandbox", "metrics", &id]).starts_with("PID"));
    assert!(shown(&server, &["sandbox", "events", &id]).contains("sandbox.running"));
    assert!(shown(&server, &["stats", "boot"]).contains("template mini"));
    assert!(shown(&server, &["audit"]).contains("/v1/sandboxes"));
    client.delete(&id).await.unwrap();
    let lines = within("the end of the log", reading).await.unwrap();
    assert!(lines.iter().any(|line| line == "from the guest"), "{lines:?}");
    assert!(following.wait().unwrap().success(), "a log that ended is no failure");
}

const SCRIPT: &str = r#"
import threading, time
from pandastack import Client, Sandbox
from pandastack.exceptions import AuthError

def wait_for(what, condition):
    deadline = time.time() + 180
    while not condition():
        assert time.time() < deadline, what
        time.sleep(0.2)

box = Sandbox.create(template="mini")
try:
    box.exec("echo 'one é Å' > /dev/console")
    wait_for("the first line", lambda: "one é Å" in list(box.logs()))
    seen = []
    def follow():
        for line in box.logs(follow=True):
            seen.append(line)
    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    time.sleep(1)
    box.exec("printf 'two\\r\\n50%%\\r100%%\\nlast\\n' > /dev/console")
    wait_for("the last line", lambda: any("last" in line for line in seen))
    # Longer than the client waits for a byte: only comments come.
    time.sleep(33)
    assert reader.is_alive(), seen
    box.exec("echo later > /dev/console")
    wait_for("a later line", lambda: any("later" in line for line in seen))
finally:
    box.kill()
reader.join(180)
assert not reader.is_alive(), "the log outlives its sandbox"
lines = [line.rstrip("\n") for line in seen]
at = lines.index("two")
assert lines[at:] == ["two", "50%", "100%", "last", "later"], lines
assert "one é Å" in lines and not any("open" in line or "ping" in line for line in lines), lines
try:
    Client().tokens.list()
except AuthError:
    pass
else:
    raise AssertionError("a key manages keys")
print("sdk: ok")
"#;

/// Finds the Python environment that the other test of this SDK caches, or makes it.
fn environment() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let cache = std::env::var_os("PANDASTACK_CACHE_DIR").map_or_else(|| home.join(".cache/pandastack"), PathBuf::from);
    let folder = cache.join(format!("venv-{SDK}"));
    let python = folder.join("bin/python");
    if !folder.join("complete").exists() {
        let made = |command: &mut Command| assert!(command.stdin(Stdio::null()).output().unwrap().status.success());
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&cache).unwrap();
        made(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        let package = format!("pandastack=={SDK}");
        made(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &package]));
        std::fs::write(folder.join("complete"), "").unwrap();
    }
    python
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn create(client: &Client) -> String {
    client.create(&CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() }).await.unwrap().id
}

async fn post(server: &TestServer, key: &str, body: &Value) -> (u16, bool, Value) {
    let request = http().post(format!("{}/v1/sandboxes", server.url)).bearer_auth(&server.key).json(body);
    let response = request.header("Idempotency-Key", key).send().await.unwrap();
    let (status, replayed) = (response.status().as_u16(), response.headers().contains_key("idempotent-replayed"));
    (status, replayed, response.json().await.unwrap())
}

async fn run(client: &Client, id: &str, command: &str) {
    let ask = ExecRequest { cmd: Some(command.to_owned()), ..ExecRequest::default() };
    let done = client.exec(id, &ask).await.unwrap();
    assert_eq!(done.exit_code, 0, "{command}: {done:?}");
}

/// Changes two branches and compares them.
async fn differ(client: &Client, parent: &str, child: &str) {
    // The same size, time and name, but not the same text.
    run(client, parent, "echo 1 > /root/w/both && touch -d @1900000000 /root/w/both").await;
    let changes = "cd /root/w; echo 2 > both; touch -d @1900000000 both; rm gone; echo n > new; sleep 99 > /dev/null &";
    run(client, child, changes).await;
    let found = client.diff(parent, child, None).await.unwrap();
    let files: Vec<_> = found.files.iter().map(|file| (file.change.as_str(), file.path.as_str())).collect();
    for file in [("changed", "/root/w/both"), ("removed", "/root/w/gone"), ("added", "/root/w/new")] {
        assert!(files.contains(&file), "{file:?} is not in {found:?}");
    }
    assert!(!files.iter().any(|(_, path)| *path == "/root/w/kept") && !found.truncated, "{found:?}");
    assert!(found.with_processes.iter().any(|program| program.command == "sleep 99"), "{found:?}");
    let inside = client.diff(child, parent, Some("/root/w")).await.unwrap();
    let files: Vec<_> = inside.files.iter().map(|file| (file.change.as_str(), file.path.as_str())).collect();
    assert_eq!(files, [("changed", "/root/w/both"), ("added", "/root/w/gone"), ("removed", "/root/w/new")]);
    assert_eq!(client.diff(parent, parent, None).await.unwrap_err().status(), Some(400));
}

/// Makes the guest write a line to its console.
async fn say(client: &Client, id: &str, text: &str) {
    run(client, id, &format!("printf '{}\\n' > /dev/console", text.replace('%', "%%"))).await;
}

async fn until(lines: &mut SandboxStream<LogLine>, text: &str) {
    let seen = async {
        loop {
            let line = lines.next().await.expect("the stream goes on").unwrap();
            if line.line.trim_end() == text {
                return;
            }
        }
    };
    within(text, seen).await;
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE * 2, work).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

fn cli(server: &TestServer, words: &[&str]) -> Command {
    let mut command = Command::new(built("pandastack"));
    command
        .args(words)
        .env("PANDASTACK_API_URL", &server.url)
        .env("PANDASTACK_API_KEY", &server.key)
        .stdin(Stdio::null());
    command
}

fn shown(server: &TestServer, words: &[&str]) -> String {
    let output = cli(server, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits as long as the client does.
mod deep {
    use super::*;

    #[test]
    fn the_published_python_sdk_follows_a_console() {
        let python = environment();
        let data = DataFolder::with_templates().unwrap();
        let server = TestServer::start(data.path(), &[]).unwrap();
        let home = tempfile::tempdir().unwrap();
        let output = Command::new(python)
            .args(["-c", SCRIPT])
            .env("PANDASTACK_API", &server.url)
            .env("PANDASTACK_API_KEY", &server.key)
            .env("HOME", home.path())
            // A proxy must not be used for a server on loopback.
            .env("NO_PROXY", "*")
            .env("PYTHONIOENCODING", "utf-8")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("sdk: ok"), "{out}{err}\nserver: {}", server.said());
    }
}
