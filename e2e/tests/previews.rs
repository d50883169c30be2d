//! The built server with real machines: programs in guests, reached with a key, by a preview's name
//! and by a signed link.

use std::process::{Command, Stdio};

use futures_util::future::join_all;
use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, DeclarePort, ExecRequest, PreviewRequest, Sandbox},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, built, wait_for};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A WebSocket echo server for one connection at a time. Standard library only.
const ECHO: &str = r#"
import base64, hashlib, socketserver

class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        headers = {}
        self.rfile.readline()
        while line := self.rfile.readline().strip():
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        magic = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode()
        self.wfile.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Accept: " + accept + "\r\n\r\n").encode())
        while True:
            first = self.rfile.read(2)
            if len(first) < 2 or first[0] & 15 == 8:
                return
            mask, data = self.rfile.read(4), self.rfile.read(first[1] & 127)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
            self.wfile.write(bytes([0x81, len(data)]) + data)

socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("0.0.0.0", 9000), Echo).serve_forever()
"#;

#[tokio::test]
async fn a_program_is_reached_in_all_three_ways() {
    let bed = Bed::start().await;
    let sandbox = bed.with_files().await;
    let id = &sandbox.id;
    let key = |request: reqwest::RequestBuilder| request.bearer_auth(&bed.server.key);

    let proxied = key(bed.http.get(format!("{}/v1/sandboxes/{id}/proxy/8000/docs/a.txt", bed.server.url)));
    assert_eq!(text(proxied).await, (200, "hello from a\n".to_owned()));
    assert_eq!(text(bed.named(id, 8000, "/docs/a.txt?x=1")).await, (200, "hello from a\n".to_owned()));
    let other = bed.http.get(format!("{}/docs/a.txt", bed.server.url));
    assert_eq!(text(other).await.0, 404, "without the name it is the API's");

    let ask = PreviewRequest { port: Some(8000), paths: Some(vec!["docs".into()]), ttl_seconds: Some(600) };
    let signed = bed.client.preview(id, &ask).await.unwrap();
    assert!(!signed.url.starts_with(&bed.server.url) && signed.paths == ["/docs"], "{signed:?}");
    assert_eq!(text(bed.linked(&signed.url, "docs/a.txt")).await, (200, "hello from a\n".to_owned()));
    let (status, refused) = text(bed.linked(&signed.url, "secret.txt")).await;
    assert!(status == 403 && refused.contains("\"allowed_paths\":[\"/docs\"]"), "{refused}");
    let (status, _) = text(bed.http.get(format!("{}/v1/p/{}x/docs/a.txt", bed.server.url, signed.token))).await;
    assert_eq!(status, 401);
    bed.visited(&signed.url).await;

    let (status, closed) = text(bed.named(id, 4321, "/")).await;
    assert!(status == 502 && closed.contains("connection refused"), "{closed}");
    bed.run(id, "setsid python3 -m http.server 8001 --bind 127.0.0.1 > /dev/null 2>&1 < /dev/null &").await;
    let inward = async || {
        let (status, closed) = text(bed.named(id, 8001, "/")).await;
        (status == 502 && closed.contains("127.0.0.1 only")).then_some(())
    };
    wait_for("a refusal that says why", PATIENCE, inward).await;
    let (status, page) = text(bed.named(id, 4321, "/").header("accept", "text/html")).await;
    assert!(status == 502 && page.contains("<h1>502 Bad Gateway</h1>"), "{page}");
    assert_eq!(text(bed.named(id, 1050, "/")).await.0, 404, "the agent's port is nobody's");

    bed.client.pause(id).await.unwrap();
    assert_eq!(text(bed.named(id, 8000, "/")).await.0, 503);
    bed.client.resume(id).await.unwrap();
    assert_eq!(text(bed.named(id, 8000, "/docs/a.txt")).await.0, 200);
    bed.client.delete(id).await.unwrap();
    assert_eq!(text(bed.named(id, 8000, "/docs/a.txt")).await.0, 404);
    assert_eq!(text(bed.linked(&signed.url, "docs/a.txt")).await.0, 404, "a link dies with its sandbox");
    bed.end().await;
}

#[tokio::test]
async fn ports_are_found_declared_and_shown_on_the_command_line() {
    let bed = Bed::start().await;
    let sandbox = bed.with_files().await;
    let id = &sandbox.id;
    bed.client.declare_port(id, &DeclarePort { port: Some(9999), label: Some("later".into()) }).await.unwrap();
    let ports = bed.client.ports(id).await.unwrap();
    let told: Vec<_> = ports.iter().map(|port| (port.port, port.listening, port.source.as_str())).collect();
    assert_eq!(told, [(8000, true, "detected"), (9999, false, "user")], "{ports:?}");
    let fetched = bed.http.get(format!("{}docs/a.txt", ports[0].proxy_url)).bearer_auth(&bed.server.key);
    assert_eq!(text(fetched).await.0, 200);

    let listed = bed.cli(&["sandbox", "ports", id]);
    assert!(listed.contains("8000") && listed.contains("python3") && listed.contains("later"), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&bed.cli(&["sandbox", "ports", id, "--forget", "9999", "--json"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 1, "{json}");
    let url = bed.cli(&["sandbox", "preview", id, "8000", "--paths", "/docs,/other", "--ttl", "60"]);
    assert_eq!(text(bed.linked(url.trim(), "docs/a.txt")).await.0, 200);
    assert_eq!(text(bed.linked(url.trim(), "secret.txt")).await.0, 403);
    bed.end().await;
}

#[tokio::test]
async fn a_websocket_passes_through_a_preview() {
    let bed = Bed::start().await;
    let sandbox = bed.create().await;
    let id = &sandbox.id;
    bed.client.write(id, "/srv/echo.py", ECHO).await.unwrap();
    bed.run(id, "setsid python3 /srv/echo.py > /tmp/echo.log 2>&1 < /dev/null &").await;
    bed.listens(id, 9000).await;
    let mut socket = TcpStream::connect(bed.server.url.strip_prefix("http://").unwrap()).await.unwrap();
    let ask = format!(
        "GET /chat HTTP/1.1\r\nHost: 9000-{id}.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(ask.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::time::timeout(PATIENCE, socket.read_u8()).await.unwrap().unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    for word in ["first", "second", "x"] {
        let mut frame = vec![0x81, 0x80 | word.len() as u8, 1, 2, 3, 4];
        frame.extend(word.bytes().enumerate().map(|(at, byte)| byte ^ [1, 2, 3, 4][at % 4]));
        socket.write_all(&frame).await.unwrap();
        let mut back = vec![0; 2 + word.len()];
        tokio::time::timeout(PATIENCE, socket.read_exact(&mut back)).await.unwrap().unwrap();
        assert_eq!((back[0], back[1], &back[2..]), (0x81, word.len() as u8, word.as_bytes()));
    }
    // When it sleeps, its machine is gone, and the tunnel with it.
    bed.client.hibernate(id).await.unwrap();
    let end = tokio::time::timeout(PATIENCE, socket.read(&mut [0; 16])).await.expect("the tunnel ends");
    assert!(!end.is_ok_and(|count| count > 0));
    bed.end().await;
}

#[tokio::test]
async fn a_preview_wakes_a_sleeper_once_for_everybody() {
    let bed = Bed::start().await;
    let sandbox = bed.with_files().await;
    let id = &sandbox.id;
    bed.client.hibernate(id).await.unwrap();
    let asks = (0..8).map(|_| text(bed.named(id, 8000, "/docs/a.txt")));
    for (status, said) in join_all(asks).await {
        assert_eq!((status, said.as_str()), (200, "hello from a\n"), "the same process answers, its memory intact");
    }
    let wakes = async || {
        let events = bed.client.events(id).await.unwrap();
        Some(events.iter().filter(|event| event.kind == "sandbox.woken").count()).filter(|count| *count > 0)
    };
    assert_eq!(wait_for("the wake's record", PATIENCE, wakes).await, 1);
    bed.end().await;
}

#[tokio::test]
async fn sixty_four_requests_at_once_are_all_answered() {
    let bed = Bed::start().await;
    let sandbox = bed.with_files().await;
    let id = &sandbox.id;
    let asks = (0..64).map(|number| text(bed.named(id, 8000, &format!("/docs/a.txt?{number}"))));
    let answers = join_all(asks).await;
    let wrong: Vec<_> =
        answers.iter().filter(|(status, said)| (*status, said.as_str()) != (200, "hello from a\n")).collect();
    assert!(wrong.is_empty(), "{} of 64: {:?}", wrong.len(), wrong.first());
    bed.end().await;
}

#[tokio::test]
async fn a_large_download_passes_without_being_held() {
    const MIB: u64 = 96;
    let bed = Bed::start().await;
    let sandbox = bed.with_files().await;
    let id = &sandbox.id;
    bed.run(id, &format!("truncate -s {MIB}M /srv/site/large")).await;
    // One reader that takes everything, and one that takes nothing meanwhile.
    let stuck = bed.named(id, 8000, "/large").send().await.unwrap();
    let before = resident_kib(bed.server.pid());
    let (mut response, mut read, mut most) = (bed.named(id, 8000, "/large").send().await.unwrap(), 0, 0);
    assert_eq!(response.headers()["content-length"], (MIB << 20).to_string());
    while let Some(piece) = response.chunk().await.unwrap() {
        read += piece.len() as u64;
        most = most.max(resident_kib(bed.server.pid()));
    }
    assert_eq!(read, MIB << 20);
    let grown = most.saturating_sub(before);
    assert!(grown < 24 * 1024, "the server grew by {grown} KiB while {MIB} MiB passed");
    drop(stuck);
    bed.end().await;
}

/// Resident memory of a process.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn text(request: reqwest::RequestBuilder) -> (u16, String) {
    let response = request.timeout(PATIENCE).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

struct Bed {
    server: TestServer,
    client: Client,
    http: reqwest::Client,
    /// Removed after the server has stopped: fields drop in this order.
    _data: DataFolder,
}

impl Bed {
    async fn start() -> Self {
        let data = DataFolder::with_templates().unwrap();
        let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
        let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
        let client = Client::new(config.with_key(server.key.clone())).unwrap();
        let http = reqwest::Client::builder().no_proxy().connect_timeout(PATIENCE).build().unwrap();
        Self { server, client, http, _data: data }
    }

    async fn create(&self) -> Sandbox {
        let ask = CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() };
        self.client.create(&ask).await.unwrap()
    }

    /// A sandbox whose port 8000 serves `/docs/a.txt` and `/secret.txt`. By default Python's server
    /// queues five connections and drops more.
    async fn with_files(&self) -> Sandbox {
        let sandbox = self.create().await;
        let serve = "mkdir -p /srv/site/docs && cd /srv/site && echo hello from a > docs/a.txt && echo no > \
            secret.txt && \
                     { setsid python3 -c 'import http.server as http; \
                       http.ThreadingHTTPServer.request_queue_size = 128; \
                       http.ThreadingHTTPServer((\"\", 8000), http.SimpleHTTPRequestHandler).serve_forever()' \
                       > /tmp/http.log 2>&1 < /dev/null & }";
        self.run(&sandbox.id, serve).await;
        self.listens(&sandbox.id, 8000).await;
        sandbox
    }

    async fn run(&self, id: &str, command: &str) -> String {
        let ask = ExecRequest { cmd: Some(command.to_owned()), ..ExecRequest::default() };
        let ran = self.client.exec(id, &ask).await.unwrap();
        assert_eq!(ran.exit_code, 0, "{command}: {}", ran.stderr);
        ran.stdout
    }

    async fn listens(&self, id: &str, port: u16) {
        let there = async || {
            let ports = self.client.ports(id).await.unwrap();
            ports.iter().any(|known| known.port == port && known.listening).then_some(())
        };
        wait_for("a program that listens", PATIENCE, there).await;
    }

    /// A request for a public preview, identified by its host name only.
    fn named(&self, id: &str, port: u16, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.server.url);
        self.http.get(url).header("host", format!("{port}-{id}.localhost"))
    }

    /// A request below a signed link. Its name need not resolve: the test connects to the server
    /// directly.
    fn linked(&self, url: &str, path: &str) -> reqwest::RequestBuilder {
        let (host, rest) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        self.http.get(format!("{}/{rest}{path}", self.server.url)).header("host", host)
    }

    /// Opens a link by its name, as a browser does: `curl` also resolves every name below
    /// `localhost` to this machine. The old address of a link, on the API's own name, leads to the
    /// same place.
    async fn visited(&self, url: &str) {
        let (folder, path) = (tempfile::tempdir().unwrap(), url.split_once("/v1/p/").unwrap().1);
        for address in [format!("{url}docs/a.txt"), format!("{}/v1/p/{path}docs/a.txt", self.server.url)] {
            let jar = folder.path().join("jar");
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--fail", "--location", "--noproxy", "*", "--cookie-jar"]);
            curl.arg(&jar).args(["--max-time", &PATIENCE.as_secs().to_string()]).args([
                "--cookie",
                "",
                "--header",
                "accept: text/html",
                "--write-out",
                "%{url_effective}",
            ]);
            let output = curl.arg(&address).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let end = format!("hello from a\n{}/docs/a.txt", url.split_once("/v1/p/").unwrap().0);
            assert!(output.status.success() && said == end, "{address}: {said}");
            let cookies = std::fs::read_to_string(&jar).unwrap();
            assert!(cookies.contains("#HttpOnly_link-") && cookies.contains("pandastack_preview"), "{cookies}");
        }
    }

    fn cli(&self, arguments: &[&str]) -> String {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(built("pandastack"));
        command.args(arguments).env("PANDASTACK_API_URL", &self.server.url).env("PANDASTACK_API_KEY", &self.server.key);
        let output = command.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Deletes everything. Nothing may be left, and nothing odd may have been logged.
    async fn end(self) {
        for sandbox in self.client.list().await.unwrap() {
            self.client.delete(&sandbox.id).await.unwrap();
        }
        let audit = self.client.audit().await.unwrap();
        let said = self.server.said();
        assert_eq!((audit.leaks, audit.machines), (Vec::new(), 0), "{said}");
        assert_eq!(self.server.complaints(), [""; 0], "{said}");
    }
}
