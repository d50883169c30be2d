//! An edge for one test over the host of a bed, and helpers for HTTP requests.

use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;
use pandastack_edge::{Edge, serve};
use pandastack_kit::Scope;
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_testbed::Bed;
use pandastack_wire_fleet::{Caller, ControlPort, Credential, DatabaseLogin, PreviewGrant, WorkspaceId};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::PATIENCE;

/// Two tenants: `mine` owns everything, `theirs` nothing.
struct Tenants;

#[async_trait]
impl ControlPort for Tenants {
    async fn authenticate(&self, credential: Credential<'_>) -> Result<Caller, Fault> {
        match credential.token {
            Some(key) => Ok(Caller::of(WorkspaceId(key.to_owned()))),
            None => Err(Fault::new(FaultKind::Unauthorized, "unauthorized", "no key")),
        }
    }

    async fn admit(&self, caller: &Caller, _: SandboxId) -> Result<(), Fault> {
        if caller.workspace.0 == "mine" { Ok(()) } else { Err(Fault::no_sandbox()) }
    }

    async fn admit_look(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        self.admit(caller, sandbox).await
    }

    async fn admit_anyone(&self, _: SandboxId) -> Result<(), Fault> {
        Err(Fault::no_sandbox())
    }

    async fn open_preview(&self, _: &str) -> Result<PreviewGrant, Fault> {
        Err(Fault::no_sandbox())
    }

    async fn admit_database(&self, _: SandboxId) -> Result<DatabaseLogin, Fault> {
        Err(Fault::no_sandbox())
    }

    async fn revive_database(&self, _: SandboxId) -> Result<(), Fault> {
        Ok(())
    }

    async fn open_broker(&self, _: SandboxId, _: &str) -> Result<DatabaseLogin, Fault> {
        Err(Fault::no_sandbox())
    }
}

/// An edge over the host of a bed.
pub struct HttpDoor {
    url: String,
    http: Client,
    scope: Scope,
}

impl HttpDoor {
    /// Listens on a free port.
    pub async fn open(bed: &Bed) -> Self {
        let scope = Scope::new();
        let edge = Edge::new(Arc::new(Tenants), bed.host.clone(), scope.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        scope.start("serve", serve(listener, edge.router(), scope.clone()));
        let http = Client::builder().no_proxy().build().expect("a client");
        Self { url, http, scope }
    }

    /// Starts a request about a sandbox, as its owner.
    pub fn call(&self, method: Method, id: SandboxId, path: &str) -> RequestBuilder {
        self.call_as("mine", method, id, path)
    }

    /// Starts a request about a sandbox, as any tenant.
    pub fn call_as(&self, key: &str, method: Method, id: SandboxId, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/v1/sandboxes/{id}{path}", self.url)).bearer_auth(key)
    }

    /// Closes it. No task may be left.
    ///
    /// # Panics
    /// If tasks are left.
    pub async fn close(self) {
        assert_eq!(self.scope.close(PATIENCE).await, 0, "tasks of the edge are left");
    }
}

/// Sends a request and returns status and JSON.
///
/// # Panics
/// If no answer comes, or if it is not JSON.
pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let sent = tokio::time::timeout(PATIENCE, request.send()).await.expect("an answer in time");
    let response = sent.expect("an answer");
    let status = response.status().as_u16();
    let body = response.bytes().await.expect("a whole answer");
    (status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).expect("JSON") })
}

/// An event stream being read.
pub struct Events {
    response: Response,
    text: String,
    ready: VecDeque<(String, Value)>,
}

impl Events {
    /// Sends a request for an event stream. Returns after its head.
    ///
    /// # Panics
    /// If the request is refused.
    pub async fn open(request: RequestBuilder) -> Self {
        let sent = tokio::time::timeout(PATIENCE, request.send()).await.expect("a head in time");
        let response = sent.expect("a head");
        assert_eq!(response.status().as_u16(), 200);
        Self { response, text: String::new(), ready: VecDeque::new() }
    }

    /// Returns the next event's name and data, or `None` at the end of the stream.
    ///
    /// # Panics
    /// If none comes in time.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("an event in time");
            self.text.push_str(std::str::from_utf8(&chunk.expect("an unbroken stream")?).expect("ASCII"));
            while let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                    self.ready.push_back((name, serde_json::from_str(&data).expect("JSON")));
                }
            }
        }
    }
}
