//! Processes that outlive their requests, in real machines: read from any offset, by many readers,
//! through sleep, forks and a restart of the server.

use std::process::{Command, Output};

use pandastack_client::{
    Client, Config, FollowedEvent,
    wire::{CreateSandbox, SpawnRequest},
};
use pandastack_e2e::{Events, HttpDoor, PATIENCE, answer, run, shell, with_sandbox};
use pandastack_model::SandboxId;
use pandastack_testbed::{Bed, DataFolder, TestServer, built, wait_for};
use pandastack_wire_fleet::HostPort;
use reqwest::Method;
use serde_json::{Value, json};

/// Bytes of output that a guest keeps of one process.
const KEPT: u64 = 512 * 1024;

async fn spawn(door: &HttpDoor, id: SandboxId, ask: Value) -> String {
    let (status, process) = answer(door.call(Method::POST, id, "/processes").json(&ask)).await;
    assert_eq!((status, &process["status"]), (201, &json!("running")), "{process}");
    process["id"].as_str().unwrap().to_owned()
}

async fn look(door: &HttpDoor, id: SandboxId, process: &str) -> Value {
    let (status, process) = answer(door.call(Method::GET, id, &format!("/processes/{process}"))).await;
    assert_eq!(status, 200, "{process}");
    process
}

async fn output(door: &HttpDoor, id: SandboxId, process: &str, offset: u64) -> Value {
    let path = format!("/processes/{process}/output?offset={offset}");
    let (status, output) = answer(door.call(Method::GET, id, &path)).await;
    assert_eq!(status, 200, "{output}");
    output
}

async fn follow(door: &HttpDoor, id: SandboxId, process: &str, offset: u64) -> Events {
    let path = format!("/processes/{process}/output?follow=1&offset={offset}");
    Events::open(door.call(Method::GET, id, &path)).await
}

/// Reads to the end: standard output, the last offset, and the last event.
async fn to_end(events: &mut Events) -> (String, u64, (String, Value)) {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let (name, data) = events.next().await.expect("an end that is said");
        offset = data["offset"].as_u64().unwrap_or(offset);
        match name.as_str() {
            "stdout" => text.push_str(data["chunk"].as_str().unwrap()),
            "stderr" | "lost" => {}
            _ => {
                assert_eq!(events.next().await, None, "something came after the last event");
                return (text, offset, (name, data));
            }
        }
    }
}

/// Reads until a text appears, and returns the offset after it.
async fn until(events: &mut Events, text: &str) -> u64 {
    let mut seen = String::new();
    loop {
        let (name, data) = events.next().await.expect("more output");
        assert_eq!(name, "stdout", "{data}; until then {seen:?}");
        seen.push_str(data["chunk"].as_str().unwrap());
        if seen.contains(text) {
            return data["offset"].as_u64().unwrap();
        }
    }
}

async fn ended(door: &HttpDoor, id: SandboxId, process: &str) -> Value {
    let over = async || {
        let now = look(door, id, process).await;
        (now["status"] != "running").then_some(now)
    };
    wait_for("the end of the process", PATIENCE, over).await
}

async fn count(bed: &Bed, id: SandboxId, what: &str) -> String {
    let line = format!("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '{what}' || true");
    run(bed, id, shell(&line)).await.out().trim().to_owned()
}

#[tokio::test]
async fn two_readers_re_attach_without_loss_or_repeats() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let line = "n=0; while [ $n -lt 40 ]; do n=$((n+1)); echo line $n é; [ -e /tmp/go ] || sleep 0.1; done; echo \
            bad >&2; exit 7";
        let process = spawn(&door, id, json!({"cmd": line, "tag": "numbers"})).await;
        let expected: String = (1..=40).map(|n| format!("line {n} é\n")).collect();
        let mut first = follow(&door, id, &process, 0).await;
        let offset = until(&mut first, "line 3 ").await;
        drop(first);
        let (mut one, mut two) = (follow(&door, id, &process, offset).await, follow(&door, id, &process, 0).await);
        bed.sh(id, "touch /tmp/go").await.unwrap();
        let (rest, end, last) = to_end(&mut one).await;
        let (whole, _, _) = to_end(&mut two).await;
        assert_eq!(whole, expected);
        assert_eq!(rest, expected[usize::try_from(offset).unwrap()..]);
        assert_eq!((last.0.as_str(), &last.1["exit_code"], &last.1["status"]), ("exit", &json!(7), &json!("exited")));
        // Long after its end it can still be read, also from the middle.
        let now = look(&door, id, &process).await;
        assert_eq!((now["exit_code"].as_i64(), now["tag"].as_str()), (Some(7), Some("numbers")));
        assert_eq!((now["stdout_bytes"].as_u64().unwrap(), now["stderr_bytes"].as_u64()), (end - 4, Some(4)));
        let again = output(&door, id, &process, offset).await;
        assert_eq!((again["stdout"].as_str(), again["stderr"].as_str()), (Some(rest.as_str()), Some("bad\n")));
        assert_eq!((again["next_offset"].as_u64(), again["truncated"].as_u64()), (Some(end), Some(0)));
        let past = format!("/processes/{process}/output?offset={}", end + 1);
        assert_eq!(answer(door.call(Method::GET, id, &past)).await.0, 400);
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn output_larger_than_is_kept_loses_its_beginning_and_says_so() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let process = spawn(&door, id, json!({"cmd": "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"})).await;
        let total = 3_000_005;
        let now = ended(&door, id, &process).await;
        assert_eq!((now["stdout_bytes"].as_u64(), now["kept_from"].as_u64()), (Some(total), Some(total - KEPT)));
        let found = output(&door, id, &process, 5).await;
        assert_eq!((found["truncated"].as_u64(), found["next_offset"].as_u64()), (Some(total - KEPT - 5), Some(total)));
        let text = found["stdout"].as_str().unwrap();
        assert!(text.len() as u64 == KEPT && text.ends_with("x\nend\n"));
        let mut events = follow(&door, id, &process, 0).await;
        let (name, data) = events.next().await.unwrap();
        assert_eq!((name.as_str(), data), ("lost", json!({"bytes": total - KEPT, "offset": total - KEPT})));
        assert_eq!(to_end(&mut events).await.0.len() as u64, KEPT);
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_process_goes_on_through_sleep_and_in_a_fork() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let line = "echo before; until [ -e /tmp/go ]; do sleep 0.2; done; cat /tmp/go; exec cat";
        let process = spawn(&door, id, json!({"cmd": line, "stdin": true})).await;
        let mut events = follow(&door, id, &process, 0).await;
        let offset = until(&mut events, "before").await;
        bed.host.sleep(id).await.unwrap();
        let (name, data) = events.next().await.expect("an end that is said");
        assert_eq!(name, "error", "{data}");
        let found = output(&door, id, &process, 0).await;
        assert_eq!(
            (found["stdout"].as_str(), found["status"].as_str()),
            (Some("before\n"), Some("running")),
            "woken by the question"
        );

        let child = bed.fork(id, 1).await.unwrap()[0];
        for (sandbox, name) in [(id, "parent"), (child, "child")] {
            bed.sh(sandbox, &format!("echo {name} > /tmp/next; mv /tmp/next /tmp/go")).await.unwrap();
            let path = format!("/processes/{process}/stdin?end=1");
            let fed = answer(door.call(Method::POST, sandbox, &path).body(format!("fed to {name}\n"))).await;
            assert_eq!(fed, (200, json!({"bytes": 8 + name.len()})));
            let mut events = follow(&door, sandbox, &process, offset).await;
            let (text, _, (_, last)) = to_end(&mut events).await;
            assert_eq!((text, &last["exit_code"]), (format!("{name}\nfed to {name}\n"), &json!(0)));
        }
        let (_, all) = answer(door.call(Method::GET, child, "/processes")).await;
        assert_eq!(all.as_array().unwrap().len(), 1, "a fork has its own copy");
        assert_eq!(answer(door.call(Method::DELETE, child, &format!("/processes/{process}"))).await.0, 204);
        assert_eq!(look(&door, id, &process).await["status"], "exited", "and only its own is forgotten");
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn signals_reach_the_group_and_removal_kills_all_of_it() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let polite =
            spawn(&door, id, json!({"cmd": "trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.1; done"}))
                .await;
        until(&mut follow(&door, id, &polite, 0).await, "up").await;
        let path = format!("/processes/{polite}/signal");
        assert_eq!(answer(door.call(Method::POST, id, &path).json(&json!({"signal": "TERM"}))).await.0, 204);
        assert_eq!(ended(&door, id, &polite).await["exit_code"], 3);
        let (status, refusal) = answer(door.call(Method::POST, id, &path).json(&json!({"signal": "TERM"}))).await;
        assert_eq!((status, &refusal["code"]), (409, &json!("process.ended")));

        let group = spawn(&door, id, json!({"cmd": "trap '' TERM; sleep 801 & sleep 802 & echo up; wait; wait"})).await;
        let mut events = follow(&door, id, &group, 0).await;
        until(&mut events, "up").await;
        assert_ne!(count(bed, id, "sleep 80[12]").await, "0");
        assert_eq!(answer(door.call(Method::DELETE, id, &format!("/processes/{group}"))).await.0, 204);
        let (_, _, (name, data)) = to_end(&mut events).await;
        assert_eq!((name.as_str(), &data["status"], &data["exit_code"]), ("exit", &json!("killed"), &json!(137)));
        let gone = async || (count(bed, id, "sleep 80[12]").await == "0").then_some(());
        wait_for("the end of the group", PATIENCE, gone).await;
        assert_eq!(answer(door.call(Method::GET, id, &format!("/processes/{group}"))).await.0, 404);

        let late = spawn(&door, id, json!({"cmd": "sleep 803", "timeout_seconds": 0.5})).await;
        let late = ended(&door, id, &late).await;
        assert_eq!((&late["status"], &late["timed_out"]), (&json!("killed"), &json!(true)));
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn unknown_ids_other_tenants_and_bad_starts_are_refused() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let process = spawn(&door, id, json!({"cmd": "sleep 900"})).await;
        for (method, route) in [
            (Method::GET, ""),
            (Method::DELETE, ""),
            (Method::GET, "/output"),
            (Method::GET, "/output?follow=1"),
            (Method::POST, "/stdin"),
            (Method::POST, "/signal"),
        ] {
            let body = json!({"signal": "KILL"});
            let unknown = door.call(method.clone(), id, &format!("/processes/prc_99{route}")).json(&body);
            let (status, refusal) = answer(unknown).await;
            assert_eq!((status, &refusal["code"]), (404, &json!("process.not_found")), "{method} {route}");
            let theirs =
                door.call_as("theirs", method.clone(), id, &format!("/processes/{process}{route}")).json(&body);
            let (status, refusal) = answer(theirs).await;
            assert_eq!((status, &refusal["code"]), (404, &json!("sandbox.not_found")), "{method} {route}");
        }
        let (status, refusal) =
            answer(door.call(Method::POST, id, &format!("/processes/{process}/stdin")).body("x")).await;
        assert_eq!((status, &refusal["code"]), (409, &json!("process.ended")), "its input was never open");
        for ask in [json!({"argv": ["no-such-program"]}), json!({"cmd": "true", "cwd": "/nowhere"})] {
            assert_eq!(answer(door.call(Method::POST, id, "/processes").json(&ask)).await.0, 404, "{ask}");
        }
        assert_eq!(look(&door, id, &process).await["status"], "running");
        let (_, all) = answer(door.call(Method::GET, id, "/processes")).await;
        assert_eq!(all.as_array().unwrap().len(), 1, "a start that fails leaves nothing");
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_sandbox_deleted_under_a_follower_ends_the_stream_with_an_error() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let process = spawn(&door, id, json!({"cmd": "echo up; sleep 900"})).await;
        let mut events = follow(&door, id, &process, 0).await;
        until(&mut events, "up").await;
        bed.host.remove(id).await.unwrap();
        let (_, _, (name, data)) = to_end(&mut events).await;
        assert!(name == "error" && data["error"].is_string(), "{name} {data}");
        door.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_process_survives_the_servers_death_and_the_command_line_shows_it() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let ask = CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() };
    let id = client.create(&ask).await.unwrap().id;
    let line = "echo before; until [ -e /tmp/go ]; do sleep 0.2; done; echo after; exit 5";
    let process = client.spawn(&id, &SpawnRequest { cmd: Some(line.into()), ..SpawnRequest::default() }).await.unwrap();
    let mut following = client.follow(&id, &process.id, 0).await.unwrap();
    let Some(Ok(FollowedEvent::Stdout(first))) = following.next().await else { panic!("output comes first") };
    server.kill().unwrap();
    assert!(following.next().await.unwrap().is_err());

    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = self::client(&server);
    assert_eq!(client.process(&id, &process.id).await.unwrap().status, "running");
    client.write(&id, "/tmp/go", "").await.unwrap();
    let shown = pandastack(&server, &["attach", "--offset", &first.offset.to_string(), &id, &process.id]);
    assert_eq!((text(&shown.stdout), shown.status.code()), ("after\n".to_owned(), Some(5)), "{}", text(&shown.stderr));

    let started = pandastack(&server, &["spawn", "--tag", "mine", "--stdin", &id, "cat"]);
    let mine = text(&started.stdout).trim().to_owned();
    let listed: Value = serde_json::from_slice(&pandastack(&server, &["ps", "--json", &id]).stdout).unwrap();
    assert_eq!(
        (&listed[1]["id"], &listed[1]["tag"], &listed[0]["status"]),
        (&json!(mine), &json!("mine"), &json!("exited"))
    );
    assert!(text(&pandastack(&server, &["ps", &id]).stdout).contains("running"));
    client.feed(&id, &mine, "typed\n", false).await.unwrap();
    let typed = async || (client.output(&id, &mine, 0).await.unwrap().stdout == "typed\n").then_some(());
    wait_for("what was typed", PATIENCE, typed).await;
    assert!(pandastack(&server, &["signal", &id, &mine, "INT"]).status.success());
    let over = async || (client.process(&id, &mine).await.unwrap().status == "killed").then_some(());
    wait_for("the end of the process", PATIENCE, over).await;
    assert!(pandastack(&server, &["signal", "--remove", &id, &mine]).status.success());
    assert_eq!(client.processes(&id).await.unwrap().len(), 1);
    assert!(!pandastack(&server, &["attach", &id, &mine]).status.success());

    // Folders, through the command line and the local tar.
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::create_dir_all(from.join("deep/empty")).unwrap();
    std::fs::write(from.join("deep/é"), "hello").unwrap();
    let there = format!("{id}:/srv/copied");
    for [from, to] in [[from.to_str().unwrap(), &there], [&there, to.to_str().unwrap()]] {
        let copied = pandastack(&server, &["cp", "-r", from, to]);
        assert!(copied.status.success(), "{}", text(&copied.stderr));
    }
    assert_eq!(std::fs::read(to.join("deep/é")).unwrap(), b"hello");
    assert!(to.join("deep/empty").is_dir());
    let copied = pandastack(&server, &["cp", &format!("{there}/deep/é"), to.join("file").to_str().unwrap()]);
    assert!(copied.status.success() && std::fs::read(to.join("file")).unwrap() == b"hello");
    client.delete(&id).await.unwrap();
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

fn pandastack(server: &TestServer, arguments: &[&str]) -> Output {
    let mut command = Command::new(built("pandastack"));
    command.arg("sandbox").args(arguments);
    command.env("PANDASTACK_API_URL", &server.url).env("PANDASTACK_API_KEY", &server.key);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
