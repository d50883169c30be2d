//! Template builds and their sandboxes, through the client and the command line.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::process::{Command, Output, Stdio};

use pandastack_client::{
    BuildForm, Client, Config,
    wire::{Build, CreateSandbox, ExecRequest, Sandbox},
};
use pandastack_testbed::{TestServer, built};

pub fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

pub async fn create(client: &Client, template: &str) -> Sandbox {
    let ask = CreateSandbox { template: Some(template.into()), ..CreateSandbox::default() };
    client.create(&ask).await.unwrap()
}

/// Runs a shell line that must succeed, and returns its output.
pub async fn run(client: &Client, id: &str, line: &str) -> String {
    let ran = client.exec(id, &ExecRequest { cmd: Some(line.into()), ..ExecRequest::default() }).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{line}: {} {}", ran.stdout, ran.stderr);
    ran.stdout
}

pub fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Builds without files, and waits for the end.
pub async fn build(client: &Client, pairs: &[(&str, &str)]) -> Build {
    let form = BuildForm { fields: fields(pairs), files: Vec::new() };
    ended(client, client.build_template(form).await.unwrap()).await
}

/// Waits for the end of a build.
pub async fn ended(client: &Client, build: Build) -> Build {
    log(client, &build).await;
    client.get_build(&build.id).await.unwrap()
}

/// Returns the whole log of a build.
pub async fn log(client: &Client, build: &Build) -> String {
    let (mut log, mut text) = (client.build_log(&build.id, true).await.unwrap(), String::new());
    while let Some(line) = log.next().await {
        text.push_str(&line.unwrap());
        text.push('\n');
    }
    text
}

/// Runs the command line with arguments and environment variables.
pub fn command(server: &TestServer, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(built("pandastack"));
    command.args(["--api-url", &server.url]).args(words).env("PANDASTACK_API_KEY", &server.key).stdin(Stdio::null());
    command.env_remove("PANDASTACK_REGISTRY_PASSWORD").envs(variables.iter().copied()).output().unwrap()
}

/// Runs the command line, which must succeed, and returns its output.
pub fn cli(server: &TestServer, words: &[&str]) -> String {
    let output = command(server, words, &[]);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Deletes every sandbox. Then only layers with an owner may be left.
pub async fn clean(client: &Client) {
    for sandbox in client.list().await.unwrap() {
        client.delete(&sandbox.id).await.unwrap();
    }
    let audit = client.audit().await.unwrap();
    assert_eq!((audit.leaks, audit.machines), (Vec::new(), 0));
}
