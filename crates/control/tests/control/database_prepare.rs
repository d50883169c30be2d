//! Machines that databases start from, made in the background over a host without machines; and
//! machines of databases among sandboxes, families and events.

use std::{slice, time::Duration};

use pandastack_wire_fleet::{TemplateView, stub::stub_template};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    databases::{PlayedTool, becomes, create},
    rig::{Rig, wait_for},
};

/// How far the machine of a template is.
async fn prepared(rig: &Rig, template: &str) -> Value {
    let (status, shown) = rig.get(&format!("/v1/templates/{template}")).await;
    assert_eq!(status, 200, "{shown}");
    shown["databases"].clone()
}

async fn is(rig: &Rig, template: &str, status: &str) -> bool {
    prepared(rig, template).await["status"] == status
}

#[tokio::test]
async fn the_first_database_finds_its_machine_prepared() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    assert_eq!(prepared(&rig, "postgres-16").await, json!({"status": "waiting"}));
    assert_eq!(prepared(&rig, "mini").await, Value::Null, "no database starts from it");
    tool.hold(Some("init"));
    assert_eq!(rig.control.unprepared_templates().await, ["postgres-16"]);
    let control = rig.control.clone().with_prepared_databases();
    wait_for("it is being made", || is(&rig, "postgres-16", "preparing")).await;
    assert!(prepared(&rig, "postgres-16").await["since"].is_string());

    // One that comes meanwhile waits for the same machine, and says so.
    let made = create(&rig, json!({"label": "orders"})).await;
    let path = format!("/v1/databases/{}", made["id"].as_str().unwrap());
    let (_, shown) = rig.get(&path).await;
    assert_eq!(shown["status"], "provisioning", "{shown}");
    let waits = shown["error"].as_str().unwrap();
    assert!(waits.contains("databases of size 1g") && waits.contains("s ago"), "{waits}");
    tool.hold(None);
    becomes(&rig, &made, "running").await;
    assert_eq!(tool.verbs(), ["init", "credentials"], "it is made once");
    wait_for("it is ready", || is(&rig, "postgres-16", "ready")).await;
    let (_, listed) = rig.get("/v1/templates").await;
    let listed = listed.as_array().unwrap().iter().find(|one| one["name"] == "postgres-16").unwrap();
    assert_eq!(listed["databases"], json!({"status": "ready"}), "the list says the same");
    assert!(control.unprepared_templates().await.is_empty());

    // A size that is baked while the server runs is found.
    let baked = TemplateView { layer: "lyr_4g".into(), memory_mib: 4096, ..stub_template("postgres-16-4g") };
    rig.host.templates.lock().unwrap().push(baked);
    wait_for("the new size is ready", || is(&rig, "postgres-16-4g", "ready")).await;
    assert_eq!(tool.verbs(), ["init", "credentials", "init"]);
    let text = rig.call(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    for line in ["pandastack_database_preparations_total{result=\"ok\"} 2", "pandastack_database_preparing 0"] {
        assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
    }
}

#[tokio::test]
async fn a_machine_that_cannot_be_made_is_tried_again_later() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    *tool.failing.lock().unwrap() = Some("init");
    let _ = rig.control.clone().with_prepared_databases();
    wait_for("it failed", || is(&rig, "postgres-16", "failed")).await;
    let failed = prepared(&rig, "postgres-16").await;
    assert!(failed["error"].as_str().unwrap().contains("database init"), "{failed}");
    assert!(failed["next_try_at"].is_string() && failed.get("since").is_none(), "{failed}");
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (0, 0), "nothing is left of it");
    let before = tool.verbs().len();
    // Users do not wait for the next attempt.
    *tool.failing.lock().unwrap() = None;
    becomes(&rig, &create(&rig, json!({})).await, "running").await;
    assert_eq!(tool.verbs().len(), before + 2);
    assert_eq!(prepared(&rig, "postgres-16").await, json!({"status": "ready"}));
}

#[tokio::test]
async fn a_stop_of_the_server_leaves_nothing_half_made() {
    let rig = Rig::start().await;
    let tool = PlayedTool::start(&rig);
    tool.hold(Some("init"));
    let _ = rig.control.clone().with_prepared_databases();
    wait_for("the tool runs", || async { !tool.verbs().is_empty() }).await;
    assert_eq!(rig.host.count(), 1);
    let host = rig.host.clone();
    rig.scope.close(Duration::from_secs(5)).await;
    assert_eq!((host.count(), host.volumes.lock().unwrap().len()), (0, 0));
}

#[tokio::test]
async fn machines_of_databases_are_shown_only_on_request() {
    let rig = Rig::start().await;
    PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({"label": "orders"})).await, "running").await;
    let path = format!("/v1/databases/{}", database["id"].as_str().unwrap());
    let (_, branch) = rig.send(Method::POST, &format!("{path}/branches"), json!({})).await;
    let branch = becomes(&rig, &branch, "running").await;
    let plain = json!(rig.created().await);
    let (own, other) = (&database["id"], &branch["id"]);
    let ids = async |query: &str| {
        let (status, list) = rig.get(&format!("/v1/sandboxes{query}")).await;
        assert_eq!(status, 200, "{list}");
        list.as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    for query in ["", "?kind=", "?kind=sandbox", "?limit=10", "?kind=sandbox&limit=1"] {
        assert_eq!(ids(query).await, slice::from_ref(&plain), "{query}");
    }
    assert_eq!(ids("?kind=database").await, [other.clone(), own.clone()]);
    assert_eq!(ids("?kind=all").await, [plain.clone(), other.clone(), own.clone()]);
    // Pages are as long as they may be, whatever is left out between their sandboxes.
    assert_eq!(ids("?kind=all&limit=1").await, slice::from_ref(&plain));
    let after = |id: &Value, kind: &str| format!("?kind={kind}&limit=1&after={}", id.as_str().unwrap());
    assert_eq!(ids(&after(&plain, "all")).await, slice::from_ref(other));
    assert_eq!(ids(&after(&plain, "database")).await, slice::from_ref(other));
    assert_eq!(ids(&after(other, "database")).await, slice::from_ref(own));
    assert_eq!(ids(&after(own, "sandbox")).await, Vec::<Value>::new());
    let (status, refused) = rig.get("/v1/sandboxes?kind=databases").await;
    assert_eq!((status, &refused["code"]), (400, &json!("sandbox.bad_kind")), "{refused}");

    let (_, machine) = rig.get(&format!("/v1/sandboxes/{}", own.as_str().unwrap())).await;
    assert_eq!((&machine["database_id"], machine["metadata"]["db.label"].as_str()), (own, Some("orders")));
    let (_, sandbox) = rig.get(&format!("/v1/sandboxes/{}", plain.as_str().unwrap())).await;
    assert_eq!(sandbox.get("database_id"), None, "{sandbox}");
}

#[tokio::test]
async fn events_of_machines_of_databases_are_shown_only_on_request() {
    let rig = Rig::start().await;
    PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let plain = rig.created().await;
    let heard = async |kind: &str| {
        let (status, list) = rig.get(&format!("/v1/events?kind={kind}")).await;
        assert_eq!(status, 200, "{list}");
        list["events"].as_array().unwrap().clone()
    };
    let of = |events: &[Value], id: &Value| {
        let mine = events.iter().filter(|event| event["sandbox_id"] == *id);
        mine.map(|event| event["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let started = ["sandbox.running", "sandbox.ssh_ready"];
    for kind in ["", "sandbox"] {
        let events = heard(kind).await;
        assert_eq!(
            (of(&events, &database["id"]), of(&events, &json!(plain))),
            (vec![], started.map(str::to_owned).to_vec())
        );
        assert!(events.iter().any(|event| event["kind"] == "database.changed"), "{events:?}");
    }
    let events = heard("database").await;
    assert_eq!(
        (of(&events, &database["id"]), of(&events, &json!(plain))),
        (started.map(str::to_owned).to_vec(), vec![])
    );
    let machine = events.iter().find(|event| event["kind"] == "sandbox.running").unwrap();
    assert_eq!(machine["database_id"], database["id"]);
    assert_eq!(heard("all").await.len(), heard("sandbox").await.len() + started.len());
    assert_eq!(rig.get("/v1/events?kind=machines").await.0, 400);

    // Its end too, although its row is gone with it.
    assert_eq!(rig.delete(&format!("/v1/databases/{}", database["id"].as_str().unwrap())).await, 204);
    assert_eq!(of(&heard("").await, &database["id"]), Vec::<String>::new());
    assert_eq!(of(&heard("all").await, &database["id"]).last().unwrap(), "sandbox.deleted");
}

#[tokio::test]
async fn a_family_shows_names_and_what_each_member_costs() {
    let rig = Rig::start().await;
    let (_, parent) = rig.create(json!({"template": "mini", "metadata": {"name": "web"}})).await;
    let id = parent["id"].as_str().unwrap();
    let (status, fork) = rig.send(Method::POST, &format!("/v1/sandboxes/{id}/fork"), json!({})).await;
    assert_eq!(status, 201, "{fork}");
    let child = fork["sandbox"]["id"].clone();
    assert_eq!(rig.post(&format!("/v1/sandboxes/{}/pause", child.as_str().unwrap())).await.0, 204);
    let (_, tree) = rig.get(&format!("/v1/sandboxes/{id}/tree")).await;
    let [root, copy] = &tree["nodes"].as_array().unwrap()[..] else { panic!("{tree}") };
    assert_eq!((&root["name"], &root["id"], &copy["id"]), (&json!("web"), &json!(id), &child));
    assert_eq!((&root["cost"]["cpu"], &root["cost"]["memory_mb"]), (&parent["cpu"], &parent["memory_mb"]));
    let price = |node: &Value| node["cost"]["usd_per_hour"].as_f64().unwrap();
    assert!(price(root) > price(copy) && price(copy) > 0.0, "{tree}");
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    let (_, tree) = rig.get(&format!("/v1/sandboxes/{}/tree", child.as_str().unwrap())).await;
    let gone = &tree["nodes"][0];
    assert_eq!((&gone["status"], gone.get("cost")), (&json!("deleted"), None), "{tree}");
}
