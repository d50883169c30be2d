//! Copies that compare contents, variables that choose a context, and pages of a sandbox.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use pandastack_client::{Client, wire::SpawnRequest};
use pandastack_e2e::{PATIENCE, templates::run};
use pandastack_testbed::{TestServer, wait_for};
use serde_json::Value;

use super::{NOBODY, Person};

/// Everything of this file, with a home of its own.
pub async fn contents_are_compared_and_pages_are_found(server: &TestServer, client: &Client, id: &str) {
    let person = Person::new();
    person.knows("here", &server.url, &server.key);
    variables(&person);
    trees(&person, client, id).await;
    pages(&person, server, client, id).await;
}

fn variables(person: &Person) {
    let config = person.path(".config/pandastack/config.json");
    let mut fields: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    fields["theme"] = "dark".into();
    fs::write(&config, fields.to_string()).unwrap();
    person.knows("away", NOBODY, "pds_other");
    let code =
        |context: &str| person.command(&["ls"]).env("PANDASTACK_CONTEXT", context).output().unwrap().status.code();
    assert_eq!((code("here"), code("away")), (Some(0), Some(6)));
    // A key in the environment is for the server in the environment, and not for a chosen context.
    let mut chosen = person.command(&["ls", "--context", "here"]);
    let output = chosen.env("PANDASTACK_API_KEY", "pds_wrong").env("PANDASTACK_API_URL", NOBODY).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    person.runs(&["context", "use", "away"]);
    let fields: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    // Each published client has its own spelling.
    let top = ["api_url", "apiUrl", "token", "api_key", "theme"].map(|name| fields[name].as_str().unwrap_or_default());
    assert_eq!(top, [NOBODY, NOBODY, "pds_other", "pds_other", "dark"]);
    person.runs(&["context", "use", "here"]);
    person.runs(&["context", "remove", "away"]);
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

async fn trees(person: &Person, client: &Client, id: &str) {
    let (up, down) = (person.path("up"), person.path("down"));
    fs::create_dir(&up).unwrap();
    for (name, text) in [("a.txt", "first\n"), ("-run.sh", "#!/bin/sh\necho ran\n"), ("two words", "second\n")] {
        fs::write(up.join(name), text).unwrap();
    }
    fs::write(up.join("empty"), "").unwrap();
    fs::set_permissions(up.join("-run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let [here, back] = [&up, &down].map(|path| path.to_str().unwrap());
    let there = format!("{}:/srv/tree", &id[..8]);

    assert_eq!(person.copies(&[here, &there]), (4, 0));
    let look = "cd /srv/tree; cat a.txt; ./-run.sh; stat -c %a -- -run.sh";
    assert_eq!(run(client, id, look).await, "first\nran\n750\n");
    // Size and time stay, and one file has only other permissions.
    let forge_there = "cd /srv/tree; touch -r a.txt /tmp/time; printf 'FIRST\\n' > a.txt; touch -r /tmp/time a.txt";
    run(client, id, &format!("{forge_there}; chmod 700 -- -run.sh")).await;
    assert_eq!(person.copies(&["--resume", here, &there]), (2, 2));
    assert_eq!(run(client, id, look).await, "first\nran\n750\n");
    // Another time alone is no reason to copy.
    run(client, id, "touch /srv/tree/*").await;
    assert_eq!(person.copies(&["--resume", here, &there]), (0, 4));

    assert_eq!(person.copies(&[&there, back]), (4, 0));
    forge(&down.join("a.txt"), "other\n");
    fs::remove_file(down.join("-run.sh")).unwrap();
    assert_eq!(person.copies(&["--resume", &there, back]), (2, 2));
    assert_eq!(fs::read_to_string(down.join("a.txt")).unwrap(), "first\n");
    assert_eq!((mode(&down.join("-run.sh")), fs::metadata(down.join("empty")).unwrap().len()), (0o750, 0));

    // Single files that are there need no second copy.
    let (near, far) = (up.join("a.txt"), format!("{id}:/srv/tree/a.txt"));
    let near = near.to_str().unwrap();
    assert_eq!(person.json(&["cp", "--resume", near, &far])["skipped"], 1);
    assert_eq!(person.json(&["cp", "--resume", &far, near])["skipped"], 1);
    run(client, id, forge_there).await;
    assert_eq!(person.json(&["cp", "--resume", &far, near])["skipped"], 0);
    assert_eq!(fs::read_to_string(near).unwrap(), "FIRST\n");
}

async fn pages(person: &Person, server: &TestServer, client: &Client, id: &str) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let docs = person.runs(&["open", "docs", "--print"]);
    assert!(http.get(docs.trim()).send().await.unwrap().status().is_success(), "{docs}");
    let serve = "exec python3 -m http.server 8000 --directory /srv/tree";
    let ask = SpawnRequest { cmd: Some(serve.into()), ..SpawnRequest::default() };
    client.spawn(id, &ask).await.unwrap();
    // Without --port it is the only one, as soon as it listens.
    let url = wait_for("the port", PATIENCE, async || {
        let output = person.command(&["open", &id[..8], "--print"]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    })
    .await;
    // A browser finds every name below `localhost`; this client need not.
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let page = http.get(format!("{}/{path}two%20words", server.url)).header("host", host);
    assert_eq!(page.send().await.unwrap().text().await.unwrap(), "second\n");
}
