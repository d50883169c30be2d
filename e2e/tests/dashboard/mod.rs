//! The dashboard in a real browser: people walk through all of it on a real server with real
//! machines. `checks.mjs` is the walk.

use std::{path::PathBuf, process::Stdio};

use pandastack_e2e::{
    browser::{BrowserProgram, QuietNetwork},
    project,
};
use pandastack_testbed::{DataFolder, TestServer};

/// Names a folder for the pictures of all pages. Without it they are thrown away.
const SHOTS: &str = "PANDASTACK_SHOTS";

#[test]
fn people_use_every_page() {
    let program = BrowserProgram::of("dashboard-driver", &project().join("e2e/tests/dashboard"));
    let data = DataFolder::with_templates().unwrap();
    let arguments = ["--standby", "1", "--blanks", "1", "--webhook-allow-private"];
    let server = TestServer::start(data.path(), &arguments).unwrap();
    let link = std::fs::read_to_string(data.path().join("sign-in-link")).unwrap();
    let port = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let network = QuietNetwork::with_port(port);
    let own = tempfile::tempdir().unwrap();
    let shots = std::env::var_os(SHOTS).map_or_else(|| own.path().to_path_buf(), PathBuf::from);
    std::fs::create_dir_all(&shots).unwrap();
    let mut walk = program.command(&network, "checks.mjs");
    walk.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key);
    walk.env("PANDASTACK_LINK", link).env(SHOTS, shots).stdin(Stdio::null());
    let output = walk.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{}", server.said());
    println!("{said}");
}
