"""WebSockets: terminals, and one connection for many commands.

They need the package `websockets`: `pip install "pandastack[terminal]"`.
"""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from typing import Any, AsyncGenerator, Dict, List, Mapping, Optional, Sequence, Union, cast
from urllib.parse import urlencode

from .._results import ExecResult, OutputChunk
from .._sandbox_fields import exec_body
from .._wire import read_refusal
from ..exceptions import APIConnectionError, ExecInterrupted, SandboxTimeout, ServerError
from . import flavour


class AsyncSocket:
    """A WebSocket whose failures are exceptions of this package."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def send(self, data: Union[bytes, str]) -> None:
        with _translated():
            await self._connection.send(data)

    async def receive(self) -> Optional[Union[bytes, str]]:
        """The next message. None if the server closed the connection."""
        from websockets.exceptions import ConnectionClosedOK

        try:
            with _translated():
                return cast(Union[bytes, str], await self._connection.recv())
        except ConnectionClosedOK:
            return None

    async def aclose(self) -> None:
        await self._connection.close()


async def open_socket(
    url: str,
    query: Mapping[str, str],
    headers: Dict[str, str],
    timeout: float,
) -> AsyncSocket:
    """Open a WebSocket. A refusal is the same exception as for any other request."""
    try:
        from websockets.exceptions import InvalidStatus
    except ImportError as error:
        raise ImportError(
            "terminals and channels need the package websockets: "
            'run `pip install "pandastack[terminal]"`'
        ) from error

    agent = headers.pop("user-agent", None)
    headers.pop("accept", None)
    address = f"{url}?{urlencode(query)}" if query else url
    try:
        with _translated():
            return AsyncSocket(await flavour.connect_socket(address, headers, agent, timeout))
    except InvalidStatus as error:
        answer = error.response
        refusal = read_refusal(answer.status_code, dict(answer.headers), bytes(answer.body or b""))
        raise refusal.error() from None


class AsyncTerminal:
    """A terminal in a sandbox.

    Example:
        async with await sandbox.terminal() as terminal:
            await terminal.write("echo hello; exit\\n")
            async for output in terminal:
                print(output.decode(), end="")
        print(terminal.exit_code)
    """

    def __init__(self, socket: AsyncSocket) -> None:
        self._socket = socket
        self.exit_code: Optional[int] = None

    async def write(self, data: Union[bytes, str]) -> None:
        """Send keystrokes."""
        await self._socket.send(data.encode() if isinstance(data, str) else data)

    async def resize(self, rows: int, cols: int) -> None:
        await self._socket.send(json.dumps({"resize": {"rows": rows, "cols": cols}}))

    async def read(self) -> bytes:
        """The next output. Empty when the program has ended."""
        while True:
            message = await self._socket.receive()
            if message is None:
                return b""
            if isinstance(message, bytes):
                return message
            if self._ended(cast(Dict[str, Any], json.loads(message))):
                return b""

    def __aiter__(self) -> AsyncTerminal:
        return self

    async def __anext__(self) -> bytes:
        output = await self.read()
        if not output:
            raise StopAsyncIteration
        return output

    def _ended(self, fields: Dict[str, Any]) -> bool:
        if "error" in fields:
            raise ServerError(str(fields["error"]))
        if "exit" in fields:
            self.exit_code = int(fields["exit"])
            return True
        return False

    async def aclose(self) -> None:
        """Close the terminal. The server ends its program."""
        await self._socket.aclose()

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncCommandChannel:
    """One connection for many commands, without a request for each of them.

        async with await sandbox.channel() as channel:
            for name in names:
                print((await channel.run(f"wc -l {name}")).stdout)

    Commands of one channel run one after the other. For several at once, open several channels,
    or use `exec`.
    """

    def __init__(self, socket: AsyncSocket) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._lock = flavour.Lock()

    async def run(
        self,
        cmd: Optional[str] = None,
        *,
        argv: Optional[Sequence[str]] = None,
        timeout_seconds: Optional[float] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Optional[str] = None,
        user: Optional[str] = None,
    ) -> ExecResult:
        """Run a command and return its output.

        Raises:
            SandboxTimeout: It exceeded `timeout_seconds` and was ended.
            ExecInterrupted: The connection broke, so the result is unknown.
        """
        body = exec_body(
            cmd,
            argv=argv,
            timeout_seconds=timeout_seconds,
            cwd=cwd,
            env=env,
            stdin=stdin,
            user=user,
        )
        texts: Dict[str, List[str]] = {"stdout": [], "stderr": []}
        async with self._lock:
            name = f"c{next(self._ids)}"
            await self._socket.send(json.dumps({"id": name, **body}))
            try:
                code = await self._collect(name, texts)
                reason = "the connection was closed"
            except APIConnectionError as error:
                code, reason = None, str(error)
            except (SandboxTimeout, ServerError):
                raise
            except BaseException:
                # The caller gave up, so the server need not go on either.
                await flavour.shielded(lambda: self._cancel(name))
                raise
        stdout, stderr = "".join(texts["stdout"]), "".join(texts["stderr"])
        if code is None:
            raise ExecInterrupted(
                f"the result of the command is unknown: {reason}",
                partial_stdout=stdout,
                partial_stderr=stderr,
            )
        return ExecResult(stdout, stderr, code)

    async def _collect(self, name: str, texts: Dict[str, List[str]]) -> Optional[int]:
        """Read the output of a command, and return its exit code."""
        async with flavour.closing(self._frames(name)) as frames:
            async for frame in frames:
                if not isinstance(frame, OutputChunk):
                    return frame
                texts[frame.stream].append(frame.text)
        return None

    async def _cancel(self, name: str) -> None:
        with suppress(APIConnectionError):
            await self._socket.send(json.dumps({"id": name, "cancel": True}))

    async def _frames(self, name: str) -> AsyncGenerator[Union[OutputChunk, int], None]:
        """The frames of one command; the exit code is the last one."""
        while True:
            message = await self._socket.receive()
            if message is None:
                return
            fields = cast(Dict[str, Any], json.loads(message))
            # A command that was given up may still send something.
            if fields.get("id") != name:
                continue
            if "error" in fields:
                text = str(fields["error"])
                raise SandboxTimeout(text) if "timeout" in text else ServerError(text)
            if "exit" in fields:
                yield int(fields["exit"])
                return
            yield OutputChunk(str(fields.get("stream", "stdout")), str(fields.get("data", "")))

    async def aclose(self) -> None:
        """Close the connection. The server ends a command that still runs."""
        await self._socket.aclose()

    async def __aenter__(self) -> AsyncCommandChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _translated:  # noqa: N801 (used like a function)
    """Turns failures of the connection into ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: Optional[BaseException], _trace: object) -> None:
        if error is None:
            return
        from websockets.exceptions import ConnectionClosedError, InvalidHandshake, InvalidStatus

        if isinstance(error, InvalidStatus):
            return
        if isinstance(error, (ConnectionClosedError, InvalidHandshake, OSError, TimeoutError)):
            raise APIConnectionError(f"the WebSocket failed: {error}") from error
