//! Work that must not hold up others: sleep of held workspaces, forks without a free turn, and
//! usage that Stripe did not take.

use futures_util::future::join_all;
use pandastack_control::{DeadFilter, DeadMeterEvents, WorkspacePlans, limits::STARTS_AT_ONCE};
use pandastack_database::{Database, query, query_as, query_scalar};
use pandastack_kit::{Clock, SystemClock};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    backend,
    people::operator,
    rig::{OTHER_KEY, Rig, answer, wait_for},
};

const DAY_S: u64 = 86_400;
const CAP: &str = r#"{"monthly_micros":0,"alert_percent":80,"hard_cap":true}"#;

fn now_s() -> u64 {
    SystemClock.now_ns() / 1_000_000_000
}

async fn theirs(rig: &Rig, method: Method, path: &str, body: Value) -> (u16, Value) {
    answer(rig.http.request(method, format!("{}{path}", rig.url)).bearer_auth(OTHER_KEY).json(&body)).await
}

/// Gives the other workspace a budget, as a database of an operator may have it.
async fn put_budget(database: &Database, budget: &str) {
    let sql = "INSERT INTO billing_account (workspace, customer, subscription, budget, enqueued_hour, alerted)
               VALUES ('other', '', '', ?1, 0, '') ON CONFLICT (workspace) DO UPDATE SET budget = ?1";
    query(sql).bind(budget).execute(database).await.unwrap();
}

#[tokio::test]
async fn the_metering_turn_does_not_wait_for_the_sleep_of_a_held_workspace() {
    let rig = Rig::start().await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        let (status, made) = theirs(&rig, Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await;
        assert_eq!(status, 201, "{made}");
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    let mine = rig.created().await;
    let database = rig.database().await;
    put_budget(&database, CAP).await;
    // One thread: the task of the workspace begins only after the turn.
    rig.control.meter_turn().await.unwrap();
    assert!(ids.iter().all(|id| rig.host.state(id).as_str() == "running"), "the turn waited");
    let (status, refused) = theirs(&rig, Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await;
    assert_eq!((status, &refused["code"]), (402, &json!("billing.budget")), "{refused}");
    wait_for("all of them sleep", || async { ids.iter().all(|id| rig.host.state(id).as_str() == "hibernated") }).await;
    assert_eq!(rig.host.state(&mine).as_str(), "running");
    // Who asks for it waits until everything sleeps.
    query("UPDATE billing_account SET budget = ''").execute(&database).await.unwrap();
    rig.control.meter_usage().await.unwrap();
    let path = format!("/v1/sandboxes/{}/wake", ids[0]);
    assert_eq!(theirs(&rig, Method::POST, &path, json!({})).await.0, 200);
    put_budget(&database, CAP).await;
    rig.control.meter_usage().await.unwrap();
    assert_eq!(rig.host.state(&ids[0]).as_str(), "hibernated");
    database.close().await;
}

#[tokio::test]
async fn a_fork_without_a_free_turn_is_refused_and_nothing_is_left_of_it() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    rig.host.gate.close();
    let creates = (0..STARTS_AT_ONCE).map(|_| rig.create(json!({"template": "mini"})));
    let forks = async {
        wait_for("all turns are taken", || async { sandboxes(&rig).await == STARTS_AT_ONCE + 1 }).await;
        wait_for("the host is asked for all", || async { rig.host.gate.waiting() == STARTS_AT_ONCE }).await;
        let fork = async |verb: &str| {
            let path = format!("/v1/sandboxes/{parent}/{verb}");
            let request = rig.call(Method::POST, &path).header("idempotency-key", verb).json(&json!({"count": 2}));
            let response = request.send().await.unwrap();
            let after = response.headers().get("retry-after").is_some();
            let (status, body): (u16, Value) = (response.status().as_u16(), response.json().await.unwrap());
            assert_eq!((status, after, &body["code"]), (503, true, &json!("sandbox.start_busy")), "{body}");
        };
        tokio::join!(fork("fork"), fork("fork-tree"));
        assert_eq!(sandboxes(&rig).await, STARTS_AT_ONCE + 1, "no child is left");
        assert!(rig.host.layers.lock().unwrap().is_empty(), "the host was not asked");
        rig.host.gate.let_through(STARTS_AT_ONCE);
    };
    let (created, ()) = tokio::join!(join_all(creates), forks);
    assert!(created.iter().all(|(status, _)| *status == 201), "{created:?}");
    rig.host.gate.let_through(1);
    let path = format!("/v1/sandboxes/{parent}/fork");
    let again = rig.call(Method::POST, &path).header("idempotency-key", "fork").json(&json!({"count": 2}));
    assert_eq!(answer(again).await.0, 201, "the key is free");
    assert_eq!(sandboxes(&rig).await, STARTS_AT_ONCE + 3);
}

async fn sandboxes(rig: &Rig) -> usize {
    rig.get("/v1/sandboxes").await.1.as_array().unwrap().len()
}

/// Adds an event that is not posted any more.
async fn add_dead(database: &Database, (identifier, workspace): (&str, &str), (dead, age_s): (&str, u64)) {
    let sql = "INSERT INTO pending_meter_events (identifier, workspace, month, hour, event_name, customer, value,
                   timestamp_s, tries, key_turn, unsure_since_s, next_try_s, claimed_until, dead, note)
               VALUES (?, ?, 0, ?, 'usage', 'cus_1', 1500000, ?, 3, 1, ?, 7, 7, ?, 'No such customer')";
    let at_s = now_s() - age_s;
    query(sql)
        .bind(identifier)
        .bind(workspace)
        .bind((at_s / 3600) as i64)
        .bind(at_s as i64)
        .bind(at_s as i64)
        .bind(dead)
        .execute(database)
        .await
        .unwrap();
}

#[tokio::test]
async fn events_that_stripe_refused_are_listed_and_queued_again() {
    let rig = Rig::start().await;
    let database = rig.database().await;
    for (place, end) in [
        (("refused-1", "default"), ("refused", DAY_S)),
        (("refused-2", "other"), ("refused", 2 * DAY_S)),
        (("late", "other"), ("refused", 36 * DAY_S)),
        (("old", "default"), ("too_old", 40 * DAY_S)),
        (("unsure", "default"), ("outcome_unknown", 3 * DAY_S)),
    ] {
        add_dead(&database, place, end).await;
    }
    let events = DeadMeterEvents::open(&backend::place(rig.folder.path()).await.database, 1).await.unwrap();
    let names = async |filter: DeadFilter| -> Vec<String> {
        events.list(&filter).await.unwrap().into_iter().map(|dead| dead.identifier).collect()
    };
    let of = |workspace: &str| DeadFilter::Workspace(workspace.to_owned());
    let called = |identifier: &str| DeadFilter::Identifier(identifier.to_owned());
    assert_eq!(names(DeadFilter::All).await, ["old", "late", "unsure", "refused-2", "refused-1"]);
    assert_eq!(names(of("other")).await, ["late", "refused-2"]);
    let first = events.list(&called("refused-1")).await.unwrap().remove(0);
    assert_eq!((first.workspace.as_str(), first.value, first.reason.as_str()), ("default", 1_500_000, "refused"));
    assert_eq!(first.hour.start_s(), (now_s() - DAY_S) / 3600 * 3600);
    // Those of one workspace: the one that is too old is left, and named.
    let report = events.requeue(&of("other"), now_s()).await.unwrap();
    assert_eq!(report.queued.iter().map(|dead| dead.identifier.as_str()).collect::<Vec<_>>(), ["refused-2"]);
    assert_eq!((report.left.len(), report.left[0].0.identifier.as_str()), (1, "late"));
    assert!(report.left[0].1.contains("35 days"), "{:?}", report.left);
    let sql = "SELECT tries, key_turn, unsure_since_s, next_try_s, note FROM pending_meter_events
               WHERE identifier = 'refused-2' AND dead IS NULL AND claimed_until = 0";
    let row: (i64, i64, Option<i64>, i64, String) = query_as(sql).fetch_one(&database).await.unwrap();
    assert_eq!(row, (0, 2, None, 0, String::new()), "the worker takes it at once, with a new key");
    // All: an event that Stripe may have counted is queued only by its name.
    let report = events.requeue(&DeadFilter::All, now_s()).await.unwrap();
    assert_eq!(report.queued.iter().map(|dead| dead.identifier.as_str()).collect::<Vec<_>>(), ["refused-1"]);
    let unsure = report.left.iter().find(|(dead, _)| dead.identifier == "unsure").unwrap();
    assert!(report.left.len() == 3 && unsure.1.contains("look for its identifier"), "{:?}", report.left);
    assert!(unsure.1.contains("admin billing requeue IDENTIFIER"), "{:?}", report.left);
    assert_eq!(events.requeue(&called("unsure"), now_s()).await.unwrap().queued.len(), 1);
    assert!(events.requeue(&called("old"), now_s()).await.unwrap().queued.is_empty());
    for nothing in ["unsure", "unknown"] {
        assert_eq!(events.requeue(&called(nothing), now_s()).await.unwrap(), Default::default());
    }
    assert_eq!(names(DeadFilter::All).await, ["old", "late"]);
    events.close().await;
    database.close().await;
}

#[tokio::test]
async fn every_alert_is_sent_once_in_a_month() {
    let rig = Rig::start().await;
    let plans = WorkspacePlans::open(&backend::place(rig.folder.path()).await.database, 1).await.unwrap();
    plans.change("other", |stored| stored.plan = Some("custom".to_owned())).await.unwrap();
    plans.close().await;
    let hook = json!({"url": "https://example.com/hook", "events": ["billing.*"]});
    let (status, hook) = theirs(&rig, Method::POST, "/v1/webhooks", hook).await;
    assert_eq!(status, 201, "{hook}");
    let path = format!("/v1/webhooks/{}/deliveries", hook["id"].as_str().unwrap());
    let database = rig.database().await;
    // Ten hours of a CPU cost 0.36 dollars.
    query("INSERT INTO usage_total VALUES ('other', ?, 36000000, 0, 0)")
        .bind((now_s() / 3600) as i64)
        .execute(&database)
        .await
        .unwrap();
    let (wide, tight, soft) = ((450_000, true), (300_000, true), (300_000, false));
    for (step, ((micros, hard_cap), sent)) in
        [(wide, 1), (tight, 2), (wide, 2), (tight, 2), (soft, 3), (wide, 3), (soft, 3), (tight, 3)]
            .into_iter()
            .enumerate()
    {
        let budget = json!({"monthly_micros": micros, "alert_percent": 50, "hard_cap": hard_cap});
        put_budget(&database, &budget.to_string()).await;
        rig.control.meter_usage().await.unwrap();
        let (_, deliveries) = theirs(&rig, Method::GET, &path, json!({})).await;
        assert_eq!(deliveries.as_array().map_or(0, Vec::len), sent, "step {step}: {deliveries}");
    }
    // Another month has its own.
    query("UPDATE billing_account SET alerted = '2020-01 alert cap over'").execute(&database).await.unwrap();
    rig.control.meter_usage().await.unwrap();
    assert_eq!(theirs(&rig, Method::GET, &path, json!({})).await.1.as_array().unwrap().len(), 4);
    database.close().await;
}

#[tokio::test]
async fn only_a_changed_budget_has_new_alerts() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (database, path) = (rig.database().await, format!("/v1/orgs/{}/budget", root.org));
    for (dollars, kept) in [(50, ""), (50, "2020-01 alert"), (60, "")] {
        let budget = json!({"monthly_usd": dollars, "hard_cap": true});
        assert_eq!(root.send(&rig, Method::PUT, &path, budget).await.0, 200);
        let alerted: String = query_scalar("SELECT alerted FROM billing_account").fetch_one(&database).await.unwrap();
        assert_eq!(alerted, kept);
        query("UPDATE billing_account SET alerted = '2020-01 alert'").execute(&database).await.unwrap();
    }
    database.close().await;
}
