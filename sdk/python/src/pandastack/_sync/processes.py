# Written by scripts/write_sync.py from _async/processes.py. Do not edit.
"""Processes that outlive the request that started them."""

from __future__ import annotations

import time
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Generator,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
)

from .._core import operations
from .._results import ExecResult, OutputChunk
from .._retry import READY
from ..exceptions import APIConnectionError, ExecInterrupted, ServerError
from . import flavour

if TYPE_CHECKING:
    from .._core import models
    from .sandbox import Sandbox

# A followed process is asked for again after a broken stream, for this long without progress.
# It is enough for a restart of the server.
_RECONNECT_SECONDS = 30.0
_FIRST_DELAY = 0.2
_MAX_DELAY = 2.0


class Process:
    """A process in a sandbox. Its fields are as of the last answer about it."""

    def __init__(self, sandbox: Sandbox, data: models.Process) -> None:
        self._sandbox = sandbox
        self.data = data

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def pid(self) -> int:
        return self.data["pid"]

    @property
    def cmd(self) -> str:
        return self.data["cmd"]

    @property
    def tag(self) -> Optional[str]:
        return self.data.get("tag")

    @property
    def status(self) -> str:
        """`running`, `exited`, or `killed` if a signal or the time limit ended it."""
        return self.data["status"]

    @property
    def exit_code(self) -> Optional[int]:
        return self.data.get("exit_code")

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    def refresh(self) -> Process:
        """Ask for the current state."""
        call = operations.get_sandboxes_id_processes_process(self._sandbox.id, self.id)
        self.data = self._sandbox.client.transport.json(call, READY)
        return self

    def output(self, offset: int = 0) -> models.ProcessOutput:
        """What the process has written so far, from an offset on."""
        call = operations.get_sandboxes_id_processes_process_output(
            self._sandbox.id, self.id, offset=offset
        )
        return self._sandbox.client.transport.json(call, READY)

    def follow(self, offset: int = 0) -> Generator[OutputChunk, None, None]:
        """Iterate over the output until the process ends.

        A broken stream is opened again where it ended, so nothing is lost or repeated.

        Raises:
            ExecInterrupted: The server could not be reached for half a minute.
        """
        delay = _FIRST_DELAY
        ends: Optional[float] = None
        while True:
            try:
                with flavour.closing(self._follow(offset)) as chunks:
                    for chunk in chunks:
                        offset = chunk.offset or offset
                        delay, ends = _FIRST_DELAY, None
                        yield chunk
                return
            except (APIConnectionError, ServerError) as error:
                ends = ends or time.monotonic() + _RECONNECT_SECONDS
                if time.monotonic() + delay > ends:
                    raise ExecInterrupted(
                        f"the output of process {self.id} ended at offset {offset}: {error}"
                    ) from error
                flavour.sleep(delay)
                delay = min(_MAX_DELAY, delay * 2)

    def _follow(self, offset: int) -> Generator[OutputChunk, None, None]:
        call = operations.get_sandboxes_id_processes_process_output_stream(
            self._sandbox.id, self.id, offset=offset, follow=True
        )
        with flavour.closing(self._sandbox.client.transport.events(call, READY)) as events:
            for event in events:
                fields = event.json()
                if event.event in {"stdout", "stderr"}:
                    yield OutputChunk(event.event, str(fields["chunk"]), int(fields["offset"]))
                elif event.event == "exit":
                    self._ended(fields)
                    return
                elif event.event == "error":
                    raise ServerError(str(fields.get("error", "unknown error")))
        raise APIConnectionError("the stream ended before the process")

    def _ended(self, fields: Dict[str, Any]) -> None:
        self.data["status"] = str(fields.get("status", "exited"))
        self.data["exit_code"] = int(fields.get("exit_code", 0))
        if fields.get("timed_out"):
            self.data["timed_out"] = True

    def wait(self) -> ExecResult:
        """Wait for the end and return the output that is still kept."""
        stdout: List[str] = []
        stderr: List[str] = []
        with flavour.closing(self.follow()) as chunks:
            for chunk in chunks:
                (stdout if chunk.stream == "stdout" else stderr).append(chunk.text)
        return ExecResult("".join(stdout), "".join(stderr), self.exit_code or 0)

    def write(self, data: Union[bytes, str], *, end: bool = False) -> int:
        """Write to standard input, which `spawn(stdin=True)` keeps open. `end` closes it."""
        content = data.encode() if isinstance(data, str) else data
        call = operations.post_sandboxes_id_processes_process_stdin(
            self._sandbox.id, self.id, content, end=end or None
        )
        return self._sandbox.client.transport.json(call)["bytes"]

    def close_stdin(self) -> None:
        """Close standard input."""
        self.write(b"", end=True)

    def signal(self, signal: Union[str, int] = "TERM") -> None:
        """Send a signal to the process and its group."""
        call = operations.post_sandboxes_id_processes_process_signal(
            self._sandbox.id, self.id, {"signal": signal}
        )
        self._sandbox.client.transport.empty(call)

    def kill(self) -> None:
        """Kill the process and its group, and remove it from the list with its output."""
        call = operations.delete_sandboxes_id_processes_process(self._sandbox.id, self.id)
        self._sandbox.client.transport.empty(call)

    def __repr__(self) -> str:
        code = "" if self.exit_code is None else f" exit_code={self.exit_code}"
        return f"<{type(self).__name__} {self.id} {self.status}{code} {self.cmd!r}>"


class SandboxProcesses:
    """The processes of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def spawn(
        self,
        cmd: Optional[str] = None,
        *,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        stdin: bool = False,
        tag: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
    ) -> Process:
        """Start a process that keeps running.

        Example:
            server = sandbox.processes.spawn("python3 -m http.server 3000", tag="web")
        """
        if (cmd is None) == (argv is None):
            raise ValueError("give either a command line or argv")
        body: models.SpawnRequest = {}
        if cmd is not None:
            body["cmd"] = cmd
        if argv is not None:
            body["argv"] = list(argv)
        if cwd is not None:
            body["cwd"] = cwd
        if env is not None:
            body["env"] = dict(env)
        if user is not None:
            body["user"] = user
        if stdin:
            body["stdin"] = True
        if tag is not None:
            body["tag"] = tag
        if timeout_seconds is not None:
            body["timeout_seconds"] = timeout_seconds
        call = operations.post_sandboxes_id_processes(self._sandbox.id, body)
        return Process(self._sandbox, self._sandbox.client.transport.json(call, READY))

    def list(self) -> List[Process]:
        """All remembered processes, oldest first."""
        call = operations.get_sandboxes_id_processes(self._sandbox.id)
        found = self._sandbox.client.transport.json(call, READY)
        return [Process(self._sandbox, data) for data in found]

    def get(self, process_id: str) -> Process:
        call = operations.get_sandboxes_id_processes_process(self._sandbox.id, process_id)
        return Process(self._sandbox, self._sandbox.client.transport.json(call, READY))
