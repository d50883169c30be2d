//! The first template of a server: what a create says without one, and `up --template`, which bakes
//! while it serves. A stop or a kill in the middle leaves nothing.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use pandastack_client::{Client, ClientError, wire::CreateSandbox};
use pandastack_e2e::{
    PATIENCE,
    templates::{clean, client, command, create, run},
};
use pandastack_host::net;
use pandastack_testbed::{DataFolder, TestServer, built, processes, wait_for};

use crate::bake::folder_of;

/// A bake boots a machine and seals it, without hardware virtualization too.
const BAKE_PATIENCE: Duration = Duration::from_secs(600);

/// A data folder as of a new server. Root file systems are cached, so that a bake begins with its
/// first boot.
fn without_templates() -> DataFolder {
    let data = DataFolder::with_templates().unwrap();
    let volume = data.path().join("volume");
    fs::remove_file(volume.join("templates/mini")).unwrap();
    for layer in fs::read_dir(volume.join("layers")).unwrap().flatten() {
        fs::remove_dir_all(layer.path()).unwrap();
    }
    data
}

fn start(data: &Path, agent: &Path, arguments: &[&str]) -> TestServer {
    let server = TestServer::start_with(data, |command| {
        command.args(["--no-config", "--standby", "0"]).args(arguments).env("PANDASTACK_GUESTD", agent);
    });
    server.unwrap()
}

/// The refusal of a create from a template.
async fn refusal(client: &Client) -> ClientError {
    let ask = CreateSandbox { template: Some("mini".into()), ..CreateSandbox::default() };
    client.create(&ask).await.unwrap_err()
}

/// Runs the command line, and returns its exit code and what it said.
fn says(server: &TestServer, words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command(server, words, &[]);
    let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (status.code(), text)
}

/// Asks for a sandbox, and returns the answer with its head.
fn with_curl(server: &TestServer, body: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sSi", "--noproxy", "*", "-H", "content-type: application/json", "-d", body]);
    curl.args(["-H", &format!("authorization: Bearer {}", server.key)]).arg(format!("{}/v1/sandboxes", server.url));
    String::from_utf8(curl.output().unwrap().stdout).unwrap()
}

#[tokio::test]
async fn a_server_serves_while_it_bakes_its_first_template() {
    let data = without_templates();
    let agent = built("pandastack-guestd");

    // Without any, the first create says what to do.
    let mut server = start(data.path(), &agent, &[]);
    assert!(server.said().contains("templates  none; bake one with: "), "{}", server.said());
    let (code, said) = says(&server, &["create"]);
    assert!(code == Some(3) && said.contains("pandastack template bake mini"), "{said}");
    let refused = refusal(&client(&server)).await;
    assert_eq!((refused.status(), refused.code()), (Some(400), Some("template.unknown")));
    assert!(refused.to_string().contains("its operator runs: pandastack template bake mini"), "{refused}");
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());

    // While it bakes, it serves.
    let server = start(data.path(), &agent, &["--template", "mini", "--template", "mini"]);
    let client = client(&server);
    assert!(server.said().contains("templates  mini (being baked)"), "{}", server.said());
    let answer = with_curl(&server, r#"{"template": "mini"}"#);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\r\nretry-after: 5\r\n"), "{answer}");
    let baking = async || {
        let refused = refusal(&client).await;
        assert_eq!((refused.status(), refused.code()), (Some(503), Some("template.baking")));
        refused.to_string().contains("template mini is being baked, ").then_some(())
    };
    wait_for("the bake has begun", PATIENCE, baking).await;
    let (code, said) = says(&server, &["create"]);
    assert!(code == Some(1) && said.contains("see how far it is with: pandastack template list"), "{said}");
    let (_, said) = says(&server, &["template", "list"]);
    assert!(said.contains("mini") && said.contains("is being baked, "), "{said}");
    assert_eq!(client.get_template("mini").await.unwrap().status.as_deref(), Some("baking"));

    let done = async || server.said().contains("template mini: baked in ").then_some(());
    wait_for("the template is baked", BAKE_PATIENCE, done).await;
    let [template] = <[_; 1]>::try_from(client.templates().await.unwrap()).unwrap();
    assert_eq!((template.name.as_str(), template.status), ("mini", None));
    let sandbox = create(&client, "mini").await;
    assert_eq!(run(&client, &sandbox.id, "echo ready").await, "ready\n");
    assert!(server.said().contains("template mini: first boot"), "{}", server.said());
    clean(&client).await;
}

#[tokio::test]
async fn a_bake_of_a_server_ends_with_it_and_leaves_nothing() {
    let data = without_templates();
    let agent = built("pandastack-guestd");
    let baking = async |server: &TestServer| {
        let machine = async || folder_of(server.pid()).filter(|folder| !processes(folder).is_empty());
        wait_for("the machine of a bake", PATIENCE, machine).await
    };

    // A kill leaves the machine. The next start ends it.
    let mut server = start(data.path(), &agent, &["--template", "mini"]);
    let (killed, folder) = (server.pid(), baking(&server).await);
    server.kill().unwrap();
    assert!(!processes(&folder).is_empty(), "the machine of a killed bake runs on");
    let mut server = start(data.path(), &agent, &["--template", "mini"]);
    assert_eq!(processes(&folder), Vec::<String>::new());

    let (stopped, _) = (server.pid(), baking(&server).await);
    assert_eq!(server.stop().unwrap(), Some(0), "{}", server.said());
    assert!(server.said().contains("template mini: stopped; no template was baked"), "{}", server.said());
    assert!(!server.said().contains("ERROR"), "{}", server.said());
    let instance = data.path().canonicalize().unwrap().display().to_string();
    for process in [killed, stopped] {
        assert_eq!(folder_of(process), None);
        let net::NetLeftovers { namespaces, links, tables } =
            net::leftovers(&format!("{instance} bake {process}")).await.unwrap();
        assert_eq!([namespaces, links, tables].concat(), Vec::<String>::new());
    }
    let volume = data.path().join("volume");
    assert_eq!(fs::read_dir(volume.join("disks")).unwrap().count(), 0);
    assert!(!volume.join("templates/mini").exists());
}

#[tokio::test]
async fn a_bake_that_fails_is_reported_and_not_tried_again() {
    let data = without_templates();
    let server = start(data.path(), Path::new("/nowhere/guestd"), &["--template", "mini"]);
    let client = client(&server);
    let failed = async || server.said().contains("ERROR: template mini was not baked").then_some(());
    wait_for("the bake fails", PATIENCE, failed).await;
    assert!(server.said().contains("read the guest agent at /nowhere/guestd"), "{}", server.said());
    let line = format!("template bake mini --data-dir {}", data.path().canonicalize().unwrap().display());
    assert!(server.said().contains(&line), "{}", server.said());
    let refused = refusal(&client).await;
    assert_eq!((refused.status(), refused.code()), (Some(409), Some("template.bake_failed")));
    assert_eq!(client.get_template("mini").await.unwrap().status.as_deref(), Some("failed"));
    assert_eq!(server.said().matches("ERROR").count(), 1, "{}", server.said());
}
