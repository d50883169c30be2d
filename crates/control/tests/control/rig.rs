//! A control plane on a free port with its own database, and helpers for requests.

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use pandastack_control::{Control, ControlSettings, PasswordSettings, SignInSettings, WebhookSettings};
use pandastack_database::{Database, PoolSettings};
use pandastack_kit::{Clock, Scope, SystemClock, trace};
use pandastack_wire_fleet::{WorkspaceId, stub::StubHost};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backend;

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
        Self::start_whole((folder, host, clock), settings, WebhookSettings::default(), sign_in()).await
    }

    pub async fn start_as(
        folder: TempDir,
        host: Arc<StubHost>,
        clock: Arc<dyn Clock>,
        webhooks: WebhookSettings,
    ) -> Self {
        Self::start_whole((folder, host, clock), ControlSettings::default(), webhooks, sign_in()).await
    }

    /// Starts with settings for logins.
    pub async fn start_signing_in(settings: SignInSettings, clock: Arc<dyn Clock>) -> Self {
        let parts = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()), clock);
        Self::start_whole(parts, ControlSettings::default(), WebhookSettings::default(), settings).await
    }

    /// Starts another server on the same database and host.
    pub async fn start_beside(&self) -> Neighbour {
        let scope = Scope::new();
        let control = open(self.folder.path(), self.host.clone(), scope.clone()).await;
        let url = serve(&control, &scope).await;
        Neighbour { control, url, scope }
    }

    async fn start_whole(
        (folder, host, clock): (TempDir, Arc<StubHost>, Arc<dyn Clock>),
        settings: ControlSettings,
        webhooks: WebhookSettings,
        sign_in: SignInSettings,
    ) -> Self {
        let scope = Scope::new();
        host.set_cause(|| trace::here().map(|here| here.trace().to_string()));
        let place = backend::place(folder.path()).await;
        let control = Control::open(&place, host.clone(), scope.clone(), clock).await.unwrap();
        let control = control.with_settings(settings);
        let control = control.with_webhooks(webhooks).with_sign_in(sign_in).unwrap();
        Self::served(control, host, folder, scope).await
    }

    /// Starts with the settings of a test, for example with billing.
    pub async fn start_prepared(
        (folder, host, clock): (TempDir, Arc<StubHost>, Arc<dyn Clock>),
        prepare: impl FnOnce(Control) -> Control,
    ) -> Self {
        let scope = Scope::new();
        let place = backend::place(folder.path()).await;
        let control = Control::open(&place, host.clone(), scope.clone(), clock).await.unwrap();
        let control = prepare(control).with_sign_in(sign_in()).unwrap();
        Self::served(control, host, folder, scope).await
    }

    /// Serves a control plane that a test has opened itself.
    pub async fn served(control: Control, host: Arc<StubHost>, folder: TempDir, scope: Scope) -> Self {
        control.bootstrap(Some(KEY.into())).await.unwrap();
        control.ensure_key(&WorkspaceId("other".into()), OTHER_KEY, "test").await.unwrap();
        let url = serve(&control, &scope).await;
        Self { control, host, url, http: Client::builder().no_proxy().build().unwrap(), folder, scope }
    }

    /// Restarts the server as after a crash: the rows stay, the host loses everything.
    pub async fn restart(self) -> Self {
        self.scope.close(Duration::from_secs(5)).await;
        self.control.close().await;
        Self::start_in(self.folder, Arc::new(StubHost::default())).await
    }

    /// Opens the database of the server once more, to look at its rows or to change them.
    pub async fn database(&self) -> Database {
        let place = backend::place(self.folder.path()).await;
        let settings = PoolSettings { connections_max: 1, busy_max: long(), statement_max: long() };
        Database::open(&place.database, settings).await.unwrap()
    }

    /// Returns everything that the database stores.
    pub async fn stored(&self) -> Vec<u8> {
        backend::stored(self.folder.path()).await
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

/// A second server on a rig's database.
pub struct Neighbour {
    pub control: Control,
    pub url: String,
    pub scope: Scope,
}

impl Neighbour {
    pub async fn stop(self) {
        self.scope.close(Duration::from_secs(5)).await;
        self.control.close().await;
    }
}

pub async fn serve(control: &Control, scope: &Scope) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (app, token) = (control.guard(control.router()), scope.token());
    scope.start("serve", async move {
        tokio::select! {
            served = async { axum::serve(listener, app).await } => served.unwrap(),
            () = token.cancelled() => {}
        }
    });
    url
}

/// Logins with passwords that cost nothing.
pub fn sign_in() -> SignInSettings {
    SignInSettings { passwords: PasswordSettings::cheap_for_tests(), ..SignInSettings::default() }
}

pub async fn open(folder: &Path, host: Arc<StubHost>, scope: Scope) -> Control {
    Control::open(&backend::place(folder).await, host, scope, Arc::new(SystemClock)).await.unwrap()
}

/// Timeout of what should happen by itself, also on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A limit that no test reaches.
pub fn long() -> Duration {
    Duration::from_secs(120)
}

/// Sends a request, and hangs up when it waits at the host's gate.
pub async fn hang_up_at_the_gate(rig: &Rig, request: RequestBuilder) {
    let before = rig.host.gate.waiting();
    tokio::select! {
        answer = request.send() => panic!("it does not wait: {answer:?}"),
        () = wait_for("the host is asked", || async { rig.host.gate.waiting() > before }) => {}
    }
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
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
