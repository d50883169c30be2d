"""Descriptions of requests. An operation returns one, and a transport sends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
)
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

T_co = TypeVar("T_co", covariant=True)

QueryValue = Union[str, int, float, bool, None]
Progress = Callable[[int, Optional[int]], None]

# Large enough to keep a fast line busy, small enough for smooth progress.
CHUNK = 256 * 1024


class Upload:
    """A body that is read piece by piece, and reports how much was sent.

    `source` is bytes or the path of a local file. Each call of `chunks` starts from the beginning,
    so that a refused request can be sent again.
    """

    def __init__(self, source: Union[bytes, Path], on_progress: Optional[Progress] = None) -> None:
        self._source = source
        self._on_progress = on_progress
        self.size = len(source) if isinstance(source, bytes) else source.stat().st_size

    def chunks(self) -> Iterator[bytes]:
        sent = 0
        for chunk in self._pieces():
            yield chunk
            sent += len(chunk)
            if self._on_progress is not None:
                self._on_progress(sent, self.size)

    def _pieces(self) -> Iterator[bytes]:
        if isinstance(self._source, bytes):
            for start in range(0, len(self._source), CHUNK):
                yield self._source[start : start + CHUNK]
            return
        with self._source.open("rb") as file:
            while True:
                chunk = file.read(CHUNK)
                if not chunk:
                    return
                yield chunk


RequestBytes = Union[bytes, Upload]


@dataclass(frozen=True)
class FormFile:
    """A file part of a form. Its field name is also its file name."""

    name: str
    source: Union[bytes, Path]


@dataclass(frozen=True)
class RequestForm:
    """A form: text fields, and files if it has any."""

    fields: Dict[str, str]
    files: Sequence[FormFile] = ()


@dataclass(frozen=True)
class Call:
    """One request. The subclasses say what the answer is."""

    method: str
    path: str
    query: Optional[Mapping[str, QueryValue]] = None
    json: Any = None
    content: Optional[RequestBytes] = None
    form: Optional[RequestForm] = None


class JsonCall(Call, Generic[T_co]):
    """The answer is JSON of this type."""


class TextCall(Call):
    """The answer is text."""


class BytesCall(Call):
    """The answer is bytes, which may be many."""


class EventsCall(Call):
    """The answer is a stream of server-sent events."""


class EmptyCall(Call):
    """The answer has no body that matters."""


class SocketCall(Call):
    """The answer is a WebSocket."""


def segment(value: Union[str, int]) -> str:
    """Quote a value as one segment of a path, so that it cannot lead to another route."""
    text = str(value)
    if not text:
        raise ValueError("an id or name is missing: was the object created?")
    if text in {".", ".."}:
        raise ValueError(f"{text!r} is not a valid id or name")
    return quote(text, safe="")
