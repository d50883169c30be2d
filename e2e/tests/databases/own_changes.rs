//! Databases that our own clients make, change and remove: the command line, the tools for agents
//! and both SDKs. Everything that begins here ends here.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    DatabaseBed,
    backups::text,
    own::{CommandLine, PROGRAM_MAX, bare_url, call_over_http, sdk_programs, succeed_together, told},
    path,
};

const COUNT: &str = "SELECT count(*), max(n) FROM entry";

/// What takes seconds, because the server has made a database before.
pub async fn our_clients_change_databases(bed: &DatabaseBed) {
    commands_change_databases(bed).await;
    tools_change_databases(bed).await;
    succeed_together(bed, sdk_programs(bed, "changes_sdk", PROGRAM_MAX));
}

async fn commands_change_databases(bed: &DatabaseBed) {
    let cli = CommandLine::of(bed);
    let source = cli.json(&["db", "create", "--label", "ledger"]);
    assert_eq!((&source["status"], &source["label"]), (&json!("running"), &json!("ledger")), "{source}");
    let held = cli.json(&["db", "backups", "ledger"]);
    assert_eq!((&held["count"], &held["archive"]["health"]), (&json!(1), &json!("ok")), "{held}");
    let made = cli.json(&["db", "query", "ledger", "CREATE TABLE entry (n int PRIMARY KEY)"]);
    assert_eq!((&made["columns"], &made["rows"]), (&json!([]), &json!([])), "{made}");
    let put = rows(&cli, "ledger", "INSERT INTO entry SELECT generate_series(1, 3) RETURNING n");
    assert_eq!(put, json!([[1], [2], [3]]));

    let branch = a_branch_has_another_schema(&cli, &source);
    for (choice, is_on) in [("on", true), ("off", false)] {
        assert_eq!(cli.json(&["db", "always-on", "ledger", choice])["always_on"], is_on);
        assert_eq!(cli.json(&["db", "get", "ledger"])["always_on"], is_on, "{choice}");
    }
    a_sleeper_is_woken(bed, &cli, &source).await;
    credentials_are_replaced(bed, &cli, &source);
    both_are_deleted(bed, &cli, [&branch, &source]).await;
}

/// The rows of a query by the command line.
fn rows(cli: &CommandLine<'_>, database: &str, sql: &str) -> Value {
    cli.json(&["db", "query", database, sql])["rows"].clone()
}

fn a_branch_has_another_schema(cli: &CommandLine<'_>, source: &Value) -> Value {
    let branch = cli.json(&["db", "branch", "ledger", "--label", "ledger-try"]);
    assert_eq!((&branch["status"], &branch["branched_from"]), (&json!("running"), &source["id"]), "{branch}");
    assert_ne!(branch["password"], source["password"]);
    assert_eq!(rows(cli, "ledger-try", COUNT), json!([[3, 3]]));
    rows(cli, "ledger-try", "ALTER TABLE entry ADD COLUMN note text");
    let (printed, _) = cli.exits(&["db", "diff", "ledger-try", "--exit-code", "--json"], 1);
    let diff: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&diff["from"], &diff["to"]), (&source["id"], &branch["id"]), "{diff}");
    assert!(diff["same"] == false && text(&diff, "diff").contains("+    note text"), "{diff}");
    branch
}

async fn a_sleeper_is_woken(bed: &DatabaseBed, cli: &CommandLine<'_>, source: &Value) {
    let id = text(source, "id");
    let hibernate = format!("/v1/sandboxes/{id}/hibernate");
    assert_eq!(bed.send(Method::POST, &hibernate, json!({})).await.0, 200);
    assert_eq!(cli.json(&["db", "get", "ledger"])["status"], "hibernated");
    let woken = cli.json(&["db", "wake", "ledger"]);
    assert!(woken["id"] == source["id"] && ["running", "waking"].contains(&text(&woken, "status")), "{woken}");
    bed.running(id).await;
    assert_eq!(bed.answer(source, COUNT), "3|3");
}

fn credentials_are_replaced(bed: &DatabaseBed, cli: &CommandLine<'_>, source: &Value) {
    let renewed = cli.json(&["db", "reset-credentials", "ledger"]);
    assert_eq!(renewed["id"], source["id"]);
    for field in ["password", "broker_token", "connection_url"] {
        assert_ne!(text(&renewed, field), text(source, field), "{field}");
    }
    assert!(bed.refusal(source, "SELECT 1").contains("authentication failed"));
    assert_eq!(bed.answer(&renewed, COUNT), "3|3");
    assert_eq!(bare_url(&cli.says(&["db", "url", "ledger"], "")), text(&renewed, "connection_url"));
    assert_eq!(rows(cli, "ledger", COUNT), json!([[3, 3]]), "the new token is used");
}

/// In this order. Nothing is deleted before somebody has agreed.
async fn both_are_deleted(bed: &DatabaseBed, cli: &CommandLine<'_>, [branch, source]: [&Value; 2]) {
    let (_, complaint) = cli.exits(&["db", "delete", "ledger-try", "ledger"], 2);
    assert!(complaint.contains("Confirm it with --yes"), "{complaint}");
    assert_eq!(cli.json(&["db", "get", "ledger"])["status"], "running");
    let deleted = cli.json(&["db", "delete", "ledger-try", "ledger", "--yes"]);
    assert_eq!(deleted["deleted"], json!([branch["id"], source["id"]]), "{deleted}");
    let listed = cli.json(&["db", "list"]);
    for gone in [branch, source] {
        assert!(listed.as_array().unwrap().iter().all(|one| one["id"] != gone["id"]), "{listed}");
        assert_eq!(bed.get(&path(gone)).await.0, 404);
    }
}

/// An agent tries a change in a branch, and removes what it made.
async fn tools_change_databases(bed: &DatabaseBed) {
    let source = shown(bed, "create_database", json!({"label": "by agent"})).await;
    assert_eq!((&source["status"], &source["label"]), (&json!("running"), &json!("by agent")), "{source}");
    let query = async |database: &Value, sql: &str| {
        shown(bed, "query_database", json!({"database_id": database["id"], "sql": sql})).await["rows"].clone()
    };
    assert_eq!(query(&source, "CREATE TABLE entry (n int)").await, json!([]));
    assert_eq!(query(&source, "INSERT INTO entry VALUES (1), (2) RETURNING n").await, json!([[1], [2]]));
    let ask = json!({"database_id": source["id"], "label": "agent's branch"});
    let branch = shown(bed, "branch_database", ask).await;
    assert_eq!((&branch["status"], &branch["branched_from"]), (&json!("running"), &source["id"]), "{branch}");
    assert_ne!(branch["connection_url"], source["connection_url"]);
    assert_eq!(query(&branch, "DELETE FROM entry WHERE n = 2 RETURNING n").await, json!([[2]]));
    assert_eq!(query(&branch, COUNT).await, json!([[1, 1]]));
    assert_eq!(query(&source, COUNT).await, json!([[2, 2]]));
    for made in [&branch, &source] {
        assert_eq!(tool(bed, "delete_database", json!({"database_id": made["id"]})).await, "done");
        let gone = call_over_http(bed, "get_database", json!({"database_id": made["id"]})).await;
        let (text, failed) = told(&gone);
        assert!(failed && text.contains("database.not_found"), "{gone}");
    }
}

/// The first text of a tool that must succeed.
async fn tool(bed: &DatabaseBed, name: &str, arguments: Value) -> String {
    let result = call_over_http(bed, name, arguments).await;
    let (text, failed) = told(&result);
    assert!(!failed, "{name}: {result}");
    text.to_owned()
}

/// What a tool shows that answers with JSON.
async fn shown(bed: &DatabaseBed, name: &str, arguments: Value) -> Value {
    serde_json::from_str(&tool(bed, name, arguments).await).unwrap()
}

/// What takes minutes without KVM.
mod deep {
    use std::time::Duration;

    use super::*;
    use crate::databases::{nothing_stays, own::succeeds};

    /// When the program of an SDK is stopped. Each of its steps has a limit of its own.
    const SDK_MAX: Duration = Duration::from_secs(900);

    #[tokio::test]
    async fn our_clients_restore_databases() {
        let bed = DatabaseBed::start();
        let cli = CommandLine::of(&bed);
        // It must not fall asleep while the SDKs work.
        let source = cli.json(&["db", "create", "--label", "ledger", "--always-on"]);
        assert_eq!((&source["status"], &source["always_on"]), (&json!("running"), &json!(true)), "{source}");
        rows(&cli, "ledger", "CREATE TABLE entry (n int PRIMARY KEY)");
        rows(&cli, "ledger", "INSERT INTO entry SELECT generate_series(1, 100)");

        a_backup_is_taken_and_verified(&cli);
        a_clone_has_the_rows(&cli, &source);
        a_restart_keeps_the_rows(&cli, &source);
        a_branch_becomes_its_parent(&cli);
        tools_restore(&bed, &source).await;
        // One after the other: each keeps both processors busy.
        for program in sdk_programs(&bed, "restores_sdk", SDK_MAX) {
            succeeds(&bed, program);
        }
        nothing_stays(&bed, &[&source]).await;
    }

    fn a_backup_is_taken_and_verified(cli: &CommandLine<'_>) {
        let taken = cli.json(&["db", "backup", "ledger"]);
        let held = cli.json(&["db", "backups", "ledger"]);
        assert_eq!((&held["count"], &held["items"][0]["name"]), (&json!(2), &taken["name"]), "{held}");
        let drill = cli.json(&["db", "verify-backup", "ledger"]);
        assert_eq!((&drill["status"], &drill["backup"]), (&json!("passed"), &taken["name"]), "{drill}");
        assert!(drill["relations_checked"].as_u64().unwrap() > 50, "{drill}");
        assert_eq!(cli.json(&["db", "backups", "ledger"])["drill"], drill);
    }

    fn a_clone_has_the_rows(cli: &CommandLine<'_>, source: &Value) {
        let clone = cli.json(&["db", "clone", "ledger", "--label", "ledger-then"]);
        assert_eq!((&clone["status"], &clone["cloned_from"]), (&json!("running"), &source["id"]), "{clone}");
        assert_ne!(clone["password"], source["password"]);
        assert_eq!(rows(cli, "ledger-then", COUNT), json!([[100, 100]]));
        assert_eq!(cli.json(&["db", "delete", "ledger-then", "--yes"])["deleted"], json!([clone["id"]]));
    }

    fn a_restart_keeps_the_rows(cli: &CommandLine<'_>, source: &Value) {
        let started = "SELECT pg_postmaster_start_time()";
        let before = rows(cli, "ledger", started);
        let restarted = cli.json(&["db", "restart", "ledger"]);
        assert_eq!((&restarted["status"], &restarted["id"]), (&json!("running"), &source["id"]), "{restarted}");
        assert_eq!(restarted["connection_url"], source["connection_url"]);
        assert_ne!(rows(cli, "ledger", started), before);
        assert_eq!(rows(cli, "ledger", COUNT), json!([[100, 100]]));
    }

    fn a_branch_becomes_its_parent(cli: &CommandLine<'_>) {
        let branch = cli.json(&["db", "branch", "ledger", "--label", "ledger-try"]);
        rows(cli, "ledger-try", "DELETE FROM entry WHERE n > 10");
        rows(cli, "ledger", "INSERT INTO entry VALUES (101)");
        let (_, complaint) = cli.exits(&["db", "reset", "ledger-try"], 2);
        assert!(complaint.contains("Confirm it with --yes"), "{complaint}");
        assert_eq!(rows(cli, "ledger-try", COUNT), json!([[10, 10]]));
        let reset = cli.json(&["db", "reset", "ledger-try", "--yes"]);
        assert_eq!((&reset["status"], &reset["id"]), (&json!("running"), &branch["id"]), "{reset}");
        assert_eq!(reset["connection_url"], branch["connection_url"]);
        assert_eq!(rows(cli, "ledger-try", COUNT), json!([[101, 101]]));
        assert_eq!(cli.json(&["db", "diff", "ledger-try", "--exit-code"])["same"], true);
        assert_eq!(cli.json(&["db", "delete", "ledger-try", "--yes"])["deleted"], json!([branch["id"]]));
    }

    async fn tools_restore(bed: &DatabaseBed, source: &Value) {
        let held = shown(bed, "database_backups", json!({"database_id": source["id"]})).await;
        assert_eq!((&held["count"], &held["drill"]["status"]), (&json!(2), &json!("passed")), "{held}");
        let ask = json!({"database_id": source["id"], "label": "by agent"});
        let clone = shown(bed, "clone_database", ask).await;
        assert_eq!((&clone["label"], &clone["cloned_from"]), (&json!("by agent"), &source["id"]), "{clone}");
        // The tool waits for three minutes, which may not be enough without KVM.
        bed.running(text(&clone, "id")).await;
        let found = shown(bed, "query_database", json!({"database_id": clone["id"], "sql": COUNT})).await;
        assert_eq!(found["rows"], json!([[101, 101]]), "{found}");
        assert_eq!(tool(bed, "delete_database", json!({"database_id": clone["id"]})).await, "done");
    }
}
