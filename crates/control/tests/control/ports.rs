//! Listening and declared ports.

use pandastack_model::{GuestPort, SandboxId, SandboxState};
use pandastack_wire_fleet::ListeningPort;
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::Rig;

fn listener(port: i64, loopback_only: bool, process: Option<&str>) -> ListeningPort {
    let port = GuestPort::try_from(port).unwrap();
    ListeningPort { port, loopback_only, process: process.map(str::to_owned) }
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|item| item["port"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn listening_and_declared_ports_are_one_sorted_list() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/ports");
    assert_eq!(rig.get(&path).await, (200, json!([])));
    *rig.host.listening.lock().unwrap() =
        vec![listener(8080, false, Some("node")), listener(22, false, None), listener(5173, true, None)];
    let (status, item) = rig.send(Method::POST, &path, json!({"port": 9000, "label": "later"})).await;
    let url = |port: u16| format!("{}/v1/sandboxes/{id}/proxy/{port}/", rig.url);
    let later = json!(
        {"port": 9000, "label": "later", "listening": false, "source": "user", "proxy_url": url(9000)}
    );
    assert_eq!((status, &item), (201, &later));
    let (status, item) = rig.send(Method::POST, &path, json!({"port": 8080})).await;
    assert_eq!((status, &item["label"], &item["listening"]), (201, &json!("service"), &json!(true)));
    let (status, list) = rig.get(&path).await;
    let expected = json!([
        {"port": 5173, "listening": true, "source": "detected", "proxy_url": url(5173), "loopback_only": true},
        {"port": 8080, "label": "service", "listening": true, "source": "user", "proxy_url": url(8080),
            "process": "node"},
        later,
    ]);
    assert_eq!((status, list), (200, expected));
}

#[tokio::test]
async fn declarations_are_metadata_of_the_servers_own_and_survive_a_restart() {
    let rig = Rig::start().await;
    let body = json!({"template": "mini", "metadata": {"a": "1", "port.80": "forged", "secret.k": "hidden"}});
    let id = rig.create(body).await.1["id"].as_str().unwrap().to_owned();
    let (sandbox, ports) = (format!("/v1/sandboxes/{id}"), format!("/v1/sandboxes/{id}/ports"));
    assert_eq!(numbers(&rig.get(&ports).await.1), [0; 0], "callers cannot declare by metadata");
    for label in ["wéb \"quoted\" \\ back", "web"] {
        assert_eq!(rig.send(Method::POST, &ports, json!({"port": 3000, "label": label})).await.0, 201);
        assert_eq!(rig.get(&sandbox).await.1["metadata"]["port.3000"], label);
    }
    let rig = rig.restart_control().await;
    assert_eq!(rig.get(&ports).await.1[0]["label"], "web");
    let metadata = rig.get(&sandbox).await.1["metadata"].clone();
    assert_eq!(metadata, json!({"a": "1", "port.3000": "web", "workspace": "default"}), "the rest is as it was");
    for _ in 0..2 {
        assert_eq!(rig.delete(&format!("{ports}/3000")).await, 204, "as often as asked");
    }
    assert_eq!(rig.get(&ports).await.1, json!([]));
    assert_eq!(rig.get(&sandbox).await.1["metadata"], json!({"a": "1", "workspace": "default"}));
}

#[tokio::test]
async fn asking_for_ports_wakes_and_declaring_one_does_not() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let ports = format!("/v1/sandboxes/{id}/ports");
    assert_eq!(rig.post(&format!("/v1/sandboxes/{id}/hibernate")).await.0, 200);
    assert_eq!(rig.send(Method::POST, &ports, json!({"port": 3000})).await.0, 201);
    assert_eq!(rig.host.state(&id), SandboxState::Asleep);
    assert_eq!(numbers(&rig.get(&ports).await.1), [3000]);
    assert_eq!(rig.host.state(&id), SandboxState::Running);
}

#[tokio::test]
async fn bad_declarations_are_refused_by_name() {
    let rig = Rig::start().await;
    let ports = format!("/v1/sandboxes/{}/ports", rig.created().await);
    for (body, code) in [
        (json!({}), "port.bad_port"),
        (json!({"port": 0}), "port.bad_port"),
        (json!({"port": 65536}), "port.bad_port"),
        (json!({"port": 22}), "port.bad_port"),
        (json!({"port": 1050}), "port.bad_port"),
        (json!({"port": "80"}), "body.bad_json"),
        (json!({"port": 80, "label": "x".repeat(65)}), "port.bad_label"),
    ] {
        let (status, refused) = rig.send(Method::POST, &ports, body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{body}");
    }
    for bad in ["0", "65536", "1050", "x", "-1"] {
        assert_eq!(rig.delete(&format!("{ports}/{bad}")).await, 400, "{bad}");
    }
    for port in 0..32 {
        assert_eq!(rig.send(Method::POST, &ports, json!({"port": 3000 + port})).await.0, 201);
    }
    let (status, refused) = rig.send(Method::POST, &ports, json!({"port": 4000})).await;
    assert_eq!((status, &refused["code"]), (400, &json!("port.too_many")));
    let again = rig.send(Method::POST, &ports, json!({"port": 3000, "label": "renamed"})).await;
    assert_eq!((again.0, &again.1["label"]), (201, &json!("renamed")), "a label changes at the limit too");
    assert_eq!(rig.delete(&format!("{ports}/3001")).await, 204);
    assert_eq!(rig.send(Method::POST, &ports, json!({"port": 4000})).await.0, 201);
}

#[tokio::test]
async fn ports_of_others_are_not_there() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let ports = format!("/v1/sandboxes/{id}/ports");
    assert_eq!(rig.send(Method::POST, &ports, json!({"port": 3000})).await.0, 201);
    assert_eq!(rig.stranger(Method::GET, &ports).await.0, 404);
    assert_eq!(rig.stranger(Method::DELETE, &format!("{ports}/3000")).await.0, 404);
    let declare = rig.http.post(format!("{}{ports}", rig.url)).bearer_auth(crate::rig::OTHER_KEY);
    assert_eq!(declare.json(&json!({"port": 80})).send().await.unwrap().status(), 404);
    assert_eq!(rig.get(&format!("/v1/sandboxes/{}/ports", SandboxId::random())).await.0, 404);
    assert_eq!(rig.get("/v1/sandboxes/nonsense/ports").await.0, 404);
    assert_eq!(rig.http.get(format!("{}{ports}", rig.url)).send().await.unwrap().status(), 401);
    assert_eq!(numbers(&rig.get(&ports).await.1), [3000]);
}
