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
from .code import AsyncCodeContext
from .commands import AsyncSandboxCommands
from .filesystem import AsyncSandboxFilesystem
from .processes import AsyncSandboxProcesses
from .sockets import AsyncCommandChannel, AsyncTerminal
from .state import AsyncSandboxState

if TYPE_CHECKING:
    from .._core import models
    from .client import AsyncPandaStack
    from .processes import AsyncProcess
    from .sandbox import AsyncSandbox

_NO_INTERPRETER = {"language.unavailable", "language.unsupported"}


class AsyncSandboxRunning(AsyncSandboxState):
    """What runs programs in a sandbox. A part of `AsyncSandbox`."""

    def __init__(self, client: Optional[AsyncPandaStack]) -> None:
        super().__init__(client)
        # The interpreters behind `run`, by language: an id, or "" if the template has none.
        self._contexts: Dict[str, str] = {}
        self._context_lock = flavour.Lock()

    @property
    def _whole(self) -> AsyncSandbox:
        """This sandbox as what it is: every sandbox has all parts."""
        return cast("AsyncSandbox", self)

    @property
    def filesystem(self) -> AsyncSandboxFilesystem:
        """Its files."""
        return AsyncSandboxFilesystem(self._whole)

    @property
    def files(self) -> AsyncSandboxFilesystem:
        """The same as `filesystem`."""
        return self.filesystem

    @property
    def commands(self) -> AsyncSandboxCommands:
        """Commands, also with output that is read while they run."""
        return AsyncSandboxCommands(self._whole)

    @property
    def processes(self) -> AsyncSandboxProcesses:
        """Processes that keep running."""
        return AsyncSandboxProcesses(self._whole)

    async def exec(
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
        result = ExecResult.from_dict(dict(await self.client.transport.json(call, sending)))
        if check and not result.ok:
            raise _failed(cmd if cmd is not None else " ".join(argv or ()), result)
        return result

    async def run(
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

            parent = await AsyncSandbox.create()
            await parent.run("x = 1")
            child = await parent.fork()
            await child.run("print(x)")

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
            context = await self._own_context("python")
        elif name in {None, "sh", "bash", "shell"}:
            context = None
        else:
            context = await self._own_context(str(name), required=True)
        if context is None:
            result = Execution.from_command(await self.exec(text, timeout_seconds))
        else:
            result = await self._run_cell(context, text, timeout_seconds)
        if check and not result.ok:
            raise _failed(text, result)
        return result

    async def stream(
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

            await sandbox.stream("make test", on_stdout=print)

        Use `commands.stream` to iterate over the output instead.

        Raises:
            SandboxTimeout: It exceeded `timeout_seconds` and was ended.
            ExecInterrupted: The connection broke, so the result is unknown.
        """
        output = self.commands.stream(cmd, timeout_seconds=timeout_seconds, cwd=cwd, env=env)
        async with output:
            async for chunk in output:
                callback = on_stdout if chunk.stream == "stdout" else on_stderr
                if callback is not None:
                    callback(chunk.text)
        result = output.result()
        if check and not result.ok:
            raise _failed(cmd, result)
        return result

    async def exec_stream(
        self,
        cmd: str,
        on_stdout: Optional[Callable[[str], None]] = None,
        on_stderr: Optional[Callable[[str], None]] = None,
        timeout_seconds: Optional[float] = None,
    ) -> int:
        """The same as `stream`, but returns only the exit code."""
        return (await self.stream(cmd, on_stdout, on_stderr, timeout_seconds)).exit_code

    async def run_code(
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
        return ExecResult.from_dict(dict(await self.client.transport.json(call, sending)))

    async def create_code_context(self, language: str = "python") -> AsyncCodeContext:
        """Start an interpreter that keeps its variables between cells."""
        name = language_name(language)
        call = operations.post_sandboxes_id_repl_sessions(self.id, {"language": name})
        data = await self.client.transport.json(call, READY)
        session = data.get("id") or data.get("session_id")
        return AsyncCodeContext(self._whole, str(session), str(data.get("language") or name))

    async def code_contexts(self) -> List[AsyncCodeContext]:
        """The interpreters that run in this sandbox, oldest first."""
        call = operations.get_sandboxes_id_repl_sessions(self.id)
        found = await self.client.transport.json(call, READY)
        return [AsyncCodeContext(self._whole, data["id"], data["language"]) for data in found]

    async def _own_context(
        self,
        language: str,
        required: bool = False,
    ) -> Optional[AsyncCodeContext]:
        """The interpreter behind `run`. None if the template has none for the language."""
        async with self._context_lock:
            known = self._contexts.get(language)
            if known is None or (required and not known):
                try:
                    known = (await self.create_code_context(language)).id
                except BadRequestError as error:
                    if required or error.code not in _NO_INTERPRETER:
                        raise
                    known = ""
                self._contexts[language] = known
        return AsyncCodeContext(self._whole, known, language) if known else None

    async def _run_cell(
        self,
        context: AsyncCodeContext,
        code: str,
        timeout_seconds: Optional[float],
    ) -> Execution:
        try:
            return await context.run_code(code, timeout_seconds)
        except NotFoundError:
            # Somebody closed it. Start another one, unless the sandbox itself is gone.
            self._contexts.pop(context.language, None)
            fresh = await self._own_context(context.language, required=True)
            assert fresh is not None
            return await fresh.run_code(code, timeout_seconds)

    # Terminals and channels.

    async def terminal(
        self,
        *,
        rows: int = 24,
        cols: int = 80,
        cmd: Optional[str] = None,
    ) -> AsyncTerminal:
        """Open a terminal with a shell, or with another program."""
        call = operations.get_sandboxes_id_exec_pty(self.id, rows=rows, cols=cols, cmd=cmd)
        return AsyncTerminal(await self.client.transport.socket(call))

    async def ssh(self, *, rows: int = 24, cols: int = 80) -> AsyncTerminal:
        """Open a login terminal, as the command line's `ssh` does."""
        call = operations.get_sandboxes_id_ssh(self.id, rows=rows, cols=cols)
        return AsyncTerminal(await self.client.transport.socket(call))

    async def channel(self) -> AsyncCommandChannel:
        """Open one connection for many commands."""
        call = operations.get_sandboxes_id_exec_ws(self.id)
        return AsyncCommandChannel(await self.client.transport.socket(call))

    async def spawn(
        self,
        cmd: Optional[str] = None,
        *,
        argv: Optional[Sequence[str]] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: bool = False,
        tag: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
    ) -> AsyncProcess:
        """Start a process that keeps running. The same as `processes.spawn`."""
        return await self.processes.spawn(
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
