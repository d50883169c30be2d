//! Routes of databases that the door treats specially: those of the broker, whose token names no
//! caller, and those that create one.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Json, Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode},
    response::{IntoResponse, Response},
    routing::{any, post},
};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use pandastack_door::{
    AttemptState, AuditRow, DoorBackend, Guard, IdempotencyKey, IdempotencyKeys, PlaceKind, Places, ProxyTrust,
    RateSettings, RequestMeters, RequestRates, http::frame,
};
use pandastack_kit::{Scope, SystemClock};
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{Caller, ControlPort, Credential, DatabaseLogin, PreviewGrant, WorkspaceId};
use serde_json::{Value, json};

/// A control plane that knows one key, `mine`, and remembers answers.
#[derive(Default)]
struct StubBackend {
    looked_up: AtomicUsize,
    answers: Mutex<HashMap<String, (u16, Vec<u8>)>>,
}

fn unused<T>() -> Result<T, Fault> {
    Err(Fault::bug("no test asks for it"))
}

#[async_trait]
impl ControlPort for StubBackend {
    async fn authenticate(&self, credential: Credential<'_>) -> Result<Caller, Fault> {
        self.looked_up.fetch_add(1, Ordering::SeqCst);
        match credential.token {
            Some("mine") => Ok(Caller::of(WorkspaceId("mine".to_owned()))),
            _ => Err(Fault::new(FaultKind::Unauthorized, "unauthorized", "no key")),
        }
    }

    async fn admit(&self, _: &Caller, _: SandboxId) -> Result<(), Fault> {
        unused()
    }

    async fn admit_look(&self, _: &Caller, _: SandboxId) -> Result<(), Fault> {
        unused()
    }

    async fn admit_anyone(&self, _: SandboxId) -> Result<(), Fault> {
        unused()
    }

    async fn open_preview(&self, _: &str) -> Result<PreviewGrant, Fault> {
        unused()
    }

    async fn admit_database(&self, _: SandboxId) -> Result<DatabaseLogin, Fault> {
        unused()
    }

    async fn open_broker(&self, _: SandboxId, _: &str) -> Result<DatabaseLogin, Fault> {
        unused()
    }

    async fn revive_database(&self, _: SandboxId) -> Result<(), Fault> {
        unused()
    }
}

#[async_trait]
impl DoorBackend for StubBackend {
    async fn record(&self, _: AuditRow) {}

    fn record_at_once(&self, _: AuditRow) {}

    fn count_request(&self, _: &WorkspaceId, _: u16, _: Duration) {}

    async fn begin_attempt(&self, attempt: &IdempotencyKey, _: &str) -> Result<AttemptState, Fault> {
        let known = self.answers.lock().unwrap().get(&attempt.key).cloned();
        Ok(known.map_or(AttemptState::New, |(status, body)| AttemptState::Answered { status, body: Some(body) }))
    }

    async fn answer_attempt(&self, attempt: &IdempotencyKey, status: u16, body: Option<&[u8]>) -> Result<(), Fault> {
        self.answers.lock().unwrap().insert(attempt.key.clone(), (status, body.unwrap().to_vec()));
        Ok(())
    }

    async fn drop_attempt(&self, _: &IdempotencyKey) -> Result<(), Fault> {
        unused()
    }

    async fn note_made_in_guest(&self, _: &Caller, _: String) -> Result<(), Fault> {
        unused()
    }
}

async fn send(app: &Router, request: Request<Body>) -> Response {
    TowerToHyperService::new(app.clone()).call(request).await.unwrap()
}

fn ask(method: Method, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).header("authorization", "Bearer pds_pg_x").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn broker_calls_take_nothing_of_unknown_callers_and_are_no_look_up() {
    let backend = Arc::new(StubBackend::default());
    let kind = PlaceKind { name: "requests", quota: "quota.connections", full: "connection.too_many" };
    let connections = Places::new(kind, 4);
    let answer = || async { "x".into_response() };
    let app = Router::new().route("/v1/databases/{id}/proxy/{*path}", any(answer)).route("/v1/me", any(answer));
    let guard = Guard {
        backend: backend.clone(),
        clock: Arc::new(SystemClock),
        connections: connections.clone(),
        rate: RateSettings::default(),
        rates: Arc::new(RequestRates::default()),
        proxy: ProxyTrust::default(),
        meters: RequestMeters::default(),
        spans: None,
    };
    let app = guard.layer(app);
    let path = format!("/v1/databases/{}/proxy/v1/query", SandboxId::random());
    // An answer that is not read would keep its place.
    let mut unread = Vec::new();
    for _ in 0..10 {
        unread.push(send(&app, ask(Method::POST, &path)).await);
    }
    let unknown: Vec<_> = std::iter::from_fn(|| connections.take(None).ok()).collect();
    assert_eq!((unknown.len(), backend.looked_up.load(Ordering::SeqCst)), (3, 0));
    assert_eq!(send(&app, ask(Method::GET, "/v1/me")).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(send(&app, ask(Method::POST, &path)).await.status(), StatusCode::OK, "their handler takes the place");
    assert!(unread.iter().all(|response| response.status() == StatusCode::OK));
}

#[tokio::test]
async fn a_database_is_created_once_for_a_key() {
    let (backend, made) = (Arc::new(StubBackend::default()), Arc::new(AtomicUsize::new(0)));
    let counted = made.clone();
    let create = move || async move {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        (StatusCode::ACCEPTED, Json(json!({ "id": number }))).into_response()
    };
    let mut routes = Router::new();
    for route in ["/v1/databases", "/v1/databases/{id}/branches", "/v1/databases/{id}/clone"] {
        routes = routes.route(route, post(create.clone()));
    }
    let keys = IdempotencyKeys::new(backend, Scope::new());
    let app = frame(keys.layer(routes.route("/v1/databases/{id}/restart", post(create))));
    let keyed = async |path: &str, key: &str| {
        let request = Request::post(path).header("authorization", "Bearer mine").header("idempotency-key", key);
        let response = send(&app, request.body(Body::empty()).unwrap()).await;
        let replayed = response.headers().contains_key("idempotent-replayed");
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1024).await.unwrap();
        (status, replayed, serde_json::from_slice::<Value>(&body).unwrap())
    };
    let id = SandboxId::random();
    for path in
        ["/v1/databases".to_owned(), format!("/v1/databases/{id}/branches"), format!("/v1/databases/{id}/clone")]
    {
        let (status, replayed, first) = keyed(&path, &path).await;
        assert_eq!((status, replayed), (202, false), "{path}: {first}");
        assert_eq!(keyed(&path, &path).await, (202, true, first.clone()), "{path}");
        assert_ne!(keyed(&path, &format!("{path} again")).await.2, first, "{path}");
    }
    assert_eq!(made.load(Ordering::SeqCst), 6);
    let restart = format!("/v1/databases/{id}/restart");
    assert!(!keyed(&restart, "r").await.1 && !keyed(&restart, "r").await.1, "a route that creates nothing");
}
