//! Our own clients against one database that is there: the command line, both SDKs, and the tools
//! for agents over both transports. They look and ask, and make nothing.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use pandastack_e2e::{
    drivers,
    own_sdk::{PythonSdk, TypeScriptSdk},
    published,
};
use pandastack_testbed::built;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::DatabaseBed;

/// Rows in the table `t` of the database.
const ROWS: &str = "1001";
/// Longest text of a tool's answer, and what a list of rows may have around it.
const TOOL_TEXT_BYTES_MAX: usize = 25_000;
/// When a program is stopped. The command line gives up a new database earlier, and says why.
pub(super) const PROGRAM_MAX: Duration = Duration::from_secs(330);

/// A printed URL without the address that it has where the resolver does not know the name.
pub(super) fn bare_url(printed: &str) -> &str {
    printed.trim().trim_end_matches("?hostaddr=127.0.0.1")
}

/// The database has the label `orders` and a branch. The stranger is the key of another tenant.
pub async fn our_own_clients_work(bed: &DatabaseBed, database: &Value, stranger: &str) {
    CommandLine::of(bed).works(database);
    sdks_work(bed, database);
    let over_http = async |name: &str, arguments: Value| call_over_http(bed, name, arguments).await;
    tools_work(database, over_http).await;
    let mut tools = StdioTools::start(bed);
    tools_work(database, async |name, arguments| tools.call(name, arguments)).await;
    for name in ["get_database", "query_database", "database_logs"] {
        let theirs = call(1, name, json!({"database_id": database["id"], "sql": "SELECT 1"}));
        let (_, refused) = bed.ask(Method::POST, "/mcp", stranger, theirs).await;
        let (text, failed) = told(&refused["result"]);
        assert!(failed && text.contains("database.not_found"), "{name}: {refused}");
    }
}

/// Our command line, with a home of its own.
pub(super) struct CommandLine<'a> {
    bed: &'a DatabaseBed,
    home: TempDir,
}

impl<'a> CommandLine<'a> {
    pub(super) fn of(bed: &'a DatabaseBed) -> Self {
        Self { bed, home: tempfile::tempdir().unwrap() }
    }

    /// Runs a command that must succeed, and returns its output.
    pub(super) fn says(&self, words: &[&str], input: &str) -> String {
        let output = self.run(words, input);
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{words:?}: {out}{err}\nserver: {}", self.bed.server.said());
        out
    }

    /// Runs a command that must end with a code, and returns its output and its errors.
    pub(super) fn exits(&self, words: &[&str], code: i32) -> (String, String) {
        let output = self.run(words, "");
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {out}{err}\nserver: {}", self.bed.server.said());
        (out, err)
    }

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut command = with_access(bounded(built("pandastack"), PROGRAM_MAX), self.bed);
        command.args(words).env("HOME", self.home.path());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        // A program that does not read its input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    pub(super) fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[words, &["--json"]].concat(), "")).unwrap()
    }

    fn works(&self, database: &Value) {
        let field = |name: &str| database[name].as_str().unwrap();
        let id = field("id");
        let listed = self.json(&["db", "list"]);
        let own = listed.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap();
        assert_eq!((&own["label"], own.get("password")), (&json!("orders"), None), "{listed}");
        assert_eq!(self.json(&["db", "get", "orders"])["connection_url"], database["connection_url"]);
        let shown = self.says(&["db", "get", id], "");
        assert!(shown.contains("running") && !shown.contains(field("password")), "{shown}");
        assert_eq!(bare_url(&self.says(&["db", "url", &id[..8]], "")), field("connection_url"));

        let sum = ["db", "query", id, "SELECT $1::int + 1 AS n", "--param", "41"];
        let rows = self.json(&sum);
        assert_eq!((&rows["rows"], &rows["columns"][0]["name"]), (&json!([[42]]), &json!("n")), "{rows}");
        assert_eq!(self.says(&["db", "query", id, "-", "-o", "name"], "SELECT count(*) FROM t").trim(), ROWS);
        // psql of this computer and of the machine, with a statement and with a script.
        for place in [&[][..], &["--via-sandbox"]] {
            let bare = ["--", "-X", "-A", "-t", "-q"];
            let asked = [&["db", "psql", id, "-c", "SELECT count(*) FROM t"], place, &bare].concat();
            assert_eq!(self.says(&asked, ""), format!("{ROWS}\n"), "{asked:?}");
            let script = [&["db", "psql", id], place, &bare].concat();
            assert_eq!(self.says(&script, "SELECT max(n) FROM t;\n"), "5000\n", "{script:?}");
        }

        let stats = self.json(&["db", "stats", id]);
        assert!(stats["db_size_bytes"].as_u64().unwrap() > 1_000_000, "{stats}");
        let logs = self.says(&["db", "logs", id, "-n", "20"], "");
        assert!((1..=20).contains(&logs.lines().count()) && !logs.contains(field("password")), "{logs}");
        let tree = self.says(&["db", "tree", id], "");
        assert!(tree.contains(&format!("{id}  orders  running")) && tree.contains("  try  "), "{tree}");
    }
}

fn sdks_work(bed: &DatabaseBed, database: &Value) {
    let programs = sdk_programs(bed, "checks_sdk", PROGRAM_MAX).map(|mut program| {
        program.env("DATABASE", database["id"].as_str().unwrap());
        program
    });
    succeed_together(bed, programs);
}

/// The program of this name for each SDK.
pub(super) fn sdk_programs(bed: &DatabaseBed, name: &str, limit: Duration) -> [Command; 2] {
    let (python, typescript) = (PythonSdk::installed(), TypeScriptSdk::installed());
    let programs = drivers::sources().join("own");
    let mut by_python = bounded(python.interpreter(), limit);
    by_python.arg(programs.join(format!("{name}.py")));
    let mut by_node = bounded(published::node(), limit);
    by_node.arg(programs.join(format!("{name}.mjs"))).env("SDK", typescript.folder().join("dist/esm/index.js"));
    [by_python, by_node].map(|program| with_access(program, bed))
}

/// Both at the same time: neither hinders the other.
pub(super) fn succeed_together(bed: &DatabaseBed, programs: [Command; 2]) {
    std::thread::scope(|scope| {
        for program in programs {
            scope.spawn(|| succeeds(bed, program));
        }
    });
}

pub(super) fn succeeds(bed: &DatabaseBed, mut program: Command) {
    let output = program.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program:?}: {out}{err}\nserver: {}", bed.server.said());
}

/// A program that is stopped if it takes longer.
fn bounded(program: impl AsRef<OsStr>, limit: Duration) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "10", &limit.as_secs().to_string()]).arg(program);
    command
}

/// Lets a program find the server, and nothing else.
fn with_access(mut command: Command, bed: &DatabaseBed) -> Command {
    for name in ["API_URL", "ORG", "CONTEXT", "TOKEN"] {
        command.env_remove(format!("PANDASTACK_{name}"));
    }
    command.env("PANDASTACK_API", &bed.server.url).env("PANDASTACK_API_KEY", &bed.server.key);
    // A proxy must not be used for a server on loopback.
    command.env("NO_PROXY", "*").stdin(Stdio::null());
    command
}

/// The tools of `pandastack mcp`.
struct StdioTools {
    program: Child,
    answers: BufReader<ChildStdout>,
    asked: u64,
    _home: TempDir,
}

impl StdioTools {
    fn start(bed: &DatabaseBed) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = with_access(Command::new(built("pandastack")), bed);
        command.arg("mcp").env("HOME", home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().unwrap();
        let answers = BufReader::new(program.stdout.take().unwrap());
        let mut tools = Self { program, answers, asked: 0, _home: home };
        let about = json!({"name": "e2e", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        tools.tell(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        assert_eq!(tools.answer(0)["serverInfo"]["name"], "pandastack");
        tools.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        tools
    }

    fn tell(&mut self, message: &Value) {
        writeln!(self.program.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The result of a request. Messages of other kinds are skipped.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the tools ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.asked += 1;
        self.tell(&call(self.asked, name, arguments));
        self.answer(self.asked)
    }
}

impl Drop for StdioTools {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Calls a tool of the server itself, and returns its result.
pub(super) async fn call_over_http(bed: &DatabaseBed, name: &str, arguments: Value) -> Value {
    let (status, said) = bed.send(Method::POST, "/mcp", call(1, name, arguments)).await;
    assert_eq!(status, 200, "{said}");
    said["result"].clone()
}

/// A message that calls a tool.
fn call(id: u64, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

/// The first text of a tool's answer, and whether it failed.
pub(super) fn told(result: &Value) -> (&str, bool) {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"));
    (text, result["isError"].as_bool().unwrap_or(false))
}

/// An agent finds the database, asks it, and never sees its token.
async fn tools_work(database: &Value, mut call: impl AsyncFnMut(&str, Value) -> Value) {
    let (id, token) = (&database["id"], database["broker_token"].as_str().unwrap());
    let mut good = async |name: &str, arguments: Value| {
        let result = call(name, arguments).await;
        let (text, failed) = told(&result);
        assert!(!failed && !result.to_string().contains(token), "{name}: {result}");
        let note = result["content"][1]["text"].as_str().unwrap_or_default().to_owned();
        (serde_json::from_str::<Value>(text).unwrap(), note)
    };
    let (listed, _) = good("list_databases", json!({})).await;
    assert!(listed["items"].as_array().unwrap().iter().any(|one| one["id"] == *id), "{listed}");
    let (shown, _) = good("get_database", json!({"database_id": id})).await;
    for field in ["status", "connection_url", "broker_url"] {
        assert_eq!(shown[field], database[field], "{shown}");
    }
    let ask = json!({"database_id": id, "sql": "SELECT n FROM t WHERE n = $1", "params": [7]});
    let (found, note) = good("query_database", ask).await;
    assert_eq!(found["columns"], json!([{"name": "n", "type": "INT4"}]), "{found}");
    assert_eq!((&found["rows"], note.as_str()), (&json!([[7]]), ""), "{found}");
    let long = "SELECT n, repeat('x', 90) FROM generate_series(1, 900) n";
    let (found, note) = good("query_database", json!({"database_id": id, "sql": long})).await;
    assert!(found.to_string().len() <= TOOL_TEXT_BYTES_MAX && note.contains(" of 900 rows are shown"), "{note}");
    let (logs, _) = good("database_logs", json!({"database_id": id, "lines": 20})).await;
    assert!(logs["logs"].is_string(), "{logs}");
    let wrong = call("query_database", json!({"database_id": id, "sql": "SELEC 1"})).await;
    let (text, failed) = told(&wrong);
    assert!(failed && text.contains("42601"), "{wrong}");
}
