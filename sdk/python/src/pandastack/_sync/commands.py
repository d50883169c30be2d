# Written by scripts/write_sync.py from _async/commands.py. Do not edit.
"""Commands whose output is read while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generator, List, Mapping, Optional, Sequence

from .._core import operations
from .._results import ExecResult, OutputChunk
from .._retry import READY
from .._sandbox_fields import exec_body
from ..exceptions import APIConnectionError, ExecInterrupted, SandboxTimeout, ServerError
from . import flavour

if TYPE_CHECKING:
    from .._wire import ServerEvent
    from .sandbox import Sandbox


class CommandStream:
    """The output of a running command, piece by piece.

    Iterate over it; afterwards `exit_code` is set. Leaving the iteration early needs `close`, or
    a `with` block, and ends the command.
    """

    def __init__(self, events: Generator[ServerEvent, None, None]) -> None:
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

    def __iter__(self) -> CommandStream:
        return self

    def __next__(self) -> OutputChunk:
        return self._chunks.__next__()

    def __enter__(self) -> CommandStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the stream. The server ends a command that still runs."""
        self._chunks.close()

    def wait(self) -> ExecResult:
        """Read the rest of the output."""
        for _ in self:
            pass
        return self.result()

    def result(self) -> ExecResult:
        """The output and exit code of a command that has ended."""
        if self.exit_code is None:
            raise ValueError("the command has not ended: read its output first")
        return ExecResult(self.stdout, self.stderr, self.exit_code)

    def _read(
        self,
        events: Generator[ServerEvent, None, None],
    ) -> Generator[OutputChunk, None, None]:
        started = False
        try:
            with flavour.closing(events):
                for event in events:
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


class SandboxCommands:
    """Runs commands in a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def run(
        self,
        cmd: str,
        timeout: Optional[float] = None,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
    ) -> ExecResult:
        """Run a command and return its output. The same as `Sandbox.exec`."""
        return self._sandbox.exec(cmd, timeout_seconds=timeout, cwd=cwd, env=env)

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
    ) -> CommandStream:
        """Run a command and iterate over its output.

        Example:
            for chunk in sandbox.commands.stream("make test"):
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
        return CommandStream(transport.events(call, READY, idle=idle_timeout))


def _failure(text: str) -> Exception:
    return SandboxTimeout(text) if "timeout" in text.lower() else ServerError(text)
