"""How answers are read: errors, JSON, and server-sent events. No input or output here."""

from __future__ import annotations

import codecs
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Type, cast

from ._retry import refused_for_capacity, retry_after_seconds
from .exceptions import (
    APIConnectionError,
    AuthError,
    BadRequestError,
    CapacityError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RateLimitError,
    ServerError,
)

if TYPE_CHECKING:
    from .exceptions import PandastackError

_BY_STATUS: Dict[int, Type[PandastackError]] = {
    401: AuthError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    429: RateLimitError,
}


@dataclass(frozen=True)
class Refusal:
    """An answer that is not a success."""

    status: int
    message: str
    body: object
    code: Optional[str]
    request_id: Optional[str]
    retry_after: Optional[float]

    def error(self) -> PandastackError:
        kind = _BY_STATUS.get(self.status)
        if kind is None:
            if self.status < 500:
                kind = BadRequestError
            elif self.status in {503, 507} and self.is_capacity:
                kind = CapacityError
            else:
                kind = ServerError
        return kind(
            self.message,
            status=self.status,
            code=self.code,
            request_id=self.request_id,
            retry_after=self.retry_after,
            body=self.body,
        )

    @property
    def is_capacity(self) -> bool:
        return refused_for_capacity(self.status, self.body, self.retry_after)


def read_refusal(status: int, headers: Mapping[str, str], content: bytes) -> Refusal:
    """Read an error answer. Bodies that are not JSON are shown as they are."""
    text = content.decode("utf-8", "replace").strip()
    body: Any = None
    with suppress(ValueError):
        body = json.loads(text)
    fields = fields_of(body)
    message = next(
        (str(fields[name]) for name in ("error", "message", "detail") if fields.get(name)),
        text[:2000] or f"the server answered with HTTP status {status}",
    )
    detail = fields.get("detail")
    if fields.get("error") and isinstance(detail, str) and detail and detail not in message:
        message = f"{message}: {detail}"
    code = fields.get("code")
    request_id = fields.get("request_id") or headers.get("x-request-id")
    return Refusal(
        status=status,
        message=message,
        body=body,
        code=code if isinstance(code, str) else None,
        request_id=request_id if isinstance(request_id, str) else None,
        retry_after=retry_after_seconds(headers),
    )


def read_json(content: bytes, headers: Mapping[str, str]) -> Any:
    """Decode a success. An empty body is None."""
    if not content.strip():
        return None
    try:
        return json.loads(content)
    except ValueError as error:
        raise ServerError(
            f"the server's answer is not JSON ({error}); it begins with {content[:200]!r}. "
            "Check that the API URL is the one of a PandaStack server",
            request_id=headers.get("x-request-id"),
        ) from error


def fields_of(value: object) -> Dict[str, Any]:
    """The fields of an object. Anything else has none."""
    return cast(Dict[str, Any], value) if isinstance(value, dict) else {}


def given(**fields: Any) -> Dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def list_of(value: object, *names: str) -> List[Any]:
    """A list, which some servers wrap in an object under one of these names."""
    if isinstance(value, dict):
        fields = fields_of(cast(object, value))
        value = next((fields[name] for name in names if fields.get(name)), None)
    return list(cast(Iterable[Any], value)) if isinstance(value, list) else []


@dataclass(frozen=True)
class ServerEvent:
    """One server-sent event."""

    event: str
    data: str
    id: Optional[str] = None

    def json(self) -> Dict[str, Any]:
        try:
            value: Any = json.loads(self.data)
        except ValueError as error:
            raise APIConnectionError(
                f"an event of the stream is not JSON: {self.data[:200]!r}"
            ) from error
        return fields_of(value)


class EventParser:
    """Turns pieces of a stream into events. A piece may end anywhere, also inside a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._name = ""
        self._data: List[str] = []
        self._id: Optional[str] = None

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        text = self._rest + self._decoder.decode(piece)
        # Only LF, CRLF and CR end a line; `splitlines` would also cut at U+2028 and others.
        text = text.replace("\r\n", "\n")
        held = ""
        if text.endswith("\r"):
            text, held = text[:-1], "\r"
        lines = text.replace("\r", "\n").split("\n")
        self._rest = lines.pop() + held
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event

    def _line(self, line: str) -> Optional[ServerEvent]:
        if not line:
            return self._finish()
        if line.startswith(":"):
            return None
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None

    def _finish(self) -> Optional[ServerEvent]:
        name, data = self._name or "message", self._data
        self._name, self._data = "", []
        if not data:
            return None
        return ServerEvent(name, "\n".join(data), self._id)
