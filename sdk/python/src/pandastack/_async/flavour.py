"""What differs between asynchronous and synchronous code. Its twin is `_sync/flavour.py`."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Dict,
    Iterator,
    List,
    Optional,
    Protocol,
    Sequence,
    TypeVar,
)

if TYPE_CHECKING:
    import anyio

    from .._core.call import RequestBytes
    from .._retry import CancelEvent

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound="Closable")


class Closable(Protocol):
    def aclose(self) -> Awaitable[None]: ...


# A cancel event is not part of the event loop, so it is looked at now and then.
_LOOK_SECONDS = 0.05


async def sleep(seconds: float) -> None:
    import anyio

    await anyio.sleep(seconds)


async def wait_or_cancelled(seconds: float, cancel: CancelEvent) -> bool:
    """Wait, and return early with True if the event is set."""
    import anyio

    with anyio.move_on_after(seconds):
        while not cancel.is_set():
            await anyio.sleep(_LOOK_SECONDS)
    return cancel.is_set()


@asynccontextmanager
async def closing(source: C) -> AsyncGenerator[C, None]:
    """Close an iterator at the end of the block, so that its stream is not left open."""
    try:
        yield source
    finally:
        await source.aclose()


def current_loop() -> object:
    """What open connections belong to: they cannot be used in another event loop."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        # Another library than asyncio runs this code.
        return None


@asynccontextmanager
async def deadline(seconds: float) -> AsyncGenerator[None, None]:
    """Raise `TimeoutError` in the body when the time is over."""
    import anyio

    with anyio.fail_after(seconds):
        yield


class Lock:
    """A lock that can be made before an event loop runs."""

    def __init__(self) -> None:
        self._lock: anyio.Lock | None = None

    async def __aenter__(self) -> None:
        import anyio

        if self._lock is None:
            self._lock = anyio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        assert self._lock is not None
        self._lock.release()


async def in_thread(work: Callable[[], T]) -> T:
    """Do local work that blocks, such as reading files."""
    from anyio import to_thread

    return await to_thread.run_sync(work)


async def in_order(
    work: Callable[[T], Awaitable[R]],
    items: Sequence[T],
    limit: int,
) -> List[R]:
    """Do work for all items, at most `limit` at once. Results are in the order of the items."""
    import anyio

    results: List[Any] = [None] * len(items)
    slots = anyio.Semaphore(limit)

    async def one(index: int, item: T) -> None:
        async with slots:
            results[index] = await work(item)

    async with anyio.create_task_group() as group:
        for index, item in enumerate(items):
            group.start_soon(one, index, item)
    return results


def body_of(content: RequestBytes) -> Any:
    """A body that httpx accepts."""
    if isinstance(content, bytes):
        return content
    return _read_in_thread(content.chunks())


async def _read_in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        chunk = await in_thread(lambda: next(chunks, None))
        if chunk is None:
            return
        yield chunk


async def connect_socket(
    url: str,
    headers: Dict[str, str],
    agent: Optional[str],
    timeout: float,
) -> Any:
    from websockets.asyncio.client import connect

    return await connect(
        url,
        additional_headers=headers,
        user_agent_header=agent,
        open_timeout=timeout,
        max_size=None,
    )


async def result_of(value: Any) -> Any:
    """The result of a caller's function, which may be asynchronous."""
    return await value if inspect.isawaitable(value) else value


async def shielded(work: Callable[[], Awaitable[None]]) -> None:
    """Finish something small although the task is cancelled."""
    import anyio

    with anyio.CancelScope(shield=True):
        await work()
