//! The official clients of the Model Context Protocol, in Python and TypeScript, over both
//! transports, against one server with real machines.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pandastack_e2e::published::{mcp_typescript, node, python_with_mcp};
use pandastack_testbed::{DataFolder, TestServer, built};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp")
}

/// Runs a client that must succeed.
fn good(mut command: Command, server: &TestServer, home: &Path) {
    command.env_remove("PANDASTACK_ORG").env_remove("PANDASTACK_CONTEXT").env("NO_PROXY", "*").env("HOME", home);
    command.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn official_clients_drive_both_transports() {
    let (python, typescript) = (python_with_mcp(), mcp_typescript(&here()));
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start_with(data.path(), |command| {
        command.args(["--no-config", "--standby", "1", "--blanks", "1"]).env("PANDASTACK_MCP_RATE_PER_MIN", "0");
    })
    .unwrap();
    let (url, program) = (format!("{}/mcp", server.url), built("pandastack"));
    let home = tempfile::tempdir().unwrap();
    for (transport, place) in [("http", url.as_str()), ("stdio", program.to_str().unwrap())] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut command = Command::new(&python);
                command.arg(here().join("checks.py")).args([transport, place]);
                good(command, &server, home.path());
            });
            scope.spawn(|| {
                let mut command = Command::new(node());
                command.arg(typescript.join("checks.mjs")).args([transport, place]);
                good(command, &server, home.path());
            });
        });
    }
}

#[test]
fn a_client_is_configured_and_its_other_entries_stay() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".cursor/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let old = "{\n  \"zebra\": 1,\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}\n  }\n}\n";
    std::fs::write(&file, old).unwrap();
    let install = |words: &[&str]| {
        let mut command = Command::new(built("pandastack"));
        command.args(["mcp", "install", "--client", "cursor"]).args(words).env_clear().env("HOME", home.path());
        command.env("PANDASTACK_API_KEY", "pds_secret").stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (written, said) = install(&[]);
    assert!(!written && said.contains("+    \"pandastack\": {") && said.contains("--yes"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), old, "nobody agreed to the change");
    let (written, said) = install(&["--yes", "--read-only"]);
    assert!(written, "{said}");
    let new = std::fs::read_to_string(&file).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&new).unwrap();
    assert_eq!(parsed["mcpServers"]["pandastack"]["args"], serde_json::json!(["mcp", "--read-only"]));
    assert_eq!((&parsed["zebra"], &parsed["mcpServers"]["other"]["command"]), (&1.into(), &"x".into()));
    assert!(!new.contains("pds_secret"), "{new}");
    assert_eq!(std::fs::read_to_string(file.with_file_name("mcp.json.before-pandastack")).unwrap(), old);
    let (_, printed) = install(&["--print", "--http", "--with-key"]);
    assert!(printed.contains("Bearer pds_secret") && printed.contains("/mcp\""), "{printed}");
}
