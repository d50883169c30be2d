"""When to send a request again, and how long to wait before that. No input or output here."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Protocol, cast

CREATE_RETRY_INITIAL_DELAY_SECONDS = 1.0
CREATE_RETRY_MAX_DELAY_SECONDS = 15.0
CREATE_RETRY_MIN_SHORTENED_DELAY_SECONDS = 1.0
CREATE_RETRY_507_MIN_DELAY_SECONDS = 0.5

# The server answers 404 for a moment if another of its nodes created the object.
MISSING_DELAY_SECONDS = 0.2
MISSING_METHODS = frozenset({"GET", "DELETE", "HEAD"})

_STARTING = ("connect: connection refused", "no route to host", "i/o timeout")
_STARTING_FIRST_DELAY = 0.5
_STARTING_MAX_DELAY = 2.0


class CancelEvent(Protocol):
    """An event that gives up a create or fork, such as `threading.Event`."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: Optional[float] = None) -> Any: ...


@dataclass(frozen=True)
class CreateRetryEvent:
    """A create or fork was refused for lack of room, and will be sent again."""

    method: str
    path: str
    attempt: int
    status_code: int
    error: str
    delay_seconds: float
    elapsed_seconds: float
    retry_after_seconds: Optional[float] = None


def retry_after_seconds(headers: Mapping[str, str]) -> Optional[float]:
    """The `Retry-After` header: seconds, or a date."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def refused_for_capacity(status: int, body: object, retry_after: Optional[float]) -> bool:
    """Whether the server says that nothing was created, and that a retry can succeed."""
    if status == 507:
        return True
    if retry_after is None:
        return False
    if status == 429:
        return True
    error: object = cast(Mapping[str, Any], body).get("error") if isinstance(body, dict) else None
    return status == 503 and isinstance(error, str) and bool(error)


def capacity_delay(
    status: int,
    retry_after: Optional[float],
    attempt: int,
    remaining: float,
) -> Optional[float]:
    """How long to wait before the next attempt, or None if it does not fit the budget."""
    hint = retry_after or 0.0
    if status == 507:
        hint = max(hint, CREATE_RETRY_507_MIN_DELAY_SECONDS)
    if hint > remaining:
        return None
    jitter = min(CREATE_RETRY_MAX_DELAY_SECONDS, CREATE_RETRY_INITIAL_DELAY_SECONDS * 2**attempt)
    delay = hint + random.uniform(0.0, jitter)
    if delay <= remaining:
        return delay
    # The last attempt starts when the budget ends, unless that would be a hasty repetition.
    shortest = max(hint, CREATE_RETRY_MIN_SHORTENED_DELAY_SECONDS)
    return remaining if remaining >= shortest else None


def is_starting(status: int, message: str) -> bool:
    """Whether the error says that the sandbox's agent does not answer yet."""
    text = message.lower()
    return status >= 500 and any(phrase in text for phrase in _STARTING)


def starting_delay(attempt: int, remaining: float) -> Optional[float]:
    delay = min(_STARTING_MAX_DELAY, _STARTING_FIRST_DELAY * 1.5**attempt)
    return delay if delay <= remaining else None


def is_command_timeout(message: str) -> bool:
    """Whether a 5xx of a command or cell means that its time limit ended it."""
    text = message.lower()
    return ("timeout" in text or "deadline exceeded" in text) and "i/o timeout" not in text


@dataclass(frozen=True)
class Sending:
    """How one request is sent.

    Attributes:
        timeout: The deadline in seconds; the client's own if it is None.
        creates: It creates sandboxes, so a refusal for lack of room is retried.
        starting: It needs the sandbox's agent, which may not answer yet after a start.
        command: It runs a command or cell, whose own time limit raises `SandboxTimeout`.
        repeats: It may be sent again after a 404.
        cancel: Gives up the retries of a create.
        bearer: Is sent instead of the API key.
    """

    timeout: Optional[float] = None
    creates: bool = False
    starting: bool = False
    command: bool = False
    repeats: bool = True
    cancel: Optional[CancelEvent] = None
    bearer: Optional[str] = field(default=None, repr=False)


PLAIN = Sending()
READY = Sending(starting=True)
