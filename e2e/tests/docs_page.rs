//! The page of the API's document in a real browser, from the built server: its content security
//! policy allows only its own script and style, and the script renders the document.

use std::process::{Command, Stdio};

use pandastack_e2e::project;
use pandastack_testbed::{DataFolder, TestServer};

#[test]
fn a_browser_shows_every_route_and_its_details() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let (page, said) = opened(&format!("{}/docs#postSandboxesIdExec", server.url));
    assert!(!said.contains("CONSOLE"), "the page complained: {said}");
    // The script is part of the page. Its output comes before it.
    let (page, _) = page.split_once("<script>").unwrap();
    assert!(!page.contains("Loading…") && !page.contains("could not be read"), "{page}");
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(project().join("docs/openapi.json")).unwrap()).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        assert!(page.contains(&format!("<code>{path}</code>")), "{path} is not on the page");
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(page.contains(&format!("id=\"{id}\"")), "{id} is not on the page");
        }
    }
    // The operation in the address is open, with its fields, an example and its answers.
    let (_, opened) = page.split_once("id=\"postSandboxesIdExec\"").unwrap();
    let (opened, _) = opened.split_once("id=\"getSandboxesIdExecPty\"").unwrap();
    for part in [
        "open=\"\"",
        "<code>timeout_seconds</code>",
        "curl -X POST",
        "Authorization: Bearer $PANDASTACK_API_KEY",
        "<code>404</code>",
    ] {
        assert!(opened.contains(part), "{part}: {opened}");
    }
}

#[test]
fn a_browser_runs_nothing_that_is_not_the_page_s_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    // Proves that the test above would notice a violation.
    std::fs::write(&file, "<meta http-equiv=content-security-policy content=\"default-src 'none'\"><script>1</script>")
        .unwrap();
    let (_, said) = opened(&format!("file://{}", file.display()));
    assert!(said.contains("CONSOLE") && said.contains("Content Security Policy"), "{said}");
}

/// The page after its scripts have run, and the browser's log.
fn opened(address: &str) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    let mut browser = Command::new("chromium-headless-shell");
    // No browser sandbox for root, no proxy for a server on loopback, no waiting for timers.
    browser.args(["--no-sandbox", "--disable-gpu", "--no-proxy-server", "--virtual-time-budget=60000"]);
    browser.args(["--enable-logging=stderr", "--log-level=0", "--dump-dom", address]);
    browser.arg(format!("--user-data-dir={}", home.path().display()));
    let output =
        browser.env("HOME", home.path()).stdin(Stdio::null()).output().expect("`scripts/setup` installs the browser");
    let [page, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{said}");
    (page, said)
}
