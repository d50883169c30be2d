"""Against a live server, given by PANDASTACK_API and PANDASTACK_API_KEY."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Iterator, List

import pytest

from pandastack import (
    AsyncPandaStack,
    ConflictError,
    NotFoundError,
    PandaStack,
    Sandbox,
    SandboxTimeout,
    TemplateBuild,
    TemplateBuildError,
    Volume,
)

from . import live

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def client() -> Iterator[PandaStack]:
    with PandaStack(*live.settings()) as made:
        yield made


@pytest.fixture(scope="module")
def box(client: PandaStack) -> Iterator[Sandbox]:
    with Sandbox(template=live.template(), ttl_seconds=1200, client=client) as made:
        yield made


def test_commands(box: Sandbox) -> None:
    result = box.exec("echo out; echo err >&2; exit 3", timeout_seconds=60)
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert box.exec(argv=["printenv", "A"], env={"A": "b c"}).stdout == "b c\n"
    assert box.exec("cat; pwd", stdin="in\n", cwd="/tmp").stdout == "in\n/tmp\n"
    with pytest.raises(SandboxTimeout):
        box.exec("sleep 20", timeout_seconds=1)


def test_streams(box: Sandbox) -> None:
    seen: List[str] = []
    result = box.stream("echo \u00c5\u2028; sleep 0.5; echo two", on_stdout=seen.append)
    assert "".join(seen) == result.stdout == "\u00c5\u2028\ntwo\n"
    assert len(seen) >= 2
    with pytest.raises(SandboxTimeout):
        box.stream("sleep 20", timeout_seconds=1)
    assert box.exec_stream("exit 5") == 5


def test_code(box: Sandbox) -> None:
    assert box.run("x = 20; print('set')").stdout == "set\n"
    assert box.run("x + 1", language="python").text == "21"
    failed = box.run("raise ValueError('no')")
    assert not failed.ok
    assert "ValueError: no" in str(failed.error)
    assert box.run_code("print(1)").stdout == "1\n"
    with box.create_code_context() as context:
        assert context.run_code("x = 1; x").text == "1"
        assert context.id in [one.id for one in box.code_contexts()]
    assert box.run("print(x)").stdout == "20\n"


def test_files(box: Sandbox, tmp_path: Path) -> None:
    files = box.filesystem
    files.write("/srv/a b/\u00e9.bin", bytes(range(256)), mode=0o640)
    assert files.read("/srv/a b/\u00e9.bin") == bytes(range(256))
    assert files.stat("/srv/a b/\u00e9.bin").permissions == "0640"
    files.chmod("/srv/a b/\u00e9.bin", 0o600)
    assert files.stat("/srv/a b/\u00e9.bin").permissions == "0600"
    files.move("/srv/a b/\u00e9.bin", "/srv/c")
    assert [one.name for one in files.listdir("/srv")] == ["a b", "c"]
    with pytest.raises(ConflictError):
        files.mkdir("/srv/a b", parents=False)
    assert not files.exists("/srv/nothing")
    with pytest.raises(NotFoundError):
        files.read("/srv/nothing")

    (tmp_path / "up" / "sub").mkdir(parents=True)
    (tmp_path / "up" / "sub" / "f").write_bytes(b"z" * 3_000_000)
    told: List[int] = []
    files.upload_dir(tmp_path / "up", "/srv/up", on_progress=lambda done, _: told.append(done))
    assert told[-1] >= 3_000_000
    files.download_dir("/srv/up", tmp_path / "down")
    assert (tmp_path / "down" / "sub" / "f").stat().st_size == 3_000_000
    files.remove("/srv")
    assert not files.exists("/srv")


def test_watch(box: Sandbox) -> None:
    box.filesystem.mkdir("/watched")
    changes = box.filesystem.watch("/watched")
    assert next(changes).type == "ready"
    box.filesystem.write("/watched/new", "x")
    paths = [next(changes).path for _ in range(2)]
    changes.close()
    assert any(path.startswith("/watched/") for path in paths)


def test_processes(box: Sandbox) -> None:
    process = box.spawn("echo ready; read line; echo got $line", stdin=True, tag="t")
    assert process.is_running
    chunks = process.follow()
    assert next(chunks).text == "ready\n"
    process.write("hello\n")
    assert "".join(chunk.text for chunk in chunks) == "got hello\n"
    assert (process.exit_code, process.output()["stdout"]) == (0, "ready\ngot hello\n")
    assert process.id in [one.id for one in box.processes.list()]
    process.kill()
    sleeper = box.processes.spawn(argv=["sleep", "100"])
    sleeper.signal("KILL")
    assert sleeper.wait().exit_code == 137


def test_terminals_and_channels(box: Sandbox) -> None:
    with box.terminal(rows=30, cols=100) as terminal:
        terminal.resize(40, 120)
        terminal.write("stty size; exit 7\n")
        shown = b"".join(terminal)
    assert terminal.exit_code == 7
    assert b"40 120" in shown
    with box.channel() as channel:
        assert channel.run("echo 1").stdout == "1\n"
        assert channel.run("exit 4").exit_code == 4
        with pytest.raises(SandboxTimeout):
            channel.run("sleep 20", timeout_seconds=1)
        assert channel.run("echo 2").stdout == "2\n"


def test_ports_and_previews(box: Sandbox) -> None:
    import httpx

    server = box.spawn("cd /tmp && echo hi > page && python3 -m http.server 3000 --bind 0.0.0.0")
    deadline = time.monotonic() + 180
    while 3000 not in [port["port"] for port in box.ports() if port["listening"]]:
        assert time.monotonic() < deadline, "nothing listens"
        time.sleep(0.5)
    url = box.preview_urls()[3000]
    port, host = url.rsplit(":", 1)[1], url.split("//")[1]
    answer = httpx.get(f"http://127.0.0.1:{port}/page", headers={"host": host}, timeout=60)
    assert answer.text == "hi\n"
    preview = box.create_preview(3000, paths=["/page"], ttl_seconds=60)
    assert preview["paths"] == ["/page"]
    assert box.declare_port(4000, "api")["source"] == "user"
    box.forget_port(4000)
    server.kill()


def test_copies_share_what_was_in_memory(box: Sandbox) -> None:
    box.run("state = ['parent']")
    with box.fork({"purpose": "test"}) as child:
        assert child.metadata["purpose"] == "test"
        assert child.run("state.append('child'); print(state)").stdout == "['parent', 'child']\n"
    assert box.run("print(state)").stdout == "['parent']\n"

    tree = box.fork_tree(2)
    assert len(tree.branches) == 2
    assert tree.promote(tree.branches[1])["deleted"] == [tree[0].id]
    assert tree[1].run("print(state)").stdout == "['parent']\n"
    assert box.id in [node["id"] for node in box.tree()["nodes"]]
    tree[1].kill()

    result = box.explore(["exit 1", "echo won > /root/won"])
    assert result.winner is not None
    assert result.winner_outcome is not None
    assert "/root/won" in result.winner_outcome.files_changed
    result.winner.kill()


def test_snapshots(client: PandaStack, box: Sandbox) -> None:
    box.run("kept = 1")
    snapshot = box.snapshot()
    assert client.snapshots.get(snapshot)["sandbox_id"] == box.id
    assert snapshot in [one["id"] for one in client.snapshots.list(sandbox_id=box.id)]
    with Sandbox.from_snapshot(snapshot, client=client) as restored:
        assert restored.from_snapshot == snapshot
        context = next(one for one in restored.code_contexts() if one.language == "python")
        assert context.run_code("kept").text == "1"
    client.snapshots.delete(snapshot)


def test_sleep_and_wake(box: Sandbox) -> None:
    box.run("kept = 2")
    box.hibernate()
    assert box.refresh().status == "hibernated"
    assert box.run("print(kept)").stdout == "2\n"
    box.wake()
    assert box.status == "running"
    box.pause()
    box.resume()
    assert box.set_ttl(900)["ttl_seconds"] == 900
    assert box.set_persistent(True)["persistent"] is True
    assert box.set_persistent(False)["persistent"] is False
    kinds = [event["type"] for event in box.events()]
    assert "sandbox.hibernated" in kinds
    assert isinstance(list(box.logs()), list)
    assert box.metrics()["pid"] > 0


def test_volumes(client: PandaStack) -> None:
    volume = Volume.get_or_create(name="py-sdk-test", size_mb=64, client=client)
    again = Volume.get_or_create(name="py-sdk-test", size_gb=20, client=client)
    assert again.size_mb == volume.size_mb == 64
    for text in ("one", "one\ntwo"):
        with Sandbox(
            template=live.template(), volumes=[volume.mount("/workspace")], client=client
        ) as box:
            last = text.rsplit("\n", 1)[-1]
            shown = box.run(f"echo {last} >> /workspace/log; cat /workspace/log").stdout
            assert shown == f"{text}\n"
            assert box.attach_volume(volume, "/workspace").get("mount_path") == "/workspace"
            with pytest.raises(ConflictError):
                volume.delete()
    volume.delete()


def test_egress(client: PandaStack) -> None:
    with Sandbox(template=live.template(), egress_allowlist=["example.com"], client=client) as box:
        assert box.egress() == ["example.com"]
        assert box.set_egress([]) == []
        assert box.set_egress(None) is None


def test_account(client: PandaStack) -> None:
    assert client.me()["auth_method"] == "token"
    made = client.api_keys.create("py-sdk-test", expires_in_days=1)
    with PandaStack(client.api_url, made.get("token")) as other:
        assert other.me()["workspace"] == client.me()["workspace"]
    client.api_keys.revoke(made["id"])
    assert made["id"] not in [key["id"] for key in client.api_keys.list()]
    assert client.billing.quotas()["usage"]["sandboxes"] >= 0
    assert "rows" in client.billing.usage(by="day")
    assert client.billing.export_usage().count("\n") >= 1
    assert client.billing.pricing()["tiers"]
    # Entries are written in batches, after the answer.
    deadline = time.monotonic() + 180
    while "/v1/api-keys" not in {entry["path"] for entry in client.audit.list(limit=50)}:
        assert time.monotonic() < deadline, "the key is not in the audit trail"
        time.sleep(0.05)
    assert next(client.audit.export())["workspace"]
    assert client.server.health()["status"] == "ok"
    assert client.server.version()["semver"]
    assert "python" in client.server.languages()
    assert live.template() in [template.name for template in client.templates.list()]


def test_webhooks(client: PandaStack) -> None:
    webhook = client.webhooks.create("https://hooks.example.com/in", ["sandbox.*"])
    secret = webhook.get("secret", "")
    assert secret.startswith("whsec_")
    assert client.webhooks.update(webhook["id"], enabled=False)["enabled"] is False
    assert client.webhooks.rotate_secret(webhook["id"]).get("secret") != secret
    assert client.webhooks.deliveries(webhook["id"]) == []
    client.webhooks.delete(webhook["id"])


def test_iterating_over_sandboxes(client: PandaStack, box: Sandbox) -> None:
    assert box in list(client.sandboxes.iterate(page=1))
    assert box in client.sandboxes.list()


def test_a_template_from_a_snapshot(client: PandaStack, box: Sandbox) -> None:
    snapshot = box.snapshot()
    build = client.templates.build_from_snapshot("py-sdk-test", snapshot)
    lines: List[str] = []
    for line in client.templates.build_logs(build.id):
        lines.append(line)
    assert client.templates.wait_for_build(build.id).is_done
    assert lines
    client.templates.delete("py-sdk-test")
    client.snapshots.delete(snapshot)


def test_a_template_from_a_dockerfile(client: PandaStack, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("from the context")
    lines: List[str] = []
    client.templates.build_from_dockerfile(
        "py-sdk-dockerfile",
        f"FROM {live.template()}\nCOPY sub/a.txt /a.txt\nRUN touch /made\n",
        context_dir=str(tmp_path),
        on_log=lines.append,
    )
    assert any("touch /made" in line for line in lines)
    with Sandbox(template="py-sdk-dockerfile", client=client) as box:
        assert box.exec("cat /a.txt && ls /made").stdout == "from the context/made\n"
    client.templates.delete("py-sdk-dockerfile")
    with pytest.raises(TemplateBuildError) as caught:
        client.templates.build_from_dockerfile(
            "py-sdk-dockerfile", f"FROM {live.template()}\nRUN exit 3\n", wait=True
        )
    assert isinstance(caught.value.build, TemplateBuild)


def test_following_events(client: PandaStack) -> None:
    with Sandbox(template=live.template(), client=client) as box:
        threading.Timer(1.0, box.pause).start()
        for event in box.follow_events():
            if event["type"] == "sandbox.paused":
                break


def test_asynchronous(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncPandaStack(*live.settings()) as client:
            async with await client.sandboxes.create(live.template()) as box:
                results = await asyncio.gather(*(box.exec(f"echo {n}") for n in range(4)))
                assert [one.stdout for one in results] == [f"{n}\n" for n in range(4)]
                await box.run("x = 1")
                child = await box.fork()
                assert (await child.run("print(x)")).stdout == "1\n"
                await child.kill()
                text = ""
                async with box.commands.stream("echo a; echo b") as output:
                    async for chunk in output:
                        text += chunk.text
                assert (text, output.exit_code) == ("a\nb\n", 0)
                await box.files.write("/a", b"x" * 500_000)
                await box.files.download("/a", tmp_path / "a")
                assert (tmp_path / "a").stat().st_size == 500_000
                async with await box.channel() as channel:
                    assert (await channel.run("echo 1")).stdout == "1\n"
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(channel.run("sleep 30"), 0.5)
                    assert (await channel.run("echo 2")).stdout == "2\n"
                    assert (await channel.run("pgrep sleep || echo none")).stdout == "none\n"
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(box.exec("sleep 30"), 0.5)

    asyncio.run(main())
