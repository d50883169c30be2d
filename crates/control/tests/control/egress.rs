//! The egress list of a sandbox.

use pandastack_model::{Egress, Fault, FaultKind, SandboxId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::Rig;

#[tokio::test]
async fn the_list_given_at_create_is_shown() {
    let rig = Rig::start().await;
    let body =
        json!({"template": "mini", "egress_mbps": 50, "egress_allowlist": ["PyPI.org", "*.debian.org", "10.0.0.0/8"]});
    let (status, sandbox) = rig.create(body).await;
    assert_eq!(status, 201);
    let list = json!(["pypi.org", "*.debian.org", "10.0.0.0/8"]);
    assert_eq!((&sandbox["egress_allowlist"], &sandbox["egress_mbps"]), (&list, &json!(50)));
    let id = sandbox["id"].as_str().unwrap();
    assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.1["egress_allowlist"], list);
    assert_eq!(rig.get(&format!("/v1/sandboxes/{id}/egress")).await, (200, json!({"egress_allowlist": list})));
    let asked = rig.host.ensured.lock().unwrap()[&id.parse().unwrap()].clone();
    assert!(asked.spec.egress.names("pypi.org") && !asked.spec.egress.names("example.org"));
    assert_eq!(asked.spec.bandwidth_mbps, Some(50));

    let (_, nothing) = rig.create(json!({"template": "mini", "egress_allowlist": []})).await;
    assert_eq!(nothing["egress_allowlist"], json!([]));
    let open = rig.get(&format!("/v1/sandboxes/{}", rig.created().await)).await.1;
    assert!(open.get("egress_allowlist").is_none() && open.get("egress_mbps").is_none(), "{open}");
}

#[tokio::test]
async fn the_list_can_be_changed_at_run_time() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/egress");
    assert_eq!(rig.get(&path).await, (200, json!({"egress_allowlist": null})));
    let put = async |list: Value| rig.send(Method::PUT, &path, json!({"egress_allowlist": list, "zzz": 1})).await;
    for list in [json!(["a.example"]), json!([]), json!(null), json!(["*.b.example", "203.0.113.7"])] {
        assert_eq!(put(list.clone()).await, (200, json!({"egress_allowlist": list})));
        assert_eq!(rig.get(&path).await.1, json!({"egress_allowlist": list}));
    }
    let told = rig.host.egress.lock().unwrap()[&id.parse().unwrap()].clone();
    assert!(matches!(&told, Egress::Only(rules) if rules.len() == 2));
    for (body, code) in [
        (json!({}), "egress.required"),
        (json!({"egress_allowlist": ["http://x"]}), "egress.bad_rule"),
        (json!({"egress_allowlist": [7]}), "body.bad_json"),
        (json!({"egress_allowlist": vec!["a.b"; 257]}), "egress.too_many"),
    ] {
        let (status, refused) = rig.send(Method::PUT, &path, body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{body}");
    }
    rig.host.fail_next("set_egress", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
    assert_eq!(put(json!(null)).await.0, 502);
    assert_eq!(
        rig.get(&path).await.1["egress_allowlist"].as_array().unwrap().len(),
        2,
        "nothing looks open that is not"
    );
    let missing = format!("/v1/sandboxes/{}/egress", SandboxId::random());
    assert_eq!(rig.send(Method::PUT, &missing, json!({"egress_allowlist": []})).await.0, 404);
    assert_eq!(rig.stranger(Method::GET, &path).await.0, 404);
    let rig = rig.restart_control().await;
    assert_eq!(rig.get(&path).await.1["egress_allowlist"].as_array().unwrap().len(), 2, "it survives a restart");
}
