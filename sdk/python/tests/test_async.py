"""The asynchronous classes: what differs from the synchronous ones."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, Coroutine, List

import pytest

from pandastack import (
    AsyncPandaStack,
    AsyncSandbox,
    CapacityError,
    CreateCancelled,
    ExecInterrupted,
    RequestTimeout,
)

from .standin import ID, KEY, Reply, S, drip, events, sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from .standin import StandIn


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 20))


def test_a_block(server: StandIn) -> None:
    server.on("POST", "/v1/sandboxes", Reply(201, sandbox()))
    server.on("DELETE", S, Reply(204))
    server.on("POST", f"{S}/exec", Reply(200, {"stdout": "hi", "stderr": "", "exit_code": 0}))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            async with AsyncSandbox(template="mini", client=client) as box:
                assert (await box.exec("echo hi")).stdout == "hi"
            other = await AsyncSandbox(template="mini", client=client)
            assert other.id == ID

    run(main())
    assert server.count("DELETE", S) == 1


def test_many_requests_at_once(server: StandIn) -> None:
    # Each of them waits for all others.
    together = threading.Barrier(8)

    def slow(_: Any) -> Reply:
        together.wait(60)
        return Reply(200, {"stdout": "", "stderr": "", "exit_code": 0})

    server.on("POST", f"{S}/exec", slow)

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            box = AsyncSandbox(id=ID, client=client)
            await asyncio.gather(*(box.exec("true") for _ in range(8)))

    run(main())


def test_a_cancelled_task_closes_its_stream(server: StandIn) -> None:
    ended = threading.Event()

    def pieces() -> Any:
        try:
            while True:
                yield b'event: stdout\ndata: {"chunk":"x"}\n\n'
                time.sleep(0.02)
        finally:
            ended.set()

    server.on("POST", f"{S}/exec/stream", Reply(pieces=pieces))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            box = AsyncSandbox(id=ID, client=client)
            got: List[str] = []
            task = asyncio.ensure_future(box.stream("yes", on_stdout=got.append))
            while not got:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
    assert ended.wait(60)


def test_a_cancelled_task_ends_its_request(server: StandIn) -> None:
    server.on("GET", "/v1/me", Reply(silent=True))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.me(), 0.2)

    run(main())


def test_a_cancelled_block_deletes_its_sandbox(server: StandIn) -> None:
    server.on("POST", "/v1/sandboxes", Reply(201, sandbox()))
    server.on("POST", f"{S}/exec", Reply(silent=True))
    server.on("DELETE", S, Reply(204))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:

            async def work() -> None:
                async with AsyncSandbox(template="mini", client=client) as box:
                    await box.exec("sleep 100")

            task = asyncio.ensure_future(work())
            while server.count("POST", f"{S}/exec") == 0:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
    assert server.count("DELETE", S) == 1


def test_deadlines(server: StandIn) -> None:
    server.on("GET", "/v1/me", Reply(pieces=drip(b" ", 100, 0.1)))
    server.on("GET", "/v1/quotas", Reply(silent=True))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY, timeout=0.4) as client:
            for call in (client.me, client.billing.quotas):
                with pytest.raises(RequestTimeout):
                    await call()

    run(main())


def test_a_stream_that_is_cut(server: StandIn) -> None:
    out = 'event: stdout\ndata: {"chunk":"half"}\n\n'
    server.on("POST", f"{S}/exec/stream", events(out, cut=True))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            with pytest.raises(ExecInterrupted) as caught:
                await AsyncSandbox(id=ID, client=client).stream("make")
            assert caught.value.partial_stdout == "half"

    run(main())


def test_capacity_and_cancel(server: StandIn) -> None:
    full = Reply(503, {"error": "full"}, {"retry-after": "0"})
    later = Reply(503, {"error": "full"}, {"retry-after": "20"})
    server.on("POST", "/v1/sandboxes", full, Reply(201, sandbox()), later)

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            assert (await client.sandboxes.create("mini")).id == ID
            cancel = threading.Event()
            threading.Timer(0.2, cancel.set).start()
            with pytest.raises(CreateCancelled) as caught:
                await client.sandboxes.create("mini", cancel=cancel)
            assert isinstance(caught.value.__cause__, CapacityError)
            wrong: Any = asyncio.Event()
            with pytest.raises(TypeError, match="threading"):
                await client.sandboxes.create("mini", cancel=wrong)

    run(main())


def test_files_are_streamed(server: StandIn, tmp_path: Path) -> None:
    server.on("PUT", f"{S}/fs", Reply(200, {"path": "/a", "bytes": 1}))
    server.on("GET", f"{S}/fs", Reply(200, b"y" * 300_000))
    (tmp_path / "a").write_bytes(b"x" * 600_000)

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            files = AsyncSandbox(id=ID, client=client).filesystem
            told: List[int] = []
            await files.upload(tmp_path / "a", "/a", on_progress=lambda n, _: told.append(n))
            assert told[-1] == 600_000
            await files.download("/b", tmp_path / "b")
            total = 0
            async for piece in files.stream("/b"):
                total += len(piece)
            assert total == 300_000

    run(main())
    assert server.seen[0].body == b"x" * 600_000
    assert (tmp_path / "b").stat().st_size == 300_000


def test_a_client_outlives_an_event_loop(server: StandIn) -> None:
    server.on("GET", "/v1/me", Reply(200, {"user_id": "u"}))
    client = AsyncPandaStack(server.url, KEY)
    for _ in range(2):
        assert asyncio.run(client.me())["user_id"] == "u"


def test_explore_with_asynchronous_functions(server: StandIn) -> None:
    from pandastack import AsyncCandidate

    children = [sandbox(id=f"c{n}", metadata={"fork_tree_id": "t"}) for n in range(2)]
    server.on("POST", f"{S}/fork-tree", Reply(201, {"tree_id": "t", "children": children}))
    server.on("POST", "/v1/sandboxes/c1/promote", Reply(200, {"deleted": ["c0"]}))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            box = AsyncSandbox(id=ID, client=client)

            async def attempt(copy: AsyncSandbox) -> str:
                return copy.id

            async def score(copy: AsyncSandbox, outcome: Any) -> float:
                return float(copy.id == "c1")

            tries = [AsyncCandidate.call(name, attempt) for name in "ab"]
            result = await box.explore(tries, score_fn=score, capture_files=False)
            assert result.best()[0].value == "c1"

    run(main())
