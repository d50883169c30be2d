//! A test server that receives spans (as a collector) or events (as a webhook receiver). It accepts
//! them, rejects them or stalls, as the test sets it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use anyhow::{Context, Result};
use pandastack_kit::Scope;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{PATIENCE, wait_for};

/// How it treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorMode {
    Takes,
    /// Reads everything and never answers.
    Stalls,
    Answers(u16),
}

/// One request.
#[derive(Clone, Debug)]
pub struct CollectedRequest {
    pub path: String,
    /// By name, in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// One span as received.
#[derive(Clone, Debug)]
pub struct CollectedSpan {
    pub trace: String,
    pub span: String,
    pub parent: String,
    pub name: String,
    pub kind: u64,
    pub attributes: BTreeMap<String, String>,
    pub failed: bool,
}

/// The server. It stops on drop.
pub struct Collector {
    pub url: String,
    shared: Arc<Shared>,
    scope: Scope,
}

struct Shared {
    reception: Mutex<CollectorMode>,
    sent: Mutex<Vec<CollectedRequest>>,
}

impl Collector {
    /// Listens on a free port of this host.
    pub async fn start(reception: CollectorMode) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared { reception: Mutex::new(reception), sent: Mutex::default() });
        let (scope, heard) = (Scope::new(), shared.clone());
        let (connections, token) = (scope.clone(), scope.token());
        scope.start("collector", async move {
            while let Some(Ok((stream, _))) = token.run_until_cancelled(listener.accept()).await {
                let (heard, token) = (heard.clone(), token.clone());
                connections.start("collector connection", async move {
                    token.run_until_cancelled(heard.serve(stream)).await;
                });
            }
        });
        Ok(Self { url, shared, scope })
    }

    /// Changes how it treats requests from now on.
    pub fn set_mode(&self, reception: CollectorMode) {
        *lock(&self.shared.reception) = reception;
    }

    /// All requests so far, accepted or not.
    pub fn sent(&self) -> Vec<CollectedRequest> {
        lock(&self.shared.sent).clone()
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut seen = Vec::new();
        for CollectedRequest { body, .. } in self.sent() {
            for scopes in list(&body["resourceSpans"]).iter().flat_map(|resource| list(&resource["scopeSpans"])) {
                seen.extend(list(&scopes["spans"]).iter().map(read));
            }
        }
        seen
    }

    /// Waits for a matching span.
    pub async fn wait_span(&self, what: &str, wanted: impl Fn(&CollectedSpan) -> bool) -> CollectedSpan {
        wait_for(what, PATIENCE, async || self.spans().into_iter().find(&wanted)).await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.scope.token().cancel();
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) {
        let Ok(sent) = receive(&mut stream).await else { return };
        lock(&self.sent).push(sent);
        let reception = *lock(&self.reception);
        let status = match reception {
            CollectorMode::Takes => 200,
            CollectorMode::Answers(status) => status,
            CollectorMode::Stalls => return std::future::pending().await,
        };
        let answer = format!("HTTP/1.1 {status} -\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

async fn receive(stream: &mut TcpStream) -> Result<CollectedRequest> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "hung up");
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).context("no request line")?.to_owned();
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: BTreeMap<String, String> = lines.filter_map(header).collect();
    let length: usize = headers.get("content-length").context("no length")?.parse()?;
    while bytes.len() < head_end + 4 + length {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "hung up");
    }
    let body = serde_json::from_slice(&bytes[head_end + 4..])?;
    Ok(CollectedRequest { path, headers, body })
}

fn read(span: &Value) -> CollectedSpan {
    let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
    let attribute = |one: &Value| {
        let value = &one["value"];
        let said = value["stringValue"].as_str().or_else(|| value["intValue"].as_str());
        (one["key"].as_str().unwrap_or_default().to_owned(), said.unwrap_or_default().to_owned())
    };
    CollectedSpan {
        trace: text("traceId"),
        span: text("spanId"),
        parent: text("parentSpanId"),
        name: text("name"),
        kind: span["kind"].as_u64().unwrap_or_default(),
        attributes: span["attributes"].as_array().into_iter().flatten().map(attribute).collect(),
        failed: span["status"]["code"] == 2,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
