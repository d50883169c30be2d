//! A server with few descriptors: connections never take the descriptors that its own work needs.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use pandastack_edge::ServeSettings;
use pandastack_sys::descriptors::raise_limit;
use serde_json::json;
use tokio::net::TcpStream;

use crate::{
    raw::Raw,
    rig::{KEY, answer, with_door_as},
};

/// The soft and the hard limit of the server.
const SOFT: u64 = 64;
const HARD: u64 = 256;

/// Makes the test binary run as the server.
const SERVER: &str = "PANDASTACK_TEST_FEW_DESCRIPTORS";

#[tokio::test]
async fn idle_connections_leave_descriptors_for_the_servers_own_work() {
    if std::env::var_os(SERVER).is_some() {
        return serve().await;
    }
    let limited = format!("ulimit -Sn {SOFT} && ulimit -Hn {HARD} && exec \"$0\" \"$@\"");
    let name = "descriptors::idle_connections_leave_descriptors_for_the_servers_own_work";
    let mut server = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept to the end: the server's test harness writes there too.
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let url = said.find_map(|line| Some(line.split_once("url ")?.1.to_owned())).expect("the server says where it is");
    // More than the server may open, some of them within a head.
    let mut idle = Vec::new();
    for number in 0..HARD + 100 {
        let mut raw = Raw(TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap());
        if number % 2 == 0 {
            raw.say("GET /healthz HTTP/1.1\r\n").await;
        }
        idle.push(raw);
    }
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..3 {
        let create = http.post(format!("{url}/v1/sandboxes")).bearer_auth(KEY).json(&json!({"template": "mini"}));
        let (status, made) = answer(create).await;
        assert_eq!(status, 201, "{made}");
    }
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success(), "the server failed: {:?}", said.collect::<Vec<_>>());
}

async fn serve() {
    let descriptors = raise_limit().unwrap();
    assert_eq!(descriptors, HARD, "the soft limit is raised to the hard one");
    with_door_as(ServeSettings::within(descriptors), async |door| {
        // On a separate line, because the test harness writes too.
        println!("\nurl {}", door.url);
        let asked_to_end = door.scope.block("wait for the test", || std::io::stdin().read_to_end(&mut Vec::new()));
        asked_to_end.await.unwrap().unwrap();
    })
    .await;
}
