//! Two server processes on one PostgreSQL database, one of them without a host. Either is killed,
//! and the other one goes on. No machine is started.

use std::path::Path;

use pandastack_database::{DatabaseAddress, server::shared_schema};
use pandastack_testbed::{PATIENCE, TestServer, wait_for};
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// Makes a schema of this test's own, and returns the address of the database with it.
async fn own_schema(folder: &Path) -> String {
    match shared_schema(folder).await.unwrap() {
        DatabaseAddress::Server(url) => url.expose().to_owned(),
        DatabaseAddress::File(file) => panic!("{} is no server", file.display()),
    }
}

fn start(data: &Path, database: &str, flags: &[&str]) -> anyhow::Result<TestServer> {
    TestServer::start_with(data, |command| {
        let spare = ["--no-config", "--standby", "0", "--blanks", "0"];
        command.args(spare).args(flags).env("DATABASE_URL", database);
    })
}

async fn call(server: &TestServer, key: &str, method: Method, path: &str, body: Value) -> (u16, Value) {
    let http = Client::builder().no_proxy().build().unwrap();
    let request = http.request(method, format!("{}{path}", server.url)).bearer_auth(key).json(&body);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn new_key(server: &TestServer, label: &str) -> String {
    let (status, made) = call(server, &server.key, Method::POST, "/v1/api-keys", json!({"label": label})).await;
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().unwrap().to_owned()
}

async fn me(server: &TestServer, key: &str) -> u16 {
    call(server, key, Method::GET, "/v1/me", json!({})).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn either_of_two_servers_is_killed_and_the_other_answers() {
    let folder = tempfile::tempdir().unwrap();
    let [data, none, third] = ["data", "none", "third"].map(|name| folder.path().join(name));
    for data in [&data, &third] {
        std::fs::create_dir(data).unwrap();
    }
    let database = own_schema(folder.path()).await;
    let mut first = start(&data, &database, &[]).unwrap();
    let mut second = start(&none, &database, &["--no-host"]).unwrap();
    assert!(!none.exists(), "it needs no data folder");
    assert_eq!(call(&second, "", Method::GET, "/healthz", json!({})).await.0, 200);
    let (one, two) = (new_key(&first, "one").await, new_key(&second, "two").await);
    assert_eq!((me(&second, &one).await, me(&first, &two).await), (200, 200));
    let (status, refused) = call(&second, &one, Method::POST, "/v1/sandboxes", json!({"template": "base"})).await;
    assert_eq!((status, &refused["code"]), (503, &json!("host.none")), "{refused}");

    let refused = start(&third, &database, &[]).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("--no-host"), "a second host: {refused}");

    first.kill().unwrap();
    assert_eq!((me(&second, &one).await, me(&second, &two).await), (200, 200), "the host's server was killed");
    let late = new_key(&second, "late").await;
    // The same host takes its lease over at once.
    let first = start(&data, &database, &[]).unwrap();
    assert_eq!(me(&first, &late).await, 200);
    second.kill().unwrap();
    assert_eq!((me(&first, &one).await, me(&first, &two).await), (200, 200), "the other server was killed");
    let second = start(&none, &database, &["--no-host"]).unwrap();
    assert_eq!(me(&second, &late).await, 200);
    let (status, listed) = call(&first, &first.key, Method::GET, "/v1/api-keys", json!({})).await;
    let revoked = listed["items"].as_array().unwrap().iter().find(|key| key["label"] == "late").unwrap()["id"].clone();
    assert_eq!(status, 200, "{listed}");
    let path = format!("/v1/api-keys/{}", revoked.as_str().unwrap());
    assert!(call(&first, &first.key, Method::DELETE, &path, json!({})).await.0 < 300);
    let is_revoked = async || (me(&second, &late).await == 401).then_some(());
    wait_for("it is revoked by the other server", PATIENCE, is_revoked).await;
}
