"""The worker for Claude Managed Agents, with a stand-in for the queue and the server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, List

import pytest

from pandastack import CmaConfig, Worker, cma

from .standin import ID, KEY, Reply, S, sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from .standin import Seen, StandIn

WORK = "/v1/environments/env_1/work"


def config(server: StandIn, outputs: Path, **settings: Any) -> CmaConfig:
    return CmaConfig(
        "env_1",
        "secret",
        KEY,
        pandastack_api=server.url,
        anthropic_api=server.url,
        outputs_dir=outputs,
        **settings,
    )


def exec_answer(seen: Seen) -> Reply:
    cmd = str(seen.json()["cmd"])
    shown = "launched\n" if "cma-launch" in cmd else "0\n"
    return Reply(200, {"stdout": shown, "stderr": "", "exit_code": 0})


def test_a_session(server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cma, "_WATCH_SECONDS", 0.02)
    item = {"id": "wrk_1", "data": {"id": "ses_1"}}
    server.on("GET", f"{WORK}/poll", Reply(200, item), Reply(204))
    server.on("POST", f"{WORK}/wrk_1/ack", Reply(200, {}))
    server.on("GET", "/v1/sandboxes", Reply(200, []))
    too_long = Reply(400, {"error": "ttl_seconds exceeds tier maximum"})
    server.on("POST", "/v1/sandboxes", too_long, Reply(201, sandbox(template="claude-agent")))
    server.on("PUT", f"{S}/fs", Reply(200, {"path": "/tmp/cma-launch.sh", "bytes": 1}))
    server.on("POST", f"{S}/exec", exec_answer)
    server.on("GET", f"{S}/fs/stat", Reply(200, {"name": "outputs", "is_dir": True}))
    entries = [
        {"name": "report.txt", "is_dir": False, "mode": "f"},
        {"name": "..", "is_dir": False, "mode": "f"},
        {"name": "link", "is_dir": False, "mode": "l"},
    ]
    server.on("GET", f"{S}/fs/dir", Reply(200, {"entries": entries}))
    server.on("GET", f"{S}/fs", Reply(200, b"done"))
    slept = threading.Event()

    def hibernate(_: Seen) -> Reply:
        slept.set()
        return Reply(200, {"status": "hibernated"})

    server.on("POST", f"{S}/hibernate", hibernate)
    lines: List[str] = []
    worker = Worker(config(server, tmp_path / "out"), logger=lines.append)
    thread = threading.Thread(target=worker.run, kwargs={"install_signal_handlers": False})
    thread.start()
    try:
        assert slept.wait(10), lines
    finally:
        worker.stop()
        thread.join(10)
    assert (tmp_path / "out" / "ses_1" / "report.txt").read_text() == "done"
    assert [path.name for path in (tmp_path / "out" / "ses_1").iterdir()] == ["report.txt"]
    script = next(one.body.decode() for one in server.seen if one.method == "PUT")
    assert "ANTHROPIC_ENVIRONMENT_KEY=secret" in script
    commands = [one.json()["cmd"] for one in server.seen if one.path == f"{S}/exec"]
    assert not any("secret" in cmd for cmd in commands)
    assert ID in "".join(lines)


def test_a_refused_key_stops_the_worker(server: StandIn, tmp_path: Path) -> None:
    server.on("GET", f"{WORK}/poll", Reply(401, {"error": "no"}))
    lines: List[str] = []
    Worker(config(server, tmp_path), logger=lines.append).run(install_signal_handlers=False)
    assert any("ANTHROPIC_ENVIRONMENT_KEY" in line for line in lines)


def test_settings_are_required() -> None:
    empty = CmaConfig.from_env()
    assert empty.missing_required() == [
        "ANTHROPIC_ENVIRONMENT_ID",
        "ANTHROPIC_ENVIRONMENT_KEY",
        "PANDASTACK_API_KEY",
    ]
    with pytest.raises(ValueError, match="missing"):
        Worker(empty).run()
