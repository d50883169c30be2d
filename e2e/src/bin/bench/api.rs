//! Benchmarks of the public API of the built server over loopback: the published Python client from
//! its first call to the first output, commands over a socket, many small requests, and the
//! server's memory with slow readers.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures_util::{SinkExt, StreamExt, future::try_join_all};
use pandastack_e2e::published;
use pandastack_testbed::{DataFolder, TestServer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::table::{FigureTable, ms, percentile};

const CREATES: usize = 30;
const EXECS: usize = 60;
const CONNECTIONS: usize = 64;
const LOAD: Duration = Duration::from_secs(5);
const READERS: usize = 4;
/// All readers together take 1 GiB.
const BYTES_PER_READER: usize = 256 << 20;
/// Bytes that one reader takes before it pauses.
const SIP_BYTES: usize = 1 << 20;
const REST: Duration = Duration::from_millis(25);

/// Times each create with its first command. The standby pool is refilled in between, as between
/// two users.
const FIRST_OUTPUT: &str = "
import sys, time
from pandastack import Sandbox
for _ in range(int(sys.argv[1]) + 1):
    begun = time.perf_counter()
    box = Sandbox.create(template='mini')
    done = box.exec('echo hi')
    took = time.perf_counter() - begun
    assert done.stdout == 'hi\\n', done
    print(took * 1000, flush=True)
    box.kill()
    time.sleep(1)
";

pub async fn measure(table: &mut FigureTable) -> Result<()> {
    let data = DataFolder::with_templates()?;
    let server = TestServer::start(data.path(), &[])?;
    first_output(&server, table)?;
    let api = Api { address: server.url.trim_start_matches("http://").to_owned(), key: server.key.clone() };
    let sandbox = api.post("/v1/sandboxes", json!({"template": "mini", "ttl_seconds": 3600})).await?;
    let id = sandbox["id"].as_str().context("a sandbox is made")?.to_owned();
    commands(&api, &id, table).await?;
    requests(&api, &id, table).await?;
    slow_readers(&api, &server, &id, table).await
}

pub fn first_output(server: &TestServer, table: &mut FigureTable) -> Result<()> {
    let output = Command::new(published::python())
        .args(["-c", FIRST_OUTPUT, &CREATES.to_string()])
        .envs([("PANDASTACK_API", &server.url), ("PANDASTACK_API_KEY", &server.key)])
        .env("NO_PROXY", "*")
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    // The first one verifies the layer's digests, once per server.
    let mut times = said.lines().skip(1).map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    table.report("tti_ms_p50", percentile(&mut times, 50));
    table.report("tti_ms_p99", percentile(&mut times, 99));
    Ok(())
}

/// Runs `true` over an open socket, and records the time that the agent measured.
async fn commands(api: &Api, id: &str, table: &mut FigureTable) -> Result<()> {
    let mut request = format!("ws://{}/v1/sandboxes/{id}/exec/ws", api.address).into_client_request()?;
    request.headers_mut().insert("authorization", format!("Bearer {}", api.key).parse()?);
    let (mut socket, _) = client_async(request, TcpStream::connect(&api.address).await?).await?;
    let (mut times, mut over) = (Vec::new(), Vec::new());
    for number in 0..=EXECS {
        let started = Instant::now();
        socket.send(Message::text(json!({"id": "a", "cmd": "true"}).to_string())).await?;
        loop {
            let Some(Ok(message)) = socket.next().await else { anyhow::bail!("the socket was closed") };
            if message.to_text().is_ok_and(|text| text.contains("\"exit\":0")) {
                break;
            }
        }
        let socket_ms = ms(started.elapsed());
        let whole = api.post(&format!("/v1/sandboxes/{id}/exec"), json!({"cmd": "true"})).await?;
        if number > 0 {
            times.push(socket_ms);
            over.push(socket_ms - whole["duration_ms"].as_f64().context("an exec tells its time")?);
        }
    }
    table.report("ws_exec_ms_p50", percentile(&mut times, 50));
    table.report("ws_exec_over_agent_ms_p50", percentile(&mut over, 50));
    Ok(())
}

/// Requests one sandbox over many connections at once, each with one request in flight.
async fn requests(api: &Api, id: &str, table: &mut FigureTable) -> Result<()> {
    let head = format!(
        "GET /v1/sandboxes/{id} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        api.address, api.key
    );
    let started = Instant::now();
    let asking = (0..CONNECTIONS).map(|_| async {
        let mut stream = BufReader::new(TcpStream::connect(&api.address).await?);
        let mut count = 0_u32;
        while started.elapsed() < LOAD {
            stream.write_all(head.as_bytes()).await?;
            answer(&mut stream).await?;
            count += 1;
        }
        anyhow::Ok(count)
    });
    let counts = try_join_all(asking).await?;
    let rate = f64::from(counts.iter().sum::<u32>()) / started.elapsed().as_secs_f64();
    table.report("api_get_rps", rate);
    Ok(())
}

/// Reads one answer with a length and discards its body.
async fn answer(stream: &mut BufReader<TcpStream>) -> Result<()> {
    let (mut line, mut length, mut first) = (String::new(), 0, true);
    loop {
        line.clear();
        ensure!(stream.read_line(&mut line).await? > 0, "the server hung up");
        ensure!(!first || line.starts_with("HTTP/1.1 200"), "{line}");
        first = false;
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(())
}

/// Several readers download a large file slowly, while the server's memory is measured.
async fn slow_readers(api: &Api, server: &TestServer, id: &str, table: &mut FigureTable) -> Result<()> {
    let make = format!("truncate -s {BYTES_PER_READER} /root/large");
    api.post(&format!("/v1/sandboxes/{id}/exec"), json!({ "cmd": make })).await?;
    let head = format!(
        "GET /v1/sandboxes/{id}/fs?path=/root/large HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: \
            close\r\n\r\n",
        api.address, api.key
    );
    let readers = try_join_all((0..READERS).map(|_| sip(&api.address, &head)));
    let mut watch = tokio::time::interval(Duration::from_millis(100));
    tokio::pin!(readers);
    let mut peak = 0.0_f64;
    let read = loop {
        tokio::select! {
            read = &mut readers => break read?,
            _ = watch.tick() => peak = peak.max(resident_mb(server.pid())?),
        }
    };
    ensure!(read.iter().all(|bytes| *bytes > BYTES_PER_READER), "the readers got {read:?} bytes");
    table.report("server_rss_mb", peak);
    Ok(())
}

/// Reads an answer slowly to its end, and returns its size.
async fn sip(address: &str, head: &str) -> Result<usize> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    let (mut sip, mut read) = (vec![0; SIP_BYTES], 0);
    loop {
        let mut full = 0;
        while full < sip.len() {
            match stream.read(&mut sip[full..]).await? {
                0 => return Ok(read + full),
                some => full += some,
            }
        }
        read += full;
        tokio::time::sleep(REST).await;
    }
}

fn resident_mb(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a process has memory")?;
    let kib: f64 = line.split_whitespace().next().context("a figure")?.parse()?;
    Ok(kib * 1024.0 / 1e6)
}

struct Api {
    address: String,
    key: String,
}

impl Api {
    async fn post(&self, path: &str, body: Value) -> Result<Value> {
        let request = reqwest::Client::new().post(format!("http://{}{path}", self.address));
        Ok(request.bearer_auth(&self.key).json(&body).send().await?.error_for_status()?.json().await?)
    }
}
