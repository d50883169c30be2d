//! Python clients as their authors published them, unchanged, against our server: the SDK, and the client of the Model Context
//! Protocol. Each is installed once into a kept environment.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pandastack_testbed::{DataFolder, Server};

const SDK: Package = Package { name: "pandastack", version: "0.10.0", folder: "venv-0.10.0" };
const MCP: Package = Package { name: "mcp", version: "2.3.0", folder: "venv-mcp-2.3.0" };

struct Package {
    name: &'static str,
    version: &'static str,
    folder: &'static str,
}

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

const CODE_SCRIPT: &str = r#"
from pandastack import Sandbox, SandboxTimeout

box = Sandbox.create(template="mini")
try:
    context = box.create_code_context()
    context.run_code("x = 41")
    done = context.run_code("print('hi'); x + 1")
    assert (done.stdout, done.exit_code, done.error) == ("hi\n", 0, None), done
    assert done.results[0].text == "42" and done.text == "42", done
    done = context.run_code("class R:\n    def _repr_png_(self): return b'png'\n    def _repr_json_(self): return {'a': 1}\nR()")
    assert done.results[0].png == "cG5n" and done.results[0].json == {"a": 1}, done
    done = context.run_code("1 / 0")
    assert done.exit_code == 1 and "ZeroDivisionError" in done.error, done
    try:
        context.run_code("import time; time.sleep(60)", timeout_seconds=1)
    except SandboxTimeout:
        pass
    else:
        raise AssertionError("a cell ran past its limit")
    assert context.run_code("x").text == "41", "the kernel survives"
    with box.create_code_context("python3") as other:
        assert "NameError" in other.run_code("x").error
    context.close()
finally:
    box.kill()
print("sdk: ok")
"#;

const MCP_SCRIPT: &str = r#"
import asyncio, os, sys
import httpx2
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

async def main(url):
    headers = {"Authorization": "Bearer " + os.environ["PANDASTACK_API_KEY"]}
    async with httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                hello = await session.initialize()
                assert (hello.server_info.name) == "pandastack-sandbox", hello
                tools = await session.list_tools()
                assert [tool.name for tool in tools.tools] == ["shell", "run_code", "read_file", "write_file", "list_dir"]
                async def call(name, **arguments):
                    done = await session.call_tool(name, arguments)
                    return done.content[0].text, bool(done.is_error)
                assert await call("shell", command="echo hi; exit 3") == ("hi\n\n[exit code]\n3", True)
                assert (await call("write_file", path="/srv/a", content="text"))[1] is False
                assert await call("read_file", path="/srv/a") == ("text", False)
                assert " a" in (await call("list_dir", path="/srv"))[0]
                await call("run_code", code="x = 20", timeout_ms=120000)
                assert await call("run_code", code="x + 1", timeout_ms=120000) == ("\n[result]\n21", False)
                text, failed = await call("run_code", code="y")
                assert failed and "NameError" in text
                try:
                    await session.call_tool("fly", {})
                except Exception as error:
                    assert "no tool" in str(error), error
                else:
                    raise AssertionError("a tool that is not there was called")
                await session.send_ping()

asyncio.run(main(sys.argv[1]))
print("mcp: ok")
"#;

#[test]
fn the_published_python_sdk_creates_runs_stores_times_out_and_kills() {
    let data = DataFolder::with_templates().unwrap();
    let server = Server::start(data.path(), &[]).unwrap();
    assert!(play(&SDK, &server, &["-c", SCRIPT]).contains("sdk: ok"));
}

#[test]
fn the_published_python_sdk_runs_code_in_contexts() {
    let data = DataFolder::with_templates().unwrap();
    let server = Server::start(data.path(), &["--standby", "0"]).unwrap();
    assert!(play(&SDK, &server, &["-c", CODE_SCRIPT]).contains("sdk: ok"));
}

#[test]
fn the_published_mcp_client_uses_a_sandbox_as_tools() {
    let data = DataFolder::with_templates().unwrap();
    let server = Server::start(data.path(), &["--standby", "0"]).unwrap();
    let make = "from pandastack import Sandbox; print(Sandbox.create(template='mini').id)";
    let id = play(&SDK, &server, &["-c", make]);
    let url = format!("{}/v1/sandboxes/{}/mcp", server.url, id.trim());
    assert!(play(&MCP, &server, &["-c", MCP_SCRIPT, &url]).contains("mcp: ok"));
}

/// Runs a script with a package in reach, and gives what it printed. A failed one is the test's failure.
fn play(package: &Package, server: &Server, arguments: &[&str]) -> String {
    let python = environment(package);
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(python)
        .args(arguments)
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
    assert!(output.status.success(), "{out}{err}\nserver: {}", server.said());
    out.into_owned()
}

/// Finds the environment with a package, or makes it; a half-made one is never found.
fn environment(package: &Package) -> PathBuf {
    let Package { name, version, folder } = package;
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let cache = std::env::var_os("PANDASTACK_CACHE_DIR").map_or_else(|| home.join(".cache/pandastack"), PathBuf::from);
    let folder = cache.join(folder);
    let (python, complete) = (folder.join("bin/python"), folder.join("complete"));
    std::fs::create_dir_all(&cache).unwrap();
    // Tests run side by side: one makes it, the others wait.
    let turn = std::fs::File::create(cache.join(format!("{name}-{version}.lock"))).unwrap();
    turn.lock().unwrap();
    if !complete.exists() {
        let _ = std::fs::remove_dir_all(&folder);
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        let package = format!("{name}=={version}");
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
