//! A database that the server's restored, older database does not know: put aside with its data,
//! and adopted with a new password.

use pandastack_testbed::{DataFolder, TestServer, wait_for};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ARGUMENTS, DatabaseBed, GOLDEN_PATIENCE, path, with};
use crate::restored::admin;

#[tokio::test]
async fn an_adopted_database_has_its_rows_and_a_new_password() {
    let folder = DataFolder::with_databases().unwrap();
    let data = folder.path();
    let mut bed = DatabaseBed::over(data.to_owned(), None);
    let backup = data.with_extension("backup.db");
    admin(data, &["backup", backup.to_str().unwrap()]);
    let (status, made) = bed.send(Method::POST, "/v1/databases", json!({"label": "orders"})).await;
    assert_eq!(status, 202, "{made}");
    let before = bed.running(made["id"].as_str().unwrap()).await;
    bed.answer(&before, "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)");
    admin(data, &["restore", backup.to_str().unwrap()]);
    bed.server.kill().unwrap();
    let server = TestServer::start_with(data, |command| {
        command.arg("--no-config").args(ARGUMENTS);
    })
    .unwrap();
    // The end of the old server removes the log, which both have at the same place.
    let told = server.said();
    bed.server = server;

    assert!(told.contains("1 database, 1 volume"), "{told}");
    assert_eq!(bed.get(&path(&before)).await.0, 404);
    // The new server listens on another port.
    let (_, rest) = told.split_once("ID.db.localhost:").unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let mut before_there = before.clone();
    before_there["port"] = json!(port.parse::<u16>().unwrap());
    let refused = bed.refusal(&before_there, "SELECT 1");
    assert!(refused.contains("does not exist"), "{refused}");
    let listed = || -> Vec<Value> { serde_json::from_str(&admin(data, &["orphans", "list", "--json"])).unwrap() };
    let sleeps = async || listed().iter().all(|orphan| orphan["state"] == "kept").then_some(());
    wait_for("its machine sleeps", GOLDEN_PATIENCE, sleeps).await;
    let orphans = listed();
    assert_eq!((&orphans[0]["kind"], &orphans[0]["id"]), (&json!("database"), &before["id"]), "{orphans:?}");
    assert_eq!((&orphans[1]["kind"], &orphans[1]["of_database"]), (&json!("volume"), &before["id"]), "{orphans:?}");

    admin(data, &["orphans", "adopt", before["id"].as_str().unwrap(), "--workspace", "default"]);
    assert!(listed().is_empty());
    let after = bed.running(before["id"].as_str().unwrap()).await;
    assert_eq!((&after["label"], &after["size"]), (&json!("orders"), &before["size"]));
    assert_eq!(bed.answer(&after, "SELECT sum(n) FROM t"), "500500");
    let old = with(&after, "password", before["password"].as_str().unwrap());
    assert!(bed.refusal(&old, "SELECT 1").contains("authentication failed"));
    assert_eq!(bed.send(Method::DELETE, &path(&after), json!({})).await.0, 204);
    let (_, audit) = bed.get("/v1/host/audit").await;
    assert_eq!((&audit["leaks"], &audit["machines"]), (&json!([]), &json!(0)), "{audit}");
    std::fs::remove_file(backup).unwrap();
}
