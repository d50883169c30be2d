//! Events of a sandbox, and the host's audit.

use pandastack_model::SandboxId;
use pandastack_wire_fleet::{AuditReport, HostEvent};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, wait_for};

async fn kinds(rig: &Rig, id: &str) -> Vec<String> {
    let (status, list) = rig.get(&format!("/v1/sandboxes/{id}/events")).await;
    assert_eq!(status, 200);
    list["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_life_is_told_in_order() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    let expected = [
        "sandbox.running",
        "sandbox.ssh_ready",
        "sandbox.paused",
        "sandbox.resumed",
        "sandbox.hibernated",
        "sandbox.woken",
        "fork.staged",
        "sandbox.forked",
        "fork.completed",
        "egress.denied",
        "vm.died",
    ];
    for verb in ["pause", "resume", "hibernate", "wake", "fork"] {
        rig.post(&format!("{path}/{verb}")).await;
        // Host events arrive asynchronously. This test checks their order relative to ours.
        let came = match verb {
            "pause" => 3,
            "resume" => 4,
            "hibernate" => 5,
            "wake" => 6,
            _ => 9,
        };
        wait_for(verb, || async { kinds(&rig, &id).await.len() == came }).await;
    }
    let number: SandboxId = id.parse().unwrap();
    rig.host.events.send(HostEvent::Denied { id: number, target: "evil.example:443".into() }).unwrap();
    rig.host.events.send(HostEvent::Failed { id: number, reason: "out of memory".into() }).unwrap();
    wait_for("all events", || async { kinds(&rig, &id).await.len() == expected.len() }).await;
    assert_eq!(kinds(&rig, &id).await, expected);

    let (_, list) = rig.get(&format!("{path}/events?tail=2&follow=0")).await;
    let events = list["events"].as_array().unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(
        (&events[0]["payload"], &events[0]["metadata"]),
        (&json!({"target": "evil.example:443"}), &events[0]["payload"])
    );
    assert_eq!((&events[0]["sandbox_id"], &events[0]["ts"]), (&json!(id), &events[0]["time"]));
    assert_eq!(events[1]["payload"], json!({"reason": "out of memory"}));
    assert_eq!(rig.get(&format!("{path}/events?tail=many")).await.0, 200);
    assert_eq!(rig.get(&format!("/v1/sandboxes/{}/events", SandboxId::random())).await.0, 404);
    rig.delete(&path).await;
    assert_eq!(rig.get(&format!("{path}/events")).await.0, 404);
}

#[tokio::test]
async fn denied_attempts_are_kept_within_a_limit() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    for n in 0..150 {
        // One at a time, so that none is lost: the channel is shorter than this list.
        rig.host.events.send(HostEvent::Denied { id: id.parse().unwrap(), target: format!("t{n}") }).unwrap();
        let last = || async {
            let (_, list) = rig.get(&format!("/v1/sandboxes/{id}/events?tail=1")).await;
            list["events"][0]["payload"]["target"] == format!("t{n}")
        };
        if n % 50 == 49 {
            wait_for("the last attempt", last).await;
        }
    }
    assert_eq!(kinds(&rig, &id).await.len(), 100);
}

#[tokio::test]
async fn the_audit_is_for_the_operator() {
    let rig = Rig::start().await;
    let clean = json!({"machines": 0, "slots": 0, "disks": 0, "layers": 0, "volumes": 0, "leaks": [], "repaired": []});
    assert_eq!(rig.get("/v1/host/audit").await, (200, clean));
    let found = AuditReport { machines: 2, leaks: vec!["a tap nobody owns".into()], ..AuditReport::default() };
    *rig.host.audit_report.lock().unwrap() = found;
    let (_, audit) = rig.get("/v1/host/audit").await;
    assert_eq!((&audit["machines"], &audit["leaks"]), (&json!(2), &json!(["a tap nobody owns"])));
    let (status, refused): (u16, Value) = rig.stranger(Method::GET, "/v1/host/audit").await;
    assert_eq!((status, &refused["code"]), (404, &json!("route.not_found")));
    let nobody = rig.http.get(format!("{}/v1/host/audit", rig.url)).send().await.unwrap();
    assert_eq!(nobody.status().as_u16(), 401);
}
