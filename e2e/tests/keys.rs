//! `pandastack key …` on the command line, with a real server and no machine: create, list, revoke,
//! and recovery of access.

use std::process::{Command, Stdio};

use pandastack_testbed::{TestServer, built};
use serde_json::Value;

/// Runs the command line with a key. Returns whether it succeeded, and its output on both streams.
fn run(server: &TestServer, key: &str, words: &[&str]) -> (bool, String, String) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(built("pandastack"));
    command.args(words).env("PANDASTACK_API_URL", &server.url).env("PANDASTACK_API_KEY", key);
    let output = command.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn keys_are_made_listed_and_revoked_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let server = TestServer::start(&data, &["--standby", "0", "--blanks", "0"]).unwrap();
    let first = server.key.clone();

    let (good, key, told) = run(&server, &first, &["key", "create", "ci", "--expires-in-days", "7"]);
    let key = key.trim().to_owned();
    assert!(good && key.starts_with("pds_") && key.len() == 36 && told.contains("shown only once"), "{key} {told}");
    let (good, table, _) = run(&server, &key, &["key", "list"]);
    assert!(good && table.starts_with("ID") && table.contains("ci") && table.contains("(this one)"), "{table}");
    assert!(!table.contains(&key), "{table}");
    let (good, listed, _) = run(&server, &key, &["key", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert!(good && listed.as_array().unwrap().len() == 2, "{listed}");

    let (good, said, _) = run(&server, &first, &["key", "revoke", &key[..12]]);
    assert!(good && said.starts_with("revoked "), "{said}");
    let (good, _, refused) = run(&server, &key, &["key", "list"]);
    assert!(!good && refused.contains("revoked"), "{refused}");
    let (good, _, refused) = run(&server, &first, &["key", "revoke", "key_none"]);
    assert!(!good && refused.contains("pandastack key list"), "{refused}");

    // The last key: refused, then forced. The data folder restores access while the server runs.
    let id = listed[1]["id"].as_str().unwrap();
    let (good, _, refused) = run(&server, &first, &["key", "revoke", id]);
    assert!(!good && refused.contains("--force"), "{refused}");
    let (good, _, said) = run(&server, &first, &["key", "revoke", "--force", id]);
    assert!(good, "{said}");
    assert!(!run(&server, &first, &["key", "list"]).0);
    let folder = data.to_str().unwrap();
    let (good, made, said) = run(&server, "", &["key", "create", "back", "--data-dir", folder, "--json"]);
    assert!(good, "{said}");
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["label"], &made["created_by"]), (&Value::from("back"), &Value::from("operator")));
    let (good, listed, said) = run(&server, made["token"].as_str().unwrap(), &["key", "list", "--quiet"]);
    assert!(good && listed.trim() == made["id"].as_str().unwrap(), "{listed} {said}");
    // A restart does not make the revoked first key valid again.
    drop(server);
    let server = TestServer::start(&data, &["--standby", "0", "--blanks", "0"]).unwrap();
    assert!(server.said().contains("was revoked and does not work"), "{}", server.said());
    assert!(!run(&server, &first, &["key", "list"]).0);
}
