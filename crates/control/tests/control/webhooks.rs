//! Webhooks over HTTP: making, changing, limits, other tenants, and the documentation about
//! signatures.

use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    receiver::{Receiver, Reply, WebhookRig},
    rig::{OTHER_KEY, Rig, answer},
};

#[tokio::test]
async fn a_webhook_is_made_shown_changed_and_deleted() {
    let rig = Rig::start().await;
    let body = json!({"url": "https://hooks.example/in", "events": ["sandbox.*", "vm.died"], "description": "ops"});
    let (status, made) = rig.send(Method::POST, "/v1/webhooks", body).await;
    assert_eq!(status, 201);
    let id = made["id"].as_str().unwrap();
    let secret = made["secret"].as_str().unwrap();
    assert!(id.starts_with("whk_") && secret.starts_with("whsec_") && secret.len() == 50, "{made}");
    assert_eq!((&made["enabled"], &made["events"]), (&json!(true), &json!(["sandbox.*", "vm.died"])));

    let path = format!("/v1/webhooks/{id}");
    let (status, shown) = rig.get(&path).await;
    assert_eq!((status, &shown["url"], shown.get("secret")), (200, &json!("https://hooks.example/in"), None));
    assert_eq!(rig.get("/v1/webhooks").await.1, json!([shown]));
    let change = json!({"url": "https://other.example", "events": ["*"], "enabled": false});
    let (status, changed) = rig.send(Method::PATCH, &path, change).await;
    assert_eq!((status, &changed["url"]), (200, &json!("https://other.example/")));
    assert_eq!((&changed["events"], &changed["enabled"]), (&json!(["*"]), &json!(false)));
    assert_eq!(changed["description"], "ops", "what is not named stays");
    let rig = rig.restart_control().await;
    assert_eq!(rig.get(&path).await.1, changed, "it survives a restart");
    assert_eq!(rig.delete(&path).await, 204);
    assert_eq!((rig.delete(&path).await, rig.get(&path).await.0), (404, 404));
    assert_eq!(rig.get("/v1/webhooks").await.1, json!([]));
}

#[tokio::test]
async fn bad_webhooks_are_refused_by_name() {
    let rig = Rig::start().await;
    let good = "https://hooks.example/";
    for (body, code) in [
        (json!({}), "webhook.bad_url"),
        (json!({"url": "ftp://x.example", "events": ["*"]}), "webhook.bad_url"),
        (json!({"url": good}), "webhook.bad_events"),
        (json!({"url": good, "events": ["sandbox.exploded"]}), "webhook.bad_events"),
        (json!({"url": good, "events": "*"}), "body.bad_json"),
        (json!({"url": good, "events": ["*"], "description": "x".repeat(257)}), "webhook.bad_description"),
        (json!({"url": "http://127.0.0.1/", "events": ["*"]}), "webhook.address_not_allowed"),
        (json!({"url": "http://[::ffff:169.254.169.254]/", "events": ["*"]}), "webhook.address_not_allowed"),
        (json!({"url": "http://localhost/", "events": ["*"]}), "webhook.address_not_allowed"),
    ] {
        let (status, refused) = rig.send(Method::POST, "/v1/webhooks", body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{body}");
    }
    let mut last = Value::Null;
    for _ in 0..16 {
        let (status, made) = rig.send(Method::POST, "/v1/webhooks", json!({"url": good, "events": ["*"]})).await;
        assert_eq!(status, 201);
        last = made;
    }
    let (status, refused) = rig.send(Method::POST, "/v1/webhooks", json!({"url": good, "events": ["*"]})).await;
    assert_eq!((status, &refused["code"]), (429, &json!("quota.webhooks")));
    let path = format!("/v1/webhooks/{}", last["id"].as_str().unwrap());
    for (body, code) in [
        (json!({"url": "http://10.0.0.1"}), "webhook.address_not_allowed"),
        (json!({"events": []}), "webhook.bad_events"),
    ] {
        let (status, refused) = rig.send(Method::PATCH, &path, body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{body}");
    }
    let rotate = rig.send(Method::POST, &format!("{path}/rotate-secret"), json!({"grace_seconds": -1})).await;
    assert_eq!((rotate.0, &rotate.1["code"]), (400, &json!("webhook.bad_grace")));
    for query in ["status=odd", "limit=0", "limit=501", "limit=x"] {
        let (status, refused) = rig.get(&format!("{path}/deliveries?{query}")).await;
        assert_eq!((status, &refused["code"]), (400, &json!("webhook.bad_query")), "{query}");
    }
}

#[tokio::test]
async fn webhooks_and_events_of_others_are_not_there() {
    let told = WebhookRig::start().await;
    let (receiver, theirs) = (Receiver::start().await, Receiver::start().await);
    let (id, _) = told.subscribe(&receiver.url, &["*"]).await;
    let rig = &told.rig;
    let other = rig.http.post(format!("{}/v1/webhooks", rig.url)).bearer_auth(OTHER_KEY);
    let (status, _) = answer(other.json(&json!({"url": theirs.url, "events": ["*"]}))).await;
    assert_eq!(status, 201);
    rig.created().await;
    receiver.wait(1).await;
    let delivery = told.wait(&id, "delivered", 1).await[0]["id"].as_str().unwrap().to_owned();
    for (method, path) in [
        (Method::GET, format!("/v1/webhooks/{id}")),
        (Method::DELETE, format!("/v1/webhooks/{id}")),
        (Method::POST, format!("/v1/webhooks/{id}/ping")),
        (Method::POST, format!("/v1/webhooks/{id}/rotate-secret")),
        (Method::GET, format!("/v1/webhooks/{id}/deliveries")),
        (Method::GET, format!("/v1/webhooks/deliveries/{delivery}")),
        (Method::POST, format!("/v1/webhooks/deliveries/{delivery}/replay")),
    ] {
        assert_eq!(rig.stranger(method, &path).await.0, 404, "{path}");
    }
    let patch = rig.http.patch(format!("{}/v1/webhooks/{id}", rig.url)).bearer_auth(OTHER_KEY);
    assert_eq!(answer(patch.json(&json!({"enabled": false}))).await.0, 404);
    assert_eq!(rig.stranger(Method::GET, "/v1/webhooks/dead-letters").await, (200, json!([])));
    assert_eq!(rig.stranger(Method::GET, "/v1/webhooks").await.1.as_array().unwrap().len(), 1);
    for path in ["/v1/webhooks/nonsense", "/v1/webhooks/deliveries/nonsense", "/v1/webhooks/nonsense/deliveries"] {
        assert_eq!(rig.get(path).await.0, 404, "{path}");
    }
    assert_eq!(rig.http.get(format!("{}/v1/webhooks", rig.url)).send().await.unwrap().status(), 401);
    assert!(theirs.seen().is_empty(), "nobody hears of another tenant's sandboxes");
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn a_ping_tells_what_the_receiver_said() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (id, secret) = told.subscribe(&receiver.url, &["vm.died"]).await;
    let path = format!("/v1/webhooks/{id}/ping");
    let ping = || told.rig.post(&path);
    let (status, pong) = ping().await;
    assert_eq!((status, &pong["delivered"], &pong["status"]), (200, &json!(true), &json!(200)), "{pong}");
    assert_eq!(pong["answer"], "hello");
    let seen = receiver.wait(1).await;
    assert_eq!((seen[0].kind().as_str(), seen[0].signed_by(&secret)), ("webhook.ping", true));
    assert_eq!(
        (&json!(seen[0].headers["webhook-id"]), &seen[0].path),
        (&pong["event_id"], &"POST /hook?a=b HTTP/1.1".to_owned())
    );
    receiver.reply([Reply::Status(503), Reply::Nonsense]);
    let (_, pong) = ping().await;
    assert_eq!(
        (&pong["delivered"], &pong["status"], &pong["error"]),
        (&json!(false), &json!(503), &json!("answered 503"))
    );
    let (_, pong) = ping().await;
    assert!(
        pong.get("status").is_none() && pong["error"].as_str().unwrap().starts_with("no valid HTTP response"),
        "{pong}"
    );
    told.rig.send(Method::PATCH, &format!("/v1/webhooks/{id}"), json!({"enabled": false})).await;
    assert_eq!(ping().await.1["delivered"], json!(true), "also one that is switched off");
    assert_eq!(told.deliveries(&id, "").await.len(), 0, "nothing is kept of it");
}

/// Both programs of docs/webhooks.md accept an unchanged delivery and refuse a changed one.
#[tokio::test]
async fn the_documentation_verifies_what_we_send() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (id, secret) = told.subscribe(&receiver.url, &["*"]).await;
    told.rig.post(&format!("/v1/webhooks/{id}/rotate-secret")).await;
    told.rig.created().await;
    let seen = receiver.wait(1).await.remove(0);
    let page = include_str!("../../../../docs/webhooks.md");
    let code = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let python = format!(
        "{}\nimport sys\nask = json.load(sys.stdin)\nprint(verify(ask['secret'], ask['headers'], \
            ask['body'].encode()))",
        code("python")
    );
    let script = format!(
        "{}\nconst ask = JSON.parse(require('fs').readFileSync(0, 'utf8'));
         console.log(verify(ask.secret, ask.headers, ask.body));",
        plain(&code("typescript"))
    );
    for (program, arguments) in [("python3", ["-c", &python]), ("node", ["-e", &script])] {
        let check = |secret: &str, body: &str| {
            let ask = json!({"secret": secret, "headers": seen.headers, "body": body});
            run(program, arguments.map(str::to_owned), ask.to_string())
        };
        let Some(fine) = check(&secret, &seen.body).await else { continue };
        assert_eq!(fine.to_lowercase(), "true", "{program}");
        let changed = seen.body.replace("running", "deleted");
        assert_eq!(check(&secret, &changed).await.unwrap().to_lowercase(), "false", "{program}");
        let other = format!("whsec_{}", "A".repeat(43) + "=");
        assert_eq!(check(&other, &seen.body).await.unwrap().to_lowercase(), "false", "{program}");
    }
}

/// Strips the types of the TypeScript program on the page, for a Node without support for types.
fn plain(script: &str) -> String {
    let script = script.replace(
        "import { createHmac, timingSafeEqual } from \"node:crypto\";",
        "const { createHmac, timingSafeEqual } = require('crypto');",
    );
    let script = script.replace(": Record<string, string>", "").replace(": string", "").replace(": boolean", "");
    script.replace("export ", "")
}

/// Runs a program. Returns `None` if it is not installed.
async fn run(program: &str, arguments: [String; 2], input: String) -> Option<String> {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{program} failed");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}
