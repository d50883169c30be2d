//! The audit trail: who did what, and the hash chain that shows whether somebody changed it.

use std::{sync::Arc, time::Duration};

use pandastack_control::{
    Accounts, AuditChains, ChainReport, DefectKind, ProxyTrust, SignInSettings, limits::AUDIT_AGE_MAX,
};
use pandastack_database::{Database, WriteLock, query, query_built};
use pandastack_kit::{Clock, SystemClock};
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    backend,
    people::{PASSWORD, invited, log_in, operator, send},
    rig::{KEY, Rig, answer, sign_in, wait_for},
};

/// A request that changes nothing, but could have.
const MISSING: &str = "/v1/sandboxes/00000000-0000-4000-8000-000000000000";

async fn entries(rig: &Rig, query: &str) -> Vec<Value> {
    let (status, trail) = rig.get(&format!("/v1/audit{query}")).await;
    assert_eq!(status, 200, "{trail}");
    trail["entries"].as_array().unwrap().clone()
}

/// Makes a number of entries, one after the other.
async fn fill(rig: &Rig, count: usize) {
    let before = rows(rig).await;
    for _ in 0..count {
        assert_eq!(rig.delete(MISSING).await, 404);
    }
    wait_for("the entries", || async { rows(rig).await == before + count }).await;
}

async fn rows(rig: &Rig) -> usize {
    usize::try_from(verified(rig, "default").await.rows).unwrap()
}

async fn verified(rig: &Rig, workspace: &str) -> ChainReport {
    let place = backend::place(rig.folder.path()).await;
    let chains = AuditChains::open(&place.database, SystemClock.now_ns()).await.unwrap();
    let report = chains.verify(workspace).await.unwrap();
    chains.close().await;
    report
}

fn kinds(report: &ChainReport) -> Vec<(DefectKind, u64)> {
    report.defects.iter().map(|defect| (defect.kind, defect.number)).collect()
}

async fn run(database: &Database, sql: &str) {
    query_built(sql.to_owned()).execute(database).await.unwrap();
}

type Defects = &'static [(DefectKind, u64)];

/// What somebody with access to the database does, and what the check finds.
const CHANGES: [(&str, &[&str], Defects); 13] = [
    ("a field", &["UPDATE audit SET path = '/v1/other' WHERE number = 3"], &[(DefectKind::Changed, 3)]),
    ("an actor", &["UPDATE audit SET actor = 'user:x' WHERE number = 3"], &[(DefectKind::Changed, 3)]),
    ("a number out of range", &["UPDATE audit SET duration_ms = -1 WHERE number = 3"], &[(DefectKind::Changed, 3)]),
    (
        "text of two fields",
        &["UPDATE audit SET method = 'DELET', route = 'E' || route WHERE number = 6"],
        &[(DefectKind::Changed, 6)],
    ),
    ("a row in the middle", &["DELETE FROM audit WHERE number = 4"], &[(DefectKind::Removed, 4)]),
    ("rows at the start", &["DELETE FROM audit WHERE number < 3"], &[(DefectKind::Removed, 1)]),
    ("the newest row", &["DELETE FROM audit WHERE number = 6"], &[(DefectKind::CutTail, 6)]),
    ("all rows", &["DELETE FROM audit WHERE workspace = 'default'"], &[(DefectKind::CutTail, 1)]),
    (
        "two swapped rows",
        &[
            "UPDATE audit SET number = 100 WHERE number = 2",
            "UPDATE audit SET number = 2 WHERE number = 5",
            "UPDATE audit SET number = 5 WHERE number = 100",
        ],
        &[(DefectKind::Changed, 2), (DefectKind::Changed, 5)],
    ),
    (
        "a removed row that later rows hide",
        &[
            "DELETE FROM audit WHERE number = 4",
            "UPDATE audit SET number = 4 WHERE number = 5",
            "UPDATE audit SET number = 5 WHERE number = 6",
            "UPDATE audit_chain SET head_number = 5",
        ],
        &[(DefectKind::Changed, 4), (DefectKind::Changed, 5)],
    ),
    (
        "a forged row at the end",
        &["INSERT INTO audit SELECT 'forged', workspace, at, request_id, method, route, path, status, duration_ms,
             key_prefix, actor, actor_email, address, 7, hash, hash FROM audit WHERE number = 6"],
        &[(DefectKind::Inserted, 7)],
    ),
    (
        "a forged row without a number",
        &["INSERT INTO audit SELECT 'forged', workspace, at, request_id, method, route, path, status, duration_ms,
             key_prefix, actor, actor_email, address, CAST(NULL AS BIGINT), '', '' FROM audit WHERE number = 6"],
        &[(DefectKind::Inserted, 0)],
    ),
    (
        "a forged row in the middle",
        &[
            "DROP INDEX audit_number",
            "INSERT INTO audit SELECT 'zforged', workspace, at, request_id, method, route, path, status, duration_ms,
             key_prefix, actor, actor_email, address, number, previous_hash, hash FROM audit WHERE number = 3",
        ],
        &[(DefectKind::Inserted, 3)],
    ),
];

#[tokio::test]
async fn every_change_of_the_stored_entries_is_found() {
    for (what, changes, found) in CHANGES {
        let rig = Rig::start().await;
        fill(&rig, 6).await;
        let report = verified(&rig, "default").await;
        assert_eq!((report.rows, report.head.number, kinds(&report)), (6, 6, vec![]), "before: {what}");
        let database = rig.database().await;
        for change in changes {
            run(&database, change).await;
        }
        database.close().await;
        assert_eq!(kinds(&verified(&rig, "default").await), found, "{what}");
    }
}

#[tokio::test]
async fn a_replaced_entry_with_a_right_hash_does_not_fit() {
    let rig = Rig::start().await;
    fill(&rig, 3).await;
    // The best forgery of one entry: its own hash is right, but the next entry has the old one.
    let mut line: Value = serde_json::from_str(&exported(&rig, "").await[1]).unwrap();
    line["path"] = json!("/v1/other");
    let database = rig.database().await;
    let sql = "UPDATE audit SET path = '/v1/other', hash = ? WHERE number = 2";
    query(sql).bind(hash(&line)).execute(&database).await.unwrap();
    assert_eq!(kinds(&verified(&rig, "default").await), [(DefectKind::Changed, 3)]);
    // The same for the newest entry, which only the head shows.
    run(&database, "UPDATE audit_chain SET head_hash = 'x'").await;
    let found = kinds(&verified(&rig, "default").await);
    assert_eq!(found, [(DefectKind::Changed, 3), (DefectKind::Changed, 3)]);
    database.close().await;
}

#[tokio::test]
async fn two_servers_write_one_valid_chain() {
    let rig = Rig::start().await;
    let other = rig.start_beside().await;
    let ask = |url: &str| rig.http.delete(format!("{url}{MISSING}")).bearer_auth(KEY).send();
    for _ in 0..10 {
        let sent = futures_util::future::join_all((0..8).map(|turn| ask([&rig.url, &other.url][turn % 2]))).await;
        assert!(sent.into_iter().all(|response| response.unwrap().status() == 404));
    }
    wait_for("the entries", || async { rows(&rig).await == 80 }).await;
    other.stop().await;
    let report = verified(&rig, "default").await;
    assert_eq!((report.head.number, kinds(&report)), (80, vec![]));
}

#[tokio::test]
async fn pruned_entries_leave_a_valid_chain() {
    let rig = Rig::start().await;
    fill(&rig, 1200).await;
    let database = rig.database().await;
    // The first entries are older than the limit. Their hashes no longer fit, but they go anyway.
    run(&database, "UPDATE audit SET at = 1 WHERE number <= 1100").await;
    let old = "INSERT INTO audit (id, workspace, at, request_id, method, route, path, status, duration_ms, key_prefix)
               VALUES ('old', 'default', ?, '', '', '', '', 200, 0, ''), ('new', 'default', ?, '', '', '', '', 200, \
               0, '')";
    let now = i64::try_from(SystemClock.now_ns()).unwrap();
    query(old).bind(now - AUDIT_AGE_MAX.as_nanos() as i64 - 1).bind(now).execute(&database).await.unwrap();
    run(&database, "UPDATE audit_chain SET unnumbered = 2").await;
    let rig = rig.restart_control().await;
    let report = verified(&rig, "default").await;
    assert_eq!((report.rows, report.anchor.number, report.unnumbered, kinds(&report)), (100, 1100, 1, vec![]));
    // The chain goes on, and what was pruned cannot come back.
    fill(&rig, 1).await;
    assert_eq!(verified(&rig, "default").await.head.number, 1201);
    run(&database, "UPDATE audit SET number = 1 WHERE id = 'new'").await;
    assert_eq!(kinds(&verified(&rig, "default").await), [(DefectKind::Inserted, 1)]);
    // A start that was removed without pruning is found.
    run(&database, "DELETE FROM audit WHERE number IN (1, 1101)").await;
    assert_eq!(kinds(&verified(&rig, "default").await), [(DefectKind::Removed, 1101)]);
    database.close().await;
}

#[tokio::test]
async fn entries_outlive_a_crash_and_the_chain_continues() {
    let rig = Rig::start().await;
    fill(&rig, 5).await;
    let before = exported(&rig, "").await;
    // The server vanishes without any shutdown: a second one continues from the database alone.
    let Rig { folder, control, scope, .. } = rig;
    let next = Rig::start_in(folder, Arc::new(StubHost::default())).await;
    fill(&next, 5).await;
    let after = exported(&next, "").await;
    assert_eq!((after.len(), &after[..5]), (10, &before[..]));
    assert_eq!(kinds(&verified(&next, "default").await), []);
    scope.close(Duration::from_secs(5)).await;
    control.close().await;
}

#[tokio::test]
async fn an_entry_names_its_actor_and_address() {
    let settings = SignInSettings { proxy: ProxyTrust::Last, ..sign_in() };
    let rig = Rig::start_signing_in(settings, Arc::new(SystemClock)).await;
    let root = operator(&rig).await;
    let by = |token: &str| {
        let request = rig.http.delete(format!("{}{MISSING}", rig.url)).bearer_auth(token);
        answer(request.header("x-forwarded-for", "192.0.2.7").header("x-request-id", "r-1"))
    };
    assert_eq!((by(KEY).await.0, by(&root.token).await.0), (404, 404));
    let deletes = || async { entries(&rig, "?method=delete").await.len() == 2 };
    wait_for("both entries", deletes).await;
    let found = entries(&rig, "?method=DELETE").await;
    let who = |entry: &Value| (entry["actor"].clone(), entry["actor_email"].clone(), entry["key_prefix"].clone());
    assert_eq!(who(&found[0]), (json!(format!("user:{}", root.id)), json!("root@example.com"), json!("")));
    assert_eq!(who(&found[1]), (json!("key:pds_00000000"), Value::Null, json!("pds_00000000")));
    for entry in &found {
        let rest = (&entry["address"], &entry["request_id"], &entry["workspace"], &entry["status"]);
        assert_eq!(rest, (&json!("192.0.2.7"), &json!("r-1"), &json!("default"), &json!(404)), "{entry}");
        assert!(entry["entry"].is_string() && entry["ts"].is_string(), "{entry}");
        assert!(entry["id"].is_u64() && entry["id"] == entry["number"], "{entry}");
    }
    for (query, count) in [
        (format!("?actor=user:{}&method=DELETE", root.id), 1),
        ("?actor=root@example.com&method=DELETE".to_owned(), 1),
        ("?actor=key:pds_00000000&method=DELETE".to_owned(), 1),
        ("?method=DELETE&until=1000".to_owned(), 0),
        ("?method=DELETE&since=0&until=32503680000".to_owned(), 2),
        ("?method=PUT".to_owned(), 0),
    ] {
        assert_eq!(entries(&rig, &query).await.len(), count, "{query}");
    }
    assert_eq!(rig.get("/v1/audit?until=soon").await.0, 400);
}

#[tokio::test]
async fn logins_are_recorded_in_the_persons_organisation_and_nowhere_else() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let bob = invited(&rig, &root, "bob@example.com", "member").await;
    assert_eq!(log_in(&rig, "bob@example.com", PASSWORD).await.0, 200);
    assert_eq!(log_in(&rig, "bob@example.com", "wrong password").await.0, 401);
    assert_eq!(log_in(&rig, "nobody@example.com", "wrong password").await.0, 401);
    let accounts =
        Accounts::open(&backend::place(rig.folder.path()).await.database, SystemClock.now_ns()).await.unwrap();
    let (_, token) = accounts.reset("bob@example.com").await.unwrap();
    accounts.close().await;
    for (password, status) in [("short", 400), (PASSWORD, 204), (PASSWORD, 410)] {
        let ask = json!({"token": token.reveal(), "password": password});
        assert_eq!(send(&rig, "/v1/auth/reset", ask).await.0, status);
    }
    let query = format!("?actor=user:{}", bob.id);
    let recorded = || async { entries(&rig, &query).await.len() >= 5 };
    wait_for("the logins", recorded).await;
    let found = entries(&rig, &query).await;
    let login = |entry: &Value| format!("{} {}", entry["path"].as_str().unwrap(), entry["status"]);
    let mut paths: Vec<_> = found.iter().map(login).collect();
    paths.reverse();
    let expected = ["register 201", "login 200", "login 401", "reset 400", "reset 204"];
    assert_eq!(paths, expected.map(|end| format!("/v1/auth/{end}")));
    let all = entries(&rig, "").await;
    assert!(!json!(all).to_string().contains("nobody@example.com"));
    assert!(found.iter().all(|entry| entry["workspace"] == "default"), "{found:?}");
    let (_, theirs) = rig.stranger(Method::GET, "/v1/audit").await;
    assert_eq!(theirs["entries"], json!([]), "another workspace sees nothing of it");
    assert_eq!(kinds(&verified(&rig, "default").await), []);
}

#[tokio::test]
async fn an_export_is_complete_and_anybody_can_check_it() {
    let rig = Rig::start().await;
    fill(&rig, 1100).await;
    rig.stranger(Method::DELETE, MISSING).await;
    let lines = exported(&rig, "").await;
    assert_eq!(lines.len(), 1100);
    let mut previous = json!("");
    for (place, line) in lines.iter().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["number"], &line["previous_hash"]), (&json!(place + 1), &previous));
        assert_eq!(line["hash"], hash(&line), "{line}");
        previous = line["hash"].clone();
    }
    assert_eq!(previous, verified(&rig, "default").await.head.hash);
    assert_eq!(exported(&rig, "?after=1098").await, lines[1098..]);
    assert_eq!(exported(&rig, "?after=1100").await, Vec::<String>::new());
    assert_eq!(rig.get("/v1/audit/export?after=x").await.0, 400);
    let nobody = rig.http.get(format!("{}/v1/audit/export", rig.url)).send().await.unwrap();
    assert_eq!(nobody.status(), 401);
}

#[tokio::test]
async fn a_request_whose_client_hung_up_is_recorded() {
    let rig = Rig::start().await;
    let hold = rig.database().await;
    // Somebody holds the lock that a new key needs, until its client has gone.
    let held = hold.begin_write(WriteLock::on("workspace", "default")).await.unwrap();
    let create = rig.call(Method::POST, "/v1/api-keys").header("x-request-id", "gone").json(&json!({}));
    assert!(create.timeout(Duration::from_secs(3)).send().await.is_err(), "the lock is held");
    drop(held);
    hold.close().await;
    let recorded = || async {
        let found = entries(&rig, "").await;
        found.iter().any(|entry| entry["request_id"] == "gone" && entry["status"] == 499)
    };
    wait_for("the entry", recorded).await;
}

async fn exported(rig: &Rig, query: &str) -> Vec<String> {
    let response = rig.call(Method::GET, &format!("/v1/audit/export{query}")).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/x-ndjson".parse().unwrap())
    );
    response.text().await.unwrap().lines().map(str::to_owned).collect()
}

/// The hash of an exported line, as docs/audit.md describes it.
fn hash(line: &Value) -> String {
    let mut hash = Sha256::new();
    let names = [
        "previous_hash",
        "number",
        "id",
        "workspace",
        "at_ns",
        "request_id",
        "method",
        "route",
        "path",
        "status",
        "duration_ms",
        "key_prefix",
        "actor",
        "actor_email",
        "address",
    ];
    let field = |name: &str| match &line[name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for text in std::iter::once("pandastack-audit-1".to_owned()).chain(names.map(field)) {
        hash.update(format!("{}:{text},", text.len()));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
