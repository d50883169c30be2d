//! The whole API of the built server against its own document, with a real machine. The testing
//! program gets ids of a live sandbox and its resources, so that its requests pass the first
//! checks. Every answer must be documented, and the sandbox must survive.

use std::{path::PathBuf, process::Stdio};

use pandastack_e2e::{PATIENCE, answer, published};
use pandastack_testbed::{DataFolder, TestServer, wait_for};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

/// Answers every request alike. Standard library only.
const PLAIN: &str = r#"
import http.server

class Plain(http.server.BaseHTTPRequestHandler):
    def handle_one_request(self):
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

http.server.ThreadingHTTPServer.request_queue_size = 64
http.server.ThreadingHTTPServer(("", 8000), Plain).serve_forever()
"#;

/// Routes that would remove what the others need, builds (which have their own tests), endless
/// streams, and sockets.
const LEFT_OUT: &str = "/fs/watch$|/exec/ws$|/exec/pty$|/ssh$|/promote$|/templates/build$";

/// Routes that change the whole sandbox: tested after the rest, and less often.
const WEIGHTY: &str = "/pause$|/lifecycle$|/fork$|/fork-tree$|/snapshots$";

/// The document's example of a process.
const EXAMPLE: &str = "python3 -m http.server 3000";

/// One resource for each path parameter.
struct Ground {
    server: TestServer,
    http: Client,
    program: PathBuf,
    id: String,
    config: String,
    /// Removed after the server has stopped: fields drop in this order.
    _data: DataFolder,
}

impl Ground {
    async fn start() -> Self {
        let program = tokio::task::spawn_blocking(published::schemathesis).await.unwrap();
        let data = DataFolder::with_templates().unwrap();
        let options = ["--standby", "0", "--blanks", "0", "--webhook-allow-private"];
        let server = TestServer::start(data.path(), &options).unwrap();
        let http = Client::builder().no_proxy().build().unwrap();
        let mut ground = Self { server, http, program, id: String::new(), config: String::new(), _data: data };
        ground.furnish().await;
        ground
    }

    /// Makes the resources for the requests.
    async fn furnish(&mut self) {
        // No listener at this address: deliveries fail, which is a valid result.
        let hook = json!({"url": "http://127.0.0.1:9/", "events": ["*"]});
        let webhook = self.make("/v1/webhooks", hook).await;
        self.make("/v1/volumes", json!({"name": "disk", "size_mb": 16})).await;
        let asked = json!({"template": "mini", "persistent": true, "ttl_seconds": 0});
        text(&self.make("/v1/sandboxes", asked).await, "id").clone_into(&mut self.id);
        let mine = format!("/v1/sandboxes/{}", self.id);
        let put = self.call(Method::PUT, &format!("{mine}/fs?path=/srv/plain.py")).body(PLAIN);
        assert_eq!(answer(put).await.0, 200);
        self.exec("mkdir -p /srv/ground/tree && cd /srv/ground && echo one > file && cp file tree/file").await;
        // One that answers, one to read and write, one to signal, which may end it.
        let start = async |ask| self.make(&format!("{mine}/processes"), ask).await;
        start(json!({"cmd": "python3 /srv/plain.py"})).await;
        let process = start(json!({"cmd": "cat", "stdin": true})).await;
        let target = start(json!({"cmd": "sleep 6000"})).await;
        let session = self.make(&format!("{mine}/repl/sessions"), json!({"language": "python"})).await;
        let snapshot = self.make(&format!("{mine}/snapshots"), json!({})).await;
        let preview = self.make(&format!("{mine}/preview"), json!({"port": 8000})).await;
        let form = format!("name=own&from_snapshot={}", text(&snapshot, "id"));
        let build = self.call(Method::POST, "/v1/templates/build");
        let build = answer(build.header("content-type", "application/x-www-form-urlencoded").body(form)).await;
        assert_eq!(build.0, 202, "{}", build.1);
        let told = format!("/v1/webhooks/{}/deliveries", text(&webhook, "id"));
        let delivery = wait_for("a delivery", PATIENCE, async || {
            let (_, list) = answer(self.call(Method::GET, &told)).await;
            list.as_array()?.first()?["id"].as_str().map(str::to_owned)
        })
        .await;
        self.config = config(&[
            ("ID", &self.id),
            ("PROCESS", text(&process, "id")),
            ("TARGET", text(&target, "id")),
            ("SESSION", text(&session, "id")),
            ("SNAPSHOT", text(&snapshot, "id")),
            ("WEBHOOK", text(&webhook, "id")),
            ("DELIVERY", &delivery),
            ("TOKEN", text(&preview, "token")),
            ("BUILD", text(&build.1, "id")),
        ]);
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.server.url)).bearer_auth(&self.server.key)
    }

    async fn make(&self, path: &str, body: Value) -> Value {
        let (status, made) = answer(self.call(Method::POST, path).json(&body)).await;
        assert!((200..300).contains(&status), "{path}: {status} {made}");
        made
    }

    async fn exec(&self, command: &str) -> String {
        let path = format!("/v1/sandboxes/{}/exec", self.id);
        let ran = self.make(&path, json!({ "cmd": command })).await;
        assert_eq!(ran["exit_code"], json!(0), "{command}: {ran}");
        text(&ran, "stdout").to_owned()
    }

    /// Runs the program to its end. It must find nothing.
    async fn tried(&self, words: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let (config, document) = (folder.path().join("schemathesis.toml"), folder.path().join("openapi.json"));
        std::fs::write(&config, &self.config).unwrap();
        std::fs::write(&document, serde_json::to_vec(&self.document().await).unwrap()).unwrap();
        let mut command = tokio::process::Command::new(&self.program);
        command.arg("--config-file").arg(&config).arg("run").arg(&document);
        command.args(["--url", &self.server.url, "--header", &format!("Authorization: Bearer {}", self.server.key)]);
        command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]);
        command.args(["--checks", "response_schema_conformance"]);
        command.args(["--seed", "7", "--generation-deterministic", "--no-color", "--continue-on-failure"]);
        command.args(["--request-timeout", "30", "--workers", "1", "--max-examples", "2"]);
        command.args(words).current_dir(folder.path()).env("NO_PROXY", "127.0.0.1").kill_on_drop(true);
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}\n{complained}\n{}", self.server.said());
        println!("{said}");
    }

    /// The server's document, narrowed. Without idempotency keys: with one key for all, most
    /// requests would end there. Paths for moves and modes are the test's own, because a guest
    /// without its programs cannot answer. The example process is a light one, because dozens run
    /// at once.
    async fn document(&self) -> Value {
        let shown = answer(self.call(Method::GET, "/openapi.json")).await.1.to_string();
        assert!(shown.contains(EXAMPLE), "the example has changed");
        let mut document: Value = serde_json::from_str(&shown.replace(EXAMPLE, "sleep 1")).unwrap();
        for path in document["paths"].as_object_mut().unwrap().values_mut() {
            for operation in path.as_object_mut().unwrap().values_mut() {
                if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
                    parameters.retain(|parameter| parameter["name"] != "Idempotency-Key");
                }
            }
        }
        let ours = json!(["/srv/ground/file", "/srv/ground/other"]);
        for (schema, field) in [("Chmod", "path"), ("MovePath", "from"), ("MovePath", "to")] {
            let field = &mut document["components"]["schemas"][schema]["properties"][field];
            assert!(field["pattern"].is_string(), "{schema} has changed");
            field["enum"] = ours.clone();
        }
        document
    }

    /// Every tested route of a sandbox has succeeded at least once.
    async fn was_met(&self) {
        let meters = self.call(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        let left_out = |path: &str| LEFT_OUT.split('|').any(|end| path.ends_with(end.trim_end_matches('$')));
        let document = self.document().await;
        let mut met = 0;
        for (path, operations) in document["paths"].as_object().unwrap() {
            // Paths below `proxy` belong to the guest. No generated body is a valid archive.
            if !path.starts_with("/v1/sandboxes/{id}/") || path.ends_with("{path}") || left_out(path) {
                continue;
            }
            for method in operations.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
                let line = format!("{{method=\"{method}\",route=\"{path}\",class=\"2xx\"}}");
                assert!(meters.contains(&line) || (method == "PUT" && path.ends_with("/fs/tar")), "{method} {path}");
                met += 1;
            }
        }
        assert!(met > 40, "only {met} were tried");
    }

    /// Checks that the sandbox is unchanged and that the server works.
    async fn is_well(&self) {
        assert_eq!(self.exec("cat /srv/ground/tree/file").await, "one\n");
        let (status, health) = answer(self.http.get(format!("{}/healthz", self.server.url))).await;
        assert_eq!((status, &health["status"]), (200, &json!("ok")), "{health}");
        let said = self.server.said();
        assert!(!said.contains(" ERROR "), "{said}");
    }

    /// Deletes everything. Nothing may be left.
    async fn end(self) {
        for sandbox in answer(self.call(Method::GET, "/v1/sandboxes")).await.1.as_array().unwrap() {
            let path = format!("/v1/sandboxes/{}", text(sandbox, "id"));
            assert_eq!(answer(self.call(Method::DELETE, &path)).await.0, 204);
        }
        let (_, audit) = answer(self.call(Method::GET, "/v1/host/audit")).await;
        assert_eq!((&audit["leaks"], &audit["machines"]), (&json!([]), &json!(0)), "{audit}");
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{value} has no {name}"))
}

/// The program's configuration: the names to use, and the statuses that a working server may return
/// for valid requests.
fn config(names: &[(&str, &str)]) -> String {
    let template = r#"
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504, 507]

[parameters]
"path.id" = "ID"
"path.process" = "PROCESS"
"path.session" = "SESSION"
"path.snapshot" = "SNAPSHOT"
"path.webhook" = "WEBHOOK"
"path.delivery" = "DELIVERY"
"path.token" = "TOKEN"
"path.build" = "BUILD"
"path.port" = 8000
"path.name" = "disk"
"query.follow" = false
"query.path" = "/srv/ground/tree"

[[operations]]
include-path-regex = "/templates/"
parameters = { "path.name" = "mini" }

[[operations]]
include-path-regex = "/fs$"
parameters = { "query.path" = "/srv/ground/single" }

[[operations]]
include-path-regex = "/signal$"
parameters = { "path.process" = "TARGET" }
"#;
    names
        .iter()
        .fold(template.to_owned(), |text, (place, name)| text.replace(&format!("\"{place}\""), &format!("\"{name}\"")))
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_of_a_living_sandbox_it_answers_by_the_document_and_lives_on() {
    let ground = Ground::start().await;
    // All routes with a path parameter. The others are the same without a sandbox.
    let later = format!("{LEFT_OUT}|{WEIGHTY}");
    let named = ["--include-path-regex", r"\{", "--exclude-path-regex", &later, "--exclude-method", "DELETE"];
    ground.tried(&named).await;
    ground.is_well().await;

    // Few copies, each with a valid request. Invalid ones are tested on fake machines.
    ground.tried(&["--phases", "examples,fuzzing", "--include-path-regex", "/fork$|/fork-tree$|/snapshots$"]).await;
    // A running command keeps the sandbox from being ended by an idle limit under test.
    let mine = format!("/v1/sandboxes/{}", ground.id);
    let work = ground.call(Method::POST, &format!("{mine}/exec/stream")).json(&json!({"cmd": "sleep 6000"}));
    let work = work.send().await.unwrap();
    ground.tried(&["--include-path-regex", "/lifecycle$"]).await;
    let forever = json!({"persistent": true, "ttl_seconds": 0});
    let (status, kept) = answer(ground.call(Method::PATCH, &format!("{mine}/lifecycle")).json(&forever)).await;
    assert_eq!((status, &kept["persistent"]), (200, &json!(true)), "{kept}");
    drop(work);
    ground.tried(&["--include-path-regex", "/pause$|/resume$"]).await;
    assert_eq!(answer(ground.call(Method::POST, &format!("{mine}/resume"))).await.0, 204);
    ground.is_well().await;

    // Deletes everything but the sandbox. Its own routes get their second request when the resource
    // is gone.
    ground.tried(&["--include-method", "DELETE", "--exclude-path-regex", r"^/v1/sandboxes/\{id\}$"]).await;
    ground.is_well().await;
    ground.was_met().await;
    ground.end().await;
}
