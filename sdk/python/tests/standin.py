"""A small server that answers as a test tells it to, faults included."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Iterator, List, Optional, Union
from urllib.parse import parse_qs, urlsplit

KEY = "pds_" + "0" * 32


@dataclass
class Seen:
    """A request that arrived."""

    method: str
    path: str
    query: Dict[str, List[str]]
    headers: Dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """An answer. Pieces are sent one by one; `cut` ends the connection in the middle."""

    status: int = 200
    body: Any = None
    headers: Optional[Dict[str, str]] = None
    pieces: Optional[Callable[[], Iterator[bytes]]] = None
    cut: bool = False
    silent: bool = False


Answer = Union[Reply, Callable[[Seen], Reply]]


def events(*parts: str, cut: bool = False) -> Reply:
    """A stream of server-sent events."""

    def pieces() -> Iterator[bytes]:
        for part in parts:
            yield part.encode()

    return Reply(
        headers={"content-type": "text/event-stream; charset=utf-8"}, pieces=pieces, cut=cut
    )


class StandIn:
    """Answers with the replies of a route in their order; the last one is repeated."""

    def __init__(self) -> None:
        self.seen: List[Seen] = []
        self._routes: Dict[str, List[Answer]] = {}
        self._fallback: Optional[Callable[[Seen], Reply]] = None
        self._closing = threading.Event()
        standin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, ValueError):
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self.answer
                raise AttributeError(name)

            def answer(self) -> None:
                standin.answer(self)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            # Many connections at once must not wait for a repeated SYN.
            request_queue_size = 64

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self._routes[f"{method} {path}"] = list(answers)

    def otherwise(self, answer: Callable[[Seen], Reply]) -> None:
        self._fallback = answer

    def count(self, method: str, path: str) -> int:
        return sum(1 for one in self.seen if (one.method, one.path) == (method, path))

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        seen = Seen(
            handler.command,
            parts.path,
            parse_qs(parts.query, keep_blank_values=True),
            {name.lower(): value for name, value in handler.headers.items()},
            _read_body(handler),
        )
        self.seen.append(seen)
        waiting = self._routes.get(f"{seen.method} {seen.path}")
        if waiting:
            chosen = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            reply = chosen if isinstance(chosen, Reply) else chosen(seen)
        elif self._fallback is not None:
            reply = self._fallback(seen)
        else:
            reply = Reply(404, {"error": "not found", "code": "not_found"})
        self._send(handler, reply)

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.silent:
            # A half-open socket: the connection stays, and nothing comes.
            self._closing.wait(30)
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        for name, value in (reply.headers or {}).items():
            handler.send_header(name, value)
        if reply.pieces is None:
            body = _body_bytes(reply.body)
            handler.send_header("content-length", str(len(body) + (10 if reply.cut else 0)))
            handler.end_headers()
            handler.wfile.write(body)
        else:
            handler.send_header("transfer-encoding", "chunked")
            handler.end_headers()
            for piece in reply.pieces():
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                handler.wfile.flush()
            if not reply.cut:
                handler.wfile.write(b"0\r\n\r\n")
        if reply.cut:
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()


def _read_body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while True:
            size = int(handler.rfile.readline(), 16)
            body += handler.rfile.read(size)
            handler.rfile.readline()
            if size == 0:
                return body
    return handler.rfile.read(int(handler.headers.get("content-length") or 0))


def _body_bytes(body: Any) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def drip(piece: bytes, times: int, pause: float) -> Callable[[], Iterator[bytes]]:
    """A slow body."""

    def pieces() -> Iterator[bytes]:
        for _ in range(times):
            yield piece
            time.sleep(pause)

    return pieces


def sandbox(**fields: Any) -> Dict[str, Any]:
    """A sandbox as the server describes it."""
    return {
        "id": "5c0f0000-0000-4000-8000-000000000001",
        "template": "mini",
        "cpu": 1,
        "memory_mb": 256,
        "status": "running",
        "metadata": {},
        "created_at": "2026-11-17T00:00:00Z",
        "boot_ms": 7,
        "boot_mode": "snapshot-natid",
        "persistent": False,
        "ttl_seconds": 300,
        "isolation": "emulated",
        **fields,
    }


ID = sandbox()["id"]
S = f"/v1/sandboxes/{ID}"
