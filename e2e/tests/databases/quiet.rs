//! What users do not see of their databases: how the machine is made that they start from, and the
//! machines among sandboxes, families and events.

use serde_json::{Value, json};

use super::DatabaseBed;

/// A server has the machine that databases start from before anybody asks for one.
pub async fn the_server_is_prepared(bed: &DatabaseBed) {
    let (status, template) = bed.get("/v1/templates/postgres-16").await;
    assert_eq!((status, &template["databases"]), (200, &json!({"status": "ready"})), "{template}");
    let said = bed.server.said();
    assert!(!said.contains("preparing  databases"), "{said}");
}

/// Whatever was created meanwhile.
pub async fn no_user_waited_for_a_golden_layer(bed: &DatabaseBed) {
    let metrics = bed.text("/metrics").await;
    for line in ["database_preparations_total{result=\"ok\"} 0", "database_preparations_total{result=\"error\"} 0"] {
        let line = format!("pandastack_{line}");
        assert!(metrics.lines().any(|one| one == line), "{line} is not in {metrics}");
    }
}

/// They are in no list, no page and no event, unless somebody asks for them.
pub async fn machines_of_databases_stay_out_of_sight(bed: &DatabaseBed, databases: &[&Value]) {
    let ids: Vec<_> = databases.iter().map(|database| &database["id"]).collect();
    let listed = async |query: &str| bed.get(&format!("/v1/sandboxes{query}")).await.1;
    for query in ["", "?limit=1"] {
        assert_eq!(listed(query).await, json!([]), "{query}");
    }
    for query in ["?kind=database", "?kind=all"] {
        let list = listed(query).await;
        let found: Vec<_> = list.as_array().unwrap().iter().map(|one| &one["database_id"]).collect();
        assert!(found.len() == ids.len() && ids.iter().all(|id| found.contains(id)), "{list}");
    }
    let told = async |kind: &str| {
        let (_, list) = bed.get(&format!("/v1/events?limit=512&kind={kind}")).await;
        list["events"].as_array().unwrap().clone()
    };
    let is_of = |event: &Value| ids.iter().any(|id| **id == event["sandbox_id"]);
    let heard: Vec<_> = told("").await.into_iter().filter(|event| is_of(event)).collect();
    assert!(heard.iter().all(|event| event["kind"].as_str().unwrap().starts_with("database.")), "{heard:?}");
    let all = told("all").await;
    for kind in ["sandbox.running", "sandbox.hibernated", "sandbox.woken", "sandbox.forked"] {
        assert!(all.iter().any(|event| is_of(event) && event["kind"] == kind), "{kind} is not in {all:?}");
    }
    let source = databases[0]["id"].as_str().unwrap();
    let (_, tree) = bed.get(&format!("/v1/sandboxes/{source}/tree")).await;
    let nodes = tree["nodes"].as_array().unwrap();
    let costs = |node: &Value| node["cost"]["memory_mb"] == 1024 && node["cost"]["usd_per_hour"].as_f64() > Some(0.0);
    assert!(nodes.len() == 2 && nodes.iter().all(costs), "{tree}");
}

/// They slept and were branched with open connections from the server. In the new network nobody
/// knows those, which is no news for users.
pub async fn no_database_reaches_for_its_host(bed: &DatabaseBed, databases: &[&Value]) {
    for database in databases {
        let (_, list) = bed.get(&format!("/v1/sandboxes/{}/events?tail=1000", database["id"].as_str().unwrap())).await;
        let denied = list["events"].as_array().unwrap().iter().filter(|event| event["type"] == "egress.denied");
        let targets: Vec<_> = denied.map(|event| event["payload"]["target"].as_str().unwrap()).collect();
        assert!(!targets.iter().any(|target| target.starts_with("172.16.0.1")), "{targets:?}");
    }
}
