//! The dashboard in a real browser, on a real server: people walk through all of it with real
//! machines (`checks.mjs`), use databases (`databases.mjs`), and sign in in the other ways
//! (`entering.mjs`).

mod entering;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pandastack_e2e::{
    browser::{BrowserProgram, QuietNetwork},
    project,
};
use pandastack_testbed::{Collector, CollectorMode, DataFolder, TestServer};

/// Names a folder for the pictures of all pages. Without it they are thrown away.
const SHOTS: &str = "PANDASTACK_SHOTS";

fn browser_program() -> BrowserProgram {
    BrowserProgram::of("dashboard-driver", &project().join("e2e/tests/dashboard"))
}

/// Runs a walk. `own` is where its pictures go if nobody wants them.
fn walk(mut command: Command, own: &Path, server: &TestServer) {
    let shots = std::env::var_os(SHOTS).map_or_else(|| own.to_path_buf(), PathBuf::from);
    std::fs::create_dir_all(&shots).unwrap();
    let output = command.env(SHOTS, shots).stdin(Stdio::null()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{}", server.said());
    println!("{said}");
}

/// A network in which a browser reaches only the server.
fn network_of(server: &TestServer) -> QuietNetwork {
    QuietNetwork::with_port(server.url.rsplit(':').next().unwrap().parse().unwrap())
}

/// Gives a program the server, and the link that it made at its start.
fn first_person(mut command: Command, data: &DataFolder, server: &TestServer) -> Command {
    let link = std::fs::read_to_string(data.path().join("sign-in-link")).unwrap();
    command.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key).env("PANDASTACK_LINK", link);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn people_use_every_page() {
    let (program, own) = (browser_program(), tempfile::tempdir().unwrap());
    let data = DataFolder::with_templates().unwrap();
    let arguments = ["--standby", "1", "--blanks", "1", "--webhook-allow-private"];
    let server = TestServer::start(data.path(), &arguments).unwrap();
    let receiver = Collector::start(CollectorMode::Takes).await.unwrap();
    let network = network_of(&server);
    let mut command = first_person(program.command(&network, "checks.mjs"), &data, &server);
    command.env("PANDASTACK_RECEIVER", &receiver.url);
    tokio::task::block_in_place(|| walk(command, own.path(), &server));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn people_use_databases() {
    let (program, own) = (browser_program(), tempfile::tempdir().unwrap());
    let data = DataFolder::with_databases().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let network = network_of(&server);
    let command = first_person(program.command(&network, "databases.mjs"), &data, &server);
    tokio::task::block_in_place(|| walk(command, own.path(), &server));
}
