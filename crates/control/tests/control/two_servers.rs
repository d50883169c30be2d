//! Two servers on one database. One has the host, the other serves everything that needs none.

use std::{path::Path, sync::Arc, time::Duration};

use pandastack_control::{AddressPolicy, Control, ControlPlace, OpenError, TrustRoots, WebhookSettings};
use pandastack_database::query_scalar;
use pandastack_kit::{Clock, Scope, SystemClock};
use pandastack_wire_fleet::{NoHost, stub::StubHost};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    backend,
    people::{PASSWORD, Somebody, invited, operator},
    receiver::{Receiver, Traveller, WebhookRig},
    rig::{KEY, Neighbour, Rig, answer, serve, sign_in, wait_for},
};

/// Starts a second server, without a host.
async fn second(rig: &Rig) -> Neighbour {
    let (scope, clock) = (Scope::new(), Arc::new(SystemClock));
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
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ask(&rig, &other, key, Method::GET, "/v1/me").await.0, 401, "revoked on the first server");
    let (status, ended) = ask(&rig, &other, &back.token, Method::POST, "/v1/auth/logout").await;
    assert_eq!(status, 204, "{ended}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(back.get(&rig, "/v1/me").await.0, 401, "ended on the second server");
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
    scope.close(Duration::from_secs(5)).await;
    let place = backend::place(folder.path()).await;
    let database = pandastack_database::Database::open(
        &place.database,
        pandastack_database::PoolSettings {
            connections_max: 1,
            busy_max: Duration::from_secs(30),
            statement_max: Duration::from_secs(30),
        },
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
    rig.scope.close(Duration::from_secs(5)).await;
    let other = rival(&rig, data.path(), &scope, clock.clone()).await.unwrap();
    // This one is killed: its lease stays, and ends by itself.
    let (late, gone) = (tempfile::tempdir().unwrap(), Scope::new());
    assert!(rival(&rig, late.path(), &gone, clock.clone()).await.is_err());
    clock.travel(Duration::from_secs(61));
    let last = rival(&rig, late.path(), &gone, clock.clone()).await.unwrap();
    scope.close(Duration::from_secs(5)).await;
    assert!(rival(&rig, data.path(), &Scope::new(), clock).await.is_err(), "only the own lease is given up");
    gone.close(Duration::from_secs(5)).await;
    tokio::join!(other.close(), last.close(), rig.control.close());
}
