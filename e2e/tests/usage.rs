//! Usage of a real machine, from the host's facts to the bill on the command line.

use std::time::{Duration, Instant};

use pandastack_testbed::{DataFolder, TestServer};
use serde_json::{Value, json};

use crate::people::{Home, PASSWORD, write_config};

const PAUSE: Duration = Duration::from_secs(2);
const ARGUMENTS: &[&str] = &["--standby", "0", "--blanks", "0"];

struct Api<'a> {
    server: &'a TestServer,
    http: reqwest::Client,
}

impl Api<'_> {
    async fn post(&self, path: &str, body: Value) -> Value {
        let request = self.http.post(format!("{}{path}", self.server.url)).bearer_auth(&self.server.key);
        let answer = request.json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.unwrap_or_default()
    }
}

fn bill(home: &Home) -> (f64, f64) {
    home.good(&[], &["billing", "sync"]);
    let bill = home.json(&["billing"]);
    let number = |name: &str| bill[name].as_f64().unwrap_or_else(|| panic!("{bill}"));
    (number("mtd_vcpu_seconds"), number("mtd_storage_gib_seconds"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_billed_for_the_time_that_it_ran() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), ARGUMENTS).unwrap();
    let ada = Home::new();
    write_config(&ada, &server);
    ada.good(&[PASSWORD, PASSWORD], &["login", "--email", "ada@example.com"]);
    let api = Api { server: &server, http: reqwest::Client::builder().no_proxy().build().unwrap() };
    let began = Instant::now();
    let made = api.post("/v1/sandboxes", json!({"template": "mini", "persistent": true})).await;
    let (id, cpus) = (made["id"].as_str().unwrap(), made["cpu"].as_f64().unwrap());
    let usable = Instant::now();
    tokio::time::sleep(PAUSE).await;
    let ran_at_least = usable.elapsed();
    api.post(&format!("/v1/sandboxes/{id}/hibernate"), json!({})).await;
    let ran_at_most = began.elapsed();
    let (vcpu_seconds, storage) = bill(&ada);
    let ran = ran_at_least.as_secs_f64()..=ran_at_most.as_secs_f64() + 0.01;
    assert!(ran.contains(&(vcpu_seconds / cpus)), "{vcpu_seconds} with {cpus} CPUs is not in {ran:?}");
    // Asleep it needs storage only, also while the server is not there.
    drop(server);
    let server = TestServer::start(data.path(), ARGUMENTS).unwrap();
    tokio::time::sleep(PAUSE).await;
    ada.good(&[], &["billing", "sync", "--api-url", &server.url]);
    let report = ada.json(&["usage", "--by", "sandbox", "--api-url", &server.url]);
    assert_eq!((&report["rows"][0]["key"], &report["rows"][0]["label"]), (&json!(id), &json!("mini")), "{report}");
    assert_eq!(report["total"]["vcpu_seconds"].as_f64(), Some(vcpu_seconds), "{report}");
    let bill = ada.json(&["billing", "--api-url", &server.url]);
    assert!(bill["mtd_storage_gib_seconds"].as_f64().unwrap() >= storage, "{bill}");
    let table = ada.good(&[], &["usage", "--by", "template", "--csv", "--api-url", &server.url]);
    assert!(table.contains("\"mini\""), "{table}");
}
