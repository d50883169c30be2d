//! The tools over an API that plays answers.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Mutex,
};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{ToolFilter, Toolset, catalogue, run};
use crate::{
    api::{Api, RestAnswer, RestBody, RestRequest},
    limits::{QUERY_BYTES_MAX, QUERY_ROWS_MAX, SAVED_OUTPUTS_MAX, TEXT_BYTES_MAX},
    output::{ToolOutput, ToolPart},
};

/// Plays answers in their order, and records requests.
#[derive(Default)]
struct StandIn {
    answers: Mutex<VecDeque<(u16, Vec<u8>)>>,
    asked: Mutex<Vec<RestRequest>>,
}

impl StandIn {
    fn playing(answers: impl IntoIterator<Item = (u16, impl Into<Vec<u8>>)>) -> Self {
        let answers = answers.into_iter().map(|(status, body)| (status, body.into())).collect();
        Self { answers: Mutex::new(answers), asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|request| format!("{} /{}", request.method, request.path.join("/"))).collect()
    }

    fn body(&self, at: usize) -> Value {
        match &self.asked.lock().unwrap()[at].body {
            RestBody::Json(body) => body.clone(),
            other => panic!("not JSON: {other:?}"),
        }
    }

    async fn run(&self, name: &str, arguments: Value) -> ToolOutput {
        run(self, name, arguments.as_object().unwrap()).await
    }
}

#[async_trait]
impl Api for StandIn {
    async fn call(&self, request: RestRequest) -> Result<RestAnswer, String> {
        let (status, whole) = self.answers.lock().unwrap().pop_front().ok_or("no more answers")?;
        let start = usize::try_from(request.skip).unwrap().min(whole.len());
        let end = start.saturating_add(request.take).min(whole.len());
        let answer = RestAnswer { status, body: whole[start..end].to_vec(), more: end < whole.len() };
        self.asked.lock().unwrap().push(request);
        Ok(answer)
    }
}

fn text(output: &ToolOutput, at: usize) -> &str {
    match &output.parts[at] {
        ToolPart::Text(text) => text,
        ToolPart::Image { .. } => panic!("an image"),
    }
}

/// Arguments of the right form for a tool.
fn good_arguments(tool: &super::ToolSpec) -> Value {
    let named = |name: &&str| match *name {
        "port" => ((*name).to_owned(), json!(80)),
        "path" => ((*name).to_owned(), json!("/x")),
        other => (other.to_owned(), json!("abc")),
    };
    Value::Object(tool.required.iter().map(named).collect())
}

#[tokio::test]
async fn every_tool_of_the_list_can_be_called_and_checks_its_ids() {
    for tool in catalogue() {
        let api = StandIn::playing([(418, "{\"error\":\"a teapot\"}")]);
        let arguments = good_arguments(tool);
        let output = api.run(tool.name, arguments.clone()).await;
        assert!(output.failed && text(&output, 0).contains("teapot"), "{}: {output:?}", tool.name);
        assert_eq!(api.asked().len(), 1, "{}", tool.name);
        for name in tool.properties.as_object().unwrap().keys().filter(|name| name.ends_with("_id")) {
            for bad in ["../x", "a/b", "a?b", "a#b", "a%2fb", "a&b", "a b", "a\\b", &"x".repeat(129), ""] {
                let api = StandIn::playing([(200, "{}")]);
                let mut arguments = arguments.clone();
                arguments[name] = json!(bad);
                let output = api.run(tool.name, arguments).await;
                assert!(output.failed && api.asked().is_empty(), "{} {name}={bad}: {output:?}", tool.name);
            }
        }
        for name in tool.required {
            let mut arguments = arguments.clone();
            arguments.as_object_mut().unwrap().remove(*name);
            let output = StandIn::default().run(tool.name, arguments).await;
            assert_eq!(
                (output.failed, text(&output, 0)),
                (true, format!("{name} is required").as_str()),
                "{}",
                tool.name
            );
        }
    }
    let output = StandIn::default().run("fly", json!({})).await;
    assert!(output.failed && text(&output, 0).starts_with("unknown tool \"fly\""));
}

#[test]
fn every_tool_is_described_for_models() {
    let mut names = BTreeSet::new();
    for tool in catalogue() {
        assert!(names.insert(tool.name), "{} is there twice", tool.name);
        assert!(tool.description.len() > 30 && tool.description.ends_with('.'), "{}", tool.name);
        assert!(!tool.title.is_empty());
        let properties = tool.properties.as_object().unwrap();
        for (name, schema) in properties {
            let is_described = schema["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_described && schema["type"].is_string(), "{} {name}", tool.name);
        }
        assert!(tool.required.iter().all(|name| properties.contains_key(*name)), "{}", tool.name);
        assert_eq!(tool.schema()["type"], "object");
    }
    let contract = [
        "create_sandbox",
        "list_sandboxes",
        "delete_sandbox",
        "run_command",
        "read_file",
        "write_file",
        "list_dir",
        "create_database",
        "list_databases",
        "delete_database",
        "list_apps",
        "deploy_app",
        "list_templates",
    ];
    assert!(contract.iter().all(|name| names.contains(name)), "the contract has 13 tools");
}

#[test]
fn a_filter_leaves_tools_out() {
    let names = |filter: &ToolFilter| -> Vec<&str> {
        catalogue().iter().filter(|tool| filter.allows(tool)).map(|tool| tool.name).collect()
    };
    let read_only = names(&ToolFilter { read_only: true, sets: vec![] });
    for reading in ["read_file", "list_sandboxes", "get_database", "database_logs"] {
        assert!(read_only.contains(&reading), "{reading}");
    }
    let changing = ["run_command", "write_file", "delete_sandbox", "fork_sandbox", "preview_url", "stop_process"];
    for changing in changing.into_iter().chain(["query_database", "delete_database"]) {
        assert!(!read_only.contains(&changing), "{changing}");
    }
    assert_eq!(
        names(&ToolFilter { read_only: false, sets: vec![Toolset::Files] }),
        ["read_file", "write_file", "list_dir"]
    );
    let all: usize =
        Toolset::ALL.iter().map(|set| names(&ToolFilter { read_only: false, sets: vec![*set] }).len()).sum();
    assert_eq!(all, catalogue().len());
}

#[tokio::test]
async fn a_sandbox_has_a_template_by_default() {
    let api = StandIn::playing([(201, "{}"), (201, "{}"), (201, "{}")]);
    api.run("create_sandbox", json!({"metadata": {"a": "b"}, "unknown": 1})).await;
    assert_eq!(api.body(0), json!({"template": "code-interpreter", "metadata": {"a": "b"}}));
    api.run("create_sandbox", json!({"template": "mini", "ttl_seconds": 60})).await;
    assert_eq!(api.body(1), json!({"template": "mini", "ttl_seconds": 60}));
    api.run("create_sandbox", json!({"from_snapshot": "s-1"})).await;
    assert_eq!(api.body(2), json!({"from_snapshot": "s-1"}));
}

#[tokio::test]
async fn a_short_command_is_the_body_of_the_api() {
    let body = r#"{"stdout":"hi\n","stderr":"","exit_code":3,"duration_ms":1}"#;
    let api = StandIn::playing([(200, body)]);
    let output = api.run("run_command", json!({"sandbox_id": "a", "command": "x", "timeout_seconds": 9999})).await;
    assert_eq!(output, ToolOutput::text(body), "a command that fails is no failure of the tool");
    assert_eq!(api.body(0), json!({"cmd": "x", "timeout_seconds": 300}));
    assert_eq!(api.asked.lock().unwrap()[0].timeout.as_secs(), 315);
}

#[tokio::test]
async fn long_output_is_kept_in_the_sandbox() {
    let long: String = (0..9999).map(|line| format!("line {line}\n")).collect();
    let body = json!({"stdout": long, "stderr": "", "exit_code": 0}).to_string();
    let saved: Vec<Value> = (0..SAVED_OUTPUTS_MAX + 2).map(|at| json!({"name": format!("{at:015}-x.txt")})).collect();
    let listing = json!({"entries": saved}).to_string();
    let answers = [(200, body), (200, "{}".to_owned()), (200, listing), (204, String::new()), (204, String::new())];
    let api = StandIn::playing(answers);
    let output = api.run("run_command", json!({"sandbox_id": "a", "command": "x"})).await;
    let shown: Value = serde_json::from_str(text(&output, 0)).unwrap();
    assert!(text(&output, 0).len() < TEXT_BYTES_MAX + 200, "{}", text(&output, 0).len());
    let stdout = shown["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("line 0\n") && stdout.ends_with("line 9998\n") && stdout.contains("bytes omitted"));
    let asked = api.asked.lock().unwrap();
    let path = &asked[1].query[0].1;
    assert!(text(&output, 1).contains(path.as_str()) && text(&output, 1).contains("read_file"), "{output:?}");
    assert_eq!(asked[1].body, RestBody::Bytes(long.into_bytes()));
    let gone: Vec<_> = asked[3..].iter().map(|request| (request.method, request.query[0].1.clone())).collect();
    let oldest = |at| ("DELETE", format!("/tmp/pandastack-output/{at:015}-x.txt"));
    assert_eq!(gone, [oldest(0), oldest(1)], "only the newest files stay");
}

#[tokio::test]
async fn files_are_read_part_by_part() {
    let whole: String = (0..9999).map(|line| format!("é {line}\n")).collect();
    let (mut joined, mut offset) = (String::new(), None);
    loop {
        let api = StandIn::playing([(200, whole.clone())]);
        let mut arguments = json!({"sandbox_id": "a", "path": "/x"});
        if let Some(offset) = offset {
            arguments["offset"] = json!(offset);
        }
        let output = api.run("read_file", arguments).await;
        joined.push_str(text(&output, 0));
        let Some(ToolPart::Text(note)) = output.parts.get(1) else { break };
        assert!(note.ends_with(&format!("read on with offset {}]", joined.len())), "{note}");
        offset = Some(joined.len());
    }
    assert_eq!(joined, whole);
    let api = StandIn::playing([(200, "0123456789")]);
    let output = api.run("read_file", json!({"sandbox_id": "a", "path": "/x", "offset": 2, "limit": 3})).await;
    assert_eq!(text(&output, 0), "234");
    let far = api.run("read_file", json!({"sandbox_id": "a", "path": "/x", "offset": 1_u64 << 40})).await;
    assert!(far.failed && text(&far, 0).contains("tail -c"));
}

#[tokio::test]
async fn images_come_as_images_and_binaries_do_not_come() {
    let png = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![7; 2 * TEXT_BYTES_MAX]].concat();
    let api = StandIn::playing([(200, png.clone()), (200, png)]);
    let output = api.run("read_file", json!({"sandbox_id": "a", "path": "/x.png"})).await;
    let ToolPart::Image { data, mime } = &output.parts[0] else { panic!("{output:?}") };
    assert_eq!((mime.as_str(), data.len() > 2 * TEXT_BYTES_MAX), ("image/png", true));
    let api = StandIn::playing([(200, vec![0, 1, 2])]);
    let output = api.run("read_file", json!({"sandbox_id": "a", "path": "/x"})).await;
    assert!(text(&output, 0).contains("binary file"));
    let huge = [b"\xff\xd8\xff".to_vec(), vec![7; 5 << 20]].concat();
    let api = StandIn::playing([(200, huge.clone()), (200, huge)]);
    assert!(api.run("read_file", json!({"sandbox_id": "a", "path": "/x"})).await.failed);
}

#[tokio::test]
async fn a_listing_falls_back_to_the_home_directory_only_by_default() {
    let missing = r#"{"error":"no such file","code":"fs.not_found"}"#;
    let api = StandIn::playing([(404, missing), (200, "{}")]);
    assert!(!api.run("list_dir", json!({"sandbox_id": "a"})).await.failed);
    let asked: Vec<_> = api.asked.lock().unwrap().iter().map(|request| request.query[0].1.clone()).collect();
    assert_eq!(asked, ["/workspace", "/root"]);
    for (arguments, body) in [
        (json!({"sandbox_id": "a", "path": "/workspace"}), missing),
        (json!({"sandbox_id": "a"}), r#"{"error":"sandbox not found","code":"sandbox.not_found"}"#),
    ] {
        let api = StandIn::playing([(404, body)]);
        assert!(api.run("list_dir", arguments).await.failed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_is_waited_for() {
    let making = r#"{"id":"d","status":"provisioning"}"#;
    let ready = r#"{"broker_token":"pds_pg_secret","connection_url":"postgres://x","id":"d","status":"running"}"#;
    let api = StandIn::playing([(202, making), (200, making), (200, ready)]);
    let ready = ready.replace(r#""broker_token":"pds_pg_secret","#, "");
    assert_eq!(api.run("create_database", json!({"label": "l", "size": "4g"})).await, ToolOutput::text(ready));
    assert_eq!(api.body(0), json!({"label": "l", "size": "4g"}));
    assert_eq!(api.asked(), ["POST /databases", "GET /databases/d", "GET /databases/d"]);
    let api = StandIn::playing([(202, making), (200, r#"{"id":"d","status":"failed","error":"no room"}"#)]);
    assert!(api.run("create_database", json!({})).await.failed);
    let api = StandIn::playing(std::iter::repeat_n((200, making), 400));
    let late = api.run("create_database", json!({})).await;
    assert!(text(&late, 1).contains("not ready yet") && api.asked().len() <= 182);
}

#[tokio::test(start_paused = true)]
async fn copies_of_databases_are_waited_for() {
    let making = r#"{"id":"e","status":"provisioning"}"#;
    let ready = r#"{"connection_url":"postgres://x","id":"e","status":"running"}"#;
    let time = "2026-01-31T23:59:59Z";
    for (tool, route, sent) in [
        ("branch_database", "branches", json!({"label": "l"})),
        ("clone_database", "clone", json!({"label": "l", "target_time": time, "size": "4g"})),
    ] {
        let api = StandIn::playing([(202, making), (200, ready)]);
        let output = api.run(tool, json!({"database_id": "d", "label": "l", "target_time": time, "size": "4g"})).await;
        assert_eq!(output, ToolOutput::text(ready));
        assert_eq!(api.asked(), [format!("POST /databases/d/{route}").as_str(), "GET /databases/e"]);
        assert_eq!(api.body(0), sent);
    }
    let refused = r#"{"error":"there is no backup yet","code":"database.no_backup"}"#;
    assert!(StandIn::playing([(409, refused)]).run("clone_database", json!({"database_id": "d"})).await.failed);
    let api = StandIn::playing([(200, r#"{"items":[]}"#)]);
    assert!(!api.run("database_backups", json!({"database_id": "d"})).await.failed);
    assert_eq!(api.asked(), ["GET /databases/d/backups"]);
}

const DATABASE: &str = r#"{"id":"d","status":"hibernated","connection_url":"postgres://x","broker_url":"http://y",
    "broker_token":"pds_pg_secret","database":"pandastack"}"#;

#[tokio::test]
async fn a_query_is_sent_with_the_token_of_its_database() {
    let rows = r#"{"columns":[{"name":"n","type":"INT4"}],"rows":[[7]],"count":1,"duration_ms":2}"#;
    let api = StandIn::playing([(200, DATABASE), (200, rows)]);
    let arguments = json!({"database_id": "d", "sql": "SELECT $1::int AS n", "params": [7]});
    assert_eq!(api.run("query_database", arguments).await, ToolOutput::text(rows));
    assert_eq!(api.asked(), ["GET /databases/d", "POST /databases/d/proxy/v1/query"]);
    let sent = json!({"database": "pandastack", "sql": "SELECT $1::int AS n", "params": [7], "timeout_ms": 60_000,
                      "max_rows": QUERY_ROWS_MAX});
    assert_eq!(api.body(1), sent);
    let asked = api.asked.lock().unwrap();
    assert_eq!(asked[0].token, None, "the caller's own credential reads the token");
    assert_eq!(asked[1].token.as_ref().map(|token| token.reveal()), Some("pds_pg_secret"));
    assert_eq!(asked[1].timeout.as_secs(), 150, "the database may have to wake");
}

#[tokio::test]
async fn a_query_that_cannot_be_answered_is_explained() {
    let ask = async |api: &StandIn| {
        let arguments = json!({"database_id": "d", "sql": "x", "database": "other", "timeout_seconds": 9999});
        let output = api.run("query_database", arguments).await;
        assert!(output.failed && !format!("{output:?}").contains("pds_pg_secret"), "{output:?}");
        text(&output, 0).to_owned()
    };
    let wrong = r#"{"error":"syntax error at or near \"x\"","code":"42601"}"#;
    let api = StandIn::playing([(200, DATABASE), (400, wrong)]);
    assert_eq!(ask(&api).await, wrong);
    assert_eq!((&api.body(1)["database"], &api.body(1)["timeout_ms"]), (&json!("other"), &json!(300_000)));
    let api = StandIn::playing([(200, r#"{"id":"d","status":"failed","error":"the machine died"}"#)]);
    let said = ask(&api).await;
    assert!(said.contains("database d is failed (the machine died)") && said.contains("get_database"), "{said}");
    assert_eq!(api.asked().len(), 1);
    let huge = format!(r#"{{"columns":[],"rows":[["{}"]]}}"#, "x".repeat(QUERY_BYTES_MAX));
    let said = ask(&StandIn::playing([(200, DATABASE.to_owned()), (200, huge)])).await;
    assert!(said.contains("use LIMIT"), "{said}");
    let said = ask(&StandIn::playing([(200, DATABASE), (200, "nothing")])).await;
    assert!(said.contains("cannot be read"), "{said}");
}

#[tokio::test]
async fn rows_that_do_not_fit_are_left_out() {
    let ask = async |rows: &[String]| {
        let (rows, count) = (rows.join(","), rows.len());
        let columns = r#"[{"name":"n","type":"NUMERIC"},{"name":"t","type":"TEXT"}]"#;
        let body = format!(r#"{{"columns":{columns},"rows":[{rows}],"count":{count},"duration_ms":2}}"#);
        let api = StandIn::playing([(200, DATABASE.to_owned()), (200, body)]);
        api.run("query_database", json!({"database_id": "d", "sql": "x"})).await
    };
    // More digits than a float has.
    let long: Vec<_> = (0..500).map(|at| format!(r#"[12345678901234567890.10,"{at} {}"]"#, "é".repeat(90))).collect();
    let output = ask(&long).await;
    let shown: Value = serde_json::from_str(text(&output, 0)).unwrap();
    let kept = shown["rows"].as_array().unwrap().len();
    assert!(kept > 100 && (TEXT_BYTES_MAX - 300..=TEXT_BYTES_MAX).contains(&text(&output, 0).len()), "{kept}");
    assert!(text(&output, 0).contains(&format!("[{}]", long[..kept].join(","))), "{output:?}");
    assert_eq!(shown["columns"][1]["name"], "t");
    assert!(text(&output, 1).starts_with(&format!("[{kept} of 500 rows are shown; use LIMIT")), "{output:?}");
    let short = vec!["[1,null]".to_owned(); QUERY_ROWS_MAX];
    assert!(text(&ask(&short).await, 1).starts_with("[1000 of 1000 or more rows are shown"));
    assert_eq!(ask(&short[1..]).await.parts.len(), 1);
    let value = format!(r#"[1,"start{}end"]"#, "x".repeat(2 * TEXT_BYTES_MAX));
    let output = ask(&[value]).await;
    assert!(text(&output, 0).contains("start") && text(&output, 0).contains("end\"]]"), "{output:?}");
    assert!(text(&output, 0).len() < TEXT_BYTES_MAX + 100 && text(&output, 1).contains("substr"), "{output:?}");
}

#[tokio::test]
async fn a_database_is_shown_without_its_token() {
    let api = StandIn::playing([(200, DATABASE)]);
    let output = api.run("get_database", json!({"database_id": "d"})).await;
    let shown: Value = serde_json::from_str(text(&output, 0)).unwrap();
    let mut expected: Value = serde_json::from_str(DATABASE).unwrap();
    expected.as_object_mut().unwrap().remove("broker_token");
    assert_eq!((shown, output.failed), (expected, false));
    let long = json!({"logs": "LOG:  ready\n".repeat(9999)}).to_string();
    let api = StandIn::playing([(200, r#"{"logs":"LOG:  ready\n"}"#.to_owned()), (200, long)]);
    let output = api.run("database_logs", json!({"database_id": "d"})).await;
    assert_eq!(output, ToolOutput::text(r#"{"logs":"LOG:  ready\n"}"#));
    let output = api.run("database_logs", json!({"database_id": "d", "lines": 1_u64 << 40})).await;
    let shown: Value = serde_json::from_str(text(&output, 0)).unwrap();
    assert!(shown["logs"].as_str().unwrap().contains("bytes omitted") && text(&output, 1).contains("fewer lines"));
    let asked: Vec<_> = api.asked.lock().unwrap().iter().map(|request| request.query[0].1.clone()).collect();
    assert_eq!(asked, ["100", "2000"]);
}

#[tokio::test(start_paused = true)]
async fn output_of_a_process_is_waited_for() {
    let quiet = r#"{"stdout":"","stderr":"","chunks":[],"next_offset":5,"truncated":0,"status":"running"}"#;
    let more = json!({"stdout": "x", "stderr": "", "chunks": [{"stream": "stdout", "chunk": "x"}], "next_offset": 6,
                      "truncated": 0, "status": "running"});
    let api = StandIn::playing([(200, quiet.to_owned()), (200, more.to_string())]);
    let arguments = json!({"sandbox_id": "a", "process_id": "prc_1", "offset": 5, "wait_seconds": 10});
    let shown: Value = serde_json::from_str(text(&api.run("read_process_output", arguments).await, 0)).unwrap();
    assert_eq!((&shown["stdout"], &shown["next_offset"]), (&json!("x"), &json!(6)));
    assert_eq!(api.asked().len(), 2);
    let api = StandIn::playing([(200, quiet)]);
    api.run("read_process_output", json!({"sandbox_id": "a", "process_id": "prc_1"})).await;
    assert_eq!(api.asked().len(), 1, "without a wait it asks once");
}
