"""What commands, cells and files give back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, cast

from ._wire import list_of

_SHOWN_REPR = 60
_IMAGES = ("image/png", "image/jpeg")


@dataclass(frozen=True)
class ExecResult:
    """The result of a command."""

    stdout: str
    stderr: str
    exit_code: int
    duration_ms: int = 0
    truncated: bool = False

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> ExecResult:
        return cls(
            stdout=_text(data.get("stdout")),
            stderr=_text(data.get("stderr")),
            exit_code=_exit_code(data),
            duration_ms=int(data.get("duration_ms") or 0),
            truncated=bool(data.get("truncated")),
        )

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    def __repr__(self) -> str:
        return (
            f"ExecResult(exit_code={self.exit_code}, stdout={short(self.stdout)}, "
            f"stderr={short(self.stderr)}, duration_ms={self.duration_ms})"
        )

    def _repr_html_(self) -> str:
        return _output_html(self.stdout, self.stderr, None, self.exit_code)


@dataclass(frozen=True)
class Result:
    """One value that a cell showed, in one or more forms. `data` maps MIME types to text."""

    data: Dict[str, str]

    @property
    def png(self) -> Optional[str]:
        """A picture, in base64."""
        return self.data.get("image/png")

    @property
    def jpeg(self) -> Optional[str]:
        """A picture, in base64."""
        return self.data.get("image/jpeg")

    @property
    def svg(self) -> Optional[str]:
        return self.data.get("image/svg+xml")

    @property
    def html(self) -> Optional[str]:
        return self.data.get("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self.data.get("text/markdown")

    @property
    def json(self) -> Optional[Any]:
        """The decoded value, or the text itself if it is not JSON."""
        text = self.data.get("application/json")
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError:
            return text

    @property
    def text(self) -> Optional[str]:
        return self.data.get("text/plain")

    @property
    def chart(self) -> Optional[str]:
        """The picture in the first form that it has: PNG, JPEG or SVG."""
        return self.png or self.jpeg or self.svg

    def __repr__(self) -> str:
        if self.text is not None:
            return f"Result({short(self.text)})"
        return f"Result({', '.join(self.data)})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        del include, exclude
        shown: Dict[str, Any] = {
            kind: self.data[kind] for kind in (*_IMAGES, "text/plain") if kind in self.data
        }
        shown["text/html"] = _result_html(self)
        return shown


@dataclass(frozen=True)
class Execution:
    """The result of a cell of code: what it printed, what it showed, and its error if it failed."""

    results: List[Result] = field(default_factory=lambda: cast(List[Result], []))
    stdout: str = ""
    stderr: str = ""
    error: Optional[str] = None
    exit_code: int = 0
    duration_ms: int = 0
    truncated: bool = False
    restarted: bool = False

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> Execution:
        return cls(
            results=[_result(item) for item in list_of(data.get("results"))],
            stdout=_text(data.get("stdout")),
            stderr=_text(data.get("stderr")),
            error=data.get("error") or None,
            exit_code=_exit_code(data),
            duration_ms=int(data.get("duration_ms") or 0),
            truncated=bool(data.get("truncated")),
            restarted=bool(data.get("restarted")),
        )

    @classmethod
    def from_command(cls, result: ExecResult) -> Execution:
        return cls(
            stdout=result.stdout,
            stderr=result.stderr,
            exit_code=result.exit_code,
            duration_ms=result.duration_ms,
            truncated=result.truncated,
        )

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0 and the code raised no exception."""
        return self.exit_code == 0 and self.error is None

    @property
    def logs(self) -> Dict[str, str]:
        return {"stdout": self.stdout, "stderr": self.stderr}

    @property
    def text(self) -> Optional[str]:
        """The last value as text."""
        return next((r.text for r in reversed(self.results) if r.text is not None), None)

    @property
    def png(self) -> Optional[str]:
        """The first picture, in base64."""
        return next((r.png for r in self.results if r.png is not None), None)

    def __repr__(self) -> str:
        parts = [f"exit_code={self.exit_code}"]
        if self.results:
            parts.append(f"results={self.results!r}")
        parts += [f"stdout={short(self.stdout)}", f"stderr={short(self.stderr)}"]
        if self.error:
            parts.append(f"error={short(self.error.strip().splitlines()[-1])}")
        return f"Execution({', '.join(parts)})"

    def _repr_html_(self) -> str:
        shown = [_output_html(self.stdout, self.stderr, self.error, self.exit_code)]
        shown += [_result_html(result) for result in self.results]
        return "".join(shown)


@dataclass(frozen=True)
class FileInfo:
    """A file or directory."""

    name: str
    path: str
    is_dir: bool
    size: int = 0
    mode: str = ""
    mtime: int = 0
    permissions: str = ""
    target: Optional[str] = None

    @classmethod
    def from_dict(cls, data: Dict[str, Any], parent: str = "") -> FileInfo:
        name = str(data.get("name") or "")
        path = data.get("path") or f"{parent.rstrip('/')}/{name}"
        return cls(
            name=name,
            path=str(path),
            is_dir=bool(data.get("is_dir")),
            size=int(data.get("size") or 0),
            mode=_text(data.get("mode")),
            mtime=int(data.get("mtime") or 0),
            permissions=_text(data.get("permissions")),
            target=data.get("target"),
        )


class FileContent(bytes):
    """The content of a file: bytes that print as text.

    `str()` and f-strings decode it as UTF-8. Everything else is what `bytes` does.
    """

    @property
    def text(self) -> str:
        return self.decode("utf-8")

    def __str__(self) -> str:
        return self.decode("utf-8", "replace")

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


@dataclass(frozen=True)
class OutputChunk:
    """A piece of output. `stream` is `stdout` or `stderr`."""

    stream: str
    text: str
    # The number of bytes of both streams until the end of this piece, if the server counts them.
    offset: Optional[int] = None


@dataclass(frozen=True)
class FileChange:
    """A change below a watched path.

    `type` is `created`, `modified`, `written` (closed after writing), `deleted`, `moved_from`,
    `moved_to`, `attributes`, or `overflow` if some changes were not reported.
    """

    type: str
    path: str
    is_dir: bool = False
    cookie: Optional[int] = None


def short(text: str) -> str:
    """A text for a `repr`, cut in the middle of nowhere if it is long."""
    if len(text) <= _SHOWN_REPR:
        return repr(text)
    return f"{text[:_SHOWN_REPR]!r}… ({len(text)} characters)"


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _exit_code(data: Dict[str, Any]) -> int:
    code = data.get("exit_code")
    return int(code if code is not None else data.get("exit") or 0)


def _result(item: Any) -> Result:
    """A result is a bundle of forms, or one form as `{"type", "data"}`."""
    if not isinstance(item, dict):
        return Result({"text/plain": str(item)})
    fields = cast(Dict[str, Any], item)
    if "type" in fields and "data" in fields:
        return Result({str(fields["type"]): _text(fields["data"])})
    return Result({str(name): _text(value) for name, value in fields.items()})


def _output_html(stdout: str, stderr: str, error: Optional[str], exit_code: int) -> str:
    import html

    parts: List[Tuple[str, str]] = [(stdout, ""), (stderr, "background:#fdd")]
    if error:
        parts.append((error, "color:#a00"))
    elif exit_code != 0:
        parts.append((f"exit code {exit_code}", "color:#a00"))
    return "".join(
        f'<pre style="margin:0;{style}">{html.escape(text)}</pre>' for text, style in parts if text
    )


def _result_html(result: Result) -> str:
    import html

    for kind in _IMAGES:
        if kind in result.data:
            # Base64 has no characters that need escaping, but the data is the sandbox's own.
            return f'<img src="data:{kind};base64,{html.escape(result.data[kind])}">'
    # Markup of a sandbox is not trusted: a frame keeps its scripts away from the notebook.
    markup = result.svg or result.html
    if markup is not None:
        return (
            f'<iframe sandbox srcdoc="{html.escape(markup, quote=True)}" '
            'style="border:0;width:100%;min-height:12em"></iframe>'
        )
    text = result.text or result.markdown or result.data.get("application/json") or ""
    return f'<pre style="margin:0">{html.escape(text)}</pre>'
