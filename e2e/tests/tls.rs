//! The built server over https: certificates from files that are replaced while a socket is open,
//! both SDKs, the command line and a preview; and certificates from an ACME server, which checks
//! the challenges for real.

mod pebble;
pub mod peer;

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use futures_util::{SinkExt, StreamExt};
use pandastack_e2e::{
    PATIENCE,
    own_sdk::{PythonSdk, TypeScriptSdk},
    templates,
};
use pandastack_testbed::{DataFolder, TestServer, wait_for};
use tokio_tungstenite::{client_async, tungstenite::Message};

use pebble::Pebble;
use peer::{Authority, certificate, connect, issued_by};

/// A folder with two certificates: one for the API, one for previews.
struct Pairs {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Pairs {
    fn new() -> Self {
        let pairs = Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new() };
        fs::write(pairs.path("ca.pem"), pairs.authority.pem()).unwrap();
        pairs.replace("api", "localhost");
        pairs.replace("box", "*.box.test");
        pairs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a new certificate with a new key, as an operator's tool does.
    fn replace(&self, file: &str, name: &str) {
        let (chain, key) = self.authority.issue(name);
        for (end, text) in [("crt", chain), ("key", key)] {
            let fresh = self.path("fresh");
            fs::write(&fresh, text).unwrap();
            fs::rename(fresh, self.path(&format!("{file}.{end}"))).unwrap();
        }
    }

    fn serve(&self, data: &Path) -> TestServer {
        let [api, box_, api_key, box_key] = ["api.crt", "box.crt", "api.key", "box.key"].map(|name| self.text(name));
        let flags = ["--tls-cert", &api, "--tls-key", &api_key, "--tls-cert", &box_, "--tls-key", &box_key];
        let more = ["--http-redirect", "127.0.0.1:0", "--preview-suffix", "box.test", "--hsts-max-age", "600"];
        let spare = ["--standby", "0", "--blanks", "0"];
        TestServer::start(data, &[&flags[..], &more, &spare].concat()).unwrap()
    }
}

/// Runs curl, and returns the head and the body of the answer.
fn curl(words: &[&str]) -> String {
    let mut command = Command::new("curl");
    let output = command.args(["-sS", "-i", "--noproxy", "*"]).args(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program that must succeed, and returns what it prints.
fn printed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{command:?}: {} {}", text(output.stdout), text(output.stderr));
    text(output.stdout)
}

fn port_of(server: &TestServer) -> u16 {
    server.url.rsplit(':').next().unwrap().parse().unwrap()
}

/// Where the server redirects plain http.
fn redirect_of(server: &TestServer) -> String {
    let said = server.said();
    let (_, rest) = said.split_once("plain http on ").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

#[tokio::test]
async fn a_socket_lives_on_while_the_certificate_is_replaced() {
    let (pairs, data) = (Pairs::new(), DataFolder::with_templates().unwrap());
    let server = pairs.serve(data.path());
    let (port, ca) = (port_of(&server), pairs.text("ca.pem"));
    assert_eq!(server.url, format!("https://localhost:{port}"), "the certificate's name");
    let trusting = [("PANDASTACK_CA_FILE", ca.as_str())];
    let cli = |words: &[&str]| {
        let output = templates::command(&server, words, &trusting);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let made: serde_json::Value =
        serde_json::from_str(&cli(&["sandbox", "create", "--template", "mini", "--json"])).unwrap();
    let id = made["id"].as_str().unwrap();
    assert_eq!(cli(&["exec", id, "--", "echo", "over tls"]), "over tls\n");

    // A terminal by WebSocket.
    let stream = connect(port, "localhost", &pairs.authority.roots()).await.unwrap();
    let request = tokio_tungstenite::tungstenite::http::Request::builder()
        .uri(format!("ws://localhost:{port}/v1/sandboxes/{id}/ssh"))
        .header("host", format!("localhost:{port}"))
        .header("authorization", format!("Bearer {}", server.key))
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let (mut socket, _) = client_async(request.body(()).unwrap(), stream).await.unwrap();
    let mut answer_to = async |line: &str, expected: &str| {
        socket.send(Message::binary(format!("{line}\n").into_bytes())).await.unwrap();
        let mut said = String::new();
        let reading = async {
            while !said.contains(expected) {
                let message = socket.next().await.expect("the socket lives").unwrap();
                said.push_str(&String::from_utf8_lossy(&message.into_data()));
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("{line}: {said}"));
    };
    answer_to("echo before $((40+2))", "before 42").await;
    let old = certificate(port, "localhost", &pairs.authority.roots()).await.unwrap();
    fs::write(pairs.path("api.crt"), "half a certificate").unwrap();
    let complaint = "the old one is still served";
    wait_for("the error", PATIENCE, async || server.said().contains(complaint).then_some(())).await;
    assert_eq!(certificate(port, "localhost", &pairs.authority.roots()).await.unwrap(), old);
    pairs.replace("api", "localhost");
    let changed = async || {
        let now = certificate(port, "localhost", &pairs.authority.roots()).await.unwrap();
        (now != old).then_some(())
    };
    wait_for("the new certificate", PATIENCE, changed).await;
    answer_to("echo after $((40+3))", "after 43").await;
    previews_use_the_wildcard(&server, id, &ca, &cli).await;
    cli(&["sandbox", "delete", id]);
}

async fn previews_use_the_wildcard(server: &TestServer, id: &str, ca: &str, cli: &impl Fn(&[&str]) -> String) {
    let port = port_of(server);
    cli(&["exec", id, "--", "sh", "-c", "setsid python3 -m http.server 8000 >/dev/null 2>&1 </dev/null &"]);
    let host = format!("8000-{id}.box.test");
    let (to, url) = (format!("{host}:{port}:127.0.0.1"), format!("https://{host}:{port}/etc/hostname"));
    let served = async || {
        let answer = curl(&["--cacert", ca, "--resolve", &to, &url]);
        (!answer.starts_with("HTTP/1.1 502 ")).then_some(answer)
    };
    let answer = wait_for("the program in the guest", PATIENCE, served).await;
    assert!(answer.contains("SimpleHTTP/"), "{answer}");
    assert!(!answer.to_ascii_lowercase().contains("strict-transport-security"), "the host is the tenant's: {answer}");
    let link = cli(&["sandbox", "preview", id, "8000"]);
    let link = link.trim();
    assert!(link.starts_with("https://link-") && link.contains(&format!(".box.test:{port}/")), "{link}");
    let name = link.strip_prefix("https://").unwrap().split(':').next().unwrap();
    let to = format!("{name}:{port}:127.0.0.1");
    let visited = curl(&["--cacert", ca, "--resolve", &to, "-H", "accept: text/html", link]);
    assert!(visited.contains("__Host-pandastack_preview=") && visited.contains("; Secure;"), "{visited}");
}

#[tokio::test]
async fn everybody_trusts_the_operators_authority_and_plain_http_leads_to_https() {
    let (pairs, data) = (Pairs::new(), tempfile::tempdir().unwrap());
    let server = pairs.serve(data.path());
    let (port, ca, url) = (port_of(&server), pairs.text("ca.pem"), server.url.as_str());
    let answer = curl(&["--cacert", &ca, &format!("{url}/healthz")]);
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("strict-transport-security: max-age=600"),
        "{answer}"
    );
    let plain = curl(&[&format!("http://localhost:{port}/healthz")]);
    assert!(plain.starts_with("HTTP/1.1 400 ") && plain.contains("tls.required"), "{plain}");

    let http = redirect_of(&server);
    let redirected = curl(&["-H", "host: localhost", "-d", "x", &format!("http://{http}/v1/a?b=c")]);
    assert!(redirected.starts_with("HTTP/1.1 308 "), "{redirected}");
    assert!(redirected.contains(&format!("location: {url}/v1/a?b=c\r\n")), "{redirected}");
    let foreign = curl(&["-H", "host: evil.example", &format!("http://{http}/")]);
    assert!(foreign.starts_with("HTTP/1.1 421 ") && !foreign.contains("location"), "{foreign}");

    let refused = templates::command(&server, &["key", "list"], &[]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("PANDASTACK_CA_FILE"), "{text}");
    let listed = templates::command(&server, &["key", "list"], &[("PANDASTACK_CA_FILE", ca.as_str())]);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));

    let settings = [("PANDASTACK_API", url), ("PANDASTACK_API_KEY", server.key.as_str()), ("NO_PROXY", "*")];
    let python = "from pandastack import PandaStack; print(len(PandaStack().sandboxes.list()))";
    let sdk = PythonSdk::installed();
    let mut command = Command::new(sdk.interpreter());
    assert_eq!(printed(command.args(["-c", python]).envs(settings).env("SSL_CERT_FILE", &ca)), "0\n");
    let script = "const { PandaStack } = require('./dist/cjs/index.js');\
                  new PandaStack().sandboxes.list().then((all) => console.log(all.length));";
    let sdk = TypeScriptSdk::installed();
    let mut command = Command::new("node");
    let command = command.args(["-e", script]).current_dir(sdk.folder()).envs(settings);
    assert_eq!(printed(command.env("NODE_EXTRA_CA_CERTS", &ca)), "0\n");
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Checks that only their owner may read the files below a folder.
fn private(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!entries.is_empty());
    for path in entries {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
        if path.is_dir() {
            private(&path);
        }
    }
}

/// Waits for a renewal.
mod deep {
    use super::*;

    #[tokio::test]
    async fn certificates_come_from_an_acme_server_are_renewed_and_kept() {
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let plain = free_port();
        let mut acme = Pebble::start(folder.path(), plain).await;
        let (directory, ca, hook) = (acme.directory(), acme.ca(), acme.hook());
        let plain = format!("127.0.0.1:{plain}");
        let flags =
            ["--acme-domain", "api.pebble.test", "--acme-domain", "*.box.pebble.test", "--http-redirect", &plain];
        let server = ["--acme-directory", &directory, "--acme-ca", &ca, "--acme-dns-hook", &hook];
        let more = ["--preview-suffix", "box.pebble.test", "--standby", "0", "--blanks", "0"];
        let flags = [&flags[..], &server, &more].concat();
        let mut first = TestServer::start(data.path(), &flags).unwrap();
        let (port, roots) = (port_of(&first), acme.roots().await);
        assert_eq!(first.url, format!("https://api.pebble.test:{port}"));
        let names = ["api.pebble.test", "3000-x.box.pebble.test"];
        let mut served = Vec::new();
        for name in names {
            let ready = async || certificate(port, name, &roots).await.ok();
            served.push(wait_for(&format!("a certificate for {name}; {}", first.said()), PATIENCE, ready).await);
        }
        assert_ne!(served[0], served[1], "each domain has its own");
        for (name, old) in names.iter().zip(&mut served) {
            let before = old.clone();
            let renewed = async || certificate(port, name, &roots).await.ok().filter(|now| *now != before);
            *old = wait_for("the renewed certificate", PATIENCE, renewed).await;
        }
        let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
        let counted = |action: &str| calls.lines().filter(|line| line.starts_with(action)).count();
        assert!(counted("present box.pebble.test _acme-challenge.box.pebble.test ") >= 2, "{calls}");
        assert_eq!(counted("present"), counted("cleanup"), "{calls}");
        let challenge = curl(&[&format!("http://{plain}/.well-known/acme-challenge/x")]);
        assert!(challenge.starts_with("HTTP/1.1 404 "), "{challenge}");

        // The next start needs no ACME server.
        acme.stop();
        assert_eq!(first.stop().unwrap(), Some(0));
        let second = TestServer::start(data.path(), &flags).unwrap();
        let kept = issued_by(port_of(&second), names[0]).await.unwrap();
        assert!(kept.contains("Pebble"), "{kept}");
        let failed = async || second.said().contains("no new certificate for").then_some(());
        wait_for("the failed renewal", PATIENCE, failed).await;
        assert!(issued_by(port_of(&second), names[0]).await.is_ok(), "the old one is still served");
        private(&data.path().join("acme"));
    }
}
