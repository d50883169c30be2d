//! Code sessions on real machines, over HTTP and through the command line.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use pandastack_client::{
    Client, ClientError, Config,
    wire::{CellResult, CreateSandbox, ExecRequest, ForkRequest, RunCell, RunOnce},
};
use pandastack_testbed::{DataFolder, PATIENCE, TestServer, built, wait_for};
use serde_json::{Value, json};

/// More than the guest is quiet before it makes a warm kernel.
const WARM_AFTER: Duration = Duration::from_secs(4);

/// A limit for cells that a slow machine can meet.
const LONG_MS: f64 = 120_000.0;

#[tokio::test]
async fn a_session_keeps_its_state_and_says_everything() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let (client, id) = (client(&server), create(&client(&server)).await);
    let session = client.open_code(&id, "python").await.unwrap();
    assert_eq!((&session.id, &session.sandbox_id, session.language.as_str()), (&session.session_id, &id, "python"));
    let sid = session.id.as_str();
    let cell = async |code: &str| run(&client, &id, sid, code).await.unwrap();

    cell("x = 41").await;
    let ran = cell("print('hi'); x + 1").await;
    assert_eq!((ran.stdout.as_str(), ran.exit, ran.exit_code, plain(&ran)), ("hi\n", 0, 0, "42"));
    let ran = cell("print('before')\n1 / 0").await;
    assert_eq!((ran.stdout.as_str(), ran.exit, ran.results.len()), ("before\n", 1, 0));
    assert!(ran.error.unwrap().ends_with("ZeroDivisionError: division by zero\n"));
    assert_eq!(cell("raise SystemExit(5)").await.exit, 5);
    let rich = "class R:\n    def _repr_html_(self): return '<b>'\n    def _repr_png_(self): return b'png'\nR()";
    let ran = cell(rich).await;
    assert_eq!((ran.results[0]["text/html"].as_str(), ran.results[0]["image/png"].as_str()), ("<b>", "cG5n"));
    let ran = cell("import os, subprocess\nprint('a'); subprocess.run(['echo', 'b']); os.system('echo c >&2')").await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("a\nb\n", "c\n"));
    assert_eq!(plain(&cell("import asyncio\nawait asyncio.sleep(0, 'awaited')").await), "'awaited'");
    assert!(cell("input()").await.error.unwrap().contains("no standard input"));
    let ran = cell("import sys; sys.stdout.write('y' * 3_000_000); None").await;
    assert!(ran.truncated && ran.stdout.len() < 1_100_000 && ran.stdout.contains("truncated"));

    let late = limited(&client, &id, sid, "import time; time.sleep(600)", 1000.0).await.unwrap_err();
    assert_eq!((late.status(), late.to_string().as_str()), (Some(504), "cell timeout after 1s"));
    let ran = cell("x").await;
    assert_eq!((plain(&ran), ran.restarted), ("41", false), "the kernel survives a timeout");

    let other = client.open_code(&id, "python").await.unwrap().id;
    let ran = run(&client, &id, &other, "x").await.unwrap();
    assert!(ran.error.unwrap().contains("NameError"), "sessions are apart");
    let list = client.code_sessions(&id).await.unwrap();
    assert_eq!(list.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [sid, &other]);
    assert!(list[0].cells > 10 && list[1].cells == 1);
    client.close_code(&id, &other).await.unwrap();
    for gone in [other.as_str(), "ctx_none"] {
        let refused = run(&client, &id, gone, "1").await.unwrap_err();
        assert_eq!((refused.status(), refused.to_string().as_str()), (Some(404), "session not found"));
        assert_eq!(client.close_code(&id, gone).await.unwrap_err().status(), Some(404));
    }
    kernels_die(&client, &id, sid).await;
    limits(&client, &server, &id).await;
    once(&client, &id).await;
}

/// A kernel that is killed during a cell, between cells, or because it does not stop.
async fn kernels_die(client: &Client, id: &str, session: &str) {
    let kill = async {
        let find = "until [ -e /tmp/last ]; do sleep 0.1; done; pkill -KILL -f '^python3 -c'";
        client.exec(id, &line(find)).await.unwrap();
    };
    let last = "print('last', flush=True)\nopen('/tmp/last', 'w').close()\nimport time; time.sleep(600)";
    let (ran, ()) = tokio::join!(run(client, id, session, last), kill);
    let ran = ran.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.exit), ("last\n", 137));
    assert!(ran.error.unwrap().contains("killed by signal 9"));
    let ran = run(client, id, session, "'x' in globals()").await.unwrap();
    assert_eq!((plain(&ran), ran.restarted), ("False", true), "the next answer says that state was lost");
    // It does not hear the interrupt.
    let deaf = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])";
    run(client, id, session, deaf).await.unwrap();
    let late = limited(client, id, session, "time.sleep(600)", 1000.0).await.unwrap_err().to_string();
    assert!(late.contains("timeout") && late.contains("lost"), "{late}");
    assert!(run(client, id, session, "1").await.unwrap().restarted);
    assert!(!run(client, id, session, "1").await.unwrap().restarted);
}

async fn limits(client: &Client, server: &TestServer, id: &str) {
    let shell = client.open_code(id, "bash").await.unwrap().id;
    run(client, id, &shell, "cd /usr; a=é").await.unwrap();
    assert_eq!(run(client, id, &shell, "pwd; echo $a; false").await.unwrap().stdout, "/usr\né\n");
    assert_eq!(client.open_code(id, "js").await.unwrap_err().code(), Some("language.unavailable"), "mini has no node");
    for _ in 2..8 {
        client.open_code(id, "bash").await.unwrap();
    }
    let url = format!("{}/v1/sandboxes/{id}/repl/sessions", server.url);
    let refused = reqwest::Client::new().post(url).bearer_auth(&server.key).json(&json!({})).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers().get("retry-after")), (429, None));
    for session in client.code_sessions(id).await.unwrap() {
        client.close_code(id, &session.id).await.unwrap();
    }
    client.open_code(id, "bash").await.unwrap();
}

async fn once(client: &Client, id: &str) {
    let ask = |language: &str, code: &str| RunOnce {
        language: Some(language.into()),
        code: Some(code.into()),
        timeout_ms: Some(LONG_MS),
    };
    let ran = client.run_once(id, &ask("py", "import sys; print('é'); sys.exit(4)")).await.unwrap();
    assert_eq!((ran.language.as_str(), ran.stdout.as_str(), ran.exit_code), ("python", "é\n", 4));
    assert_eq!(client.run_once(id, &ask("sh", "echo $0 >&2")).await.unwrap().stderr, "sh\n");
    let refused = client.run_once(id, &ask("ruby", "puts 1")).await.unwrap_err();
    assert_eq!((refused.status(), refused.to_string().as_str()), (Some(400), "ruby is not installed in this sandbox"));
}

/// `mini` is sealed with a Python that has imported this module, and every session starts from it.
const IS_WARM: &str = "import sys, os\nprint('tempfile' in sys.modules, os.environ.get('WHO'), \
    *(name for name in globals() if name[0] != '_'))";
const DRAW: &str = "import random, tempfile, uuid; print(random.random(), tempfile.mktemp(), uuid.uuid4())";

#[tokio::test]
async fn code_starts_in_a_warm_kernel_and_draws_its_own_numbers() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let http = client(&server);
    let mut drawn = std::collections::BTreeSet::new();
    let mut draw = async |id: &str, session: &str| {
        let ran = run(&http, id, session, DRAW).await.unwrap();
        drawn.extend(ran.stdout.split_ascii_whitespace().map(str::to_owned));
    };
    let mut ids = Vec::new();
    for who in ["one", "two"] {
        let env = [("WHO".to_owned(), json!(who))].into();
        let ask = CreateSandbox { template: Some("mini".into()), env: Some(env), ..CreateSandbox::default() };
        let id = http.create(&ask).await.unwrap().id;
        for _ in 0..2 {
            let session = http.open_code(&id, "python").await.unwrap().id;
            let ran = run(&http, &id, &session, IS_WARM).await.unwrap();
            assert_eq!((ran.stdout, ran.restarted), (format!("True {who} sys os\n"), false));
            draw(&id, &session).await;
        }
        ids.push(id);
    }
    let child = http.fork(&ids[0], &ForkRequest::default()).await.unwrap().sandbox.id;
    for id in [&ids[0], &child] {
        let session = http.open_code(id, "python").await.unwrap().id;
        draw(id, &session).await;
    }
    assert_eq!(drawn.len(), 6 * 3, "{drawn:?}");

    let session = http.open_code(&ids[1], "python").await.unwrap().id;
    run(&http, &ids[1], &session, "kept = 1").await.unwrap();
    let once = async |code: &str| {
        let ask = RunOnce { language: None, code: Some(code.to_owned()), timeout_ms: Some(LONG_MS) };
        http.run_once(&ids[1], &ask).await.unwrap()
    };
    let ran = once("import sys, os; print('tempfile' in sys.modules, os.environ['WHO'], 'kept' in globals())\n7").await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.exit_code), ("True two False\n", "", 0));
    let ran = once("1 +").await;
    assert!(ran.exit_code == 1 && ran.stderr.contains("SyntaxError"), "{ran:?}");
    let listed = http.code_sessions(&ids[1]).await.unwrap();
    assert_eq!(listed.len(), 3, "a warm kernel is no session");

    // Without the warm kernel code runs all the same, and a new one replaces it.
    let kill = "for p in /proc/[0-9]*; do [ \"$(cut -d' ' -f4 $p/stat)\" = 1 ] && grep -qz '^python3' $p/cmdline \
        && [ \"$(cut -d' ' -f1 $p/stat)\" != 1 ] && kill -9 ${p#/proc/}; done; true";
    http.exec(&ids[1], &line(kill)).await.unwrap();
    let cold = once("import sys; print('tempfile' in sys.modules)").await;
    assert_eq!(cold.stdout, "False\n");
    http.open_code(&ids[1], "bash").await.unwrap();
    let is_warm = async || {
        let session = http.open_code(&ids[1], "python").await.unwrap().id;
        let ran = run(&http, &ids[1], &session, IS_WARM).await.unwrap();
        http.close_code(&ids[1], &session).await.unwrap();
        if !ran.stdout.starts_with("True") {
            // It is made when the guest has been quiet for a while.
            tokio::time::sleep(WARM_AFTER).await;
            return None;
        }
        Some(())
    };
    wait_for("a warm kernel again", PATIENCE, is_warm).await;
}

#[tokio::test]
async fn sessions_sleep_wake_and_fork_with_their_sandbox_and_outlive_the_server() {
    let data = DataFolder::with_templates().unwrap();
    let mut server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let http = client(&server);
    let id = create(&http).await;
    let sid = http.open_code(&id, "python").await.unwrap().id;
    run(&http, &id, &sid, "log = ['born']\nimport os\npid = os.getpid()").await.unwrap();

    assert_eq!(http.hibernate(&id).await.unwrap().status, "hibernated");
    run(&http, &id, &sid, "log.append('woken')").await.unwrap();
    let child = http.fork(&id, &ForkRequest::default()).await.unwrap().sandbox.id;
    run(&http, &id, &sid, "log.append('parent')").await.unwrap();
    let ran = run(&http, &child, &sid, "log.append('child'); log").await.unwrap();
    assert_eq!((plain(&ran), ran.restarted), ("['born', 'woken', 'child']", false));
    assert_eq!(http.code_sessions(&child).await.unwrap()[0].id, sid, "a copy has its own copy of each session");
    http.close_code(&child, &sid).await.unwrap();

    server.kill().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let http = client(&server);
    let ran = run(&http, &id, &sid, "print(pid == os.getpid()); log").await.unwrap();
    assert_eq!((ran.stdout.as_str(), plain(&ran)), ("True\n", "['born', 'woken', 'parent']"));
    assert_eq!(http.code_sessions(&child).await.unwrap().len(), 0);
    let late = limited(&http, &id, &sid, "while True: pass", 1000.0).await.unwrap_err();
    assert_eq!(late.status(), Some(504));
    assert_eq!(plain(&run(&http, &id, &sid, "len(log)").await.unwrap()), "3");
    for id in [&id, &child] {
        http.delete(id).await.unwrap();
    }
}

#[tokio::test]
async fn code_runs_from_the_command_line_and_as_a_tool() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let http = client(&server);
    let id = create(&http).await;
    let cli = |arguments: &[&str]| {
        let mut command = Command::new(built("pandastack"));
        command.args(["sandbox", "run-code"]).args(arguments).stdin(Stdio::null());
        command.env("PANDASTACK_API_URL", &server.url).env("PANDASTACK_API_KEY", &server.key);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    assert_eq!(cli(&[&id, "-c", "print('out')\n6 * 7"]), (Some(0), "out\n42\n".into(), String::new()));
    let (code, _, err) = cli(&[&id, "-c", "nothing"]);
    assert!(code == Some(1) && err.contains("NameError"), "{err}");
    let (code, _, err) = cli(&[&id, "--timeout", "1", "-c", "import time; time.sleep(600)"]);
    assert!(code == Some(124) && err.contains("timeout"), "{err}");
    let file = data.path().with_extension("sh");
    std::fs::write(&file, "echo from a file; exit 3").unwrap();
    let (code, out, _) = cli(&[&id, "--language", "bash", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!((code, out.as_str()), (Some(3), "from a file\n"));
    assert_eq!(http.code_sessions(&id).await.unwrap().len(), 0, "each closed its own");

    let tool = async |name: &str, arguments: Value| -> (String, bool) {
        let params = json!({"name": name, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let url = format!("{}/v1/sandboxes/{id}/mcp", server.url);
        let answer = reqwest::Client::new().post(url).bearer_auth(&server.key).json(&message).send().await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        let result = &answer["result"];
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"].as_bool().unwrap())
    };
    assert_eq!(tool("shell", json!({"cmd": "echo $((6*7))"})).await, ("42\n".into(), false));
    assert!(!tool("write_file", json!({"path": "/workspace/a.txt", "content": "é"})).await.1);
    assert_eq!(tool("read_file", json!({"path": "/workspace/a.txt"})).await, ("é".into(), false));
    assert!(tool("list_dir", json!({})).await.0.ends_with(" a.txt"));
    assert!(tool("read_file", json!({"path": "/none"})).await.1);
    assert_eq!(tool("run_code", json!({"code": "x = 1", "timeout_ms": LONG_MS})).await, (String::new(), false));
    assert_eq!(
        tool("run_code", json!({"code": "x + 1", "timeout_ms": LONG_MS})).await,
        ("\n[result]\n2".into(), false)
    );
    assert!(tool("shell", json!({"command": "sleep 60", "timeout_ms": 500})).await.0.contains("timeout"));
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

async fn create(client: &Client) -> String {
    client.create(&CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() }).await.unwrap().id
}

async fn run(client: &Client, id: &str, session: &str, code: &str) -> Result<CellResult, ClientError> {
    limited(client, id, session, code, LONG_MS).await
}

async fn limited(client: &Client, id: &str, session: &str, code: &str, ms: f64) -> Result<CellResult, ClientError> {
    client.run_cell(id, session, &RunCell { code: Some(code.to_owned()), timeout_ms: Some(ms) }).await
}

fn plain(ran: &CellResult) -> &str {
    let first = ran.results.first().unwrap_or_else(|| panic!("no result: {ran:?}"));
    first["text/plain"].as_str()
}

fn line(text: &str) -> ExecRequest {
    ExecRequest { cmd: Some(text.to_owned()), ..ExecRequest::default() }
}
