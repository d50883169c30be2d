//! A real machine behind the built server, killed while data flows in every possible way. Each
//! reader must see that its data is incomplete, and each writer that its data was not accepted.

use futures_util::{StreamExt, future::join_all, stream};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, PreviewRequest},
};
use pandastack_e2e::{Events, PATIENCE, answer};
use pandastack_testbed::{DataFolder, TestServer, wait_for};
use reqwest::{Body, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

/// Starts an endless answer of every shape, and records received requests in a file. Standard
/// library only.
const ENDLESS: &str = r#"
import os, socketserver, time

HEADS = {
    "counted": "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nfirst",
    "chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
    "open": "HTTP/1.0 200 OK\r\n\r\nfirst",
    "socket": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x05first",
    "silent": "",
}

class Endless(socketserver.StreamRequestHandler):
    def handle(self):
        shape = self.rfile.readline().decode().split()[1].split("/")[1].split("?")[0]
        while self.rfile.readline().strip():
            pass
        self.wfile.write(HEADS[shape].encode("latin-1"))
        with open("/tmp/heard", "a") as heard:
            heard.write(shape + "\n")
        time.sleep(6000)

socketserver.ThreadingTCPServer.request_queue_size = 64
socketserver.ThreadingTCPServer(("0.0.0.0", 8000), Endless).serve_forever()
"#;

struct Ground {
    server: TestServer,
    client: Client,
    http: reqwest::Client,
    id: String,
    /// Removed after the server has stopped: fields drop in this order.
    _data: DataFolder,
}

impl Ground {
    async fn start() -> Self {
        let data = DataFolder::with_templates().unwrap();
        let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
        let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
        let client = Client::new(config.with_key(server.key.clone())).unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let ask = CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() };
        let id = client.create(&ask).await.unwrap().id;
        Self { server, client, http, id, _data: data }
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/v1/sandboxes/{}{path}", self.server.url, self.id);
        self.http.request(method, url).bearer_auth(&self.server.key)
    }

    async fn exec(&self, command: &str) -> String {
        let (status, ran) = answer(self.call(Method::POST, "/exec").json(&json!({ "cmd": command }))).await;
        assert_eq!((status, &ran["exit_code"]), (200, &json!(0)), "{command}: {ran}");
        ran["stdout"].as_str().unwrap().to_owned()
    }

    /// The three ways to a port: with the key, by a signed link, by a name. Each as an address and
    /// a host name.
    async fn ways(&self) -> Vec<(String, String)> {
        let ask = PreviewRequest { port: Some(8000), paths: None, ttl_seconds: Some(600) };
        let signed = self.client.preview(&self.id, &ask).await.unwrap().url;
        let (link, path) = signed.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let own = self.server.url.strip_prefix("http://").unwrap().to_owned();
        let proxied = format!("{}/v1/sandboxes/{}/proxy/8000/", self.server.url, self.id);
        let named = (format!("{}/", self.server.url), format!("8000-{}.localhost", self.id));
        vec![(proxied, own), (format!("{}/{path}", self.server.url), link.to_owned()), named]
    }

    async fn socket(&self, url: &str, host: &str) -> WebSocketStream<TcpStream> {
        let mut request = url.replacen("http://", "ws://", 1).into_client_request().unwrap();
        let mut set = |name: &'static str, value: &str| request.headers_mut().insert(name, value.parse().unwrap());
        set("authorization", &format!("Bearer {}", self.server.key));
        set("host", host);
        // The program in the guest knows the answer to this key.
        set("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let stream = TcpStream::connect(self.server.url.strip_prefix("http://").unwrap()).await.unwrap();
        tokio::time::timeout(PATIENCE, client_async(request, stream)).await.expect("a handshake in time").unwrap().0
    }

    async fn terminal(&self, path: &str) -> WebSocketStream<TcpStream> {
        let url = format!("{}/v1/sandboxes/{}{path}", self.server.url, self.id);
        self.socket(&url, self.server.url.strip_prefix("http://").unwrap()).await
    }

    async fn kill_machine(&self) {
        let pid = self.client.metrics(&self.id).await.unwrap().pid;
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    }

    /// Checks that the sandbox has failed permanently and reports it, and that the server still
    /// works.
    async fn ends(self, mut followers: Vec<Events>) {
        wait_for("the sandbox's failure", PATIENCE, async || {
            (self.client.get(&self.id).await.unwrap().status == "failed").then_some(())
        })
        .await;
        let (status, said) = answer(self.call(Method::POST, "/exec").json(&json!({"cmd": "true"}))).await;
        assert!(status == 409 && said["error"].as_str().unwrap().contains("failed"), "{status} {said}");
        self.client.delete(&self.id).await.unwrap();
        for follower in &mut followers {
            while follower.next().await.is_some() {}
        }
        let audit = self.client.audit().await.unwrap();
        let said = self.server.said();
        assert_eq!((audit.leaks, audit.machines), (Vec::new(), 0), "{said}");
        assert!(!said.contains(" ERROR "), "{said}");
    }
}

/// Reads a started answer to its end, which must be an error.
async fn broken(what: String, mut response: Response) {
    loop {
        match tokio::time::timeout(PATIENCE, response.chunk()).await {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => panic!("{what}: a part was taken for the whole"),
            Ok(Err(_)) => return,
            Err(_) => panic!("{what}: it never ended"),
        }
    }
}

/// Sends a request and reads the first part of its answer.
async fn begun(request: RequestBuilder) -> Response {
    let mut response = tokio::time::timeout(PATIENCE, request.send()).await.expect("a head in time").unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert!(tokio::time::timeout(PATIENCE, response.chunk()).await.expect("a piece in time").unwrap().is_some());
    response
}

/// Reads a socket until it reports an error. Commands share a socket, which stays open; a
/// terminal's socket closes.
async fn failed(path: &str, mut socket: WebSocketStream<TcpStream>) {
    let (mut last, mut open) = (Value::Null, true);
    while open && (path != "/exec/ws" || last["error"].is_null()) {
        match tokio::time::timeout(PATIENCE, socket.next()).await.expect("the end of a socket") {
            Some(Ok(Message::Text(text))) => last = serde_json::from_str(&text).unwrap(),
            Some(Ok(Message::Close(_))) => open = false,
            Some(Ok(_)) => {}
            end => panic!("{path}: {end:?} instead of a farewell"),
        }
    }
    assert!(last["error"].as_str().is_some_and(|error| !error.is_empty()), "{path}: {last}");
}

/// A body that starts and then stalls.
fn stalled(first: Vec<u8>) -> Body {
    Body::wrap_stream(stream::iter([Ok::<_, std::io::Error>(first)]).chain(stream::pending()))
}

/// The header of a file in a tar archive, which announces a million bytes.
fn member() -> Vec<u8> {
    let mut head = vec![0; 512];
    let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
    put(0, b"large");
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, b"00003641100\0");
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head.extend_from_slice(&[b'x'; 1000]);
    head
}

#[tokio::test]
async fn no_way_to_a_port_takes_a_dead_machines_answer_for_a_whole_one() {
    let ground = Ground::start().await;
    ground.client.write(&ground.id, "/srv/endless.py", ENDLESS).await.unwrap();
    ground.exec("setsid python3 /srv/endless.py > /tmp/log 2>&1 < /dev/null &").await;
    let listens = async || {
        let ports = ground.client.ports(&ground.id).await.unwrap();
        ports.iter().any(|known| known.port == 8000 && known.listening).then_some(())
    };
    wait_for("a program that listens", PATIENCE, listens).await;

    let (mut answers, mut sockets, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    let ways = ground.ways().await;
    for (url, host) in &ways {
        let ask = |method: Method, shape: &str| {
            let request = ground.http.request(method, format!("{url}{shape}"));
            request.header("host", host).bearer_auth(&ground.server.key)
        };
        for shape in ["counted", "chunked", "open"] {
            let mut response = ask(Method::GET, shape).send().await.unwrap();
            assert_eq!(response.status().as_u16(), 200, "{url}{shape}");
            assert_eq!(response.chunk().await.unwrap().unwrap(), "first", "{url}{shape}");
            answers.push((format!("{url}{shape}"), response));
        }
        let mut socket = ground.socket(&format!("{url}socket"), host).await;
        let first = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a message in time");
        assert_eq!(first.unwrap().unwrap(), Message::text("first"), "{url}");
        sockets.push((url.clone(), socket));
        silent.push(answer(ask(Method::GET, "silent")));
        silent.push(answer(ask(Method::PUT, "silent").body(stalled(vec![b'x'; 1000]))));
    }
    let killing = async {
        wait_for("everything to have arrived", PATIENCE, async || {
            (ground.exec("cat /tmp/heard").await.matches("silent").count() == 2 * ways.len()).then_some(())
        })
        .await;
        ground.kill_machine().await;
    };
    let (silent, ()) = tokio::join!(join_all(silent), killing);
    for (status, said) in silent {
        assert_eq!((status, said["code"].as_str()), (502, Some("port.bad_answer")), "{said}");
    }
    for (what, response) in answers {
        broken(what, response).await;
    }
    for (what, mut socket) in sockets {
        let end = tokio::time::timeout(PATIENCE, socket.next()).await.expect("the end of a tunnel");
        assert!(!matches!(end, Some(Ok(_))), "{what}: {end:?} came from a dead machine");
    }
    ground.ends(Vec::new()).await;
}

#[tokio::test]
async fn files_terminals_cells_and_input_hear_of_their_machines_death() {
    let ground = Ground::start().await;
    ground.exec("mkdir -p /srv/tree && truncate -s 400M /srv/tree/large").await;
    let logs = Events::open(ground.call(Method::GET, "/logs?follow=1")).await;
    let events = Events::open(ground.call(Method::GET, "/events?follow=1")).await;
    let reader = json!({"cmd": "head -c 1 > /dev/null; touch /tmp/on-input; cat", "stdin": true});
    let process = answer(ground.call(Method::POST, "/processes").json(&reader)).await.1;
    let feed = format!("/processes/{}/stdin", process["id"].as_str().unwrap());
    let session = answer(ground.call(Method::POST, "/repl/sessions").json(&json!({"language": "python"}))).await.1;
    let cell = format!("/repl/sessions/{}/run", session["id"].as_str().unwrap());

    let file = begun(ground.call(Method::GET, "/fs?path=/srv/tree/large")).await;
    let tree = begun(ground.call(Method::GET, "/fs/tar?path=/srv/tree")).await;
    let mut terminals = Vec::new();
    for (path, command) in [("/exec/pty", "echo o$((1+1))n\n"), ("/ssh", "echo o$((1+1))n\n")] {
        let mut socket = ground.terminal(path).await;
        futures_util::SinkExt::send(&mut socket, Message::binary(command.as_bytes().to_vec())).await.unwrap();
        let mut shown = String::new();
        while !shown.contains("o2n") {
            let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a message in time");
            shown.push_str(&String::from_utf8_lossy(&message.unwrap().unwrap().into_data()));
        }
        terminals.push((path, socket));
    }
    let begin = |name: &str| json!({ "cmd": format!("touch /tmp/on-{name}; sleep 6000") });
    let mut commands = ground.terminal("/exec/ws").await;
    let mut start = begin("socket");
    start["id"] = json!("a");
    futures_util::SinkExt::send(&mut commands, Message::text(start.to_string())).await.unwrap();

    let code = "import time; open('/tmp/on-cell', 'w').close(); time.sleep(6000)";
    let once = "import time; open('/tmp/on-once', 'w').close(); time.sleep(6000)";
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "shell", "arguments": {"command": "touch /tmp/on-tool; sleep 6000"}}});
    let long = 3_600_000;
    let asked = vec![
        ("cell", ground.call(Method::POST, &cell).json(&json!({"code": code, "timeout_ms": long}))),
        ("once", ground.call(Method::POST, "/repl").json(&json!({"code": once, "timeout_ms": long}))),
        ("tool", ground.call(Method::POST, "/mcp").json(&call)),
        ("input", ground.call(Method::POST, &feed).body(stalled(vec![b'x'; 1000]))),
        ("file", ground.call(Method::PUT, "/fs?path=/tmp/on-file/up").body(stalled(vec![b'x'; 1000]))),
        ("tree", ground.call(Method::PUT, "/fs/tar?path=/tmp/on-tree").body(stalled(member()))),
    ];
    let killing = async {
        wait_for("everything to have begun", PATIENCE, async || {
            (ground.exec("ls -d /tmp/on-* | wc -l").await == "7\n").then_some(())
        })
        .await;
        ground.kill_machine().await;
    };
    let answers = join_all(asked.into_iter().map(|(what, request)| async move { (what, answer(request).await) }));
    let (answers, ()) = tokio::join!(answers, killing);
    for (what, (status, said)) in answers {
        let told = match what {
            // A tool's error is a successful answer of the protocol around it.
            "tool" => status == 200 && said["result"]["isError"] == json!(true),
            _ => matches!(status, 502 | 503) && !said["code"].as_str().unwrap_or_default().is_empty(),
        };
        assert!(told, "{what}: {status} {said}");
    }
    broken("a file".to_owned(), file).await;
    broken("a tree".to_owned(), tree).await;
    terminals.push(("/exec/ws", commands));
    for (path, socket) in terminals {
        failed(path, socket).await;
    }
    ground.ends(vec![logs, events]).await;
}
