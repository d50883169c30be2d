//! Observability for callers: live events, resource use, boot times, the audit trail, and metrics.

use std::time::Duration;

use pandastack_model::SandboxId;
use pandastack_wire_fleet::{HostEvent, RemovedBy};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::rig::{KEY, PATIENCE, Rig, answer, wait_for};

/// Reads a stream until it contains a text.
async fn until(response: &mut Response, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let piece = tokio::time::timeout(PATIENCE, response.chunk()).await.expect(text).unwrap();
        seen.push_str(std::str::from_utf8(&piece.expect("the stream goes on")).unwrap());
    }
    seen
}

fn events(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("event: event\ndata: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn events_are_followed_to_the_sandboxs_end() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    for follow in ["1", "true"] {
        let path = format!("/v1/sandboxes/{id}/events?tail=1&follow={follow}");
        let mut response = rig.call(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        let past = until(&mut response, "sandbox.").await;
        assert!(past.starts_with(": open\n\n") && events(&past).len() == 1, "{past}");
        rig.post(&format!("/v1/sandboxes/{id}/pause")).await;
        let paused = events(&until(&mut response, "sandbox.paused").await);
        assert_eq!((&paused[0]["type"], &paused[0]["sandbox_id"]), (&json!("sandbox.paused"), &json!(id)));
        assert_eq!((&paused[0]["ts"], &paused[0]["metadata"]), (&paused[0]["time"], &paused[0]["payload"]));
        rig.post(&format!("/v1/sandboxes/{id}/resume")).await;
        until(&mut response, "sandbox.resumed").await;
    }
    let mut last = rig.call(Method::GET, &format!("/v1/sandboxes/{id}/events?follow=1&tail=0")).send().await.unwrap();
    rig.delete(&format!("/v1/sandboxes/{id}")).await;
    let end = events(
        &tokio::time::timeout(PATIENCE, async {
            let mut text = String::new();
            while let Some(piece) = last.chunk().await.unwrap() {
                text.push_str(std::str::from_utf8(&piece).unwrap());
            }
            text
        })
        .await
        .expect("the stream ends with the sandbox"),
    );
    assert_eq!(end.last().unwrap()["type"], "sandbox.deleted");
    assert_eq!(end.last().unwrap()["payload"], json!({"reason": "request"}));
}

#[tokio::test]
async fn events_can_be_asked_for_since_a_time_and_by_their_owner_only() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/events");
    let (_, list) = rig.get(&path).await;
    let first = &list["events"][0];
    assert_eq!(first["type"], "sandbox.running");
    assert_eq!(
        first["payload"],
        json!({"boot_ms": 12, "boot_mode": "snapshot-natid", "isolation": "fake",
            "phases": {"prepare_ms": 7, "guest_ms": 5}})
    );
    let (_, since) = rig.get(&format!("{path}?since=2000-01-01T00:00:00Z")).await;
    assert_eq!(since, list);
    let (_, since) = rig.get(&format!("{path}?since=2200-01-01T00:00:00Z")).await;
    assert_eq!(since, json!({"events": []}));
    assert_eq!(rig.get(&format!("{path}?since=soon")).await.1["code"], "query.bad_time");
    for follow in ["", "?follow=1"] {
        assert_eq!(rig.stranger(Method::GET, &format!("{path}{follow}")).await.0, 404);
    }
}

#[tokio::test]
async fn forks_and_ends_are_told_to_who_follows() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let fault = pandastack_model::Fault::new(pandastack_model::FaultKind::Busy, "host.full", "no room");
    rig.host.fail_children([(1, fault)]);
    let body = json!({"count": 3});
    let (status, tree) = rig.send(Method::POST, &format!("/v1/sandboxes/{id}/fork-tree"), body).await;
    assert_eq!(status, 201);
    let (_, list) = rig.get(&format!("/v1/sandboxes/{id}/events")).await;
    let of = |kind: &str| {
        let found = list["events"].as_array().unwrap().iter().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("{kind} is not in {list}"))["payload"].clone()
    };
    assert_eq!(of("fork.staged")["requested"], 3);
    assert_eq!(of("fork.child_failed"), json!({"index": 1, "error": "no room", "code": "host.full"}));
    let done = json!({"tree_id": tree["tree_id"], "snapshot": tree["snapshot_id"],
        "requested": 3, "succeeded": 2, "failed": 1});
    assert_eq!(of("fork_tree.completed"), done);

    let number: SandboxId = id.parse().unwrap();
    let mut response = rig.call(Method::GET, &format!("/v1/sandboxes/{id}/events?follow=1")).send().await.unwrap();
    rig.host.sandboxes.lock().unwrap().remove(&number);
    rig.host.events.send(HostEvent::Removed { id: number, why: RemovedBy::Idleness, cause: None }).unwrap();
    let end = events(&until(&mut response, "sandbox.deleted").await);
    assert_eq!(end.last().unwrap()["payload"], json!({"reason": "idle"}));
}

#[tokio::test]
async fn a_restart_tells_what_it_found() {
    let rig = Rig::start().await;
    let (asleep, lost) = (rig.created().await, rig.created().await);
    rig.post(&format!("/v1/sandboxes/{asleep}/hibernate")).await;
    rig.host.sandboxes.lock().unwrap().remove(&lost.parse().unwrap());
    let rig = rig.restart_control().await;
    let expected = [(&asleep, vec!["recover.hibernated"]), (&lost, vec!["vm.died", "recover.orphaned"])];
    for (id, kinds) in expected {
        let (_, list) = rig.get(&format!("/v1/sandboxes/{id}/events")).await;
        let told: Vec<_> = list["events"].as_array().unwrap().iter().map(|event| &event["type"]).collect();
        assert_eq!(told, kinds);
    }
}

#[tokio::test]
async fn what_a_machine_uses_is_shown_now_and_over_time() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/metrics");
    let expected = json!({"pid": 77, "uptime_seconds": 9, "host_cpu_percent": 0.0, "host_rss_bytes": 10 << 20,
                          "host_vsz_bytes": 20 << 20, "threads": 4});
    assert_eq!(rig.get(&path).await, (200, expected));
    rig.control.sample().await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    rig.control.sample().await;
    let (status, series) = rig.get(&format!("/v1/metrics/sandbox/{id}?range=15m&step=1m")).await;
    assert_eq!((status, &series["step"]), (200, &json!("1m")));
    let points = series["series"]["mem_bytes"].as_array().unwrap();
    assert_eq!((points.len(), &points[0][1]), (1, &json!(f64::from(10 << 20))));
    let (_, overview) = rig.get("/v1/metrics/overview").await;
    assert_eq!(overview["series"]["sandboxes_running"][0][1], 1.0);
    assert!(overview["from"].as_str() < overview["to"].as_str());
    let (_, theirs) = rig.stranger(Method::GET, "/v1/metrics/overview").await;
    assert_eq!(theirs["series"]["sandboxes"], json!([]), "another tenant's numbers are not among them");
    for path in [path.clone(), format!("/v1/metrics/sandbox/{id}")] {
        assert_eq!(rig.stranger(Method::GET, &path).await.0, 404);
    }
    assert_eq!(rig.get("/v1/metrics/sandbox/x").await.0, 404);
    assert_eq!(rig.get("/v1/metrics/overview?step=2m").await.1["code"], "metrics.bad_step");
    rig.post(&format!("/v1/sandboxes/{id}/hibernate")).await;
    let (status, body) = rig.get(&path).await;
    assert_eq!((status, &body["code"]), (503, &json!("sandbox.no_machine")));
}

#[tokio::test]
async fn boots_are_summarized_for_their_workspace() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    rig.post(&format!("/v1/sandboxes/{id}/fork")).await;
    rig.post(&format!("/v1/sandboxes/{id}/hibernate")).await;
    rig.post(&format!("/v1/sandboxes/{id}/wake")).await;
    wait_for("the wake's event", || async { rig.get("/v1/stats/boot").await.1["total_samples"] == 3 }).await;
    let (_, stats) = rig.get("/v1/stats/boot?limit=2").await;
    let modes: Vec<_> = stats["by_mode"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(modes, ["fork", "snapshot-natid", "wake"]);
    assert_eq!((&stats["overall"]["count"], &stats["overall"]["max_ms"]), (&json!(3), &json!(34)));
    assert_eq!(stats["by_template"]["mini"]["count"], 3);
    assert_eq!((stats["recent"].as_array().unwrap().len(), &stats["recent"][0]["boot_mode"]), (2, &json!("wake")));
    let (_, theirs) = rig.stranger(Method::GET, "/v1/stats/boot").await;
    assert_eq!((&theirs["total_samples"], &theirs["by_mode"]), (&json!(0), &json!({})));
}

#[tokio::test]
async fn changing_requests_are_written_down_without_what_they_carried() {
    let rig = Rig::start().await;
    let body = json!({"template": "mini", "metadata": {"secret.k": "hidden"}});
    let create = rig.call(Method::POST, "/v1/sandboxes?note=hidden").header("x-request-id", "my-id").json(&body);
    let (_, sandbox) = answer(create).await;
    let id = sandbox["id"].as_str().unwrap();
    rig.get(&format!("/v1/sandboxes/{id}")).await;
    rig.send(Method::PATCH, &format!("/v1/sandboxes/{id}/lifecycle"), json!({"ttl_seconds": 60})).await;
    rig.delete(&format!("/v1/sandboxes/{id}")).await;
    rig.stranger(Method::DELETE, &format!("/v1/sandboxes/{id}")).await;
    let listed = || async { rig.get("/v1/audit").await.1["entries"].as_array().unwrap().len() == 3 };
    wait_for("three entries", listed).await;
    let (_, trail) = rig.get("/v1/audit?limit=2").await;
    let entries = trail["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[0]["method"], &entries[0]["status"]), (2, &json!("DELETE"), &json!(204)));
    assert_eq!(
        (&entries[0]["route"], &entries[0]["path"]),
        (&json!("/v1/sandboxes/{id}"), &json!(format!("/v1/sandboxes/{id}")))
    );
    assert_eq!(entries[0]["key_prefix"], &KEY[..12]);
    let (_, trail) = rig.get("/v1/audit").await;
    assert_eq!(
        (&trail["entries"][2]["request_id"], &trail["entries"][2]["path"]),
        (&json!("my-id"), &json!("/v1/sandboxes"))
    );
    assert!(!trail.to_string().contains("hidden") && !trail.to_string().contains(KEY));
    let (_, none) = rig.get("/v1/audit?since=2200-01-01T00:00:00Z").await;
    assert_eq!(none, json!({"entries": [], "since": "2200-01-01T00:00:00.000Z"}));
    assert_eq!(rig.get("/v1/audit?since=x").await.0, 400);
    // Entries are written in batches, and theirs may be in a later one.
    let theirs = || async { rig.stranger(Method::GET, "/v1/audit").await.1["entries"].as_array().unwrap().len() == 1 };
    wait_for("their own entry, and no other", theirs).await;
    let rig = rig.restart_control().await;
    assert_eq!(rig.get("/v1/audit").await.1["entries"].as_array().unwrap().len(), 3, "kept through a restart");
}

#[tokio::test]
async fn the_meters_count_by_template_and_need_no_key() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    rig.get(&format!("/v1/sandboxes/{id}")).await;
    rig.get(&format!("/v1/sandboxes/{}", SandboxId::random())).await;
    rig.get("/v1/nowhere").await;
    for path in ["/metrics", "/v1/metrics"] {
        let response = rig.http.get(format!("{}{path}", rig.url)).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert!(response.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
        let text = response.text().await.unwrap();
        for line in [
            "pandastack_http_requests_total{method=\"POST\",route=\"/v1/sandboxes\",status=\"201\"} 1",
            "pandastack_http_requests_total{method=\"GET\",route=\"/v1/sandboxes/{id}\",status=\"200\"} 1",
            "pandastack_http_requests_total{method=\"GET\",route=\"/v1/sandboxes/{id}\",status=\"404\"} 1",
            "pandastack_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 1",
            "pandastack_boots_total{mode=\"standby\"} 1",
            "pandastack_sandboxes{state=\"running\"} 1",
            "pandastack_machines{of=\"standby\"} 3",
            "pandastack_machines{of=\"blank\"} 2",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains(&id) && !text.contains("default"), "no tenant and no sandbox is named");
    }
}
