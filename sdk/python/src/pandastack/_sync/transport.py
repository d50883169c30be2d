# Written by scripts/write_sync.py from _async/transport.py. Do not edit.
"""Sends calls. All requests of a client go through one pool of connections."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generator,
    List,
    Mapping,
    Optional,
    TypeVar,
)
from urllib.parse import urlsplit

from .._core.call import BytesCall, EventsCall
from .._retry import (
    MISSING_DELAY_SECONDS,
    MISSING_METHODS,
    PLAIN,
    CreateRetryEvent,
    capacity_delay,
    is_command_timeout,
    is_starting,
    starting_delay,
)
from .._version import __version__
from .._wire import EventParser, read_json, read_refusal
from ..exceptions import (
    APIConnectionError,
    AuthError,
    CreateCancelled,
    PandastackError,
    RequestTimeout,
    SandboxTimeout,
)
from . import flavour

if TYPE_CHECKING:
    # httpx is imported when the first request is sent: it takes longer than all of this package.
    import httpx

    from .._config import Settings
    from .._core.call import (
        Call,
        EmptyCall,
        JsonCall,
        Progress,
        QueryValue,
        SocketCall,
        TextCall,
    )
    from .._retry import CancelEvent, Sending
    from .._wire import Refusal, ServerEvent
    from .sockets import Socket

T = TypeVar("T")

# These answer without an API key.
_OPEN_PATHS = ("/healthz", "/version", "/metrics", "/v1/healthz", "/v1/auth", "/v1/pricing")
_OPEN_PREFIXES = ("/v1/auth/", "/v1/orgs/invites/")
_CONNECT_SECONDS = 10.0


class Transport:
    """Sends calls to one server, and turns refusals into exceptions."""

    def __init__(
        self,
        settings: Settings,
        *,
        on_create_retry: Optional[Callable[[CreateRetryEvent], None]] = None,
        http_client: Optional[httpx.Client] = None,
    ) -> None:
        self.settings = settings
        self.on_create_retry = on_create_retry
        self._http = http_client
        # Somebody else's pool is left open.
        self._owns_http = http_client is None
        self._loop: object = None
        self._making = threading.Lock()

    @property
    def http(self) -> httpx.Client:
        """The pool of connections, which is made at the first use."""
        loop = flavour.current_loop() if self._owns_http else self._loop
        with self._making:
            if self._http is None or loop is not self._loop:
                self._http = self._make_http()
                self._loop = loop
            return self._http

    def _make_http(self) -> httpx.Client:
        import httpx

        return httpx.Client(
            # Without https there are no certificates to load, which takes a while.
            verify=self.settings.origin.startswith("https:"),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
            follow_redirects=False,
        )

    def close(self) -> None:
        """Close all connections. The next request opens a new one."""
        http, self._http = self._http, None
        if http is not None and self._owns_http:
            http.close()

    # What the kinds of calls return.

    def json(self, call: JsonCall[T], sending: Sending = PLAIN) -> T:
        response, content = self._fetch(call, sending)
        value: T = read_json(content, response.headers)
        return value

    def text(self, call: TextCall, sending: Sending = PLAIN) -> str:
        _, content = self._fetch(call, sending)
        return content.decode("utf-8", "replace")

    def empty(self, call: EmptyCall, sending: Sending = PLAIN) -> None:
        self._fetch(call, sending)

    def data(
        self,
        call: BytesCall,
        sending: Sending = PLAIN,
        on_progress: Optional[Progress] = None,
    ) -> bytes:
        pieces: List[bytes] = []
        with flavour.closing(self.pieces(call, sending, on_progress)) as source:
            for piece in source:
                pieces.append(piece)
        return b"".join(pieces)

    def pieces(
        self,
        call: BytesCall,
        sending: Sending = PLAIN,
        on_progress: Optional[Progress] = None,
    ) -> Generator[bytes, None, None]:
        """The answer piece by piece. Only silence ends a large transfer, not its duration."""
        with self._stream(call, sending, self.settings.timeout) as response:
            length = response.headers.get("content-length")
            total = int(length) if length and length.isdigit() else None
            done = 0
            for piece in response.iter_bytes():
                yield piece
                done += len(piece)
                if on_progress is not None:
                    on_progress(done, total)

    def events(
        self,
        call: EventsCall,
        sending: Sending = PLAIN,
        *,
        idle: Optional[float] = None,
    ) -> Generator[ServerEvent, None, None]:
        """The events of a stream. `idle` is the longest silence in seconds."""
        parser = EventParser()
        with self._stream(call, sending, idle or self.settings.idle_timeout) as response:
            for piece in response.iter_bytes():
                for event in parser.feed(piece):
                    yield event

    def lines(self, call: TextCall, sending: Sending = PLAIN) -> Generator[str, None, None]:
        """The lines of a text, as they arrive."""
        with self._stream(call, sending, self.settings.timeout) as response:
            for line in response.iter_lines():
                yield line

    def socket(self, call: SocketCall) -> Socket:
        from .sockets import open_socket

        query = {name: _query_text(value) for name, value in _given(call.query).items()}
        url = self.url(call)
        return open_socket(
            "ws" + url[len("http") :], query, self._headers(call), self.settings.timeout
        )

    # How a call is sent.

    def url(self, call: Call) -> str:
        return self.settings.origin + call.path

    def _headers(self, call: Call, bearer: Optional[str] = None) -> Dict[str, str]:
        headers = {
            "user-agent": f"pandastack-py/{__version__}",
            "accept": "text/event-stream" if isinstance(call, EventsCall) else "application/json",
        }
        if isinstance(call, (BytesCall, EventsCall)):
            # A compressed stream comes in lumps, and the length of a compressed file is not known.
            headers["accept-encoding"] = "identity"
        key = bearer or self.settings.api_key
        if key:
            headers["authorization"] = f"Bearer {key}"
        elif call.path not in _OPEN_PATHS and not call.path.startswith(_OPEN_PREFIXES):
            raise AuthError(
                "there is no API key: set PANDASTACK_API_KEY, or pass api_key= to the client"
            )
        if self.settings.org:
            headers["x-pandastack-org"] = self.settings.org
        return headers

    def _request(
        self,
        call: Call,
        sending: Sending,
        silence: float,
        opened: ExitStack,
    ) -> httpx.Request:
        """The request of a call. Files that it reads are added to `opened`."""
        import httpx

        headers = self._headers(call, sending.bearer)
        arguments: Dict[str, Any] = {}
        files: List[Any] = []
        if call.json is not None:
            headers["content-type"] = "application/json"
            arguments["content"] = json.dumps(call.json).encode()
        elif call.content is not None:
            headers["content-type"] = "application/octet-stream"
            if not isinstance(call.content, bytes):
                headers["content-length"] = str(call.content.size)
            arguments["content"] = flavour.body_of(call.content)
        elif call.form is not None:
            arguments["data"] = call.form.fields
            for part in call.form.files:
                source: Any = part.source
                if not isinstance(part.source, bytes):
                    source = opened.enter_context(part.source.open("rb"))
                files.append((part.name, (part.name, source, "application/octet-stream")))
            if files:
                arguments["files"] = files
        return self.http.build_request(
            call.method,
            self.url(call),
            params={name: _query_text(value) for name, value in _given(call.query).items()},
            headers=headers,
            timeout=httpx.Timeout(silence, connect=min(silence, _CONNECT_SECONDS)),
            **arguments,
        )

    def _fetch(self, call: Call, sending: Sending) -> tuple[httpx.Response, bytes]:
        """Send a call and read the whole answer, within the deadline of each attempt."""
        seconds = sending.timeout if sending.timeout is not None else self.settings.timeout
        again = _Again(self, call, sending)
        while True:
            again.check_cancelled()
            ends = time.monotonic() + seconds
            with ExitStack() as opened, _translated(call, self.settings.origin, seconds):
                with flavour.deadline(seconds):
                    request = self._request(call, sending, seconds, opened)
                    response = self.http.send(request, stream=True)
                    content = _read(response, ends)
            if response.is_success:
                return response, content
            again.wait_or_raise(read_refusal(response.status_code, response.headers, content))

    @contextmanager
    def _stream(
        self,
        call: Call,
        sending: Sending,
        silence: float,
    ) -> Generator[httpx.Response, None, None]:
        """Send a call and leave the answer open. Leaving the block closes it."""
        again = _Again(self, call, sending)
        while True:
            with ExitStack() as opened, _translated(call, self.settings.origin, silence):
                request = self._request(call, sending, silence, opened)
                response = self.http.send(request, stream=True)
            if response.is_success:
                break
            with _translated(call, self.settings.origin, silence):
                content = _read(response, time.monotonic() + silence)
            again.wait_or_raise(read_refusal(response.status_code, response.headers, content))
        try:
            with _translated(call, self.settings.origin, silence):
                yield response
        finally:
            response.close()


class _Again:
    """Decides after a refusal whether its call is sent again."""

    def __init__(self, transport: Transport, call: Call, sending: Sending) -> None:
        self._transport = transport
        self._call = call
        self._sending = sending
        self._started = time.monotonic()
        self._refused = 0
        self._starting = 0
        self._missing = 0
        self._last: Optional[Refusal] = None

    def check_cancelled(self) -> None:
        cancel = self._sending.cancel
        if cancel is not None and cancel.is_set():
            raise self._cancelled()

    def wait_or_raise(self, refusal: Refusal) -> None:
        self._last = refusal
        delay = self._delay(refusal)
        if delay is None:
            raise self._error(refusal)
        self.check_cancelled()
        cancel = self._sending.cancel
        if cancel is None:
            flavour.sleep(delay)
        elif flavour.wait_or_cancelled(delay, cancel):
            raise self._cancelled()

    def _delay(self, refusal: Refusal) -> Optional[float]:
        settings, elapsed = self._transport.settings, time.monotonic() - self._started
        if refusal.status == 404:
            if self._missing or not self._sending.repeats:
                return None
            self._missing += 1
            return MISSING_DELAY_SECONDS if self._call.method in MISSING_METHODS else None
        if self._sending.creates and refusal.is_capacity:
            remaining = settings.max_create_retry_seconds - elapsed
            if remaining <= 0:
                return None
            delay = capacity_delay(refusal.status, refusal.retry_after, self._refused, remaining)
            if delay is not None:
                self._refused += 1
                self._report(refusal, delay, elapsed)
            return delay
        if self._sending.starting and is_starting(refusal.status, refusal.message):
            delay = starting_delay(self._starting, settings.ready_seconds - elapsed)
            self._starting += 1
            return delay
        return None

    def _report(self, refusal: Refusal, delay: float, elapsed: float) -> None:
        self.check_cancelled()
        if self._transport.on_create_retry is not None:
            self._transport.on_create_retry(
                CreateRetryEvent(
                    method=self._call.method,
                    path=self._call.path,
                    attempt=self._refused,
                    status_code=refusal.status,
                    error=refusal.message,
                    delay_seconds=delay,
                    elapsed_seconds=elapsed,
                    retry_after_seconds=refusal.retry_after,
                )
            )

    def _error(self, refusal: Refusal) -> PandastackError:
        if self._sending.command and refusal.status >= 500 and is_command_timeout(refusal.message):
            return SandboxTimeout(
                refusal.message,
                status=refusal.status,
                code=refusal.code,
                request_id=refusal.request_id,
            )
        return refusal.error()

    def _cancelled(self) -> CreateCancelled:
        error = CreateCancelled(
            f"cancelled after {self._refused} refused attempts"
            if self._refused
            else "cancelled before the request was sent"
        )
        if self._last is not None:
            error.__cause__ = self._last.error()
        return error


class _translated:  # noqa: N801 (used like a function)
    """Turns exceptions of httpx into ours."""

    def __init__(self, call: Call, origin: str, seconds: float) -> None:
        self._call = call
        self._origin = origin
        self._seconds = seconds

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: Optional[BaseException], _trace: object) -> None:
        if error is None or isinstance(error, (PandastackError, GeneratorExit)):
            return
        import httpx

        what = f"{self._call.method} {self._call.path}"
        if isinstance(error, (httpx.TimeoutException, TimeoutError)):
            if isinstance(error, httpx.ConnectTimeout):
                text = f"no connection to {self._origin} within {_CONNECT_SECONDS:g} s"
            else:
                text = f"no answer to {what} within {self._seconds:g} s"
            raise RequestTimeout(
                f"{text}. The server may still work on it; a longer timeout can help"
            ) from error
        if isinstance(error, httpx.TransportError):
            host = urlsplit(self._origin).netloc
            raise APIConnectionError(
                f"the connection to {host} failed during {what}: {error or type(error).__name__}. "
                "Check that the server runs and that the API URL is right"
            ) from error


def _read(response: httpx.Response, ends: float) -> bytes:
    """Read the whole body, unless the time is over."""
    try:
        pieces: List[bytes] = []
        for piece in response.iter_bytes():
            pieces.append(piece)
            if time.monotonic() > ends:
                raise TimeoutError("the answer is too slow")
        return b"".join(pieces)
    finally:
        response.close()


def _given(query: Optional[Mapping[str, QueryValue]]) -> Dict[str, QueryValue]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _query_text(value: QueryValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_cancel_event(cancel: Optional[CancelEvent]) -> bool:
    """Whether it can be used: `asyncio.Event` cannot, because its `wait` does not block."""
    import inspect

    return cancel is None or not inspect.iscoroutinefunction(getattr(cancel, "wait", None))
