//! Copies that compare contents, variables that choose a context, and pages of a sandbox, on the
//! command line. `cli.rs` has the rest of these commands.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::{Command, Stdio},
};

use pandastack_client::{Client, wire::SpawnRequest};
use pandastack_e2e::templates::{clean, client, create, run};
use pandastack_testbed::{DataFolder, PATIENCE, TestServer, built, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Nothing listens here.
const NOBODY: &str = "http://127.0.0.1:1";

/// A person with a home folder, and nothing in the environment that names a server.
struct CliUser {
    home: TempDir,
}

impl CliUser {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(built("pandastack"));
        command.args(words).env("HOME", self.home.path()).stdin(Stdio::null());
        for name in ["API_URL", "API", "API_KEY", "CONTEXT", "ORG"] {
            command.env_remove(format!("PANDASTACK_{name}"));
        }
        command
    }

    /// Runs a command that must succeed, and returns what it printed.
    fn says(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn answers(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[&["--json"], words].concat())).unwrap()
    }

    /// Copies a tree, and returns how many files were copied and how many were skipped.
    fn copies(&self, words: &[&str]) -> (u64, u64) {
        let copied = self.answers(&[&["cp", "-r"], words].concat());
        (copied["files"].as_u64().unwrap(), copied["skipped"].as_u64().unwrap())
    }

    /// Adds a server with a key, which the config file names for all clients.
    fn knows(&self, name: &str, url: &str, key: &str) {
        let file = self.home.path().join("key");
        fs::write(&file, key).unwrap();
        let add = ["context", "add", name, url, "--key-stdin"];
        let output = self.command(&add).stdin(fs::File::open(&file).unwrap()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[tokio::test]
async fn contents_are_compared_and_pages_are_found() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0"]).unwrap();
    let (client, user) = (client(&server), CliUser { home: tempfile::tempdir().unwrap() });
    user.knows("here", &server.url, &server.key);
    variables(&user);
    let id = create(&client, "mini").await.id;
    trees(&user, &client, &id).await;
    pages(&user, &server, &client, &id).await;
    assert_eq!(user.says(&["rm", &id[..8]]), format!("deleted {id}\n"));
    clean(&client).await;
}

fn variables(user: &CliUser) {
    let config = user.home.path().join(".config/pandastack/config.json");
    let mut fields: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    fields["theme"] = "dark".into();
    fs::write(&config, fields.to_string()).unwrap();
    user.knows("away", NOBODY, "pds_other");
    let code = |context: &str| user.command(&["ls"]).env("PANDASTACK_CONTEXT", context).output().unwrap().status.code();
    assert_eq!((code("here"), code("away")), (Some(0), Some(6)));
    // A key in the environment is for the server in the environment, and not for a chosen context.
    let mut chosen = user.command(&["ls", "--context", "here"]);
    let output = chosen.env("PANDASTACK_API_KEY", "pds_wrong").env("PANDASTACK_API_URL", NOBODY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    user.says(&["context", "use", "away"]);
    let fields: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    // Each published client has its own spelling.
    let top = ["api_url", "apiUrl", "token", "api_key", "theme"].map(|name| fields[name].as_str().unwrap_or_default());
    assert_eq!(top, [NOBODY, NOBODY, "pds_other", "pds_other", "dark"]);
    user.says(&["context", "use", "here"]);
    user.says(&["context", "remove", "away"]);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Gives a file other contents of the same size, and its old time.
fn forge(path: &Path, text: &str) {
    let before = fs::metadata(path).unwrap();
    fs::write(path, text).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(before.modified().unwrap()).unwrap();
    let after = fs::metadata(path).unwrap();
    assert_eq!((after.len(), after.mtime()), (before.len(), before.mtime()));
}

async fn trees(user: &CliUser, client: &Client, id: &str) {
    let (up, down) = (user.home.path().join("up"), user.home.path().join("down"));
    fs::create_dir(&up).unwrap();
    for (name, text) in [("a.txt", "first\n"), ("-run.sh", "#!/bin/sh\necho ran\n"), ("two words", "second\n")] {
        fs::write(up.join(name), text).unwrap();
    }
    fs::write(up.join("empty"), "").unwrap();
    fs::set_permissions(up.join("-run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let [here, back] = [&up, &down].map(|path| path.to_str().unwrap());
    let there = format!("{}:/srv/tree", &id[..8]);

    assert_eq!(user.copies(&[here, &there]), (4, 0));
    let look = "cd /srv/tree; cat a.txt; ./-run.sh; stat -c %a -- -run.sh";
    assert_eq!(run(client, id, look).await, "first\nran\n750\n");
    // Size and time stay, and one file has only other permissions.
    let forge_there = "cd /srv/tree; touch -r a.txt /tmp/time; printf 'FIRST\\n' > a.txt; touch -r /tmp/time a.txt";
    run(client, id, &format!("{forge_there}; chmod 700 -- -run.sh")).await;
    assert_eq!(user.copies(&["--resume", here, &there]), (2, 2));
    assert_eq!(run(client, id, look).await, "first\nran\n750\n");
    // Another time alone is no reason to copy.
    run(client, id, "touch /srv/tree/*").await;
    assert_eq!(user.copies(&["--resume", here, &there]), (0, 4));

    assert_eq!(user.copies(&[&there, back]), (4, 0));
    forge(&down.join("a.txt"), "other\n");
    fs::remove_file(down.join("-run.sh")).unwrap();
    assert_eq!(user.copies(&["--resume", &there, back]), (2, 2));
    assert_eq!(fs::read_to_string(down.join("a.txt")).unwrap(), "first\n");
    assert_eq!((mode(&down.join("-run.sh")), fs::metadata(down.join("empty")).unwrap().len()), (0o750, 0));

    // Single files that are there need no second copy.
    let (near, far) = (up.join("a.txt"), format!("{id}:/srv/tree/a.txt"));
    let near = near.to_str().unwrap();
    assert_eq!(user.answers(&["cp", "--resume", near, &far])["skipped"], 1);
    assert_eq!(user.answers(&["cp", "--resume", &far, near])["skipped"], 1);
    run(client, id, forge_there).await;
    assert_eq!(user.answers(&["cp", "--resume", &far, near])["skipped"], 0);
    assert_eq!(fs::read_to_string(near).unwrap(), "FIRST\n");
}

async fn pages(user: &CliUser, server: &TestServer, client: &Client, id: &str) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let docs = user.says(&["open", "docs", "--print"]);
    assert!(http.get(docs.trim()).send().await.unwrap().status().is_success(), "{docs}");
    let serve = "exec python3 -m http.server 8000 --directory /srv/tree";
    let ask = SpawnRequest { cmd: Some(serve.into()), ..SpawnRequest::default() };
    client.spawn(id, &ask).await.unwrap();
    // Without --port it is the only one, as soon as it listens.
    let url = wait_for("the port", PATIENCE, async || {
        let output = user.command(&["open", &id[..8], "--print"]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    })
    .await;
    // A browser finds every name below `localhost`; this client need not.
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let page = http.get(format!("{}/{path}two%20words", server.url)).header("host", host);
    assert_eq!(page.send().await.unwrap().text().await.unwrap(), "second\n");
}
