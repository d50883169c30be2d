//! Webhooks with the built server and a real machine: all events of a sandbox arrive at a receiver,
//! signed, also across a kill of the server. A server without the option refuses local addresses.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, CreateWebhook},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, built, wait_for};
use serde_json::{Value, json};

#[tokio::test]
async fn the_life_of_a_sandbox_arrives_signed() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--webhook-allow-private"]).unwrap();
    let client = client(&server);
    let receiver = Receiver::start();
    let made = cli(&server, &["webhook", "create", &receiver.url, "--event", "sandbox.*", "--json"]);
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(cli(&server, &["webhook", "ping", id, "--json"])["delivered"], json!(true));
    receiver.wait(1).await;

    let ask = CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() };
    let sandbox = client.create(&ask).await.unwrap();
    receiver.wait(2).await;
    client.hibernate(&sandbox.id).await.unwrap();
    receiver.wait(3).await;
    client.delete(&sandbox.id).await.unwrap();
    let seen = receiver.wait(4).await;
    let kinds: Vec<_> = seen.iter().map(|one| one.event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["webhook.ping", "sandbox.running", "sandbox.hibernated", "sandbox.deleted"]);
    for (at, one) in seen.iter().enumerate() {
        assert!(one.is_signed_by(secret), "{one:?}");
        assert_eq!(one.event["sequence"], json!(at));
        assert_eq!(one.event["id"], json!(one.headers["webhook-id"]));
    }
    assert!(seen[1..].iter().all(|one| one.event["sandbox_id"] == json!(sandbox.id)));
    assert!(seen[1].event["payload"]["boot_ms"].is_u64());
    let three = async || (client.deliveries(id, Some("delivered")).await.unwrap().len() == 3).then_some(());
    wait_for("what came of them is known", PATIENCE, three).await;
    let list = cli(&server, &["webhook", "deliveries", id, "--status", "delivered", "--json"]);
    assert_eq!(list[0]["type"], "sandbox.deleted");
    cli(&server, &["webhook", "replay", list[0]["id"].as_str().unwrap(), "--json"]);
    assert_eq!(receiver.wait(5).await[4].event, seen[3].event);
    assert_eq!(cli(&server, &["webhook", "rotate", id, "--json"])["secret"].as_str().unwrap().len(), secret.len());
    assert_eq!(cli(&server, &["webhook", "list", "--json"])[0]["id"], json!(id));
    assert_eq!(cli(&server, &["webhook", "delete", id, "--json"]), json!({"deleted": [id]}));
}

#[tokio::test]
async fn a_stop_of_the_server_is_told_by_the_next_start() {
    let data = DataFolder::with_templates().unwrap();
    let options = ["--standby", "0", "--webhook-allow-private"];
    let mut server = TestServer::start(data.path(), &options).unwrap();
    let receiver = Receiver::start();
    let ask = CreateWebhook { url: receiver.url.clone(), events: vec!["*".into()], ..CreateWebhook::default() };
    client(&server).create_webhook(&ask).await.unwrap();
    let persistent =
        CreateSandbox { template: Some("mini".into()), persistent: Some(true), ..CreateSandbox::default() };
    let sandbox = client(&server).create(&persistent).await.unwrap();
    receiver.wait(1).await;
    server.stop().unwrap();
    // A stop puts the sandbox to sleep last, so the next server delivers that event.
    let server = TestServer::start(data.path(), &options).unwrap();
    let seen = receiver.wait(2).await;
    assert_eq!(
        (&seen[1].event["type"], &seen[1].event["sandbox_id"]),
        (&json!("sandbox.hibernated"), &json!(sandbox.id))
    );
    client(&server).delete(&sandbox.id).await.unwrap();
    // At least once: the old server may have delivered an event that only the new one recorded.
    // Events are counted by id.
    let told = async || {
        let mut kinds: Vec<(Value, Value)> = Vec::new();
        for Received { event, .. } in receiver.wait(3).await {
            if kinds.iter().all(|(id, _)| *id != event["id"]) {
                kinds.push((event["id"].clone(), event["type"].clone()));
            }
        }
        let kinds: Vec<Value> = kinds.into_iter().map(|(_, kind)| kind).collect();
        (kinds == ["sandbox.running", "sandbox.hibernated", "sandbox.deleted"]).then_some(())
    };
    wait_for("three events", PATIENCE, told).await;
}

#[tokio::test]
async fn near_addresses_are_refused_unless_allowed() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    for url in
        ["http://127.0.0.1:1/", "http://localhost/", "http://169.254.169.254/latest", "http://[::ffff:10.0.0.1]/"]
    {
        let ask = CreateWebhook { url: url.into(), events: vec!["*".into()], ..CreateWebhook::default() };
        let refused = client(&server).create_webhook(&ask).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(400), Some("webhook.address_not_allowed")), "{url}");
    }
}

#[derive(Clone, Debug)]
struct Received {
    headers: HashMap<String, String>,
    body: String,
    event: Value,
}

impl Received {
    /// Runs the example program of docs/webhooks.md unchanged.
    fn is_signed_by(&self, secret: &str) -> bool {
        let page = include_str!("../../docs/webhooks.md");
        let code = page.split_once("```python\n").unwrap().1.split_once("```").unwrap().0;
        let script = format!(
            "{code}\nimport sys\nask = json.load(sys.stdin)\nprint(verify(ask['secret'], ask['headers'], \
                ask['body'].encode(), 86400))"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ask = json!({"secret": secret, "headers": self.headers, "body": self.body});
        child.stdin.take().unwrap().write_all(ask.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap().stdout == b"True\n"
    }
}

/// A receiver that accepts everything.
pub struct Receiver {
    pub url: String,
    seen: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut headers = HashMap::new();
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap() > 2 {
                    if let Some((name, value)) = line.trim_end().split_once(": ") {
                        headers.insert(name.to_lowercase(), value.to_owned());
                    }
                    line.clear();
                }
                let mut body = vec![0; headers["content-length"].parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                kept.lock().unwrap().push(Received { headers, event: serde_json::from_str(&body).unwrap(), body });
                let _ = reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
            }
        });
        Self { url, seen }
    }

    /// What has arrived so far.
    pub fn bodies(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|one| one.body.clone()).collect()
    }

    async fn wait(&self, count: usize) -> Vec<Received> {
        let there = async || Some(self.seen.lock().unwrap().clone()).filter(|seen| seen.len() >= count);
        wait_for(&format!("{count} deliveries"), PATIENCE, there).await
    }
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

/// Runs the command line and parses the JSON that it prints.
fn cli(server: &TestServer, arguments: &[&str]) -> Value {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(built("pandastack"));
    command.args(arguments).env("PANDASTACK_API_URL", &server.url).env("PANDASTACK_API_KEY", &server.key);
    let output = command.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}
