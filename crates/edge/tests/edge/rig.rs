//! Runs the edge on a free port, with helpers for requests to it.

use std::{sync::Arc, time::Duration};

use pandastack_edge::{Edge, serve};
use pandastack_kit::Scope;
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::stub::{PlayedCommand, PlayedConnection, StubHost};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::stub_control::StubControl;

pub struct Rig {
    pub id: SandboxId,
    pub host: Arc<StubHost>,
    pub played: mpsc::Receiver<PlayedCommand>,
    pub ports: mpsc::Receiver<PlayedConnection>,
    pub url: String,
    pub http: Client,
    pub scope: Scope,
    /// Tasks that run as long as the edge does.
    pub lasting: usize,
}

impl Rig {
    pub async fn start() -> Self {
        let (id, scope) = (SandboxId::random(), Scope::new());
        let host = Arc::new(StubHost::default());
        host.add(id);
        let (played, ports) = (host.play_commands(), host.accept_connections());
        let edge = Edge::new(Arc::new(StubControl(id)), host.clone(), scope.clone());
        let edge = edge.with_previews("box.example".parse().unwrap());
        let app = edge.before(edge.router());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        scope.start("serve", serve(listener, app, scope.clone()));
        let lasting = scope.tasks();
        Self { id, host, played, ports, url, http: Client::builder().no_proxy().build().unwrap(), scope, lasting }
    }

    pub fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/v1/sandboxes/{}{path}", self.url, self.id)).bearer_auth("mine")
    }

    pub fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.call(Method::POST, path).json(body)
    }

    /// Makes the host refuse to run anything.
    pub fn refuse_to_run(&self, fault: &Fault) {
        for verb in ["attend", "exec", "open_code"] {
            self.host.fail_always(verb, fault.clone());
        }
    }
}

/// Timeout of what should happen by itself, also on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = within("an answer", request.send()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    let value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    (status, value)
}
