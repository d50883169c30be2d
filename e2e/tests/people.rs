//! Logins and organisations on the command line, with a real server and no machine: set-up, invite,
//! register, roles, accounts that the operator manages, and the way back to an API key.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use pandastack_testbed::{TestServer, built};
use serde_json::Value;

pub const PASSWORD: &str = "correct horse battery";

/// Somebody's home folder, in which the command line keeps its login.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Runs a command with lines on its standard input. Returns whether it succeeded, and its
    /// output on both streams.
    fn run(&self, lines: &[&str], words: &[&str]) -> (bool, String, String) {
        let mut command = Command::new(built("pandastack"));
        command.args(words).env("HOME", self.0.path()).env_remove("PANDASTACK_API_KEY").env_remove("XDG_CONFIG_HOME");
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        let asked: String = lines.iter().map(|line| format!("{line}\n")).collect();
        // A command that reads nothing may end before the lines are written.
        let _ = child.stdin.take().unwrap().write_all(asked.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    pub fn good(&self, lines: &[&str], words: &[&str]) -> String {
        let (good, said, told) = self.run(lines, words);
        assert!(good, "{words:?}: {said} {told}");
        said
    }

    pub fn json(&self, words: &[&str]) -> Value {
        let said = self.good(&[], &[words, &["--json"]].concat());
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{words:?}: {said}"))
    }

    fn refused(&self, lines: &[&str], words: &[&str]) -> String {
        let (good, said, told) = self.run(lines, words);
        assert!(!good, "{words:?}: {said}");
        told
    }
}

pub fn write_config(home: &Home, server: &TestServer) {
    let folder = home.0.path().join(".config/pandastack");
    std::fs::create_dir_all(&folder).unwrap();
    let config = serde_json::json!({"api_url": server.url, "token": server.key});
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

fn start(data: &Path) -> TestServer {
    std::fs::create_dir_all(data).unwrap();
    TestServer::start(data, &["--standby", "0", "--blanks", "0"]).unwrap()
}

#[test]
fn a_team_is_made_and_used_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = start(&data);
    let (ada, bob) = (Home::new(), Home::new());
    write_config(&ada, &server);

    // The operator, with the key that the server made.
    let login = ["login", "--email", "ada@example.com"];
    ada.good(&[PASSWORD, PASSWORD], &login);
    let me = ada.json(&["whoami"]);
    assert_eq!((&me["email"], &me["operator"]), (&Value::from("ada@example.com"), &Value::from(true)), "{me}");
    let org = ada.json(&["org", "create", "Panda Works"]);
    assert_eq!((&org["slug"], &org["role"]), (&Value::from("panda-works"), &Value::from("owner")), "{org}");
    assert_eq!(ada.json(&["whoami"])["workspace"], "panda-works");
    assert_eq!(ada.json(&["org", "list"]).as_array().unwrap().len(), 2);

    // An invite, its account, and what a member may not do.
    let invite = ada.json(&["member", "invite", "bob@example.com"]);
    let link = invite["invite_url"].as_str().unwrap();
    bob.good(&[PASSWORD, PASSWORD], &["register", link, "--api-url", &server.url]);
    let me = bob.json(&["whoami"]);
    assert_eq!((&me["email"], &me["workspace"]), (&Value::from("bob@example.com"), &Value::from("panda-works")));
    assert_eq!(bob.json(&["member", "list"]).as_array().unwrap().len(), 2);
    let refused = bob.refused(&[], &["member", "invite", "eve@example.com"]);
    assert!(refused.contains("insufficient role"), "{refused}");
    ada.good(&[], &["member", "role", "bob@example.com", "admin"]);
    bob.good(&[], &["member", "invite", "eve@example.com"]);
    assert_eq!(bob.json(&["member", "invites"]).as_array().unwrap().len(), 1);

    // A key of the organisation, made by a person.
    let key = bob.json(&["key", "create", "ci"]);
    assert!(key["token"].as_str().unwrap().starts_with("pds_"), "{key}");

    // The operator prints a link; the old password and all logins end with it.
    let data_dir = data.to_str().unwrap();
    let reset = ada.json(&["admin", "user", "reset", "bob@example.com", "--data-dir", data_dir]);
    let token = reset["reset_token"].as_str().unwrap();
    bob.good(&["another long password", "another long password"], &["reset-password", token]);
    assert!(bob.refused(&[], &["org", "list"]).contains("log in"), "the session ended");
    bob.refused(&[PASSWORD], &["login", "--email", "bob@example.com"]);
    bob.good(&["another long password"], &["login", "--email", "bob@example.com"]);
    ada.good(&[], &["admin", "user", "disable", "bob@example.com", "--data-dir", data_dir]);
    bob.refused(&["another long password"], &["login", "--email", "bob@example.com"]);
    let listed = ada.json(&["admin", "user", "list", "--data-dir", data_dir]);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");

    // After a restart the login still works; after a logout the key does again.
    drop(server);
    let server = start(&data);
    let address = ["--api-url", server.url.as_str()];
    let me = ada.json(&[&["whoami"], &address[..]].concat());
    assert_eq!(me["workspace"], "panda-works", "{me}");
    ada.good(&[], &[&["logout"], &address[..]].concat());
    let me = ada.json(&[&["whoami"], &address[..]].concat());
    assert_eq!((&me["auth_method"], &me["workspace"]), (&Value::from("token"), &Value::from("default")), "{me}");
}

#[test]
fn stub_mode_needs_no_login_but_a_loopback_address() {
    let folder = tempfile::tempdir().unwrap();
    let (home, data) = (Home::new(), folder.path().join("data"));
    for more in [&["--listen", "0.0.0.0:0"][..], &["--listen", "127.0.0.1:0", "--behind-proxy"]] {
        let words = ["up", "--no-config", "--auth-mode", "stub", "--data-dir", data.to_str().unwrap()];
        let told = home.refused(&[], &[&words, more].concat());
        assert!(told.contains("listen on a loopback address"), "{told}");
    }
    std::fs::create_dir_all(&data).unwrap();
    let server = TestServer::start(&data, &["--standby", "0", "--blanks", "0", "--auth-mode", "stub"]).unwrap();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--noproxy", "*", "--max-time", "180"]).arg(format!("{}/v1/me", server.url));
    let me: Value = serde_json::from_slice(&curl.output().unwrap().stdout).unwrap();
    assert_eq!((&me["workspace"], &me["auth_method"]), (&"local-dev".into(), &"stub".into()), "{me}");
}
