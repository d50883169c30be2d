//! The Python SDK as its authors published it, unchanged, against our server. Installed once into a kept environment.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pandastack_testbed::{DataFolder, Server};

const VERSION: &str = "0.10.0";

const SCRIPT: &str = r#"
from pandastack import Sandbox, SandboxTimeout

box = Sandbox.create(template="mini", metadata={"purpose": "test"})
try:
    done = box.exec("echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 3), done

    text = "é Å 😀"
    pieces = []
    code = box.exec_stream(f"printf '%s' '{text}'; exit 5", on_stdout=pieces.append)
    assert ("".join(pieces), code) == (text, 5), (pieces, code)

    box.filesystem.write("/srv/notes.txt", text)
    assert box.filesystem.read("/srv/notes.txt") == text.encode()
    box.filesystem.write("/srv/bytes", bytes(range(256)))
    assert box.filesystem.read("/srv/bytes") == bytes(range(256))
    assert "notes.txt" in [entry.name for entry in box.filesystem.listdir("/srv")]
    assert box.filesystem.stat("/srv/bytes").size == 256

    try:
        box.exec("sleep 60", timeout_seconds=1)
    except SandboxTimeout:
        pass
    else:
        raise AssertionError("a command ran past its limit")
    assert box.exec("echo alive").stdout == "alive\n"
    assert box.id in [other.id for other in Sandbox.list()]
    assert Sandbox.get(box.id).id == box.id
finally:
    box.kill()
assert box.id not in [other.id for other in Sandbox.list()]
print("sdk: ok")
"#;

const BUILDS: &str = r#"
import os, tempfile
from pandastack import Client, Sandbox
from pandastack.exceptions import TemplateBuildError

client = Client()
templates = client.templates
with tempfile.TemporaryDirectory() as folder:
    os.makedirs(os.path.join(folder, "sub"))
    with open(os.path.join(folder, "sub", "notes.txt"), "w") as file:
        file.write("from the context\n")
    dockerfile = "FROM mini\nENV WHO=world\nWORKDIR /srv\nCOPY sub/notes.txt .\nRUN cat notes.txt && echo done\n"
    build = templates.build_from_dockerfile("sdk-made", dockerfile, context_dir=folder)
assert build.status in ("queued", "running", "baking"), build
lines = list(templates.build_logs(build.id))
assert "from the context" in lines and "done" in lines, lines
build = templates.wait_for_build(build.id)
assert build.is_done and build.ended_at, build
assert list(templates.build_logs(build.id, follow=False)) == lines
assert "sdk-made" in [template.name for template in templates.list()]
assert templates.get("sdk-made").is_global is False
assert build.id in [other.id for other in templates.builds()]

box = Sandbox.create(template="sdk-made")
try:
    assert box.exec("pwd; echo $WHO; cat notes.txt").stdout == "/srv\nworld\nfrom the context\n"
finally:
    box.kill()

failing = templates.build_from_dockerfile("sdk-broken", "FROM sdk-made\nRUN exit 4\n")
try:
    templates.wait_for_build(failing.id)
except TemplateBuildError as error:
    assert "step 1/1" in str(error) and "exit status 4" in str(error), error
else:
    raise AssertionError("a failed build looked fine")
templates.delete("sdk-made")
assert "sdk-made" not in [template.name for template in templates.list()]
print("sdk: ok")
"#;

#[test]
fn the_published_python_sdk_creates_runs_stores_times_out_and_kills() {
    follow(SCRIPT);
}

#[test]
fn the_published_python_sdk_builds_templates() {
    follow(BUILDS);
}

/// Runs a script against a server of its own.
fn follow(script: &str) {
    let python = environment();
    let data = DataFolder::with_templates().unwrap();
    let server = Server::start(data.path(), &[]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(python)
        .args(["-c", script])
        .env("PANDASTACK_API", &server.url)
        .env("PANDASTACK_API_KEY", &server.key)
        .env("HOME", home.path())
        // A proxy for the wide world has no business with a server on loopback.
        .env("NO_PROXY", "*")
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("sdk: ok"), "{out}{err}\nserver: {}", server.said());
}

/// Finds the environment with the SDK, or makes it; a half-made one is never found.
fn environment() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let cache = std::env::var_os("PANDASTACK_CACHE_DIR").map_or_else(|| home.join(".cache/pandastack"), PathBuf::from);
    let folder = cache.join(format!("venv-{VERSION}"));
    let (python, complete) = (folder.join("bin/python"), folder.join("complete"));
    if !complete.exists() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&cache).unwrap();
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        let package = format!("pandastack=={VERSION}");
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &package]));
        std::fs::write(complete, "").unwrap();
    }
    assert!(Path::new(&python).exists());
    python
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
