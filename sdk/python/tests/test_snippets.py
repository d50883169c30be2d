"""The Python snippets of the product pages run as they are printed there.

The names of large templates stand for a snapshot of a small one, and the model's answers are
played by a stand-in. Names that a page uses without importing them are given.
"""

from __future__ import annotations

import json
import shlex
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List

import pytest
from websockets.sync.client import connect

import pandastack
from pandastack import PandaStack, Sandbox, Volume
from pandastack._core import operations

from . import live

if TYPE_CHECKING:
    from pandastack._core import models

pytestmark = pytest.mark.live

PANDAS = '''
"""A stand-in for pandas: one column of numbers, with gaps."""
class Frame:
    def __init__(self, rows): self.rows = rows
    def head(self): return self.rows[:5]
    def fillna(self): return Frame([0 if row is None else row for row in self.rows])
    def dropna(self): return Frame([row for row in self.rows if row is not None])
    def interpolate(self): return self.fillna()
    def describe(self): return f"count {len(self.rows)}"
def read_csv(path):
    lines = open(path).read().split("\\n")[1:-1]
    return Frame([float(line) if line else None for line in lines])
'''


def source(name: str) -> str:
    return (Path(__file__).parent / "snippets" / f"{name}.py.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def snapshot() -> Iterator[str]:
    """A small machine with `python`, a stand-in for pandas, and some data."""
    url, key = live.settings()
    with PandaStack(url, key) as client:
        box = client.sandboxes.create(live.template())
        place = box.exec("python3 -c 'import sys; print(sys.path[-1])'", check=True).stdout.strip()
        box.exec("ln -sf $(command -v python3) /usr/bin/python", check=True)
        box.filesystem.write(f"{place}/pandas.py", PANDAS)
        box.filesystem.write("/data.csv", "value\n1\n\n3\n")
        made = box.snapshot()
        box.kill()
        yield made
        client.snapshots.delete(made)


@pytest.fixture
def templates(
    snapshot: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[List[str]]:
    """Create from the snapshot, or from the small template if there are volumes."""
    url, key = live.settings()
    monkeypatch.setenv("PANDASTACK_TOKEN", key)
    create = operations.post_sandboxes
    asked: List[str] = []

    def instead(body: models.CreateSandbox) -> Any:
        asked.append(str(body.get("template")))
        if body.get("volumes"):
            body["template"] = live.template()
        else:
            body["from_snapshot"] = snapshot
        return create(body)

    monkeypatch.setattr(operations, "post_sandboxes", instead)
    pandastack.set_default_client(PandaStack(url, key))
    with PandaStack(url, key) as client:
        before = {box.id for box in client.sandboxes.list()}
        yield asked
        for box in client.sandboxes.list():
            if box.id not in before:
                box.kill()


def execute(name: str, **given: Any) -> Dict[str, Any]:
    names: Dict[str, Any] = dict(given)
    exec(compile(source(name), name, "exec"), names)
    return names


def test_agent_turn(templates: List[str], monkeypatch: pytest.MonkeyPatch) -> None:
    heard: List[Any] = []

    def complete(**arguments: Any) -> Any:
        messages = arguments["messages"]
        heard[:] = messages
        if messages[-1]["role"] == "tool":
            return _answer(content=f"It is {messages[-1]['content'].strip()}.")
        function = types.SimpleNamespace(arguments=json.dumps({"code": "print(6 * 7)"}))
        return _answer(calls=[types.SimpleNamespace(id="call_1", function=function)])

    completions = types.SimpleNamespace(create=complete)
    model: Any = types.ModuleType("openai")
    model.OpenAI = lambda: types.SimpleNamespace(
        chat=types.SimpleNamespace(completions=completions)
    )
    monkeypatch.setitem(sys.modules, "openai", model)
    # The page does not print these two imports.
    names = execute("agent_turn", json=json, shlex=shlex)
    assert names["agent_turn"]("What is six times seven?") == "It is 42."
    assert templates == ["code-interpreter"]
    assert heard[-1]["tool_call_id"] == "call_1"


def _answer(content: str = "", calls: Any = None) -> Any:
    message = types.SimpleNamespace(content=content, tool_calls=calls)
    return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])


def test_workspace(templates: List[str]) -> None:
    try:
        names = execute("workspace", Volume=Volume, Sandbox=Sandbox, user_id=7)
        assert names["sb"].status == "deleted"
    finally:
        pandastack.get_default_client().volumes.delete("user-7-workspace")


def test_fork_on_explore(templates: List[str]) -> None:
    names = execute("fork_on_explore", Sandbox=Sandbox)
    assert templates == ["python-data"]
    winner = names["winner"]
    assert winner.run("print(df_fillna.rows)").stdout == "[1.0, 0, 3.0]\n"
    assert [branch.status for branch in names["branches"][1:]] == ["deleted", "deleted"]


def test_create_exec_read(templates: List[str], capsys: pytest.CaptureFixture[str]) -> None:
    execute("create_exec_read")
    assert capsys.readouterr().out == "1024\n\nhello from inside the VM\n"


def test_quickstart(templates: List[str], capsys: pytest.CaptureFixture[str]) -> None:
    execute("quickstart")
    assert capsys.readouterr().out == "4\n\ncheckpoint\n"
    assert templates == ["base"]


def test_frames(snapshot: str) -> None:
    """The frames of the features page: those of the client are sent, those of the server come."""
    lines = (Path(__file__).parent / "snippets/frames.txt").read_text("utf-8").splitlines()
    sent = [line.split(" → ")[1] for line in lines if line.startswith("client")]
    expected = [json.loads(line.split(" → ")[1]) for line in lines if line.startswith("server")]
    url, key = live.settings()
    with PandaStack(url, key) as client, Sandbox.from_snapshot(snapshot, client=client) as box:
        pnpm = "#!/bin/sh\ncase $1 in lint) printf ok ;; test) exec sleep 600 ;; esac\n"
        box.filesystem.write("/usr/local/bin/pnpm", pnpm, mode=0o755)
        address = f"{url.replace('http', 'ws', 1)}/v1/sandboxes/{box.id}/exec/ws"
        bearer = {"Authorization": f"Bearer {key}"}
        with connect(address, additional_headers=bearer, proxy=None) as socket:
            for frame in sent:
                socket.send(frame)
            received: List[Dict[str, Any]] = []
            while sum("exit" in frame or "error" in frame for frame in received) < 2:
                received.append(json.loads(socket.recv(timeout=60)))
    for frame in expected:
        assert any(frame.items() <= one.items() for one in received), received
