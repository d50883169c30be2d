//! Managed databases over a host without machines: rows, statuses, refusals, and what a failure
//! leaves. `e2e/tests/databases.rs` has the real ones.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ControlPort, ExecEvent, Program, TemplateView, stub::stub_template};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{OTHER_KEY, Rig, answer, wait_for};

/// The verbs that the tool in the guests was called with. `failing` fails, and `held` does not end.
#[derive(Clone, Default)]
pub struct PlayedTool {
    verbs: Arc<Mutex<Vec<String>>>,
    pub failing: Arc<Mutex<Option<&'static str>>>,
    /// What `health` prints.
    pub health: Arc<Mutex<&'static str>>,
    held: Arc<Mutex<Option<&'static str>>>,
}

impl PlayedTool {
    /// Plays the tool of every database.
    pub fn start(rig: &Rig) -> Self {
        rig.host.templates.lock().unwrap().push(stub_template("postgres-16"));
        let (tool, mut commands) = (Self::default(), rig.host.play_commands());
        let played = tool.clone();
        rig.scope.start("play the tool of databases", async move {
            while let Some(command) = commands.recv().await {
                let Program::Argv(argv) = &command.ask.program else { panic!("{:?}", command.ask) };
                assert_eq!(argv[0], "/usr/lib/pandastack/database");
                played.verbs.lock().unwrap().push(argv[1].clone());
                while *played.held.lock().unwrap() == Some(argv[1].as_str()) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let code = i32::from(*played.failing.lock().unwrap() == Some(argv[1].as_str()));
                let printed = json!({"db_size_bytes": 7, "connections": 1, "max_connections": 200, "uptime_seconds": 3,
                    "cache_hit_ratio": 0.5, "disk_size_bytes": 9, "disk_used_bytes": 4, "disk_avail_bytes": 5,
                    "disk_used_pct": 44.4});
                let printed = match argv[1].as_str() {
                    "health" => played.health.lock().unwrap().as_bytes().to_vec(),
                    _ => printed.to_string().into_bytes(),
                };
                command.play([ExecEvent::Stdout(printed.into()), ExecEvent::Exit { code }]).await;
            }
        });
        tool
    }

    /// Lets a verb not end until another call.
    pub fn hold(&self, verb: Option<&'static str>) {
        *self.held.lock().unwrap() = verb;
    }

    pub fn verbs(&self) -> Vec<String> {
        self.verbs.lock().unwrap().clone()
    }
}

pub async fn create(rig: &Rig, body: Value) -> Value {
    let (status, made) = rig.send(Method::POST, "/v1/databases", body).await;
    assert_eq!((status, &made["status"]), (202, &json!("provisioning")), "{made}");
    made
}

/// Waits until a database has a status.
pub async fn becomes(rig: &Rig, database: &Value, status: &str) -> Value {
    let path = path(database);
    wait_for(status, || async { rig.get(&path).await.1["status"] == status }).await;
    rig.get(&path).await.1
}

fn path(database: &Value) -> String {
    format!("/v1/databases/{}", database["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_database_starts_from_a_golden_layer_that_is_made_once() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    let made = create(&rig, json!({"label": "orders"})).await;
    assert_eq!((made.get("password"), &made["template"], &made["size"]), (None, &json!("postgres-16"), &json!("1g")));
    let first = becomes(&rig, &made, "running").await;
    assert_eq!(tool.verbs(), ["init", "credentials"]);
    let password = first["password"].as_str().unwrap();
    let host = format!("{}.db.localhost", first["id"].as_str().unwrap());
    assert_eq!(first["connection_url"], json!(format!("postgres://pandastack:{password}@{host}:5432/pandastack")));
    assert_eq!(first["broker_url"], json!(format!("{}{}/proxy", rig.url, path(&first))));
    assert!(first["broker_token"].as_str().unwrap().starts_with("pds_pg_"), "{first}");
    assert!(password.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{password}");
    let second = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    assert_eq!(tool.verbs(), ["init", "credentials", "credentials"], "the golden layer is made once");
    assert_ne!(first["password"], second["password"]);
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 2, "one for each database, none for the golden layer");

    let (_, list) = rig.get("/v1/databases").await;
    assert_eq!((&list["count"], &list["items"][1]["label"]), (&json!(2), &json!("orders")));
    assert!(!list.to_string().contains(password), "a list has no credentials");
    let (status, connection) = rig.get(&format!("{}/connection", path(&first))).await;
    assert_eq!((status, &connection["connection_url"]), (200, &first["connection_url"]));
    let (status, refused) = answer(rig.call(Method::DELETE, &path(&first).replace("databases", "sandboxes"))).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sandbox.of_database")));
    for database in [&first, &second] {
        assert_eq!(rig.delete(&path(database)).await, 204);
        assert_eq!(rig.delete(&path(database)).await, 404);
    }
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (0, 0));
    assert_eq!(rig.get("/v1/databases").await.1["count"], 0);
}

#[tokio::test]
async fn a_size_is_the_template_of_its_machines_and_stays() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    let (status, refused) = rig.send(Method::POST, "/v1/databases", json!({"size": "4g"})).await;
    assert_eq!((status, &refused["code"]), (503, &json!("database.no_template")));
    let said = refused["error"].as_str().unwrap();
    assert!(said.contains("(it has 1g)") && said.ends_with("pandastack template bake postgres-16-4g"), "{said}");
    assert_eq!(rig.get("/v1/databases").await.1["count"], 0, "a refusal leaves nothing");

    let baked = TemplateView { layer: "lyr_4g".into(), memory_mib: 4096, ..stub_template("postgres-16-4g") };
    rig.host.templates.lock().unwrap().push(baked);
    let template_of = |database: &Value| {
        let id = database["id"].as_str().unwrap().parse().unwrap();
        rig.host.ensured.lock().unwrap()[&id].spec.template.to_string()
    };
    let large = becomes(&rig, &create(&rig, json!({"size": "4g", "cpu": 9, "memory_mb": 9})).await, "running").await;
    let small = becomes(&rig, &create(&rig, json!({"size": ""})).await, "running").await;
    assert_eq!(tool.verbs(), ["init", "credentials", "init", "credentials"], "each size has a golden layer");
    becomes(&rig, &create(&rig, json!({"size": "4g"})).await, "running").await;
    assert_eq!(tool.verbs().len(), 5, "and keeps it while others are made");
    let (_, branch) = rig.send(Method::POST, &format!("{}/branches", path(&large)), json!({})).await;
    let branch = becomes(&rig, &branch, "running").await;
    for (database, size, template) in
        [(&large, "4g", "postgres-16-4g"), (&branch, "4g", "postgres-16-4g"), (&small, "1g", "postgres-16")]
    {
        assert_eq!((&database["size"], &database["template"]), (&json!(size), &json!(template)));
        assert_eq!(template_of(database), template);
        let (status, again) = rig.post(&format!("{}/restart", path(database))).await;
        assert!(status < 300, "{again}");
        let again = becomes(&rig, database, "running").await;
        assert_eq!((&again["size"], &again["update_available"]), (&json!(size), &json!(false)));
        assert_eq!(template_of(database), template, "a restart keeps the size");
    }
    let (status, refused) = rig.send(Method::POST, &format!("{}/clone", path(&small)), json!({"size": "2g"})).await;
    assert_eq!((status, &refused["code"]), (400, &json!("database.bad_size")));
    let text = rig.call(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(text.lines().any(|line| line == "pandastack_databases{status=\"running\"} 4"), "{text}");
    let (_, listed) = rig.get("/v1/databases").await;
    let sizes: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|one| one["size"].as_str().unwrap()).collect();
    assert_eq!(sizes, ["4g", "4g", "1g", "4g"]);
}

#[tokio::test]
async fn bad_requests_are_refused_and_strangers_see_nothing() {
    let rig = Rig::start().await;
    let (status, refused) = rig.send(Method::POST, "/v1/databases", json!({})).await;
    assert_eq!((status, &refused["code"]), (503, &json!("database.no_template")), "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("pandastack template bake postgres-16"), "{refused}");
    PlayedTool::start(&rig);
    for (body, code) in
        [(json!({"size": "2g"}), "database.bad_size"), (json!({"label": "x".repeat(201)}), "database.bad_label")]
    {
        let (status, refused) = rig.send(Method::POST, "/v1/databases", body).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)));
    }
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let sandbox = rig.created().await;
    let other = format!("/v1/databases/{sandbox}");
    for (method, end) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::PATCH, ""),
        (Method::GET, "/connection"),
        (Method::POST, "/wake"),
        (Method::POST, "/reset-credentials"),
        (Method::POST, "/branches"),
        (Method::GET, "/stats"),
        (Method::GET, "/logs"),
        (Method::GET, "/backups"),
        (Method::POST, "/backups"),
        (Method::POST, "/verify-backup"),
        (Method::POST, "/clone"),
        (Method::POST, "/failover"),
        (Method::POST, "/restart"),
        (Method::POST, "/reset"),
        (Method::GET, "/diff"),
    ] {
        let theirs = rig.http.request(method.clone(), format!("{}{}{end}", rig.url, path(&database)));
        let (status, refused) = answer(theirs.bearer_auth(OTHER_KEY)).await;
        assert_eq!((status, &refused["code"]), (404, &json!("database.not_found")), "{method} {end}");
        for missing in [&other, "/v1/databases/nothing"] {
            let (status, refused) = answer(rig.call(method.clone(), &format!("{missing}{end}"))).await;
            assert_eq!((status, &refused["code"]), (404, &json!("database.not_found")), "{method} {missing}{end}");
        }
    }
    let strangers = rig.http.get(format!("{}/v1/databases", rig.url)).bearer_auth(OTHER_KEY);
    assert_eq!(answer(strangers).await.1["count"], 0);
    assert_eq!(rig.get(&path(&database)).await.1["status"], "running");
    let id = database["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(rig.control.open_broker(id, "pds_pg_wrong").await.unwrap_err().kind, FaultKind::Unauthorized);
    let login = rig.control.open_broker(id, database["broker_token"].as_str().unwrap()).await.unwrap();
    assert_eq!(json!(login.password), database["password"]);
    assert!(!format!("{login:?}").contains(&login.password), "a password is printed");
}

#[tokio::test]
async fn a_branch_belongs_to_nobody_before_it_has_its_own_credentials() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    let source = becomes(&rig, &create(&rig, json!({"always_on": true})).await, "running").await;
    *tool.failing.lock().unwrap() = Some("credentials");
    let (status, failing) = rig.send(Method::POST, &format!("{}/branches", path(&source)), json!({})).await;
    assert_eq!((status, &failing["branched_from"]), (202, &source["id"]), "{failing}");
    let failed = becomes(&rig, &failing, "failed").await;
    assert_eq!(failed.get("password"), None, "{failed}");
    let id = failed["id"].as_str().unwrap().parse().unwrap();
    assert!(rig.control.admit_database(id).await.is_err(), "the source's password would open it");
    *tool.failing.lock().unwrap() = None;
    let (_, branch) = rig.send(Method::POST, &format!("{}/branches", path(&source)), json!({"label": "try"})).await;
    let branch = becomes(&rig, &branch, "running").await;
    assert_eq!((&branch["always_on"], &branch["label"]), (&json!(true), &json!("try")));
    assert_ne!(branch["password"], source["password"]);
    for database in [&source, &failed, &branch] {
        assert_eq!(rig.delete(&path(database)).await, 204);
    }
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (0, 0));
}

#[tokio::test]
async fn a_database_sleeps_when_idle_unless_it_is_always_on() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let path = path(&database);
    let id = database["id"].as_str().unwrap().parse().unwrap();
    let spec = |rig: &Rig| rig.host.ensured.lock().unwrap()[&id].spec.clone();
    assert!(spec(&rig).persistent && spec(&rig).ttl_seconds > 0);
    let (status, changed) = rig.send(Method::PATCH, &path, json!({"always_on": true})).await;
    assert_eq!((status, &changed["always_on"]), (200, &json!(true)));
    assert_eq!(rig.host.lifecycles.lock().unwrap()[&id].ttl_seconds, 0);
    assert_eq!(rig.send(Method::PATCH, &path, json!({})).await.1["always_on"], true, "an empty change is none");

    assert_eq!(rig.get(&format!("{path}/stats")).await.1["db_size_bytes"], 7);
    let sandbox = path.replace("databases", "sandboxes");
    assert_eq!(rig.post(&format!("{sandbox}/hibernate")).await.0, 200);
    let asleep = becomes(&rig, &database, "hibernated").await;
    assert_eq!(asleep["password"], database["password"], "credentials hold while it sleeps");
    let before = tool.verbs().len();
    for end in ["stats", "logs"] {
        let (status, refused) = rig.get(&format!("{path}/{end}")).await;
        assert_eq!((status, &refused["code"]), (503, &json!("database.not_running")));
    }
    assert_eq!(tool.verbs().len(), before, "a look does not wake it");
    assert_eq!(rig.post(&format!("{path}/wake")).await, (200, json!({"id": database["id"], "status": "running"})));
}

#[tokio::test]
async fn a_database_that_is_deleted_while_it_is_made_leaves_nothing() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    for held in ["init", "credentials"] {
        *tool.held.lock().unwrap() = Some(held);
        let before = tool.verbs().len();
        let made = create(&rig, json!({})).await;
        wait_for("the tool runs", || async { tool.verbs().len() > before }).await;
        assert_eq!(rig.delete(&path(&made)).await, 204, "{held}");
        *tool.held.lock().unwrap() = None;
        wait_for("the machines are gone", || async { rig.host.count() == 0 }).await;
        wait_for("the volumes are gone", || async { rig.host.volumes.lock().unwrap().is_empty() }).await;
        assert_eq!(rig.get("/v1/databases").await.1["count"], 0);
        assert_eq!(rig.get("/v1/sandboxes?kind=all").await.1, json!([]));
    }
    becomes(&rig, &create(&rig, json!({})).await, "running").await;
}

#[tokio::test]
async fn what_would_delete_a_database_unasked_is_refused() {
    let rig = Rig::start().await;
    PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let sandbox = path(&database).replace("databases", "sandboxes");
    let short = json!({"ttl_seconds": 1, "persistent": false});
    let (status, refused) = rig.send(Method::PATCH, &format!("{sandbox}/lifecycle"), short.clone()).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sandbox.of_database")));
    for (method, end) in [(Method::PATCH, "/lifecycle"), (Method::DELETE, "")] {
        let theirs = rig.http.request(method, format!("{}{sandbox}{end}", rig.url)).bearer_auth(OTHER_KEY);
        let (status, missing) = answer(theirs.json(&short)).await;
        assert_eq!((status, &missing["code"]), (404, &json!("sandbox.not_found")), "{end}: {missing}");
    }
    let volume = rig.get(&sandbox).await.1["volumes"][0]["name"].clone();
    let stolen = json!({"template": "mini", "volumes": [{"name": volume}]});
    // Not only by the host, which would not refuse the volume of a database whose machine is gone.
    let (status, refused) = rig.create(stolen).await;
    assert_eq!((status, &refused["code"]), (409, &json!("sandbox.of_database")));
    assert_eq!(rig.delete(&path(&database)).await, 204);
    assert_eq!(rig.get("/v1/volumes").await.1, json!([]), "the refused sandbox did not keep it");
}

#[tokio::test]
async fn a_template_that_is_baked_again_gets_a_golden_layer_of_its_own() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    let old = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let layers = || rig.host.layers.lock().unwrap().keys().copied().collect::<Vec<_>>();
    let first = layers();
    assert_eq!(first.len(), 1);
    for template in rig.host.templates.lock().unwrap().iter_mut() {
        template.layer = "lyr_new".into();
    }
    becomes(&rig, &create(&rig, json!({})).await, "running").await;
    assert_eq!(tool.verbs(), ["init", "credentials", "init", "credentials"]);
    assert!(layers().len() == 1 && layers() != first, "the old golden layer is released");

    // The first database runs on the old template until it is started again.
    let is_old = |database: &Value| database["update_available"].clone();
    assert_eq!((is_old(&old), is_old(&rig.get(&path(&old)).await.1)), (json!(false), json!(true)));
    assert_eq!(rig.post(&format!("{}/restart", path(&old))).await.0, 202);
    let new = becomes(&rig, &old, "running").await;
    assert_eq!((is_old(&new), &new["password"]), (json!(false), &old["password"]));
}

#[tokio::test]
async fn new_credentials_that_nobody_can_use_are_taken_back() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let reset = format!("{}/reset-credentials", path(&database));
    *tool.failing.lock().unwrap() = Some("credentials");
    assert_eq!(rig.post(&reset).await.0, 502);
    assert_eq!(rig.get(&path(&database)).await.1["password"], database["password"]);
    *tool.failing.lock().unwrap() = None;
    // The machine of this test has the tool, but no server to log in to.
    let before = tool.verbs().len();
    let (status, refused) = rig.post(&reset).await;
    assert_eq!((status, &refused["code"]), (502, &json!("database.no_login")), "{refused}");
    assert_eq!(tool.verbs()[before..], ["credentials", "credentials"], "the new one, then the old one");
    assert_eq!(rig.get(&path(&database)).await.1["password"], database["password"]);
    let sleeper = database["id"].as_str().unwrap();
    assert_eq!(rig.post(&format!("/v1/sandboxes/{sleeper}/hibernate")).await.0, 200);
    let (status, refused) = rig.post(&reset).await;
    assert_eq!((status, &refused["code"]), (409, &json!("database.not_running")), "{refused}");
    let (status, refused) = rig.get(&format!("{}/stats", path(&database))).await;
    assert_eq!((status, &refused["code"]), (503, &json!("database.not_running")), "{refused}");
}

#[tokio::test]
async fn a_failure_is_shown_and_leaves_nothing_behind() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    *tool.failing.lock().unwrap() = Some("init");
    let failed = becomes(&rig, &create(&rig, json!({})).await, "failed").await;
    assert!(failed["error"].as_str().unwrap().contains("exit status 1"), "{failed}");
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (0, 0));
    assert!(rig.host.layers.lock().unwrap().is_empty());
    *tool.failing.lock().unwrap() = None;
    let good = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    rig.host.fail_next("ensure", Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage"));
    let full = becomes(&rig, &create(&rig, json!({})).await, "failed").await;
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (1, 1));
    for database in [&failed, &good, &full] {
        assert_eq!(rig.delete(&path(database)).await, 204);
    }
    assert_eq!(rig.get("/v1/databases").await.1["count"], 0);
}

#[tokio::test]
async fn a_restart_keeps_data_and_credentials_even_if_it_fails_first() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let restart = format!("{}/restart", path(&database));
    *tool.failing.lock().unwrap() = Some("start");
    let (status, shown) = rig.send(Method::POST, &restart, json!({})).await;
    assert_eq!((status, &shown["status"]), (202, &json!("provisioning")), "{shown}");
    let failed = becomes(&rig, &database, "failed").await;
    assert!(failed["error"].as_str().unwrap().contains("database start"), "{failed}");
    assert_eq!(failed["failover_available"], false, "{failed}");
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (1, 1));
    *tool.failing.lock().unwrap() = None;
    assert_eq!(rig.send(Method::POST, &restart, json!({})).await.0, 202);
    let restarted = becomes(&rig, &database, "running").await;
    assert_eq!(restarted["connection_url"], database["connection_url"]);
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (1, 1));
    assert_eq!(tool.verbs()[2..], ["stop", "start", "stop", "start"]);
}

#[tokio::test]
async fn without_an_archive_nothing_is_restored_and_nothing_is_lost() {
    let rig = Rig::start().await;
    let _ = rig.control.clone().with_database_archive(None);
    PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let (status, backups) = rig.get(&format!("{}/backups", path(&database))).await;
    assert_eq!((status, &backups["archive"]["health"], &backups["count"]), (200, &json!("off"), &json!(0)));
    for (end, code) in [
        ("clone", "database.no_archive"),
        ("verify-backup", "database.no_archive"),
        ("backups", "database.no_archive"),
        ("failover", "database.not_failed"),
        ("reset", "database.no_parent"),
    ] {
        let (status, refused) = rig.send(Method::POST, &format!("{}/{end}", path(&database)), json!({})).await;
        assert_eq!((status, &refused["code"]), (409, &json!(code)), "{end}: {refused}");
    }
    let branches = format!("{}/branches", path(&database));
    let branch = becomes(&rig, &rig.send(Method::POST, &branches, json!({})).await.1, "running").await;
    let reset = format!("{}/reset", path(&branch));
    assert_eq!(rig.send(Method::POST, &reset, json!({})).await.0, 202);
    let again = becomes(&rig, &branch, "running").await;
    assert_eq!(again["connection_url"], branch["connection_url"]);
    assert_eq!(rig.delete(&path(&database)).await, 204);
    let (status, refused) = rig.send(Method::POST, &reset, json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("database.no_parent")));
    assert_eq!(rig.get(&path(&branch)).await.1["status"], "running");
}
