# Written by scripts/write_sync.py from _async/running.py. Do not edit.
"""What runs in a sandbox: commands, code, terminals and processes."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
    cast,
)

from .._core import operations
from .._python_text import is_python
from .._results import ExecResult, Execution
from .._retry import READY, Sending
from .._sandbox_fields import exec_body, language_name
from ..exceptions import BadRequestError, CommandFailed, NotFoundError
from . import flavour
from .code import CodeContext
from .commands import SandboxCommands
from .filesystem import SandboxFilesystem
from .processes import SandboxProcesses
from .sockets import CommandChannel, Terminal
from .state import SandboxState

if TYPE_CHECKING:
    from .._core import models
    from .client import PandaStack
    from .processes import Process
    from .sandbox import Sandbox

_NO_INTERPRETER = {"language.unavailable", "language.unsupported"}


class SandboxRunning(SandboxState):
    """What runs programs in a sandbox. A part of `Sandbox`."""

    def __init__(self, client: Optional[PandaStack]) -> None:
        super().__init__(client)
        # The interpreters behind `run`, by language: an id, or "" if the template has none.
        self._contexts: Dict[str, str] = {}
        self._context_lock = flavour.Lock()

    @property
    def _whole(self) -> Sandbox:
        """This sandbox as what it is: every sandbox has all parts."""
        return cast("Sandbox", self)

    @property
    def filesystem(self) -> SandboxFilesystem:
        """Its files."""
        return SandboxFilesystem(self._whole)

    @property
    def files(self) -> SandboxFilesystem:
        """The same as `filesystem`."""
        return self.filesystem

    @property
    def commands(self) -> SandboxCommands:
        """Commands, also with output that is read while they run."""
        return SandboxCommands(self._whole)

    @property
    def processes(self) -> SandboxProcesses:
        """Processes that keep running."""
        return SandboxProcesses(self._whole)

    def exec(
        self,
        cmd: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
        check: bool = False,
        *,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Optional[str] = None,
        user: Optional[str] = None,
    ) -> ExecResult:
        """Run a shell command, or `argv` without a shell, and return its output.

        Raises:
            SandboxTimeout: It exceeded `timeout_seconds` and was ended.
            CommandFailed: `check` was set, and the exit code is not 0.
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
        call = operations.post_sandboxes_id_exec(self.id, body)
        sending = Sending(
            starting=True, command=True, timeout=self.client.command_seconds(timeout_seconds)
        )
        result = ExecResult.from_dict(dict(self.client.transport.json(call, sending)))
        if check and not result.ok:
            raise _failed(cmd if cmd is not None else " ".join(argv or ()), result)
        return result

    def run(
        self,
        text: str,
        timeout_seconds: Optional[float] = None,
        *,
        language: Optional[str] = None,
        check: bool = False,
    ) -> Execution:
        """Run a shell command, or Python that keeps its variables.

        Python runs in an interpreter that belongs to this sandbox, so later calls see the variables
        of earlier ones. So do the copies that `fork` makes, because they are copies of its memory:

            parent = Sandbox.create()
            parent.run("x = 1")
            child = parent.fork()
            child.run("print(x)")

        A text is Python if it can be parsed as Python and does more than name things and calculate
        with them: `ls -la` and `df` are commands, `df.head()` is Python. `language` ("python",
        "javascript", "bash") decides instead if it is given. If the template has no Python
        interpreter, every text is a command.

        Raises:
            SandboxTimeout: It exceeded `timeout_seconds`.
            CommandFailed: `check` was set, and it failed.
        """
        name = language_name(language) if language else None
        if name is None and is_python(text):
            context = self._own_context("python")
        elif name in {None, "sh", "bash", "shell"}:
            context = None
        else:
            context = self._own_context(str(name), required=True)
        if context is None:
            result = Execution.from_command(self.exec(text, timeout_seconds))
        else:
            result = self._run_cell(context, text, timeout_seconds)
        if check and not result.ok:
            raise _failed(text, result)
        return result

    def stream(
        self,
        cmd: str,
        on_stdout: Optional[Callable[[str], None]] = None,
        on_stderr: Optional[Callable[[str], None]] = None,
        timeout_seconds: Optional[float] = None,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a command and get its output while it runs.

            sandbox.stream("make test", on_stdout=print)

        Use `commands.stream` to iterate over the output instead.

        Raises:
            SandboxTimeout: It exceeded `timeout_seconds` and was ended.
            ExecInterrupted: The connection broke, so the result is unknown.
        """
        output = self.commands.stream(cmd, timeout_seconds=timeout_seconds, cwd=cwd, env=env)
        with output:
            for chunk in output:
                callback = on_stdout if chunk.stream == "stdout" else on_stderr
                if callback is not None:
                    callback(chunk.text)
        result = output.result()
        if check and not result.ok:
            raise _failed(cmd, result)
        return result

    def exec_stream(
        self,
        cmd: str,
        on_stdout: Optional[Callable[[str], None]] = None,
        on_stderr: Optional[Callable[[str], None]] = None,
        timeout_seconds: Optional[float] = None,
    ) -> int:
        """The same as `stream`, but returns only the exit code."""
        return self.stream(cmd, on_stdout, on_stderr, timeout_seconds).exit_code

    def run_code(
        self,
        code: str,
        language: str = "python",
        timeout_seconds: Optional[float] = None,
    ) -> ExecResult:
        """Run code in a new interpreter, which keeps nothing."""
        body: models.RunOnce = {"code": code, "language": language_name(language)}
        if timeout_seconds is not None:
            body["timeout_ms"] = int(timeout_seconds * 1000)
        sending = Sending(
            starting=True, command=True, timeout=self.client.command_seconds(timeout_seconds)
        )
        call = operations.post_sandboxes_id_repl(self.id, body)
        return ExecResult.from_dict(dict(self.client.transport.json(call, sending)))

    def create_code_context(self, language: str = "python") -> CodeContext:
        """Start an interpreter that keeps its variables between cells."""
        name = language_name(language)
        call = operations.post_sandboxes_id_repl_sessions(self.id, {"language": name})
        data = self.client.transport.json(call, READY)
        session = data.get("id") or data.get("session_id")
        return CodeContext(self._whole, str(session), str(data.get("language") or name))

    def code_contexts(self) -> List[CodeContext]:
        """The interpreters that run in this sandbox, oldest first."""
        call = operations.get_sandboxes_id_repl_sessions(self.id)
        found = self.client.transport.json(call, READY)
        return [CodeContext(self._whole, data["id"], data["language"]) for data in found]

    def _own_context(
        self,
        language: str,
        required: bool = False,
    ) -> Optional[CodeContext]:
        """The interpreter behind `run`. None if the template has none for the language."""
        with self._context_lock:
            known = self._contexts.get(language)
            if known is None or (required and not known):
                try:
                    known = self.create_code_context(language).id
                except BadRequestError as error:
                    if required or error.code not in _NO_INTERPRETER:
                        raise
                    known = ""
                self._contexts[language] = known
        return CodeContext(self._whole, known, language) if known else None

    def _run_cell(
        self,
        context: CodeContext,
        code: str,
        timeout_seconds: Optional[float],
    ) -> Execution:
        try:
            return context.run_code(code, timeout_seconds)
        except NotFoundError:
            # Somebody closed it. Start another one, unless the sandbox itself is gone.
            self._contexts.pop(context.language, None)
            fresh = self._own_context(context.language, required=True)
            assert fresh is not None
            return fresh.run_code(code, timeout_seconds)

    # Terminals and channels.

    def terminal(
        self,
        *,
        rows: int = 24,
        cols: int = 80,
        cmd: Optional[str] = None,
    ) -> Terminal:
        """Open a terminal with a shell, or with another program."""
        call = operations.get_sandboxes_id_exec_pty(self.id, rows=rows, cols=cols, cmd=cmd)
        return Terminal(self.client.transport.socket(call))

    def ssh(self, *, rows: int = 24, cols: int = 80) -> Terminal:
        """Open a login terminal, as the command line's `ssh` does."""
        call = operations.get_sandboxes_id_ssh(self.id, rows=rows, cols=cols)
        return Terminal(self.client.transport.socket(call))

    def channel(self) -> CommandChannel:
        """Open one connection for many commands."""
        call = operations.get_sandboxes_id_exec_ws(self.id)
        return CommandChannel(self.client.transport.socket(call))

    def spawn(
        self,
        cmd: Optional[str] = None,
        *,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: bool = False,
        tag: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
    ) -> Process:
        """Start a process that keeps running. The same as `processes.spawn`."""
        return self.processes.spawn(
            cmd,
            argv=argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            tag=tag,
            timeout_seconds=timeout_seconds,
        )


def _failed(cmd: str, result: Union[ExecResult, Execution]) -> CommandFailed:
    last = result.stderr.strip().splitlines()
    return CommandFailed(
        f"the command {cmd[:80]!r} exited with code {result.exit_code}"
        + (f": {last[-1]}" if last else ""),
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
    )
