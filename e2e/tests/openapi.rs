//! The whole API against its own document: a program reads it and sends valid and invalid requests
//! to every route. Every status and body must be documented, without a server error. Control, edge
//! and host are real; the machines are fake, so that it is fast.

use std::{path::Path, process::Stdio, sync::Arc};

use pandastack_control::{Control, ControlPlace};
use pandastack_e2e::{PATIENCE, answer, published};
use pandastack_edge::{Edge, serve};
use pandastack_kit::{Scope, SystemClock};
use pandastack_mcp::{McpDoor, McpSettings};
use pandastack_testbed::{FakeBed, with_small_fake_bed};
use reqwest::{Client, Method};
use serde_json::Value;
use tokio::net::TcpListener;

const KEY: &str = "pds_00000000000000000000000000000001";

/// Statuses that a working server may return for valid requests: silent guests, no capacity.
const EXPECTED: &str = r#"[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504, 507]
"#;

/// Endless streams and sockets: they have their own tests.
const NEVER_ENDING: &str = "^/v1/events$|/fs/watch$|/exec/ws$|/exec/pty$|/ssh$";

struct Server {
    url: String,
    http: Client,
    control: Control,
    scope: Scope,
    folder: tempfile::TempDir,
}

impl Server {
    async fn start(bed: &FakeBed) -> Self {
        let (scope, folder) = (Scope::new(), tempfile::tempdir().unwrap());
        let place = ControlPlace::in_folder(folder.path());
        let control = Control::open(&place, bed.host.clone(), scope.clone(), Arc::new(SystemClock)).await.unwrap();
        control.bootstrap(Some(KEY.into())).await.unwrap();
        let edge = Edge::new(Arc::new(control.clone()), bed.host.clone(), scope.clone());
        let app = control.guard(control.router().merge(edge.router_around(|routes| control.keyed(routes))));
        let port = Arc::new(control.clone());
        let app = McpDoor::add_to(app, port, McpSettings::default(), |routes| control.guard(routes));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        scope.start("serve", serve(listener, app, scope.clone()));
        Self { url, http: Client::builder().no_proxy().build().unwrap(), control, scope, folder }
    }

    async fn ask(&self, method: Method, path: &str) -> (u16, Value) {
        answer(self.http.request(method, format!("{}{path}", self.url)).bearer_auth(KEY)).await
    }

    /// Runs the program to its end. It must find nothing.
    async fn tried(&self, program: &Path, words: &[&str]) {
        let config = self.folder.path().join("schemathesis.toml");
        std::fs::write(&config, EXPECTED).unwrap();
        let mut command = tokio::process::Command::new(program);
        command.arg("--config-file").arg(&config).arg("run").arg(format!("{}/openapi.json", self.url));
        command.args(["--url", &self.url, "--header", &format!("Authorization: Bearer {KEY}")]);
        command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]);
        command.args(["--checks", "response_schema_conformance"]);
        command.args(["--seed", "7", "--generation-deterministic", "--no-color"]);
        command.args(["--request-timeout", "20", "--workers", "1", "--exclude-path-regex", NEVER_ENDING]);
        command.args(words).current_dir(self.folder.path()).env("NO_PROXY", "127.0.0.1").kill_on_drop(true);
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}\n{complained}");
        println!("{said}");
    }

    /// Deletes every sandbox and snapshot, and closes.
    async fn close(self) {
        for sandbox in self.ask(Method::GET, "/v1/sandboxes").await.1.as_array().unwrap() {
            let path = format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap());
            assert_eq!(self.ask(Method::DELETE, &path).await.0, 204);
        }
        for snapshot in self.ask(Method::GET, "/v1/snapshots").await.1["snapshots"].as_array().unwrap() {
            let path = format!("/v1/snapshots/{}", snapshot["id"].as_str().unwrap());
            assert_eq!(self.ask(Method::DELETE, &path).await.0, 204);
        }
        assert_eq!(self.scope.close(PATIENCE).await, 0, "tasks are left");
        self.control.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_the_answer_is_one_that_the_document_has() {
    let program = tokio::task::spawn_blocking(published::schemathesis).await.unwrap();
    with_small_fake_bed(FakeBed::settings(), 64, async |bed| {
        let server = Server::start(bed).await;
        // Every route with ids that do not exist.
        server.tried(&program, &["--max-examples", "4"]).await;
        server.close().await;
    })
    .await;
}
