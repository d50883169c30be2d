//! Two servers on one database. One has the host, the other serves everything that needs none.

use std::{path::Path, sync::Arc, time::Duration};

use pandastack_control::{AddressPolicy, Control, ControlPlace, OpenError, TrustRoots, WebhookSettings};
use pandastack_database::{query, query_scalar};
use pandastack_kit::{Clock, Scope, SystemClock};
use pandastack_wire_fleet::{NoHost, stub::StubHost};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    backend,
    people::{PASSWORD, Somebody, invited, operator},
    receiver::{Receiver, Traveller, WebhookRig},
    rig::{KEY, Neighbour, PATIENCE, Rig, answer, serve, sign_in, wait_for},
};

/// Starts a second server, without a host.
async fn second(rig: &Rig) -> Neighbour {
    second_at(rig, Arc::new(SystemClock)).await
}

async fn second_at(rig: &Rig, clock: Arc<dyn Clock>) -> Neighbour {
    let scope = Scope::new();
    let place = ControlPlace::without_folder(backend::place(rig.folder.path()).await.database);
    let control = Control::open(&place, Arc::new(NoHost::default()), scope.clone(), clock).await.unwrap();
    let control = control.with_webhooks(near()).with_sign_in(sign_in()).unwrap();
    let url = serve(&control, &scope).await;
    Neighbour { control, url, scope }
}

fn near() -> WebhookSettings {
    WebhookSettings { reach: AddressPolicy::Private, roots: TrustRoots::Host }
}

/// Tries to open a server with another host on the database of a rig.
async fn rival(rig: &Rig, data: &Path, scope: &Scope, clock: Arc<dyn Clock>) -> Result<Control, OpenError> {
    let place = ControlPlace::in_folder(data).with_database(backend::place(rig.folder.path()).await.database);
    Control::open(&place, Arc::new(StubHost::default()), scope.clone(), clock).await
}

async fn ask(rig: &Rig, at: &Neighbour, token: &str, method: Method, path: &str) -> (u16, Value) {
    answer(rig.http.request(method, format!("{}{path}", at.url)).bearer_auth(token)).await
}

async fn count(rig: &Rig, sql: &'static str) -> i64 {
    let database = rig.database().await;
    let found = query_scalar(sql).fetch_one(&database).await.unwrap();
    database.close().await;
    found
}

#[tokio::test]
async fn people_use_either_server() {
    let rig = Rig::start().await;
    let other = second(&rig).await;
    let root = operator(&rig).await;
    let (status, me) = ask(&rig, &other, &root.token, Method::GET, "/v1/me").await;
    assert_eq!((status, &me["user_id"]), (200, &json!(root.id)), "{me}");
    let login = json!({"email": "root@example.com", "password": PASSWORD});
    let (status, begun) = answer(rig.http.post(format!("{}/v1/auth/login", other.url)).json(&login)).await;
    assert!((200..300).contains(&status), "{begun}");
    let back = Somebody { token: begun["token"].as_str().unwrap().to_owned(), ..root.clone() };
    assert_eq!(back.get(&rig, "/v1/me").await.0, 200, "a session of the second server");
    let (_, key) = root.post(&rig, "/v1/me/tokens").await;
    let key = key["token"].as_str().unwrap();
    assert_eq!(ask(&rig, &other, key, Method::GET, "/v1/me").await.0, 200);
    assert_eq!(root.delete(&rig, &format!("/v1/me/tokens/{}", &key[..12])).await.0, 204);
    let is_refused = || async { ask(&rig, &other, key, Method::GET, "/v1/me").await.0 == 401 };
    wait_for("it is revoked on the first server", is_refused).await;
    let (status, ended) = ask(&rig, &other, &back.token, Method::POST, "/v1/auth/logout").await;
    assert_eq!(status, 204, "{ended}");
    wait_for("it ended on the second server", || async { back.get(&rig, "/v1/me").await.0 == 401 }).await;
    for path in ["/v1/quotas", "/v1/billing", "/v1/usage"] {
        let there = ask(&rig, &other, KEY, Method::GET, path).await;
        assert_eq!((there.0, rig.get(path).await.1), (200, there.1), "{path}");
    }
    wait_for("the login on the second server is in the trail of both", || async {
        let there = ask(&rig, &other, KEY, Method::GET, "/v1/audit").await.1.to_string();
        there.contains("/v1/auth/login") && rig.get("/v1/audit").await.1.to_string().contains("/v1/auth/login")
    })
    .await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invite_is_accepted_once_by_whichever_server() {
    let rig = Rig::start().await;
    let other = second(&rig).await;
    let root = operator(&rig).await;
    let guest = invited(&rig, &root, "guest@example.com", "member").await;
    for turn in 0..5 {
        let (_, org) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": format!("Org {turn}")})).await;
        let members = format!("/v1/orgs/{}/members", org["id"].as_str().unwrap());
        let invite = json!({"email": "guest@example.com", "role": "admin"});
        let made = rig.http.post(format!("{}{members}", other.url)).bearer_auth(&root.token).json(&invite);
        let (status, invite) = answer(made).await;
        assert_eq!(status, 201, "{invite}");
        let path = format!("/v1/orgs/invites/{}/accept", invite["token"].as_str().unwrap());
        let accept = [&rig.url, &other.url, &rig.url, &other.url]
            .map(|url| answer(rig.http.post(format!("{url}{path}")).bearer_auth(&guest.token)));
        let mut answers: Vec<_> = futures_util::future::join_all(accept).await.into_iter().map(|(it, _)| it).collect();
        answers.sort_unstable();
        assert_eq!(answers, [200, 410, 410, 410]);
        let (_, listed) = root.get(&rig, &members).await;
        assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    }
    other.stop().await;
}

#[tokio::test]
async fn sandboxes_are_shown_and_left_alone_without_a_host() {
    let rig = Rig::start().await;
    let (id, asleep) = (rig.created().await, rig.created().await);
    assert_eq!(rig.post(&format!("/v1/sandboxes/{asleep}/hibernate")).await.0, 200);
    let other = second(&rig).await;
    let there = async |method: Method, path: &str| ask(&rig, &other, KEY, method, path).await;
    assert_eq!(there(Method::GET, "/v1/sandboxes").await, rig.get("/v1/sandboxes").await);
    let path = format!("/v1/sandboxes/{id}");
    assert_eq!(there(Method::GET, &path).await, rig.get(&path).await);
    let create = rig.http.post(format!("{}/v1/sandboxes", other.url)).bearer_auth(KEY);
    let (status, refused) = answer(create.json(&json!({"template": "mini"}))).await;
    assert_eq!((status, &refused["code"]), (503, &json!("host.none")), "{refused}");
    let build = rig.http.post(format!("{}/v1/templates/build", other.url)).bearer_auth(KEY);
    let form = build.header("content-type", "application/x-www-form-urlencoded").body("name=own&dockerfile=FROM+mini");
    let (status, refused) = answer(form).await;
    assert_eq!((status, &refused["code"]), (503, &json!("host.none")), "{refused}");
    for (method, at) in [
        (Method::DELETE, ""),
        (Method::POST, "/pause"),
        (Method::POST, "/hibernate"),
        (Method::POST, "/fork"),
        (Method::POST, "/snapshots"),
        (Method::GET, "/events"),
        (Method::GET, "/ports"),
        (Method::GET, "/metrics"),
    ] {
        let (status, refused) = there(method.clone(), &format!("{path}{at}")).await;
        assert_eq!((status, &refused["code"]), (503, &json!("host.none")), "{method} {at}: {refused}");
    }
    for (method, at, body) in [
        (Method::PUT, format!("{path}/egress"), json!({"egress_allowlist": []})),
        (Method::PATCH, format!("{path}/lifecycle"), json!({"ttl_seconds": 60})),
        (Method::POST, "/v1/volumes".to_owned(), json!({"name": "data", "size_mb": 64})),
        (Method::POST, format!("{path}/promote"), json!({})),
    ] {
        let request = rig.http.request(method, format!("{}{at}", other.url)).bearer_auth(KEY).json(&body);
        let (status, refused) = answer(request).await;
        assert_eq!((status, &refused["code"]), (503, &json!("host.none")), "{at}: {refused}");
    }
    let (status, health) = there(Method::GET, "/healthz").await;
    assert_eq!((status, &health["checks"]["host"]), (200, &json!("none")), "{health}");
    assert_eq!(there(Method::GET, "/v1/templates").await, (200, json!([])));
    other.control.sample().await;
    other.control.meter_usage().await.unwrap();
    other.stop().await;
    assert_eq!(count(&rig, "SELECT COUNT(*) FROM sandbox").await, 2, "no row is left of a refused create");
    assert_eq!(count(&rig, "SELECT COUNT(*) FROM volume").await + count(&rig, "SELECT COUNT(*) FROM build").await, 0);
    assert_eq!(rig.get(&path).await.1["status"], json!("running"));
    assert_eq!(rig.get(&format!("/v1/sandboxes/{asleep}")).await.1["status"], json!("hibernated"));
    assert_eq!(rig.delete(&path).await, 204);
}

#[tokio::test]
async fn one_server_delivers_events_and_the_other_takes_over() {
    let told = WebhookRig::start().await;
    let other = second(&told.rig).await;
    let receiver = Receiver::start().await;
    let (webhook, _) = told.subscribe(&receiver.url, &["*"]).await;
    for _ in 0..10 {
        told.rig.created().await;
    }
    told.wait(&webhook, "delivered", 10).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(receiver.seen().len(), 10, "each was sent by one server");
    // The first server gives its lease up and ends. The second one sends what is left.
    let Rig { control, scope, host: _, folder, url: _, http } = told.rig;
    scope.close(PATIENCE).await;
    let place = backend::place(folder.path()).await;
    let database = pandastack_database::Database::open(
        &place.database,
        pandastack_database::PoolSettings { connections_max: 1, busy_max: PATIENCE, statement_max: PATIENCE },
    )
    .await
    .unwrap();
    let again = "UPDATE webhook_delivery SET status = 'pending', tries = 0, next_at = 0, finished_at = NULL";
    pandastack_database::query(again).execute(&database).await.unwrap();
    database.close().await;
    control.close().await;
    receiver.wait(20).await;
    let list = http.get(format!("{}/v1/sandboxes", other.url)).bearer_auth(KEY);
    assert_eq!(answer(list).await.0, 200, "and serves on");
    other.stop().await;
}

#[tokio::test]
async fn a_second_host_is_refused_until_the_first_one_is_gone() {
    let clock = Arc::new(Traveller::default());
    let (folder, host) = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()));
    let rig = Rig::start_as(folder, host, clock.clone(), near()).await;
    let id = rig.created().await;
    let (data, scope) = (tempfile::tempdir().unwrap(), Scope::new());
    let refused = rival(&rig, data.path(), &scope, clock.clone()).await.err().unwrap();
    assert!(matches!(refused, OpenError::SecondHost { seconds: 1..=61 }), "{refused}");
    assert!(refused.to_string().contains("--no-host"), "{refused}");
    assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.1["status"], json!("running"), "untouched");
    // The same host starts again at once, as after a crash.
    rig.start_beside().await.stop().await;
    rig.scope.close(PATIENCE).await;
    let other = rival(&rig, data.path(), &scope, clock.clone()).await.unwrap();
    // This one is killed: its lease stays, and ends by itself.
    let (late, gone) = (tempfile::tempdir().unwrap(), Scope::new());
    assert!(rival(&rig, late.path(), &gone, clock.clone()).await.is_err());
    clock.travel(Duration::from_secs(61));
    let last = rival(&rig, late.path(), &gone, clock.clone()).await.unwrap();
    scope.close(PATIENCE).await;
    assert!(rival(&rig, data.path(), &Scope::new(), clock).await.is_err(), "only the own lease is given up");
    gone.close(PATIENCE).await;
    tokio::join!(other.close(), last.close(), rig.control.close());
}

/// Makes a webhook with an idempotency key.
async fn keyed_webhook(rig: &Rig, url: &str, key: &str) -> (u16, Value) {
    let body = json!({"url": "https://receiver.example/", "events": ["*"]});
    answer(rig.http.post(format!("{url}/v1/webhooks")).bearer_auth(KEY).header("idempotency-key", key).json(&body))
        .await
}

/// Changes the row of a request as if its server had not answered yet.
async fn unanswer(rig: &Rig, key: &str, (kind, id): (&str, &Value)) {
    let database = rig.database().await;
    let sql = "UPDATE attempt SET status = NULL, answer = NULL WHERE key = ?";
    assert_eq!(query(sql).bind(key).execute(&database).await.unwrap(), 1);
    let made = query("INSERT INTO attempt_made VALUES ('default', ?, ?, ?)").bind(key).bind(kind);
    made.bind(id.as_str().unwrap()).execute(&database).await.unwrap();
    database.close().await;
}

async fn webhooks(rig: &Rig) -> usize {
    rig.get("/v1/webhooks").await.1.as_array().unwrap().len()
}

#[tokio::test]
async fn a_running_server_finishes_the_requests_of_one_that_was_killed() {
    let clock = Arc::new(Traveller::default());
    let (folder, host) = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()));
    let rig = Rig::start_as(folder, host, clock.clone(), near()).await;
    let other = second_at(&rig, clock.clone()).await;
    let (status, first) = keyed_webhook(&rig, &other.url, "k").await;
    assert_eq!(status, 201, "{first}");
    unanswer(&rig, "k", ("webhook", &first["id"])).await;
    let look = async |times: usize| {
        rig.control.renew_server_lease().await.unwrap();
        for _ in 0..times {
            rig.control.finish_for_ended().await.unwrap();
        }
        keyed_webhook(&rig, &rig.url, "k").await
    };
    let in_flight = |said: (u16, Value)| {
        assert_eq!((said.0, &said.1["code"]), (409, &json!("idempotency.in_flight")), "{}", said.1);
    };
    in_flight(look(5).await);
    // The database did not answer for a while, and the neighbour renews its lease after that.
    clock.travel(Duration::from_secs(61));
    in_flight(look(2).await);
    other.control.renew_server_lease().await.unwrap();
    in_flight(look(5).await);
    // It is killed.
    other.scope.close(PATIENCE).await;
    in_flight(look(5).await);
    clock.travel(Duration::from_secs(61));
    in_flight(look(2).await);
    let (status, again) = look(1).await;
    assert_eq!(status, 201, "{again}");
    assert_ne!(again["id"], first["id"]);
    assert_eq!((webhooks(&rig).await, keyed_webhook(&rig, &rig.url, "k").await), (1, (201, again)));
    let leases = "SELECT COUNT(*) FROM worker_lease WHERE name LIKE 'server/%'";
    assert_eq!(count(&rig, leases).await, 2);
    clock.travel(Duration::from_secs(3700));
    look(1).await;
    assert_eq!(count(&rig, leases).await, 1, "the lease of the dead server is removed");
    rig.scope.close(PATIENCE).await;
    rig.control.close().await;
    assert_eq!(count(&rig, leases).await, 0, "a server that stops removes its own");
    other.control.close().await;
}

#[tokio::test]
async fn a_restart_leaves_the_requests_of_a_running_neighbour_alone() {
    let rig = Rig::start().await;
    let other = second(&rig).await;
    let (_, hook) = keyed_webhook(&rig, &other.url, "theirs").await;
    let (_, own) = keyed_webhook(&rig, &rig.url, "own").await;
    unanswer(&rig, "theirs", ("webhook", &hook["id"])).await;
    unanswer(&rig, "own", ("webhook", &own["id"])).await;
    let rig = rig.restart_control().await;
    assert_eq!(keyed_webhook(&rig, &rig.url, "theirs").await.0, 409);
    let (_, left) = rig.get("/v1/webhooks").await;
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &hook["id"]), "only its own result is taken back");
    // A neighbour that stops in order leaves its unfinished requests to others at once.
    other.stop().await;
    for _ in 0..3 {
        rig.control.finish_for_ended().await.unwrap();
    }
    assert_eq!((webhooks(&rig).await, keyed_webhook(&rig, &rig.url, "theirs").await.0), (0, 201));
}

#[tokio::test]
async fn without_a_host_only_what_needs_none_is_taken_back() {
    let clock = Arc::new(Traveller::default());
    let (folder, host) = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()));
    let rig = Rig::start_as(folder, host, clock.clone(), near()).await;
    let other = second_at(&rig, clock.clone()).await;
    let create = async |url: &str| {
        let request = rig.http.post(format!("{url}/v1/sandboxes")).bearer_auth(KEY).header("idempotency-key", "box");
        answer(request.json(&json!({"template": "mini"}))).await
    };
    let (status, made) = create(&rig.url).await;
    assert_eq!(status, 201, "{made}");
    let (_, hook) = keyed_webhook(&rig, &rig.url, "hook").await;
    unanswer(&rig, "box", ("sandbox", &made["id"])).await;
    unanswer(&rig, "hook", ("webhook", &hook["id"])).await;
    rig.scope.close(PATIENCE).await;
    clock.travel(Duration::from_secs(61));
    for _ in 0..4 {
        other.control.finish_for_ended().await.unwrap();
    }
    assert_eq!(keyed_webhook(&rig, &other.url, "hook").await.0, 201);
    assert_eq!(create(&other.url).await.1["code"], json!("idempotency.in_flight"));
    let path = format!("/v1/sandboxes/{}", made["id"].as_str().unwrap());
    assert_eq!(ask(&rig, &other, KEY, Method::GET, &path).await.1["status"], json!("running"));
    assert_eq!(rig.host.count(), 1);
    rig.control.close().await;
    let rig = Rig::start_as(rig.folder, rig.host, clock, near()).await;
    assert_eq!(rig.host.count(), 0, "the host's own server takes it back");
    let request = rig.call(Method::POST, "/v1/sandboxes").header("idempotency-key", "box");
    assert_eq!(answer(request.json(&json!({"template": "mini"}))).await.0, 201);
    assert_eq!(webhooks(&rig).await, 1);
    other.stop().await;
}
