"""A sandbox: one machine, and everything that can be done with it."""

from __future__ import annotations

from contextlib import suppress
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncGenerator,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
    cast,
)

from .._core import models, operations
from .._python_text import is_python
from .._results import ExecResult, Execution
from .._retry import READY, Sending
from .._sandbox_fields import (
    DEFAULT_TEMPLATE,
    SandboxFields,
    check_port,
    create_body,
    exec_body,
    language_name,
    volume_body,
)
from .._wire import fields_of, list_of
from ..exceptions import (
    BadRequestError,
    CommandFailed,
    ConflictError,
    NotFoundError,
    PandastackError,
)
from . import flavour
from .code import AsyncCodeContext
from .commands import AsyncSandboxCommands
from .copies import AsyncForkTree, FromSnapshot
from .filesystem import AsyncSandboxFilesystem
from .processes import AsyncSandboxProcesses
from .sockets import AsyncCommandChannel, AsyncTerminal
from .transport import is_cancel_event

if TYPE_CHECKING:
    from typing_extensions import Self

    from .._retry import CancelEvent
    from .._sandbox_fields import VolumeSpec
    from .client import AsyncPandaStack
    from .explore import AsyncCandidate, AsyncExploreResult
    from .processes import AsyncProcess

S = TypeVar("S", bound="AsyncSandbox")

_SNAPSHOT_SECONDS = 180.0
_NO_INTERPRETER = {"language.unavailable", "language.unsupported"}


class AsyncSandbox(SandboxFields):
    """A sandbox.

    It is deleted at the end of the `with` block, unless it is persistent:

        async with AsyncSandbox(template="code-interpreter") as sandbox:
            print((await sandbox.exec("uname -a")).stdout)

    The constructor creates a new sandbox. Use `get` for one that exists. The first arguments up to
    `persistent` are the fields of an existing sandbox if `id` is given; nothing is created then.
    """

    default_template = DEFAULT_TEMPLATE
    from_snapshot = FromSnapshot()

    def __init__(
        self,
        id: Optional[str] = None,
        template: Optional[str] = None,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        status: Optional[str] = None,
        guest_ip: Optional[str] = None,
        created_at: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        from_snapshot: Optional[str] = None,
        boot_ms: Optional[int] = None,
        boot_mode: Optional[str] = None,
        persistent: bool = False,
        _client: Optional[AsyncPandaStack] = None,
        *,
        ttl_seconds: Optional[int] = None,
        volumes: Optional[Sequence[VolumeSpec]] = None,
        egress_allowlist: Optional[Sequence[str]] = None,
        egress_mbps: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        client: Optional[AsyncPandaStack] = None,
        cancel: Optional[CancelEvent] = None,
    ) -> None:
        self._client = client or _client
        self._cancel = cancel
        # The interpreters behind `run`, by language: an id, or "" if the template has none.
        self._contexts: Dict[str, str] = {}
        self._context_lock = flavour.Lock()
        self._pending: Optional[models.CreateSandbox] = None
        if id is not None:
            self._load(
                {
                    "id": id,
                    "template": template,
                    "cpu": cpu,
                    "memory_mb": memory_mb,
                    "status": status,
                    "guest_ip": guest_ip,
                    "created_at": created_at,
                    "metadata": metadata,
                    "from_snapshot": from_snapshot,
                    "boot_ms": boot_ms,
                    "boot_mode": boot_mode,
                    "persistent": persistent,
                    "ttl_seconds": ttl_seconds,
                    "volumes": volumes,
                    "egress_allowlist": egress_allowlist,
                }
            )
            return
        self.id = ""
        self._pending = create_body(
            template=template or self.default_template,
            ttl_seconds=ttl_seconds,
            persistent=persistent,
            metadata=metadata,
            from_snapshot=from_snapshot,
            volumes=volumes,
            egress_allowlist=egress_allowlist,
            egress_mbps=egress_mbps,
            env=env,
        )
        # [sync only]
        # self._begin()
        # [end]

    async def _begin(self) -> Self:
        """Create the sandbox that the constructor describes, if that has not happened."""
        if self._pending is not None:
            _check_cancel(self._cancel)
            call = operations.post_sandboxes(self._pending)
            sending = Sending(creates=True, cancel=self._cancel)
            self._load(await self.client.transport.json(call, sending))
            self._pending = None
        return self

    # [async only]
    def __await__(self) -> Any:
        """`await AsyncSandbox(template=…)` creates the sandbox."""
        return self._begin().__await__()

    # [end]
    @classmethod
    def from_dict(
        cls: Type[S],
        data: Mapping[str, Any],
        client: AsyncPandaStack,
        persistent: bool = False,
    ) -> S:
        """A sandbox from an answer of the API."""
        sandbox = cls(id=str(data["id"]), client=client)
        sandbox._load(data)
        sandbox.persistent = sandbox.persistent or persistent
        return sandbox

    @classmethod
    async def create(
        cls: Type[S],
        template: Optional[str] = None,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        metadata: Optional[Mapping[str, str]] = None,
        ttl_seconds: Optional[int] = None,
        persistent: bool = False,
        from_snapshot: Optional[str] = None,
        volumes: Optional[Sequence[VolumeSpec]] = None,
        *,
        egress_allowlist: Optional[Sequence[str]] = None,
        egress_mbps: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        client: Optional[AsyncPandaStack] = None,
        cancel: Optional[CancelEvent] = None,
    ) -> S:
        """Create a sandbox; it is ready when this returns.

        Args:
            template: What it starts from; `code-interpreter` by default.
            cpu: Ignored, like `memory_mb`: the template defines the size.
            memory_mb: See `cpu`.
            metadata: Texts of your own, for finding it again.
            ttl_seconds: It is deleted when it is not used for this long.
            persistent: It sleeps instead of being deleted, and the `with` block keeps it.
            from_snapshot: A snapshot to start from, instead of a template.
            volumes: Volumes to attach: names, `Volume` objects, or `volume.mount(path)`.
            egress_allowlist: The only hosts that it may reach. An empty list allows none.
            egress_mbps: The rate of its network traffic.
            env: Environment variables of all its processes.
            client: The client to use, instead of the default one.
            cancel: An event, such as `threading.Event`, that gives up while the server is full.

        Raises:
            CapacityError: The server was full for all of `max_create_retry_seconds`.
        """
        del cpu, memory_mb
        sandbox = cls(
            template=template,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
            persistent=persistent,
            from_snapshot=from_snapshot,
            volumes=volumes,
            egress_allowlist=egress_allowlist,
            egress_mbps=egress_mbps,
            env=env,
            client=client,
            cancel=cancel,
        )
        return await sandbox._begin()

    @classmethod
    async def list(cls: Type[S], *, client: Optional[AsyncPandaStack] = None) -> List[S]:
        """All sandboxes of the workspace, newest first."""
        chosen = client or default_client()
        found = list_of(await chosen.transport.json(operations.get_sandboxes()), "items")
        return [cls.from_dict(data, chosen) for data in found]

    @classmethod
    async def get(
        cls: Type[S],
        sandbox_id: str,
        *,
        client: Optional[AsyncPandaStack] = None,
    ) -> S:
        """A sandbox that exists."""
        chosen = client or default_client()
        data = await chosen.transport.json(operations.get_sandboxes_id(sandbox_id))
        return cls.from_dict(data, chosen)

    @property
    def client(self) -> AsyncPandaStack:
        """The client that sends this sandbox's requests."""
        if self._client is None:
            self._client = default_client()
        return self._client

    @property
    def filesystem(self) -> AsyncSandboxFilesystem:
        """Its files."""
        return AsyncSandboxFilesystem(self)

    @property
    def files(self) -> AsyncSandboxFilesystem:
        """The same as `filesystem`."""
        return self.filesystem

    @property
    def commands(self) -> AsyncSandboxCommands:
        """Commands, also with output that is read while they run."""
        return AsyncSandboxCommands(self)

    @property
    def processes(self) -> AsyncSandboxProcesses:
        """Processes that keep running."""
        return AsyncSandboxProcesses(self)

    # Commands and code.

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
        return AsyncCodeContext(self, str(session), str(data.get("language") or name))

    async def code_contexts(self) -> List[AsyncCodeContext]:
        """The interpreters that run in this sandbox, oldest first."""
        call = operations.get_sandboxes_id_repl_sessions(self.id)
        found = await self.client.transport.json(call, READY)
        return [AsyncCodeContext(self, data["id"], data["language"]) for data in found]

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
        return AsyncCodeContext(self, known, language) if known else None

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

    # Copies.

    async def fork(
        self,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[CancelEvent] = None,
    ) -> Self:
        """Make a running copy of memory and disk. This sandbox keeps running."""
        _check_cancel(cancel)
        body: Optional[models.ForkRequest] = None
        if metadata is not None:
            body = {"metadata": dict(metadata)}
        call = operations.post_sandboxes_id_fork(self.id, body)
        data = await self.client.transport.json(call, Sending(creates=True, cancel=cancel))
        return self._child(_first_child(cast(Mapping[str, Any], data)))

    async def fork_tree(
        self,
        count: int,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[CancelEvent] = None,
    ) -> AsyncForkTree[Self]:
        """Make several running copies at once. The result is a list with `branches` and `promote`.

        It can be shorter than `count`: then `errors` tells why.
        """
        _check_cancel(cancel)
        body: models.ForkRequest = {"count": count}
        if metadata is not None:
            body["metadata"] = dict(metadata)
        call = operations.post_sandboxes_id_fork_tree(self.id, body)
        answer: Any = await self.client.transport.json(call, Sending(creates=True, cancel=cancel))
        children = list_of(answer, "children", "items", "sandboxes")
        return AsyncForkTree([self._child(child) for child in children], fields_of(answer))

    def _child(self, data: Any) -> Self:
        fields: Dict[str, Any] = dict(fields_of(data)) or {"id": str(data)}
        if "metadata" not in fields:
            fields["metadata"] = {"fork_parent_id": self.id}
        child = type(self).from_dict(fields, self.client)
        # The copy of the memory contains copies of the interpreters.
        child._contexts = dict(self._contexts)
        return child

    async def promote(
        self,
        tree_id: Optional[str] = None,
        cleanup_siblings: bool = False,
    ) -> models.Promotion:
        """Keep this copy of a tree; with `cleanup_siblings` its siblings are deleted.

        Without `tree_id` it is the tree that made this copy.
        """
        body: models.PromoteRequest = {"cleanup_siblings": cleanup_siblings}
        if tree_id is not None:
            body["tree_id"] = tree_id
        call = operations.post_sandboxes_id_promote(self.id, body)
        return await self.client.transport.json(call)

    async def explore(
        self,
        candidates: Sequence[Union[AsyncCandidate, str]],
        **options: Any,
    ) -> AsyncExploreResult:
        """Try several candidates in copies, and keep the best. See `pandastack.explore`."""
        from .explore import explore

        return await explore(self, candidates, **options)

    async def tree(self) -> models.FamilyTree:
        """Ancestors, siblings and descendants."""
        return await self.client.transport.json(operations.get_sandboxes_id_tree(self.id))

    async def snapshot(self) -> str:
        """Save memory and disk. Returns the snapshot's id, for `Sandbox.from_snapshot`."""
        call = operations.post_sandboxes_id_snapshots(self.id)
        seconds = max(_SNAPSHOT_SECONDS, self.client.transport.settings.timeout)
        data: Mapping[str, Any] = await self.client.transport.json(call, Sending(timeout=seconds))
        return str(data.get("id") or data.get("snapshot_id"))

    # Life.

    async def kill(self) -> None:
        """Delete the sandbox."""
        if self.id:
            await self.client.transport.empty(operations.delete_sandboxes_id(self.id))
            self.status = "deleted"

    async def aclose(self) -> None:
        """End the use of the sandbox: it is deleted, unless it is persistent.

        It is not an error if it is already gone.
        """
        if not self.id or self.persistent or self.status == "deleted":
            return
        call = operations.delete_sandboxes_id(self.id)
        with suppress(NotFoundError):
            # Unlike `kill`, a 404 is a success here, so there is no need to ask twice.
            await self.client.transport.empty(call, Sending(repeats=False))
        self.status = "deleted"

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        del kind, trace
        try:
            # Also if the task was cancelled: nobody else deletes the sandbox.
            await flavour.shielded(self.aclose)
        except PandastackError:
            # What happened in the block is more important.
            if error is None:
                raise

    async def pause(self) -> None:
        """Stop the CPUs; the memory stays."""
        await self.client.transport.empty(operations.post_sandboxes_id_pause(self.id))
        self.status = "paused"

    async def resume(self) -> None:
        """Let a paused sandbox run again."""
        await self.client.transport.empty(operations.post_sandboxes_id_resume(self.id))
        self.status = "running"

    async def hibernate(self) -> None:
        """Save memory and disk, and end the machine. The next use wakes it."""
        call = operations.post_sandboxes_id_hibernate(self.id)
        self._took(await self.client.transport.json(call), "hibernated")

    async def wake(self) -> None:
        """Wake a hibernated sandbox. It is not an error if it is awake."""
        call = operations.post_sandboxes_id_wake(self.id)
        self._took(await self.client.transport.json(call), "running")

    def _took(self, answer: Optional[models.Status], otherwise: str) -> None:
        self.status = answer["status"] if answer else otherwise

    async def lifecycle(self) -> models.Lifecycle:
        """The idle limit, and how long the sandbox has not been used."""
        return await self.client.transport.json(operations.get_sandboxes_id_lifecycle(self.id))

    async def set_ttl(self, seconds: int) -> models.Lifecycle:
        """Change the idle limit."""
        call = operations.patch_sandboxes_id_lifecycle(self.id, {"ttl_seconds": seconds})
        return await self._changed(await self.client.transport.json(call))

    async def set_persistent(self, persistent: bool) -> models.Lifecycle:
        """Choose whether the sandbox sleeps at the idle limit instead of being deleted."""
        call = operations.patch_sandboxes_id_lifecycle(self.id, {"persistent": persistent})
        return await self._changed(await self.client.transport.json(call))

    async def _changed(self, lifecycle: models.Lifecycle) -> models.Lifecycle:
        self.ttl_seconds = lifecycle["ttl_seconds"]
        self.persistent = lifecycle["persistent"]
        return lifecycle

    async def refresh(self) -> Self:
        """Ask for the current state."""
        self._load(await self.client.transport.json(operations.get_sandboxes_id(self.id)))
        return self

    # Network, volumes, logs.

    async def egress(self) -> Optional[List[str]]:
        """The hosts that the sandbox may reach; None if there is no such list."""
        call = operations.get_sandboxes_id_egress(self.id)
        return (await self.client.transport.json(call))["egress_allowlist"]

    async def set_egress(self, allowlist: Optional[Sequence[str]]) -> Optional[List[str]]:
        """Replace the list of hosts, at once. None removes it; an empty list allows no host."""
        hosts = None if allowlist is None else list(allowlist)
        call = operations.put_sandboxes_id_egress(self.id, {"egress_allowlist": hosts})
        self.egress_allowlist = (await self.client.transport.json(call))["egress_allowlist"]
        return self.egress_allowlist

    async def attach_volume(
        self,
        volume: VolumeSpec,
        path: Optional[str] = None,
    ) -> models.VolumeAttachment:
        """The attachment of a volume.

        Volumes are attached when a sandbox is created. So this returns the attachment if the
        sandbox was created with the volume (at that path, if one is given).

        Raises:
            ConflictError: The sandbox was created without it.
        """
        wanted = volume_body(volume)
        place = path or wanted.get("mount_path")
        await self.refresh()
        for attachment in self.volumes:
            name = attachment["name"]
            if name == wanted["name"] and place in {None, attachment.get("mount_path")}:
                return attachment
        where = f"volume.mount({place!r})" if place else "volume"
        raise ConflictError(
            f"volume {wanted['name']!r} is not attached. Volumes are attached when a sandbox is "
            f"created: pass volumes=[{where}] then",
            code="volume.not_attached",
        )

    def preview_url(self, port: int, scheme: Optional[str] = None) -> str:
        """The public address of a port. Everybody who knows it can open it.

        For an API URL with `https` it is `https://PORT-ID.HOST`. A server of your own, with
        `http`, serves previews on the same port as its API.
        """
        check_port(port)
        return self.client.preview_address(f"{port}-{self.id}", scheme)

    async def preview_urls(self) -> Dict[int, str]:
        """The public addresses of all known ports."""
        answer: Any = await self.client.transport.json(
            operations.get_sandboxes_id_ports(self.id), READY
        )
        found = list_of(answer, "ports")
        ports = [int(fields_of(item).get("port", item)) for item in found]
        return {port: self.preview_url(port) for port in ports}

    async def ports(self) -> List[models.Port]:
        """The ports that programs listen on, and those that were declared."""
        call = operations.get_sandboxes_id_ports(self.id)
        return await self.client.transport.json(call, READY)

    async def declare_port(self, port: int, label: Optional[str] = None) -> models.Port:
        """List a port even if nothing listens on it yet."""
        body: models.DeclarePort = {"port": check_port(port)}
        if label is not None:
            body["label"] = label
        return await self.client.transport.json(operations.post_sandboxes_id_ports(self.id, body))

    async def forget_port(self, port: int) -> None:
        """Remove the declaration of a port."""
        call = operations.delete_sandboxes_id_ports_port(self.id, check_port(port))
        await self.client.transport.empty(call)

    async def create_preview(
        self,
        port: int,
        *,
        paths: Optional[Sequence[str]] = None,
        ttl_seconds: Optional[int] = None,
    ) -> models.Preview:
        """Make a signed link to a port, for some paths and a limited time."""
        body: models.PreviewRequest = {"port": check_port(port)}
        if paths is not None:
            body["paths"] = list(paths)
        if ttl_seconds is not None:
            body["ttl_seconds"] = ttl_seconds
        call = operations.post_sandboxes_id_preview_token(self.id, body)
        return await self.client.transport.json(call)

    async def logs(
        self,
        stream: str = "both",
        follow: bool = False,
        *,
        tail: Optional[int] = None,
    ) -> AsyncGenerator[str, None]:
        """The lines of the console; with `follow` also those to come."""
        transport = self.client.transport
        if not follow:
            call = operations.get_sandboxes_id_logs(self.id, follow=False, stream=stream, tail=tail)
            for line in (await transport.text(call)).splitlines():
                yield line
            return
        followed = operations.get_sandboxes_id_logs_stream(
            self.id, follow=True, stream=stream, tail=tail
        )
        async with flavour.closing(transport.events(followed)) as events:
            async for event in events:
                fields = event.json()
                yield str(fields.get("line", fields.get("chunk", ""))).rstrip("\n")

    async def events(
        self,
        *,
        tail: Optional[int] = None,
        since: Optional[str] = None,
    ) -> List[models.Event]:
        """What happened to the sandbox, oldest first."""
        call = operations.get_sandboxes_id_events(self.id, tail=tail, since=since)
        return (await self.client.transport.json(call))["events"]

    async def follow_events(
        self,
        *,
        tail: Optional[int] = None,
        since: Optional[str] = None,
    ) -> AsyncGenerator[models.Event, None]:
        """Iterate over what happens to the sandbox."""
        call = operations.get_sandboxes_id_events_stream(
            self.id, tail=tail, since=since, follow=True
        )
        async with flavour.closing(self.client.transport.events(call)) as events:
            async for event in events:
                if event.event == "event":
                    yield cast(models.Event, event.json())

    async def metrics(self) -> models.MachineMetrics:
        """What the machine uses now."""
        return await self.client.transport.json(operations.get_sandboxes_id_metrics(self.id))

    async def usage_over_time(
        self,
        *,
        start: Optional[str] = None,
        end: Optional[str] = None,
        range: Optional[str] = None,
        step: Any = None,
    ) -> models.MetricSeries:
        """What the machine used, as series over time."""
        call = operations.get_metrics_sandbox_id(
            self.id, from_=start, to=end, range=range, step=step
        )
        return await self.client.transport.json(call)

    async def mcp(self, message: Mapping[str, Any]) -> Any:
        """Send a message of the Model Context Protocol to the sandbox's tools."""
        call = operations.post_sandboxes_id_mcp(self.id, dict(message))
        return await self.client.transport.json(call, READY)


def default_client() -> AsyncPandaStack:
    from .client import get_default_client

    return get_default_client()


def _first_child(data: Mapping[str, Any]) -> Any:
    if data.get("sandbox"):
        return data["sandbox"]
    children = data.get("children")
    return children[0] if children else data


def _check_cancel(cancel: Optional[CancelEvent]) -> None:
    if not is_cancel_event(cancel):
        raise TypeError("cancel must be a blocking event such as threading.Event")


def _failed(cmd: str, result: Union[ExecResult, Execution]) -> CommandFailed:
    last = result.stderr.strip().splitlines()
    return CommandFailed(
        f"the command {cmd[:80]!r} exited with code {result.exit_code}"
        + (f": {last[-1]}" if last else ""),
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
    )
