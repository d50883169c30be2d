//! Pause, resume, hibernate, wake and the idle limit.

use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::IdlePolicy;
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, answer, wait_for};

#[tokio::test]
async fn a_sandbox_pauses_resumes_sleeps_and_wakes() {
    let rig = Rig::start().await;
    let path = format!("/v1/sandboxes/{}", rig.created().await);
    let status = async || rig.get(&path).await.1["status"].clone();
    assert_eq!(rig.post(&format!("{path}/pause")).await, (204, Value::Null));
    assert_eq!(status().await, "paused");
    assert_eq!(rig.post(&format!("{path}/pause")).await.0, 204, "twice is fine");
    assert_eq!(rig.post(&format!("{path}/resume")).await, (204, Value::Null));
    assert_eq!(status().await, "running");
    for (sleep, wake) in [("hibernate", "wake"), ("stop", "start")] {
        assert_eq!(rig.post(&format!("{path}/{sleep}")).await, (200, json!({"status": "hibernated"})));
        assert_eq!(status().await, "hibernated");
        assert_eq!(rig.post(&format!("{path}/{wake}")).await, (200, json!({"status": "running"})));
        assert_eq!(status().await, "running");
        assert_eq!(rig.post(&format!("{path}/{wake}")).await.0, 200, "waking one that is awake is a success");
    }
    let woken = rig.get(&path).await.1;
    assert_eq!((&woken["boot_mode"], &woken["boot_ms"]), (&json!("wake"), &json!(34)));
}

#[tokio::test]
async fn a_wrong_state_is_a_conflict_and_an_unknown_sandbox_a_miss() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    rig.post(&format!("{path}/hibernate")).await;
    for verb in ["pause", "resume"] {
        let (status, body) = rig.post(&format!("{path}/{verb}")).await;
        assert_eq!((status, &body["code"]), (409, &json!("sandbox.invalid_state")), "{verb}");
    }
    let reason = "killed".to_owned();
    rig.host.change(id.parse().unwrap(), |view| view.state = SandboxState::Failed { reason });
    wait_for("it has failed", || async { rig.get(&path).await.1["status"] == "failed" }).await;
    for verb in ["pause", "resume", "hibernate", "wake", "snapshots", "fork", "fork-tree", "promote"] {
        let (status, body) = rig.post(&format!("{path}/{verb}")).await;
        assert_eq!((status, &body["code"]), (409, &json!("sandbox.failed")), "{verb}");
    }
    let unknown = format!("/v1/sandboxes/{}", SandboxId::random());
    for verb in ["pause", "resume", "hibernate", "stop", "wake", "start", "snapshots", "fork", "fork-tree", "promote"] {
        for missing in [&unknown, "/v1/sandboxes/x"] {
            let (status, body) = rig.post(&format!("{missing}/{verb}")).await;
            assert_eq!((status, &body["code"]), (404, &json!("sandbox.not_found")), "{verb}");
        }
        let theirs = rig.stranger(Method::POST, &format!("{path}/{verb}")).await;
        assert_eq!((theirs.0, &theirs.1["code"]), (404, &json!("sandbox.not_found")), "{verb}");
    }
    for look in ["lifecycle", "egress", "events", "tree"] {
        assert_eq!(rig.stranger(Method::GET, &format!("{path}/{look}")).await.0, 404, "{look}");
    }
}

#[tokio::test]
async fn any_content_type_will_do_for_an_empty_body() {
    let rig = Rig::start().await;
    let path = format!("/v1/sandboxes/{}", rig.created().await);
    for verb in ["pause", "resume", "hibernate", "wake", "snapshots", "fork", "fork-tree", "promote"] {
        for kind in [None, Some("text/plain;charset=UTF-8"), Some("application/x-nonsense")] {
            let mut request = rig.call(Method::POST, &format!("{path}/{verb}")).header("content-length", "0");
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let (status, body) = answer(request).await;
            assert!((200..300).contains(&status), "{verb} {kind:?}: {status} {body}");
        }
    }
}

#[tokio::test]
async fn a_failed_sleep_leaves_it_running() {
    let rig = Rig::start().await;
    let path = format!("/v1/sandboxes/{}", rig.created().await);
    let full = Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage for sandbox");
    rig.host.fail_next("sleep", full);
    assert_eq!(rig.post(&format!("{path}/hibernate")).await.0, 507);
    assert_eq!(rig.get(&path).await.1["status"], "running");
    let broken = Fault::new(FaultKind::Unavailable, "sandbox.wake_failed", "auto-wake: the layer is damaged");
    rig.host.fail_next("wake", broken);
    let response = rig.call(Method::POST, &format!("{path}/wake")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers().get("retry-after")), (503, None));
}

#[tokio::test]
async fn looking_does_not_wake() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    rig.post(&format!("{path}/hibernate")).await;
    for look in ["", "/lifecycle", "/egress", "/events", "/tree"] {
        assert_eq!(rig.get(&format!("{path}{look}")).await.0, 200, "{look}");
    }
    assert_eq!(rig.get("/v1/sandboxes").await.1[0]["status"], "hibernated", "and it is listed");
    assert_eq!(rig.host.state(&id), SandboxState::Asleep);
}

#[tokio::test]
async fn what_the_host_does_by_itself_reaches_the_row() {
    let rig = Rig::start().await;
    let id: SandboxId = rig.created().await.parse().unwrap();
    let path = format!("/v1/sandboxes/{id}");
    rig.host.change(id, |view| view.state = SandboxState::Asleep);
    wait_for("it sleeps", || async { rig.get(&path).await.1["status"] == "hibernated" }).await;
    rig.host.change(id, |view| {
        view.state = SandboxState::Running;
        view.boot_mode = "wake";
        view.guest_ip = "10.0.0.9".into();
    });
    wait_for("it is awake", || async { rig.get(&path).await.1["status"] == "running" }).await;
    let woken = rig.get(&path).await.1;
    assert_eq!((&woken["boot_mode"], &woken["guest_ip"]), (&json!("wake"), &json!("10.0.0.9")));
}

#[tokio::test]
async fn news_that_is_old_does_not_win() {
    let rig = Rig::start().await;
    let id: SandboxId = rig.created().await.parse().unwrap();
    let path = format!("/v1/sandboxes/{id}");
    // The event says paused, the host says running: the event is outdated.
    let mut late = rig.host.sandboxes.lock().unwrap()[&id].clone();
    late.state = SandboxState::Paused;
    rig.host.events.send(pandastack_wire_fleet::HostEvent::Changed { view: late, cause: None }).unwrap();
    let told = || async { rig.get(&format!("{path}/events")).await.1.to_string().contains("sandbox.paused") };
    wait_for("the event was seen", told).await;
    rig.post(&format!("{path}/resume")).await;
    assert_eq!(rig.get(&path).await.1["status"], "running");
}

#[tokio::test]
async fn the_idle_limit_is_shown_and_changed() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let (path, sandbox) = (format!("/v1/sandboxes/{id}/lifecycle"), format!("/v1/sandboxes/{id}"));
    let shown = json!({"ttl_seconds": 300, "persistent": false, "idle_seconds": 7});
    assert_eq!(rig.get(&path).await, (200, shown));
    let change = async |body: Value| rig.send(Method::PATCH, &path, body).await;
    let changed = json!({"ttl_seconds": 60, "persistent": false, "idle_seconds": 7});
    assert_eq!(change(json!({"ttl_seconds": 60, "zzz": 1})).await, (200, changed));
    let changed = json!({"ttl_seconds": 60, "persistent": true, "idle_seconds": 7});
    assert_eq!(change(json!({"persistent": true})).await, (200, changed.clone()));
    assert_eq!(change(json!({})).await, (200, changed), "nothing asked, nothing changed");
    let told = rig.host.lifecycles.lock().unwrap()[&id.parse().unwrap()];
    assert_eq!(told, IdlePolicy { ttl_seconds: 60, persistent: true });
    let shown = rig.get(&sandbox).await.1;
    assert_eq!((&shown["ttl_seconds"], &shown["persistent"]), (&json!(60), &json!(true)));

    let (status, body) = change(json!({"ttl_seconds": -1})).await;
    assert_eq!((status, &body["code"]), (400, &json!("sandbox.bad_ttl")));
    assert!(body["error"].as_str().unwrap().contains("ttl_seconds"));
    assert_eq!(change(json!({"ttl_seconds": "soon"})).await.0, 400);
    assert_eq!(change(json!({"ttl_seconds": 99_999_999_999_u64})).await.0, 400);
    rig.host.fail_next("set_lifecycle", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
    assert_eq!(change(json!({"ttl_seconds": 5})).await.0, 502);
    assert_eq!(rig.get(&path).await.1["ttl_seconds"], 60, "what the host refused is not shown");
    let missing = format!("/v1/sandboxes/{}/lifecycle", SandboxId::random());
    assert_eq!(rig.get(&missing).await.0, 404);
    assert_eq!(rig.send(Method::PATCH, &missing, json!({})).await.0, 404);
    let rig = rig.restart_control().await;
    assert_eq!(rig.get(&path).await.1["persistent"], true, "it survives a restart");
}
