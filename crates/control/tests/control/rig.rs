//! A control plane on a free port with its own database, and helpers for requests.

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use pandastack_control::{Control, ControlSettings, WebhookSettings};
use pandastack_kit::{Clock, Scope, SystemClock, trace};
use pandastack_wire_fleet::{WorkspaceId, stub::StubHost};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const KEY: &str = "pds_00000000000000000000000000000001";
pub const OTHER_KEY: &str = "pds_00000000000000000000000000000002";

pub struct Rig {
    pub control: Control,
    pub host: Arc<StubHost>,
    pub url: String,
    pub http: Client,
    pub folder: TempDir,
    pub scope: Scope,
}

impl Rig {
    pub async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Arc::new(StubHost::default())).await
    }

    pub async fn start_in(folder: TempDir, host: Arc<StubHost>) -> Self {
        Self::start_with(folder, host, ControlSettings::default(), Arc::new(SystemClock)).await
    }

    pub async fn start_with(
        folder: TempDir,
        host: Arc<StubHost>,
        settings: ControlSettings,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::start_whole((folder, host, clock), settings, WebhookSettings::default()).await
    }

    pub async fn start_as(
        folder: TempDir,
        host: Arc<StubHost>,
        clock: Arc<dyn Clock>,
        webhooks: WebhookSettings,
    ) -> Self {
        Self::start_whole((folder, host, clock), ControlSettings::default(), webhooks).await
    }

    async fn start_whole(
        (folder, host, clock): (TempDir, Arc<StubHost>, Arc<dyn Clock>),
        settings: ControlSettings,
        webhooks: WebhookSettings,
    ) -> Self {
        let scope = Scope::new();
        host.set_cause(|| trace::here().map(|here| here.trace().to_string()));
        let database = folder.path().join("control.db");
        let control = Control::open(&database, host.clone(), scope.clone(), clock).await.unwrap();
        let control = control.with_settings(settings);
        let control = control.with_webhooks(webhooks);
        control.bootstrap(Some(KEY.into())).await.unwrap();
        control.ensure_key(&WorkspaceId("other".into()), OTHER_KEY, "test").await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (app, token) = (control.guard(control.router()), scope.token());
        scope.start("serve", async move {
            tokio::select! {
                served = async { axum::serve(listener, app).await } => served.unwrap(),
                () = token.cancelled() => {}
            }
        });
        Self { control, host, url, http: Client::builder().no_proxy().build().unwrap(), folder, scope }
    }

    /// Restarts the server as after a crash: the rows stay, the host loses everything.
    pub async fn restart(self) -> Self {
        self.scope.close(Duration::from_secs(5)).await;
        self.control.close().await;
        Self::start_in(self.folder, Arc::new(StubHost::default())).await
    }

    pub fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(KEY)
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.call(Method::GET, path)).await
    }

    /// Posts an empty body, as published clients do.
    pub async fn post(&self, path: &str) -> (u16, Value) {
        answer(self.call(Method::POST, path)).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        answer(self.call(method, path).json(&body)).await
    }

    /// Sends a request as another tenant.
    pub async fn stranger(&self, method: Method, path: &str) -> (u16, Value) {
        answer(self.http.request(method, format!("{}{path}", self.url)).bearer_auth(OTHER_KEY)).await
    }

    /// Restarts the server on the same host, which keeps its state.
    pub async fn restart_control(self) -> Self {
        self.scope.close(Duration::from_secs(5)).await;
        self.control.close().await;
        Self::start_in(self.folder, self.host).await
    }

    pub async fn delete(&self, path: &str) -> u16 {
        self.call(Method::DELETE, path).send().await.unwrap().status().as_u16()
    }

    pub async fn create(&self, body: Value) -> (u16, Value) {
        answer(self.call(Method::POST, "/v1/sandboxes").json(&body)).await
    }

    pub async fn created(&self) -> String {
        let (status, sandbox) = self.create(json!({"template": "mini"})).await;
        assert_eq!(status, 201, "{sandbox}");
        sandbox["id"].as_str().unwrap().to_owned()
    }
}

pub async fn open(folder: &Path, host: Arc<StubHost>, scope: Scope) -> Control {
    Control::open(&folder.join("control.db"), host, scope, Arc::new(SystemClock)).await.unwrap()
}

/// Sends a request and reads the JSON answer. Null if it has no body.
pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    let value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    (status, value)
}

/// Waits until a condition holds.
pub async fn wait_for<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
