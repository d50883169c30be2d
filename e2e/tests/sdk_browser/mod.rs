//! Our TypeScript SDK in a real browser: a page of another origin imports the built package as it
//! is, and drives a real machine.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pandastack_e2e::{
    own_sdk::TypeScriptSdk,
    published::{browser_driver, node},
};
use pandastack_testbed::{DataFolder, TestServer};
use serde_json::{Value, json};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk_browser")
}

#[test]
fn a_page_of_another_origin_drives_a_machine() {
    let (sdk, driver) = (TypeScriptSdk::installed(), browser_driver(&here()));
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "1", "--blanks", "1"]).unwrap();
    let mut command = Command::new(node());
    command.arg(driver.join("checks.mjs")).arg(sdk.folder()).arg(here()).stdin(Stdio::null());
    command.env("PANDASTACK_API", &server.url).env("PANDASTACK_API_KEY", &server.key);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", server.said());
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!({
        "secure": false,
        "exec": ["from a page\n", 3],
        "python": "42\n",
        "pieces": [["stdout", "out\n"], ["stderr", "err\n"]],
        "files": {
            "same": true, "text": "héllo", "large": [3_000_000, 3_000_000],
            "local": "upload of a local file needs Node, Bun or Deno; this runtime has no node:fs",
        },
        "socket": {
            "many": "number 1\nnumber 2\nnumber 3\nnumber 4\n", "stdin": "input é", "aborted": "enough",
        },
        "terminal": "12 34",
        "missing": [true, "NotFoundError", 404, "path.not_found"],
        "requestId": true,
        "aborted": "enough",
        "early": "AbortError",
        "worker": "from a worker\n",
        "deleted": "NotFoundError",
        "refused": "NotFoundError",
        "complaints": [],
    });
    assert_eq!(seen, expected, "{}", server.said());
}
