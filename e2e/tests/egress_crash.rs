//! Egress lists and bandwidth limits across the death of the server: the built server is killed
//! with SIGKILL and started again while the guest keeps running.

use std::{
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, EgressList, ExecRequest},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, outside::OutsideNetwork, wait_for};

const PORT: u16 = 7413;
/// Another port, so that reports after the crash differ from those before it.
const LATER: u16 = 7414;
const POUR: u16 = 7415;
const ARGUMENTS: [&str; 6] = ["--standby", "0", "--blanks", "0", "--on-stop", "remove"];
const MBPS: i64 = 2;
/// What a guest takes of a stream, and how long that takes at least with the limit. A part of the
/// bytes passes at once.
const TAKEN_BYTES: u64 = 1_500_000;
const LIMITED_SECONDS_MIN: f64 = 3.0;

#[tokio::test(flavor = "multi_thread")]
async fn a_list_and_a_limit_outlive_the_server() {
    let mut outside = OutsideNetwork::new(&[]).unwrap();
    for port in [PORT, LATER] {
        outside.greet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).unwrap();
    }
    pour(&outside);
    let address = outside.far_address().to_string();
    let data = DataFolder::with_own_volume().unwrap();
    let _tidy = CleanUp(data.path());
    let mut server = start(data.path());
    let before = client(&server);
    let list = || Some(vec![address.clone()]);
    let limited = CreateSandbox { egress_allowlist: list(), egress_mbps: Some(MBPS), ..plain() };
    let limited = before.create(&limited).await.unwrap().id;
    let free = before.create(&plain()).await.unwrap().id;
    assert_eq!(call(&before, &limited, &address, PORT).await, "open");
    before.set_egress(&limited, &EgressList { egress_allowlist: Some(Vec::new()) }).await.unwrap();
    assert_eq!(call(&before, &limited, &address, PORT).await, "refused");
    server.kill().unwrap();
    drop(server);

    let mut server = start(data.path());
    let after = client(&server);
    assert_eq!(after.egress(&limited).await.unwrap().egress_allowlist, Some(Vec::new()));
    assert_eq!(call(&after, &limited, &address, LATER).await, "refused");
    assert_eq!(call(&after, &limited, "later.test", LATER).await, "refused");
    assert_eq!(call(&after, &free, &address, LATER).await, "open", "whoever had no list has none");
    let told = async || {
        let events = after.events(&limited).await.unwrap();
        let denied = events.iter().filter(|event| event.kind == "egress.denied");
        let targets: Vec<&str> = denied.filter_map(|event| event.payload["target"].as_str()).collect();
        let wanted = ["later.test".to_owned(), format!("{address}:{LATER}/tcp")];
        wanted.iter().all(|target| targets.contains(&target.as_str())).then_some(())
    };
    wait_for("the new server tells of both", PATIENCE, told).await;

    after.set_egress(&limited, &EgressList { egress_allowlist: list() }).await.unwrap();
    let seconds = take(&after, &limited, &address).await;
    assert!(seconds > LIMITED_SECONDS_MIN, "{TAKEN_BYTES} bytes in {seconds} s: there is no limit any more");
    take(&after, &free, &address).await;
    for id in [&limited, &free] {
        after.delete(id).await.unwrap();
    }
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
}

/// Listens outside and sends bytes to each client until it closes. Ends with the process.
fn pour(outside: &OutsideNetwork) {
    let listener = outside.netns().listen_tcp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, POUR))).unwrap();
    listener.set_nonblocking(false).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            while stream.write_all(&[7; 64 * 1024]).is_ok() {}
        }
    });
}

/// The result of a guest's connection: `open` or `refused`.
async fn call(client: &Client, id: &str, host: &str, port: u16) -> String {
    let text = format!(
        "import socket\ntry: socket.create_connection(('{host}',{port}),60).recv(64); print('open')\n\
         except OSError: print('refused')"
    );
    script(client, id, &text).await
}

/// How many seconds a guest needs for the bytes.
async fn take(client: &Client, id: &str, host: &str) -> f64 {
    let text = format!(
        "import socket,time\ns=socket.create_connection(('{host}',{POUR}),120)\n\
         begun,n=time.monotonic(),0\nwhile n<{TAKEN_BYTES}: n+=len(s.recv(65536))\nprint(time.monotonic()-begun)"
    );
    script(client, id, &text).await.parse().unwrap()
}

async fn script(client: &Client, id: &str, text: &str) -> String {
    let ask = ExecRequest { cmd: Some(format!("python3 - <<'END'\n{text}\nEND")), ..ExecRequest::default() };
    let ran = client.exec(id, &ask).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{} {}", ran.stdout, ran.stderr);
    ran.stdout.trim().to_owned()
}

fn plain() -> CreateSandbox {
    CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() }
}

fn start(data: &Path) -> TestServer {
    TestServer::start(data, &ARGUMENTS).unwrap()
}

/// Starts a server that cleans up after one that a failed test had killed.
struct CleanUp<'a>(&'a Path);

impl Drop for CleanUp<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(mut server) = TestServer::start(self.0, &ARGUMENTS)
        {
            let _ = server.stop();
        }
    }
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}
