"""What differs between asynchronous and synchronous code. Its twin is `_async/flavour.py`."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generator,
    List,
    Optional,
    Protocol,
    Sequence,
    TypeVar,
)

if TYPE_CHECKING:
    from .._core.call import RequestBytes
    from .._retry import CancelEvent

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound="Closable")


class Closable(Protocol):
    def close(self) -> None: ...


Lock = threading.Lock


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def wait_or_cancelled(seconds: float, cancel: CancelEvent) -> bool:
    """Wait, and return early with True if the event is set."""
    cancel.wait(seconds)
    return cancel.is_set()


@contextmanager
def closing(source: C) -> Generator[C, None, None]:
    """Close an iterator at the end of the block, so that its stream is not left open."""
    try:
        yield source
    finally:
        source.close()


def current_loop() -> object:
    """What open connections belong to: nothing, they can be used everywhere."""
    return None


@contextmanager
def deadline(seconds: float) -> Generator[None, None, None]:
    """Nothing: the transport looks at the clock between the pieces of an answer."""
    del seconds
    yield


def in_thread(work: Callable[[], T]) -> T:
    """Do local work that blocks, such as reading files."""
    return work()


def in_order(work: Callable[[T], R], items: Sequence[T], limit: int) -> List[R]:
    """Do work for all items, at most `limit` at once. Results are in the order of the items."""
    from concurrent.futures import ThreadPoolExecutor

    if not items:
        return []
    with ThreadPoolExecutor(max_workers=min(limit, len(items))) as pool:
        return list(pool.map(work, items))


def body_of(content: RequestBytes) -> Any:
    """A body that httpx accepts."""
    return content if isinstance(content, bytes) else content.chunks()


def connect_socket(
    url: str,
    headers: Dict[str, str],
    agent: Optional[str],
    timeout: float,
) -> Any:
    from websockets.sync.client import connect

    # Entered by hand: newer versions of websockets want a block, and this outlives the function.
    return connect(
        url,
        additional_headers=headers,
        user_agent_header=agent,
        open_timeout=timeout,
        max_size=None,
    ).__enter__()


def result_of(value: Any) -> Any:
    """The result of a caller's function."""
    return value


def shielded(work: Callable[[], None]) -> None:
    """Finish something small. There is no task that could be cancelled."""
    work()
