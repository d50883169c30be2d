"""Sandboxes against a stand-in: what is sent, and what comes back."""

from __future__ import annotations

import io
import tarfile
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import pytest

from pandastack import (
    CommandFailed,
    ConflictError,
    Execution,
    FileContent,
    NotFoundError,
    PandaStack,
    Result,
    Sandbox,
    ServerError,
    Volume,
    set_default_client,
)
from pandastack._python_text import is_python
from pandastack._wire import EventParser

from .standin import ID, Reply, S, events, sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from .standin import StandIn

CELL: Dict[str, Any] = {"stdout": "", "stderr": "", "exit": 0, "exit_code": 0, "results": []}
DONE: Dict[str, Any] = {"stdout": "ok", "stderr": "", "exit_code": 0, "duration_ms": 1}


@pytest.mark.parametrize(
    "text",
    [
        "import pandas; df = pandas.read_csv('/data.csv'); print(df.head())",
        "df_fillna = df.fillna(); print(df_fillna.describe())",
        "x = 1",
        "df.head()",
        "for i in range(3):\n    print(i)",
        "def f():\n    return 1",
        "[n * 2 for n in range(3)]",
    ],
)
def test_python_is_recognised(text: str) -> None:
    assert is_python(text)


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "ls -la",
        "df",
        "pwd",
        "cd /workspace && git status",
        "python -c 'print(1)'",
        "echo hello",
        "uname -a",
        "",
        "\0",
    ],
)
def test_commands_are_recognised(text: str) -> None:
    assert not is_python(text)


def test_create_sends_only_what_was_given(server: StandIn, client: PandaStack) -> None:
    server.on("POST", "/v1/sandboxes", Reply(201, sandbox()))
    client.sandboxes.create()
    client.sandbox.create(
        template="base",
        ttl_seconds=600,
        persistent=True,
        metadata={"task": "t"},
        volumes=[
            "cache",
            {"name": "w", "read_only": True},
            Volume({"name": "d", "size_mb": 1}, client).mount("/d"),
        ],
        egress_allowlist=["pypi.org"],
        env={"A": "1"},
    )
    client.sandboxes.create(from_snapshot="snp_1", egress_allowlist=[])
    assert [one.json() for one in server.seen] == [
        {"template": "code-interpreter"},
        {
            "template": "base",
            "ttl_seconds": 600,
            "persistent": True,
            "metadata": {"task": "t"},
            "volumes": [
                {"name": "cache"},
                {"name": "w", "read_only": True},
                {"name": "d", "mount_path": "/d"},
            ],
            "egress_allowlist": ["pypi.org"],
            "env": {"A": "1"},
        },
        {"template": "code-interpreter", "from_snapshot": "snp_1", "egress_allowlist": []},
    ]
    headers = server.seen[0].headers
    assert headers["authorization"].startswith("Bearer pds_")
    assert headers["user-agent"].startswith("pandastack-py/")


def test_the_constructor_creates_and_the_block_deletes(server: StandIn, client: PandaStack) -> None:
    set_default_client(client)
    server.on("POST", "/v1/sandboxes", Reply(201, sandbox()))
    server.on("DELETE", S, Reply(204))
    with Sandbox(template="mini") as box:
        assert box.id == ID
        assert repr(box).startswith(f"<Sandbox {ID} running template='mini'")
    assert server.count("DELETE", S) == 1
    box.close()
    assert server.count("DELETE", S) == 1


def test_an_error_of_the_block_comes_first(server: StandIn, client: PandaStack) -> None:
    server.on("DELETE", S, Reply(500, {"error": "oops"}))
    with pytest.raises(KeyError), Sandbox.from_dict(sandbox(), client):
        raise KeyError
    with pytest.raises(ServerError), Sandbox.from_dict(sandbox(), client):
        pass


def test_a_block_keeps_persistent_sandboxes(server: StandIn, client: PandaStack) -> None:
    server.on("GET", S, Reply(200, sandbox(persistent=True)))
    with client.sandboxes.get(ID):
        pass
    assert server.count("DELETE", S) == 0


def test_a_sandbox_that_is_gone_can_be_closed(server: StandIn, box: Sandbox) -> None:
    box.close()
    assert server.count("DELETE", S) == 1


def test_from_snapshot_is_a_method_of_the_class_and_a_field(
    server: StandIn, client: PandaStack
) -> None:
    server.on("POST", "/v1/sandboxes", Reply(201, sandbox(from_snapshot="snp_1")))
    box = Sandbox.from_snapshot("snp_1", client=client)
    assert box.from_snapshot == "snp_1"


def test_run_keeps_one_interpreter(server: StandIn, box: Sandbox) -> None:
    server.on("POST", f"{S}/repl/sessions", Reply(201, {"id": "ctx_1", "language": "python"}))
    server.on("POST", f"{S}/repl/sessions/ctx_1/run", Reply(200, {**CELL, "stdout": "1\n"}))
    server.on("POST", f"{S}/exec", Reply(200, DONE))
    assert box.run("x = 1; print(x)").stdout == "1\n"
    box.run("print(x)")
    assert box.run("ls -la").stdout == "ok"
    assert server.count("POST", f"{S}/repl/sessions") == 1
    assert server.count("POST", f"{S}/repl/sessions/ctx_1/run") == 2


def test_a_copy_uses_its_copy_of_the_interpreter(server: StandIn, box: Sandbox) -> None:
    child = sandbox(id="child")
    server.on("POST", f"{S}/repl/sessions", Reply(201, {"id": "ctx_1"}))
    server.on("POST", f"{S}/repl/sessions/ctx_1/run", Reply(200, CELL))
    server.on("POST", f"{S}/fork", Reply(201, {"sandbox": child, "children": [child]}))
    path = "/v1/sandboxes/child/repl/sessions/ctx_1/run"
    server.on("POST", path, Reply(200, {**CELL, "stdout": "1\n"}))
    box.run("x = 1")
    assert box.fork().run("print(x)").stdout == "1\n"
    assert server.count("POST", path) == 1


def test_run_without_an_interpreter_is_a_command(server: StandIn, box: Sandbox) -> None:
    missing = {"error": "python3 is not installed", "code": "language.unavailable"}
    server.on("POST", f"{S}/repl/sessions", Reply(400, missing))
    server.on("POST", f"{S}/exec", Reply(200, DONE))
    assert box.run("x = 1").stdout == "ok"
    assert box.run("x = 2").stdout == "ok"
    assert server.count("POST", f"{S}/repl/sessions") == 1


def test_an_interpreter_that_was_closed_is_replaced(server: StandIn, box: Sandbox) -> None:
    server.on(
        "POST", f"{S}/repl/sessions", Reply(201, {"id": "ctx_1"}), Reply(201, {"id": "ctx_2"})
    )
    server.on("POST", f"{S}/repl/sessions/ctx_2/run", Reply(200, CELL))
    assert box.run("x = 1").ok


def test_run_can_check(server: StandIn, box: Sandbox) -> None:
    server.on("POST", f"{S}/exec", Reply(200, {**DONE, "exit_code": 3, "stderr": "no\n"}))
    with pytest.raises(CommandFailed, match="exited with code 3: no") as caught:
        box.run("ls -la", check=True)
    assert caught.value.exit_code == 3
    with pytest.raises(CommandFailed):
        box.exec("ls", check=True)


def test_stream_calls_back_and_collects(server: StandIn, box: Sandbox) -> None:
    # The pieces end inside a character and inside a line.
    text = (
        'event: stdout\ndata: {"chunk":"h\u00e9"}\n\n: ping\n\nevent: stderr\ndata: {"chunk":"e"}'
    )
    raw = text.encode()
    middle = raw.index("\u00e9".encode()) + 1

    def pieces() -> Any:
        yield raw[:middle]
        yield raw[middle:]
        yield b'\n\nevent: exit\ndata: {"exit_code":4}\n\n'

    server.on("POST", f"{S}/exec/stream", Reply(pieces=pieces))
    out: List[str] = []
    err: List[str] = []
    result = box.stream("make", on_stdout=out.append, on_stderr=err.append)
    assert (out, err) == (["h\u00e9"], ["e"])
    assert (result.stdout, result.stderr, result.exit_code) == ("h\u00e9", "e", 4)


def test_events_survive_all_line_ends() -> None:
    parser = EventParser()
    found = list(parser.feed(b"event: a\r\ndata: 1\r\n\r"))
    found += list(parser.feed(b"\ndata: 2\ndata: 3\n\ndata: x\xe2\x80\xa8y\n\n"))
    assert [(one.event, one.data) for one in found] == [
        ("a", "1"),
        ("message", "2\n3"),
        ("message", "x\u2028y"),
    ]


def test_fork_tree_has_branches_and_promote(server: StandIn, box: Sandbox) -> None:
    children = [sandbox(id=f"c{n}", metadata={"fork_tree_id": "tree_1"}) for n in range(3)]
    answer = {"tree_id": "tree_1", "parent_id": ID, "children": children, "errors": []}
    server.on("POST", f"{S}/fork-tree", Reply(201, answer))
    promoted: Dict[str, Any] = {
        "winner": "c1",
        "tree_id": "tree_1",
        "deleted": ["c0", "c2"],
        "failures": {},
    }
    server.on("POST", "/v1/sandboxes/c1/promote", Reply(200, promoted))
    tree = box.fork_tree(3)
    assert [branch.id for branch in tree.branches] == ["c0", "c1", "c2"]
    assert len(tree) == 3
    assert tree.promote(tree[1])["deleted"] == ["c0", "c2"]
    tree.promote("c1", cleanup_siblings=False)
    bodies = [one.json() for one in server.seen if one.path.endswith("/promote")]
    assert bodies == [
        {"cleanup_siblings": True, "tree_id": "tree_1"},
        {"cleanup_siblings": False, "tree_id": "tree_1"},
    ]
    with pytest.raises(ValueError, match="not a branch"):
        tree.promote("c9")


@pytest.mark.parametrize("answer", [{"children": ["c1"]}, sandbox(id="c1")])
def test_other_shapes_of_a_fork(server: StandIn, box: Sandbox, answer: Dict[str, Any]) -> None:
    server.on("POST", f"{S}/fork", Reply(201, answer))
    assert box.fork().id == "c1"
    assert server.seen[0].body == b""


def test_files(server: StandIn, box: Sandbox, tmp_path: Path) -> None:
    content = "checkpoint \u00e9".encode()
    server.on("GET", f"{S}/fs", Reply(200, content))
    server.on("PUT", f"{S}/fs", Reply(200, {"path": "/a b", "bytes": 3}))
    read = box.filesystem.read("/a b")
    assert read == content
    assert isinstance(read, bytes)
    assert f"{read}" == str(read) == read.text == "checkpoint \u00e9"
    box.filesystem.write("/a b", "text", mode=0o755)
    assert server.seen[-1].query == {"path": ["/a b"], "mode": ["0755"]}
    assert server.seen[-1].body == b"text"
    assert str(FileContent(b"\xff")) == "\ufffd"

    big = tmp_path / "big"
    big.write_bytes(b"x" * 700_000)
    told: List[Tuple[int, Optional[int]]] = []
    box.filesystem.upload(big, "/big", on_progress=lambda done, total: told.append((done, total)))
    assert server.seen[-1].headers["content-length"] == "700000"
    assert server.seen[-1].body == big.read_bytes()
    assert told[-1] == (700_000, 700_000)
    assert len(told) == 3

    told.clear()
    box.filesystem.download(
        "/x", tmp_path / "new" / "x", on_progress=lambda n, of: told.append((n, of))
    )
    assert (tmp_path / "new" / "x").read_bytes() == content
    assert told[-1] == (len(content), len(content))
    server.on("GET", f"{S}/fs", Reply(404, {"error": "no"}))
    with pytest.raises(NotFoundError):
        box.filesystem.download("/x", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big", "new"]


def test_directories(server: StandIn, box: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "a.txt").write_text("a")
    received: List[bytes] = []

    def unpack(seen: Any) -> Reply:
        received.append(seen.body)
        return Reply(200, {"path": "/srv", "entries": 2, "bytes": 1})

    server.on("PUT", f"{S}/fs/tar", unpack)
    assert box.filesystem.upload_dir(source, "/srv")["entries"] == 2
    with tarfile.open(fileobj=io.BytesIO(received[0])) as tar:
        assert sorted(tar.getnames()) == ["sub", "sub/a.txt"]
    server.on("GET", f"{S}/fs/tar", Reply(200, received[0]))
    assert box.filesystem.download_dir("/srv", tmp_path / "target") == ["sub", "sub/a.txt"]
    assert (tmp_path / "target" / "sub" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_an_archive_must_not_lead_out(
    server: StandIn, box: Sandbox, tmp_path: Path, name: str
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    server.on("GET", f"{S}/fs/tar", Reply(200, packed.getvalue()))
    with pytest.raises(ValueError, match="leads out"):
        box.filesystem.download_dir("/srv", tmp_path / "target")


def test_walk_and_exists(server: StandIn, box: Sandbox) -> None:
    def directory(seen: Any) -> Reply:
        path = seen.query["path"][0]
        entries = (
            [{"name": "d", "is_dir": True}, {"name": "f", "is_dir": False, "size": 3}]
            if path == "/w"
            else None
        )
        return Reply(200, {"path": path, "entries": entries})

    server.on("GET", f"{S}/fs/dir", directory)
    walked = list(box.filesystem.walk("/w"))
    assert [
        (path, [d.path for d in dirs], [f.path for f in files]) for path, dirs, files in walked
    ] == [
        ("/w", ["/w/d"], ["/w/f"]),
        ("/w/d", [], []),
    ]
    assert box.filesystem.exists("/nothing") is False


def test_watch(server: StandIn, box: Sandbox) -> None:
    server.on(
        "GET",
        f"{S}/fs/watch",
        events(
            'event: ready\ndata: {"path":"/w"}\n\n',
            'event: change\ndata: {"type":"created","path":"/w/a","is_dir":false}\n\n',
        ),
    )
    assert [(one.type, one.path) for one in box.filesystem.watch("/w")] == [
        ("ready", "/w"),
        ("created", "/w/a"),
    ]


def test_volumes(server: StandIn, client: PandaStack, box: Sandbox) -> None:
    volume: Dict[str, Any] = {"name": "w", "size_mb": 20480, "attached_to": []}
    server.on("GET", "/v1/volumes/w", Reply(404, {"error": "no"}), Reply(200, volume))
    server.on("POST", "/v1/volumes", Reply(201, volume))
    made = Volume.get_or_create(name="w", size_gb=20, client=client)
    assert server.count("GET", "/v1/volumes/w") == 1
    assert server.seen[-1].json() == {"name": "w", "size_mb": 20480}
    assert Volume.get_or_create(name="w", size_gb=20, client=client)["size_mb"] == 20480
    assert made.mount("/workspace") == {"name": "w", "mount_path": "/workspace"}
    server.on("GET", S, Reply(200, sandbox(volumes=[{"name": "w", "mount_path": "/workspace"}])))
    assert box.attach_volume(made, "/workspace")["name"] == "w"
    with pytest.raises(ConflictError, match=r"volumes=\[volume"):
        box.attach_volume(made, "/other")


def test_preview_addresses(client: PandaStack, box: Sandbox) -> None:
    port = client.api_url.rsplit(":", 1)[1]
    assert box.preview_url(3000) == f"http://3000-{ID}.localhost:{port}"
    hosted = Sandbox(id="s", client=PandaStack("https://api.example.com", "k"))
    assert hosted.preview_url(80) == "https://80-s.example.com"
    ported = Sandbox(id="s", client=PandaStack("http://a.b:1", "k", preview_host="p.x.y:81"))
    assert ported.preview_url(80) == "http://80-s.p.x.y:81"
    own = Sandbox(id="s", client=PandaStack("https://api.x.y", "k", preview_host="p.x.y"))
    assert own.preview_url(80, scheme="http") == "http://80-s.p.x.y"
    with pytest.raises(ValueError, match="port"):
        box.preview_url(0)


def test_explore(server: StandIn, box: Sandbox) -> None:
    children = [sandbox(id=f"c{n}", metadata={"fork_tree_id": "t"}) for n in range(2)]
    server.on("POST", f"{S}/fork-tree", Reply(201, {"tree_id": "t", "children": children}))
    for n, code in ((0, 1), (1, 0)):
        server.on("POST", f"/v1/sandboxes/c{n}/exec", Reply(200, {**DONE, "exit_code": code}))
        server.on("DELETE", f"/v1/sandboxes/c{n}", Reply(204))
    server.on(
        "POST",
        "/v1/sandboxes/c1/promote",
        Reply(200, {"winner": "c1", "tree_id": "t", "deleted": ["c0"], "failures": {}}),
    )
    result = box.explore(["false", "true"], capture_files=False)
    assert result.winner is not None
    assert result.winner.id == "c1"
    assert (result.tree_id, result.reaped) == ("t", ["c0"])
    assert "true*" in result.table()


def test_results_for_notebooks() -> None:
    picture = Result({"image/png": "aGk=", "text/plain": "<Figure>"})
    table = Result({"text/html": "<b>1</b><script>x</script>"})
    shown = Execution([picture, table], stdout="<out>", error="ValueError: no")
    markup = shown._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "data:image/png;base64,aGk=" in markup
    assert "&lt;out&gt;" in markup
    assert "<script>" not in markup
    assert picture._repr_mimebundle_()["image/png"] == "aGk="  # pyright: ignore[reportPrivateUsage]
    assert repr(shown).endswith("error='ValueError: no')")
    assert (shown.png, shown.ok) == ("aGk=", False)


def test_one_connection_is_enough(server: StandIn, box: Sandbox) -> None:
    server.on("POST", f"{S}/exec", Reply(200, DONE))
    started = threading.active_count()
    for _ in range(5):
        box.exec("true")
    # The stand-in has a thread for each connection.
    assert threading.active_count() - started <= 1
