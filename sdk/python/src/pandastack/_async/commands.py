"""Commands whose output is read while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, AsyncGenerator, List, Mapping, Optional, Sequence

from .._core import operations
from .._results import ExecResult, OutputChunk
from .._retry import READY
from .._sandbox_fields import exec_body
from ..exceptions import APIConnectionError, ExecInterrupted, SandboxTimeout, ServerError
from . import flavour

if TYPE_CHECKING:
    from .._wire import ServerEvent
    from .sandbox import AsyncSandbox


class AsyncCommandStream:
    """The output of a running command, piece by piece.

    Iterate over it; afterwards `exit_code` is set. Leaving the iteration early needs `aclose`, or
    a `with` block, and ends the command.
    """

    def __init__(self, events: AsyncGenerator[ServerEvent, None]) -> None:
        self.exit_code: Optional[int] = None
        self._stdout: List[str] = []
        self._stderr: List[str] = []
        self._chunks = self._read(events)

    @property
    def stdout(self) -> str:
        """What was written to standard output so far."""
        return "".join(self._stdout)

    @property
    def stderr(self) -> str:
        """What was written to standard error so far."""
        return "".join(self._stderr)

    def __aiter__(self) -> AsyncCommandStream:
        return self

    async def __anext__(self) -> OutputChunk:
        return await self._chunks.__anext__()

    async def __aenter__(self) -> AsyncCommandStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the stream. The server ends a command that still runs."""
        await self._chunks.aclose()

    async def wait(self) -> ExecResult:
        """Read the rest of the output."""
        async for _ in self:
            pass
        return self.result()

    def result(self) -> ExecResult:
        """The output and exit code of a command that has ended."""
        if self.exit_code is None:
            raise ValueError("the command has not ended: read its output first")
        return ExecResult(self.stdout, self.stderr, self.exit_code)

    async def _read(
        self,
        events: AsyncGenerator[ServerEvent, None],
    ) -> AsyncGenerator[OutputChunk, None]:
        started = False
        try:
            async with flavour.closing(events):
                async for event in events:
                    started = True
                    if event.event in {"stdout", "stderr"}:
                        text = str(event.json().get("chunk", ""))
                        (self._stdout if event.event == "stdout" else self._stderr).append(text)
                        yield OutputChunk(event.event, text)
                    elif event.event == "exit":
                        self.exit_code = int(event.json().get("exit_code", 0))
                        return
                    elif event.event == "error":
                        raise _failure(str(event.json().get("error", "unknown error")))
        except APIConnectionError as error:
            if not started:
                raise
            raise self._interrupted(str(error)) from error
        raise self._interrupted("the stream ended without an exit code")

    def _interrupted(self, reason: str) -> ExecInterrupted:
        return ExecInterrupted(
            f"the result of the command is unknown: {reason}",
            partial_stdout=self.stdout,
            partial_stderr=self.stderr,
        )


class AsyncSandboxCommands:
    """Runs commands in a sandbox."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def run(
        self,
        cmd: str,
        timeout: Optional[float] = None,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> ExecResult:
        """Run a command and return its output. The same as `Sandbox.exec`."""
        return await self._sandbox.exec(cmd, timeout_seconds=timeout, cwd=cwd, env=env)

    def stream(
        self,
        cmd: Optional[str] = None,
        *,
        argv: Optional[Sequence[str]] = None,
        timeout_seconds: Optional[float] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Optional[str] = None,
        user: Optional[str] = None,
        idle_timeout: Optional[float] = None,
    ) -> AsyncCommandStream:
        """Run a command and iterate over its output.

        Example:
            async for chunk in sandbox.commands.stream("make test"):
                print(chunk.text, end="")
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
        call = operations.post_sandboxes_id_exec_stream(self._sandbox.id, body)
        transport = self._sandbox.client.transport
        return AsyncCommandStream(transport.events(call, READY, idle=idle_timeout))


def _failure(text: str) -> Exception:
    return SandboxTimeout(text) if "timeout" in text.lower() else ServerError(text)
