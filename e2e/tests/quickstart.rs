//! The quick starts of the README, run unchanged.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use pandastack_e2e::published::{python, typescript};
use pandastack_testbed::{DataFolder, TestServer};

#[test]
fn curl() {
    let said = run("curl", |code, _| {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", code]);
        command
    });
    assert!(said.contains(r#""stdout":"42\n""#) && said.contains("event: exit"), "{said}");
}

#[test]
fn with_python() {
    let said = run("python", |code, _| {
        let mut command = Command::new(python());
        command.args(["-c", code]);
        command
    });
    assert!(said.contains("5050") && said.contains(r"['remembered\n', 'remembered\n']"), "{said}");
}

#[test]
fn with_typescript() {
    // The example is valid JavaScript too, so it needs no compiler.
    let said = run("typescript", |code, home| {
        std::fs::write(home.join("start.mjs"), code).unwrap();
        std::os::unix::fs::symlink(typescript().join("node_modules"), home.join("node_modules")).unwrap();
        let mut command = Command::new("node");
        command.arg(home.join("start.mjs"));
        command
    });
    assert!(said.starts_with("1\n2\n3\nsandbox-"), "{said}");
}

/// Runs a quick start against its own server and returns its output. It leaves no sandbox behind.
fn run(name: &str, command: impl FnOnce(&str, &Path) -> Command) -> String {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &[]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let serve = |command: &mut Command| {
        command.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key).env("HOME", home.path());
        let output = command.env("NO_PROXY", "*").stdin(Stdio::null()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}{err}\nserver: {}", server.said());
        out.into_owned()
    };
    let said = serve(&mut command(&quick_start(name), home.path()));
    let listed = serve(Command::new(pandastack_testbed::built("pandastack")).args(["sandbox", "list", "--json"]));
    assert_eq!(listed.trim(), "[]");
    said
}

/// Finds the code block after a quick start's mark.
fn quick_start(name: &str) -> String {
    // Read at run time: clones share one target folder, so a compiled-in path may be another
    // clone's.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap();
    let readme = std::fs::read_to_string(Path::new(&package).join("../README.md")).unwrap();
    let (_, block) = readme.split_once(&format!("<!-- quick start: {name} -->\n```")).unwrap();
    let (_, code) = block.split_once('\n').unwrap();
    code.split_once("\n```").unwrap().0.to_owned()
}
