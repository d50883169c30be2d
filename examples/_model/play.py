#!/usr/bin/env python3
"""Runs an example with a recorded model: no account, no internet, the same answers every time.

    python examples/_model/play.py agent_turn               # runs examples/agent_turn.py
    python examples/_model/play.py vercel_ai -- npx tsx agent.ts

It serves OpenAI's chat completions and responses and Anthropic's messages on a free local port, and
plays the turns of `recordings/agent_turn.toml` in their order. A request that does not fit the next
turn, or that leaves this computer, is refused, and this program then ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, ClassVar, NamedTuple
from urllib.parse import urlsplit

import dialects

# No library of the examples may report its use to anybody.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}


class Unexpected(Exception):
    """A request that is not in the recording."""


class Model:
    """Plays the turns of a recording, and keeps a list of what was not expected."""

    def __init__(self, recording: dict[str, Any]) -> None:
        self.tools = set(recording.get("tools", []))
        self.turns: list[dict[str, Any]] = recording["turn"]
        self.played = 0
        self.failures: list[str] = []
        self._lock = threading.Lock()

    def play(self, request: dialects.Request) -> dialects.Turn:
        with self._lock:
            if self.played == len(self.turns):
                raise Unexpected(f"the recording is over, but the model heard {request.heard!r}")
            turn = self.turns[self.played]
            for text in turn["hears"]:
                if text not in request.heard:
                    raise Unexpected(f"expected to hear {text!r}, but heard {request.heard!r}")
            missing = self.tools - request.tools
            if missing:
                raise Unexpected(f"expected the tools {missing}, but was offered {request.tools}")
            asked = self._calls(turn.get("after", self.played))
            if asked != request.results:
                raise Unexpected(f"expected results of {asked}, but got those of {request.results}")
            self.played += 1
            return dialects.Turn(self.played, turn.get("says", []), turn.get("call", []))

    def _calls(self, number: int) -> set[str]:
        """The ids of the tool calls of a turn. Turns are counted from 1."""
        calls = self.turns[number - 1].get("call", []) if number else []
        return {dialects.call_id(number, index) for index in range(len(calls))}


class Route(NamedTuple):
    read: Callable[[dict[str, Any]], dialects.Request]
    write: Callable[[dialects.Turn], dict[str, Any]]
    # Writes the answer as events. None: the recorded model cannot stream in this dialect.
    stream: Callable[[dialects.Turn], list[dict[str, Any]]] | None


ROUTES = {
    "/v1/chat/completions": Route(dialects.read_chat, dialects.write_chat, None),
    "/v1/responses": Route(dialects.read_responses, dialects.write_responses, None),
    "/v1/messages": Route(dialects.read_messages, dialects.write_message, dialects.stream_message),
}


class Handler(BaseHTTPRequestHandler):
    model: ClassVar[Model]

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        try:
            asked = json.loads(body)
            route = ROUTES.get(self.path.split("?")[0])
            if route is None:
                raise Unexpected("there is nothing here")
            if asked.get("stream") and route.stream is None:
                raise Unexpected("the recorded model does not stream here")
            turn = self.model.play(route.read(asked))
        except (Unexpected, KeyError, ValueError) as error:
            self._refuse(f"{type(error).__name__}: {error}")
            return
        if asked.get("stream"):
            events = route.stream(turn) if route.stream else []
            text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
            self._answer(200, "text/event-stream", text)
        else:
            self._answer(200, "application/json", json.dumps(route.write(turn)))

    def _refuse(self, why: str) -> None:
        self.model.failures.append(f"{self.command} {self.path}: {why}")
        # SDKs repeat a request after a 5xx, but never after a 400.
        problem = {"type": "error", "error": {"type": "invalid_request_error", "message": why}}
        self._answer(400, "application/json", json.dumps(problem))

    def _answer(self, status: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self._refuse("the recorded model has nothing to read")

    def do_CONNECT(self) -> None:
        self._refuse("this request would leave the computer")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def environment(port: int, home: str) -> dict[str, str]:
    """Points every client at the recorded model. It is also their proxy to everywhere else."""
    url = f"http://127.0.0.1:{port}"
    sandboxes = urlsplit(os.environ.get("PANDASTACK_API", "")).hostname
    local = ",".join(["127.0.0.1", "localhost", *filter(None, [sandboxes])])
    return {
        **os.environ,
        **QUIET,
        "ANTHROPIC_API_KEY": "recorded",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CONFIG_DIR": home,
        "HTTPS_PROXY": url,
        "HTTP_PROXY": url,
        "NO_PROXY": local,
        "OPENAI_API_KEY": "recorded",
        "OPENAI_BASE_URL": f"{url}/v1",
        "http_proxy": url,
        "https_proxy": url,
        "no_proxy": local,
    }


def main() -> int:
    arguments = argparse.ArgumentParser(description="Runs an example with a recorded model.")
    arguments.add_argument("name", help="the example, which is also the name of its recording")
    arguments.add_argument("command", nargs="*", help="what to run instead of examples/NAME.py")
    chosen = arguments.parse_args()
    examples = Path(__file__).parents[1]
    recording = examples / "_model/recordings" / f"{chosen.name}.toml"
    command = chosen.command or [sys.executable, str(examples / f"{chosen.name}.py")]
    model = Model(tomllib.loads(recording.read_text("utf-8")))
    Handler.model = model
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        code = subprocess.run(command, env=environment(server.server_port, home)).returncode
    if code == 0 and model.played < len(model.turns):
        model.failures.append(f"played {model.played} of {len(model.turns)} turns")
    for failure in model.failures:
        print(f"play: {failure}", file=sys.stderr)
    return 1 if model.failures else code


if __name__ == "__main__":
    sys.exit(main())
