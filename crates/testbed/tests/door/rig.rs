//! Control, edge and a host on fake machines, behind one listener, with two tenants.

use std::{path::Path, sync::Arc, time::Duration};

use pandastack_control::{
    AddressPolicy, Control, ControlPlace, ControlSettings, PasswordSettings, SignInSettings, TelemetrySettings,
    WebhookSettings, start_telemetry,
};
use pandastack_database::server::shared_schema;
use pandastack_edge::{Edge, ServeSettings, serve_with};
use pandastack_kit::{Scope, SystemClock, trace::SpanQueue};
use pandastack_mcp::{McpDoor, McpSettings};
use pandastack_testbed::{FakeBed, with_fake_bed};
use pandastack_wire_fleet::{ControlPort, HostPort, WorkspaceId};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

pub const KEY: &str = "pds_00000000000000000000000000000001";
pub const OTHER_KEY: &str = "pds_00000000000000000000000000000002";

/// Maximum sockets of the server, and followers of each kind.
pub const SOCKETS: usize = 16;
pub const FOLLOWERS: usize = 16;

/// How long tasks of a server may take to end.
const CLOSE_MAX: Duration = Duration::from_secs(25);

pub struct Door<'a> {
    pub bed: &'a FakeBed,
    pub scope: Scope,
    pub url: String,
    pub http: Client,
    /// Counters of its spans, if they are exported.
    pub spans: Option<SpanQueue>,
}

/// The database of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorStore {
    Sqlite,
    /// The one that `scripts/test` starts.
    Postgres,
}

impl DoorStore {
    async fn place(self, folder: &Path) -> ControlPlace {
        let place = ControlPlace::in_folder(folder);
        match self {
            DoorStore::Sqlite => place,
            DoorStore::Postgres => place.with_database(shared_schema(folder).await.unwrap()),
        }
    }
}

/// Runs a test's body against its own server. No task of the server may outlive it.
pub async fn with_door(body: impl AsyncFnOnce(&Door<'_>)) {
    with_door_on(DoorStore::Sqlite, body).await;
}

/// As [`with_door`], on a chosen database.
pub async fn with_door_on(store: DoorStore, body: impl AsyncFnOnce(&Door<'_>)) {
    with_door_telling(ServeSettings::default(), None, store, body).await;
}

/// As [`with_door`], with other connection settings.
pub async fn with_door_as(settings: ServeSettings, body: impl AsyncFnOnce(&Door<'_>)) {
    with_door_telling(settings, None, DoorStore::Sqlite, body).await;
}

/// As [`with_door`], with a collector for spans. The remaining spans are sent at the end.
pub async fn with_traced_door(collector: &str, body: impl AsyncFnOnce(&Door<'_>)) {
    let telemetry = TelemetrySettings::new(collector, Some("x-key=k%201"), Some("door")).unwrap();
    with_door_telling(ServeSettings::default(), Some(telemetry), DoorStore::Sqlite, body).await;
}

async fn with_door_telling(
    settings: ServeSettings,
    telemetry: Option<TelemetrySettings>,
    store: DoorStore,
    body: impl AsyncFnOnce(&Door<'_>),
) {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (folder, scope) = (tempfile::tempdir().unwrap(), Scope::new());
        let host: Arc<dyn HostPort> = bed.host.clone();
        let place = store.place(folder.path()).await;
        let control = Control::open(&place, host.clone(), scope.clone(), Arc::new(SystemClock)).await.unwrap();
        let usual = ControlSettings::default();
        let rate = pandastack_control::RateSettings { per_second: 0, ..usual.rate };
        let control = control.with_settings(ControlSettings { rate, ..usual });
        let passwords = PasswordSettings::cheap_for_tests();
        let control = control.with_sign_in(SignInSettings { passwords, ..SignInSettings::default() }).unwrap();
        let collecting = Scope::new();
        let spans = telemetry.map(|telemetry| start_telemetry(telemetry, &collecting));
        let connections = settings.places();
        let control = control.with_spans(spans.clone()).with_connections(connections.clone()).with_followers(FOLLOWERS);
        let control =
            control.with_webhooks(WebhookSettings { reach: AddressPolicy::Private, ..WebhookSettings::default() });
        control.bootstrap(Some(KEY.into())).await.unwrap();
        control.ensure_key(&WorkspaceId("other".into()), OTHER_KEY, "test").await.unwrap();
        let edge = Edge::new(Arc::new(control.clone()) as Arc<dyn ControlPort>, host, scope.clone());
        let edge = edge.with_previews("box.example".parse().unwrap());
        let edge = edge.with_connections(connections).with_room(SOCKETS, FOLLOWERS);
        let app = control.guard(control.router().merge(edge.router_around(|routes| control.keyed(routes))));
        let port: Arc<dyn ControlPort> = Arc::new(control.clone());
        let app = McpDoor::add_to(app, port, McpSettings::default(), |routes| control.guard(routes));
        let app = edge.before(app);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        scope.start("serve", serve_with(listener, app, scope.clone(), settings));
        let http = Client::builder().no_proxy().build().unwrap();
        let door = Door { bed, scope: scope.clone(), url, http, spans };
        body(&door).await;
        drop(door);
        assert_eq!(scope.close(CLOSE_MAX).await, 0, "tasks of the server go on after its end");
        assert_eq!(collecting.close(CLOSE_MAX).await, 0, "spans are sent after the end");
        control.close().await;
    })
    .await;
}

impl Door<'_> {
    pub fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(KEY)
    }

    /// Makes a request with a credential.
    pub fn call_as(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(token)
    }

    /// Makes a request as another tenant.
    pub fn stranger(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(OTHER_KEY)
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.call(Method::GET, path)).await
    }

    /// Creates a resource and returns the answer.
    pub async fn make(&self, path: &str, body: Value) -> Value {
        let (status, made) = answer(self.call(Method::POST, path).json(&body)).await;
        assert!((200..300).contains(&status), "{path}: {status} {made}");
        made
    }

    pub async fn sandbox(&self) -> String {
        self.make("/v1/sandboxes", json!({"template": "mini"})).await["id"].as_str().unwrap().to_owned()
    }

    /// Checks that the server still answers normally.
    pub async fn is_well(&self) {
        let (status, health) = answer(self.http.get(format!("{}/healthz", self.url))).await;
        assert_eq!((status, &health["status"]), (200, &json!("ok")), "{health}");
    }
}

pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(crate::SOON, work).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// Sends a request and reads the answer: JSON, or text as a string, or null without a body.
pub async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = within("an answer", request.send()).await.unwrap();
    let status = response.status().as_u16();
    let body = within("a body", response.bytes()).await.unwrap();
    if body.is_empty() {
        return (status, Value::Null);
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    (status, serde_json::from_slice(&body).unwrap_or(Value::String(text)))
}

/// Checks that an answer is a refusal as the contract defines it, and returns its code.
pub fn refused(what: &str, (status, body): &(u16, Value)) -> String {
    let said = |name: &str| body[name].as_str().filter(|text| !text.is_empty());
    assert!((400..500).contains(status), "{what}: {status} {body}");
    assert!(said("error").is_some() && said("request_id").is_some(), "{what}: {body}");
    said("code").unwrap_or_else(|| panic!("{what}: {body} has no code")).to_owned()
}
