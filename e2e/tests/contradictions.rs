//! Contradictions between the sources of the API contract, and which side we took: one function per
//! row of its section 16, named after the row. Real server, real machines. `published` tests the
//! published clients.

use futures_util::{SinkExt, StreamExt};
use pandastack_e2e::{PATIENCE, in_turn};
use pandastack_testbed::{DataFolder, TestServer, wait_for};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

/// A server, and its HTTP client.
struct Api {
    server: TestServer,
    http: reqwest::Client,
    /// A sandbox for rows that only use one.
    plain: OnceCell<String>,
    _data: DataFolder,
}

impl Api {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    async fn start_with(arguments: &[&str]) -> Self {
        let data = DataFolder::with_templates().unwrap();
        let templates = data.path().join("volume/templates");
        for alias in ["code-interpreter", "ubuntu-24.04"] {
            if !templates.join(alias).exists() {
                std::fs::copy(templates.join("mini"), templates.join(alias)).unwrap();
            }
        }
        let server =
            TestServer::start(data.path(), &[&["--standby", "0", "--blanks", "0"], arguments].concat()).unwrap();
        Self { server, http: reqwest::Client::new(), plain: OnceCell::new(), _data: data }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let request = self.http.request(method, format!("{}/v1{path}", self.server.url)).bearer_auth(&self.server.key);
        let request = if let Some(body) = body { request.json(&body) } else { request };
        request.send().await.unwrap()
    }

    /// Sends a request and returns its status and JSON, `null` if there is none.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let response = self.send(method, path, body).await;
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Creates a sandbox and returns its id.
    async fn create(&self, extra: Value) -> String {
        let mut body = json!({"template": "mini"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let (status, sandbox) = self.post("/sandboxes", body).await;
        assert_eq!(status, 201, "{sandbox}");
        sandbox["id"].as_str().unwrap().to_owned()
    }

    /// A sandbox that no row changes or deletes.
    async fn plain(&self) -> String {
        self.plain.get_or_init(async || self.create(json!({"ttl_seconds": 3600})).await).await.clone()
    }

    /// Deletes the sandboxes of a row.
    async fn clear(&self) {
        for sandbox in self.get("/sandboxes").await.1.as_array().unwrap() {
            let id = sandbox["id"].as_str().unwrap();
            if self.plain.get().is_none_or(|plain| plain != id) {
                self.ask(Method::DELETE, &format!("/sandboxes/{id}"), None).await;
            }
        }
    }

    async fn run(&self, id: &str, cmd: &str) -> String {
        let (status, done) = self.post(&format!("/sandboxes/{id}/exec"), json!({ "cmd": cmd })).await;
        assert_eq!((status, &done["exit_code"]), (200, &json!(0)), "{done}");
        done["stdout"].as_str().unwrap().to_owned()
    }

    async fn status_of(&self, id: &str) -> String {
        self.get(&format!("/sandboxes/{id}")).await.1["status"].as_str().unwrap().to_owned()
    }

    async fn socket(&self, path: &str) -> tokio_tungstenite::WebSocketStream<tokio::net::TcpStream> {
        let address = self.server.url.trim_start_matches("http://");
        let mut request = format!("ws://{address}/v1{path}").into_client_request().unwrap();
        let key = format!("Bearer {}", self.server.key).parse().unwrap();
        request.headers_mut().insert("authorization", key);
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        client_async(request, stream).await.unwrap().0
    }
}

/// Reads an event stream until it contains a text.
async fn read_until(response: Response, text: &str) -> String {
    let (mut stream, mut read) = (response.bytes_stream(), String::new());
    while !read.contains(text) {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await;
        let Ok(Some(Ok(bytes))) = next else { panic!("the stream ended before {text:?}: {read}") };
        read.push_str(&String::from_utf8_lossy(&bytes));
    }
    read
}

#[tokio::test]
async fn every_row_is_decided_as_we_said() {
    let api = Api::start().await;
    in_turn! { (&api) after the_last_row_is_cleared:
        error_body_is_a_flat_string,
        exec_timeout_is_5xx_with_timeout_in_its_text,
        exec_stream_timeout_is_an_error_event_with_timeout_in_its_text,
        duration_ms_in_exec_is_sent,
        log_follow_flag_has_both_spellings,
        log_sse_event_is_line_with_json_and_there_is_no_open,
        exec_ws_frame_carries_data,
        pty_control_frames_are_taken_in_both_forms_and_the_end_has_all_names,
        repl_session_key_is_sent_under_both_names,
        repl_rich_results_and_errors_are_sent,
        missing_file_on_read_is_404,
        wake_when_running_is_fine_and_get_wakes_nobody,
        default_ttl_is_300_s_of_idleness,
        idle_hibernation_is_for_persistent_sandboxes_only,
        fork_has_memory_disk_and_metadata_and_answers_with_objects,
        fork_tree_children_carry_their_tree_and_promote_without_tree_id_infers_it,
        snapshot_list_get_delete_exist,
        create_from_snapshot_beats_the_template,
        template_build_is_taken_urlencoded_and_its_logs_are_a_stream_that_ends,
        default_template_names_are_known,
        token_routes_refuse_api_keys,
        ports_list_is_an_array,
        signed_preview_url_has_its_token_in_the_path_and_ends_with_401,
        volume_mount_is_by_device_order_and_volume_delete_in_use_is_409,
        key_prefix_is_kept_and_its_env_name_is_the_published_one,
        a_403_is_relied_on_nowhere_another_tenants_things_are_404,
    }
}

async fn the_last_row_is_cleared(api: &Api) {
    api.clear().await;
}

async fn error_body_is_a_flat_string(api: &Api) {
    let (status, body) = api.get("/sandboxes/5f0c7d0e-0000-4000-8000-000000000000").await;
    assert_eq!(status, 404);
    assert!(body["error"].is_string() && body["code"].is_string(), "{body}");
}

#[tokio::test]
async fn no_capacity_is_503_with_retry_after_and_507_without() {
    let api = Api::start_with(&["--overcommit", "1", "--memory-reserve", "0"]).await;
    let mut made = 0;
    let refused = loop {
        let response = api.send(Method::POST, "/sandboxes", Some(json!({"template": "mini"}))).await;
        if response.status() != StatusCode::CREATED {
            break response;
        }
        made += 1;
        assert!(made < 64, "this host is never full");
    };
    let (status, after) = (refused.status().as_u16(), refused.headers().get("retry-after").cloned());
    let body: Value = refused.json().await.unwrap();
    match status {
        503 => assert_eq!(
            (after.unwrap().to_str().unwrap(), &body["error"]),
            ("5", &json!("no compute capacity available"))
        ),
        507 => assert!(after.is_none() && body["error"].as_str().unwrap().starts_with("insufficient host")),
        other => panic!("{other}: {body}"),
    }
    let (_, listed) = api.get("/sandboxes").await;
    assert_eq!(listed.as_array().unwrap().len(), made, "what was refused was not made");
}

async fn exec_timeout_is_5xx_with_timeout_in_its_text(api: &Api) {
    let id = api.plain().await;
    let ask = json!({"cmd": "echo partial; sleep 60", "timeout_seconds": 1});
    let (status, body) = api.post(&format!("/sandboxes/{id}/exec"), ask).await;
    assert!(status >= 500 && body["error"].as_str().unwrap().contains("timeout"), "{status} {body}");
}

async fn exec_stream_timeout_is_an_error_event_with_timeout_in_its_text(api: &Api) {
    let id = api.plain().await;
    let ask = json!({"cmd": "echo partial; sleep 60", "timeout_seconds": 1});
    let response = api.send(Method::POST, &format!("/sandboxes/{id}/exec/stream"), Some(ask)).await;
    let text = response.text().await.unwrap();
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("event: error\n") && last.contains("timeout"), "{text}");
    assert!(!text.contains("event: exit"), "one end only: {text}");
}

async fn duration_ms_in_exec_is_sent(api: &Api) {
    let id = api.plain().await;
    let (_, done) = api.post(&format!("/sandboxes/{id}/exec"), json!({"cmd": "sleep 0.2"})).await;
    assert!(done["duration_ms"].as_u64().unwrap() >= 200, "{done}");
}

async fn log_follow_flag_has_both_spellings(api: &Api) {
    let id = api.plain().await;
    api.run(&id, "echo for the log > /dev/console").await;
    for flag in ["1", "true"] {
        let response = api.send(Method::GET, &format!("/sandboxes/{id}/logs?follow={flag}&stream=both"), None).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        read_until(response, "for the log").await;
    }
    for flag in ["0", "false"] {
        let response = api.send(Method::GET, &format!("/sandboxes/{id}/logs?follow={flag}"), None).await;
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
        assert!(response.text().await.unwrap().contains("for the log"));
    }
}

async fn log_sse_event_is_line_with_json_and_there_is_no_open(api: &Api) {
    let id = api.plain().await;
    api.run(&id, "echo for the log > /dev/console").await;
    let response = api.send(Method::GET, &format!("/sandboxes/{id}/logs?follow=1"), None).await;
    let text = read_until(response, "for the log").await;
    for event in text.split("\n\n").filter(|event| event.contains("event:")) {
        let (name, data) = event.trim_start().split_once('\n').unwrap();
        assert_eq!(name, "event: line", "{text}");
        if let Ok(data) = serde_json::from_str::<Value>(data.strip_prefix("data: ").unwrap()) {
            assert!(data["line"].is_string(), "{event}");
        }
    }
}

async fn exec_ws_frame_carries_data(api: &Api) {
    let id = api.plain().await;
    let mut socket = api.socket(&format!("/sandboxes/{id}/exec/ws")).await;
    socket.send(Message::text(json!({"id": "a", "cmd": "echo hi"}).to_string())).await.unwrap();
    let mut frames = Vec::new();
    while frames.last().is_none_or(|frame: &Value| frame.get("exit").is_none()) {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            frames.push(serde_json::from_str(&text).unwrap());
        }
    }
    assert_eq!(frames[0], json!({"id": "a", "stream": "stdout", "data": "hi\n"}));
    assert_eq!(frames[1], json!({"id": "a", "exit": 0}));
}

async fn pty_control_frames_are_taken_in_both_forms_and_the_end_has_all_names(api: &Api) {
    let id = api.plain().await;
    let mut socket = api.socket(&format!("/sandboxes/{id}/exec/pty?rows=30&cols=90")).await;
    let sizes = [json!({"resize": {"rows": 33, "cols": 91}}), json!({"type": "resize", "rows": 34, "cols": 92})];
    for (size, seen) in sizes.iter().zip(["33 91", "34 92"]) {
        socket.send(Message::text(size.to_string())).await.unwrap();
        socket.send(Message::binary(b"stty size\n".to_vec())).await.unwrap();
        let mut output = String::new();
        while !output.contains(seen) {
            if let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() {
                output.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }
    socket.send(Message::binary(b"exit 3\n".to_vec())).await.unwrap();
    let end = loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            break serde_json::from_str::<Value>(&text).unwrap();
        }
    };
    assert_eq!(end, json!({"type": "exit", "code": 3, "exit": 3}));
}

async fn repl_session_key_is_sent_under_both_names(api: &Api) {
    let id = api.plain().await;
    let (status, session) = api.post(&format!("/sandboxes/{id}/repl/sessions"), json!({"language": "python"})).await;
    assert_eq!(status, 201, "{session}");
    assert!(session["id"].is_string() && session["id"] == session["session_id"], "{session}");
}

async fn repl_rich_results_and_errors_are_sent(api: &Api) {
    let id = api.plain().await;
    let (_, session) = api.post(&format!("/sandboxes/{id}/repl/sessions"), json!({"language": "python"})).await;
    let run = format!("/sandboxes/{id}/repl/sessions/{}/run", session["id"].as_str().unwrap());
    let (_, done) = api.post(&run, json!({"code": "6 * 7"})).await;
    assert_eq!(
        (&done["results"][0]["text/plain"], &done["exit"], &done["exit_code"]),
        (&json!("42"), &json!(0), &json!(0))
    );
    assert!(done.get("error").is_none(), "{done}");
    let (_, failed) = api.post(&run, json!({"code": "1 / 0"})).await;
    assert!(failed["error"].as_str().unwrap().contains("ZeroDivisionError"), "{failed}");
}

async fn missing_file_on_read_is_404(api: &Api) {
    let id = api.plain().await;
    assert_eq!(api.get(&format!("/sandboxes/{id}/fs?path=/no/such/file")).await.0, 404);
    assert_eq!(api.get(&format!("/sandboxes/{id}/fs/stat?path=/no/such/file")).await.0, 404);
}

async fn wake_when_running_is_fine_and_get_wakes_nobody(api: &Api) {
    let id = api.create(json!({"persistent": true})).await;
    let (status, body) = api.ask(Method::POST, &format!("/sandboxes/{id}/wake"), None).await;
    assert_eq!((status, &body["status"]), (200, &json!("running")));
    let (status, body) = api.ask(Method::POST, &format!("/sandboxes/{id}/hibernate"), None).await;
    assert_eq!((status, &body["status"]), (200, &json!("hibernated")));
    for path in ["", "/lifecycle", "/events", "/metrics", "/logs"] {
        api.send(Method::GET, &format!("/sandboxes/{id}{path}"), None).await;
        assert_eq!(api.status_of(&id).await, "hibernated", "GET {path}");
    }
    api.run(&id, "true").await;
    // The state is recorded a moment later.
    let runs = async || (api.status_of(&id).await == "running").then_some(());
    wait_for("the wake's record", PATIENCE, runs).await;
}

async fn default_ttl_is_300_s_of_idleness(api: &Api) {
    let id = api.create(json!({})).await;
    let (_, lifecycle) = api.get(&format!("/sandboxes/{id}/lifecycle")).await;
    assert_eq!((&lifecycle["ttl_seconds"], &lifecycle["persistent"]), (&json!(300), &json!(false)));
    assert!(lifecycle["idle_seconds"].is_u64());
}

async fn idle_hibernation_is_for_persistent_sandboxes_only(api: &Api) {
    let kept = api.create(json!({"persistent": true, "ttl_seconds": 2})).await;
    let gone = api.create(json!({"ttl_seconds": 2})).await;
    let asleep = async || (api.status_of(&kept).await == "hibernated").then_some(());
    wait_for("the persistent one sleeps", PATIENCE, asleep).await;
    let removed = async || (api.get(&format!("/sandboxes/{gone}")).await.0 == 404).then_some(());
    wait_for("the other one is removed", PATIENCE, removed).await;
}

async fn fork_has_memory_disk_and_metadata_and_answers_with_objects(api: &Api) {
    let id = api.create(json!({"metadata": {"own": "parent"}})).await;
    api.run(&id, "sleep 10000 > /dev/null 2>&1 & echo $! > /root/pid").await;
    let (status, fork) = api.post(&format!("/sandboxes/{id}/fork"), json!({"metadata": {"a": "b"}})).await;
    assert_eq!(status, 201, "{fork}");
    let child = &fork["sandbox"];
    assert_eq!((&child["metadata"]["a"], &child["metadata"]["fork_parent_id"]), (&json!("b"), &json!(id)));
    assert_eq!(fork["children"][0]["id"], child["id"]);
    api.run(child["id"].as_str().unwrap(), "kill -0 $(cat /root/pid)").await;
}

async fn fork_tree_children_carry_their_tree_and_promote_without_tree_id_infers_it(api: &Api) {
    let id = api.create(json!({})).await;
    let (status, tree) = api.post(&format!("/sandboxes/{id}/fork-tree"), json!({"count": 2})).await;
    assert_eq!(status, 201, "{tree}");
    let children = tree["children"].as_array().unwrap();
    for child in children {
        assert_eq!(child["metadata"]["fork_tree_id"], tree["tree_id"]);
    }
    let winner = children[0]["id"].as_str().unwrap();
    let (status, done) = api.post(&format!("/sandboxes/{winner}/promote"), json!({"cleanup_siblings": true})).await;
    assert_eq!((status, &done["deleted"]), (200, &json!([children[1]["id"]])), "{done}");
}

async fn snapshot_list_get_delete_exist(api: &Api) {
    let id = api.create(json!({})).await;
    let (status, made) = api.ask(Method::POST, &format!("/sandboxes/{id}/snapshots"), None).await;
    assert_eq!(status, 201, "{made}");
    let snapshot = made["id"].as_str().unwrap();
    let (_, listed) = api.get(&format!("/snapshots?sandbox_id={id}")).await;
    assert_eq!(listed["snapshots"][0]["id"], json!(snapshot), "{listed}");
    assert_eq!(api.get(&format!("/snapshots/{snapshot}")).await.0, 200);
    assert_eq!(api.ask(Method::DELETE, &format!("/snapshots/{snapshot}"), None).await.0, 204);
    assert_eq!(api.get(&format!("/snapshots/{snapshot}")).await.0, 404);
}

async fn create_from_snapshot_beats_the_template(api: &Api) {
    let id = api.create(json!({})).await;
    api.run(&id, "echo kept > /root/note").await;
    let (_, made) = api.ask(Method::POST, &format!("/sandboxes/{id}/snapshots"), None).await;
    let again = api.create(json!({"template": "no-such-template", "from_snapshot": made["id"]})).await;
    assert_eq!(api.run(&again, "cat /root/note").await, "kept\n");
}

async fn template_build_is_taken_urlencoded_and_its_logs_are_a_stream_that_ends(api: &Api) {
    let form = "name=made&size_mb=1024&dockerfile=FROM+mini%0D%0ARUN+echo+built+%3E+%2Fbuilt%0D%0A";
    let request = api.http.post(format!("{}/v1/templates/build", api.server.url)).bearer_auth(&api.server.key);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 202);
    let build: Value = response.json().await.unwrap();
    let path = format!("/templates/builds/{}", build["id"].as_str().unwrap());
    let logs = api.send(Method::GET, &format!("{path}/logs?follow=1"), None).await;
    assert_eq!(logs.headers()["content-type"], "text/event-stream; charset=utf-8");
    let logs = logs.text().await.unwrap();
    assert!(logs.contains("RUN echo built") && logs.ends_with("event: done\ndata: end\n\n"), "{logs}");
    assert_eq!(api.get(&path).await.1["status"], "done", "{logs}");
    let made = api.create(json!({"template": "made"})).await;
    assert_eq!(api.run(&made, "cat /built").await, "built\n");
}

async fn default_template_names_are_known(api: &Api) {
    for name in ["ubuntu-24.04", "code-interpreter"] {
        let id = api.create(json!({"template": name})).await;
        assert_eq!(api.get(&format!("/sandboxes/{id}")).await.1["template"], name);
    }
}

async fn token_routes_refuse_api_keys(api: &Api) {
    for (method, path) in
        [(Method::GET, "/me/tokens"), (Method::POST, "/me/tokens"), (Method::DELETE, "/me/tokens/pds_0")]
    {
        let (status, body) = api.ask(method, path, None).await;
        assert_eq!((status, &body["error"]), (401, &json!("unauthorized")), "{path}: {body}");
    }
}

async fn ports_list_is_an_array(api: &Api) {
    let id = api.plain().await;
    api.run(&id, "setsid python3 -m http.server 8000 > /dev/null 2>&1 &").await;
    let path = format!("/sandboxes/{id}/ports");
    let listening = async || {
        let (_, ports) = api.get(&path).await;
        ports.as_array().unwrap().iter().any(|port| port["port"] == json!(8000)).then_some(())
    };
    wait_for("the server's port is seen", PATIENCE, listening).await;
}

async fn signed_preview_url_has_its_token_in_the_path_and_ends_with_401(api: &Api) {
    let id = api.plain().await;
    let (status, link) =
        api.post(&format!("/sandboxes/{id}/preview-token"), json!({"port": 8000, "ttl_seconds": 60})).await;
    assert_eq!(status, 200, "{link}");
    let url = link["url"].as_str().unwrap();
    assert!(url.contains(&format!("/v1/p/{}/", link["token"].as_str().unwrap())), "{link}");
    assert!(url.starts_with("http://link-") && url.contains(".localhost:"), "below the preview suffix: {link}");
    assert_eq!(reqwest::get(format!("{}/v1/p/bad.token/", api.server.url)).await.unwrap().status(), 401);
}

async fn volume_mount_is_by_device_order_and_volume_delete_in_use_is_409(api: &Api) {
    for name in ["one", "two"] {
        assert_eq!(api.post("/volumes", json!({"name": name, "size_mb": 64})).await.0, 201);
    }
    let id = api.create(json!({"volumes": [{"name": "two"}, {"name": "one"}]})).await;
    let mounts = api.run(&id, "awk '/\\/dev\\/vd[bc]/{print $1, $2}' /proc/mounts | sort").await;
    let (first, second) = mounts.trim().split_once('\n').unwrap();
    assert!(first.contains("two") && second.contains("one"), "{mounts}");
    assert_eq!(api.ask(Method::DELETE, "/volumes/one", None).await.0, 409);
}

#[tokio::test]
async fn warm_pool_has_no_route() {
    let api = Api::start_with(&["--warm", "mini=1"]).await;
    assert_eq!(api.get("/warm-pool").await.0, 404);
    api.create(json!({})).await;
    assert_eq!(api.get("/sandboxes").await.1.as_array().unwrap().len(), 1, "kept machines are nobody's sandboxes");
}

async fn key_prefix_is_kept_and_its_env_name_is_the_published_one(api: &Api) {
    assert!(api.server.key.starts_with("pds_"));
    let run = |name: &str| {
        let mut command = std::process::Command::new(pandastack_testbed::built("pandastack"));
        let home = tempfile::tempdir().unwrap();
        command.args(["sandbox", "list", "--json"]).env_clear().env("HOME", home.path());
        command.env("PANDASTACK_API", &api.server.url).env(name, &api.server.key).output().unwrap().status.success()
    };
    assert!(run("PANDASTACK_API_KEY") && !run("PANDASTACK_TOKEN"));
}

async fn a_403_is_relied_on_nowhere_another_tenants_things_are_404(api: &Api) {
    for path in [
        "/sandboxes/5f0c7d0e-0000-4000-8000-000000000000",
        "/snapshots/no-such",
        "/volumes/nobodys",
        "/templates/nobodys",
    ] {
        assert_eq!(api.get(path).await.0, 404, "{path}");
    }
}
