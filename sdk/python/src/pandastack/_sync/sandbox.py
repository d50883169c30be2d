# Written by scripts/write_sync.py from _async/sandbox.py. Do not edit.
"""A sandbox: one machine, and everything that can be done with it."""

from __future__ import annotations

from contextlib import suppress
from typing import (
    TYPE_CHECKING,
    Any,
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

from .._core import operations
from .._retry import Sending
from .._sandbox_fields import DEFAULT_TEMPLATE, create_body
from .._wire import fields_of, list_of
from ..exceptions import NotFoundError, PandastackError
from . import flavour
from .copies import ForkTree, FromSnapshot
from .running import SandboxRunning
from .state import default_client
from .surroundings import SandboxSurroundings
from .transport import is_cancel_event

if TYPE_CHECKING:
    from typing_extensions import Self

    from .._core import models
    from .._retry import CancelEvent
    from .._sandbox_fields import MachineKind, VolumeSpec
    from .client import PandaStack
    from .explore import Candidate, ExploreResult

S = TypeVar("S", bound="Sandbox")

_SNAPSHOT_SECONDS = 180.0


class Sandbox(SandboxRunning, SandboxSurroundings):
    """A sandbox.

    It is deleted at the end of the `with` block, unless it is persistent:

        with Sandbox(template="code-interpreter") as sandbox:
            print(sandbox.exec("uname -a").stdout)

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
        _client: Optional[PandaStack] = None,
        *,
        ttl_seconds: Optional[int] = None,
        volumes: Optional[Sequence[VolumeSpec]] = None,
        egress_allowlist: Optional[Sequence[str]] = None,
        egress_mbps: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        client: Optional[PandaStack] = None,
        cancel: Optional[CancelEvent] = None,
    ) -> None:
        super().__init__(client or _client)
        self._cancel = cancel
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
        self._begin()

    def _begin(self) -> Self:
        """Create the sandbox that the constructor describes, if that has not happened."""
        if self._pending is not None:
            _check_cancel(self._cancel)
            call = operations.post_sandboxes(self._pending)
            sending = Sending(creates=True, cancel=self._cancel)
            self._load(self.client.transport.json(call, sending))
            self._pending = None
        return self

    @classmethod
    def from_dict(
        cls: Type[S],
        data: Mapping[str, Any],
        client: PandaStack,
        persistent: bool = False,
    ) -> S:
        """A sandbox from an answer of the API."""
        sandbox = cls(id=str(data["id"]), client=client)
        sandbox._load(data)
        sandbox.persistent = sandbox.persistent or persistent
        return sandbox

    @classmethod
    def create(
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
        client: Optional[PandaStack] = None,
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
        return sandbox._begin()

    @classmethod
    def list(
        cls: Type[S],
        *,
        kind: Optional[MachineKind] = None,
        client: Optional[PandaStack] = None,
    ) -> List[S]:
        """All sandboxes of the workspace, newest first, without the machines of databases.

        `kind` asks for those: `database`, or `all`.
        """
        chosen = client or default_client()
        found = list_of(chosen.transport.json(operations.get_sandboxes(kind=kind)), "items")
        return [cls.from_dict(data, chosen) for data in found]

    @classmethod
    def get(
        cls: Type[S],
        sandbox_id: str,
        *,
        client: Optional[PandaStack] = None,
    ) -> S:
        """A sandbox that exists."""
        chosen = client or default_client()
        data = chosen.transport.json(operations.get_sandboxes_id(sandbox_id))
        return cls.from_dict(data, chosen)

    # Copies.

    def fork(
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
        data = self.client.transport.json(call, Sending(creates=True, cancel=cancel))
        return self._child(_first_child(cast(Mapping[str, Any], data)))

    def fork_tree(
        self,
        count: int,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[CancelEvent] = None,
    ) -> ForkTree[Self]:
        """Make several running copies at once. The result is a list with `branches` and `promote`.

        It can be shorter than `count`: then `errors` tells why.
        """
        _check_cancel(cancel)
        body: models.ForkRequest = {"count": count}
        if metadata is not None:
            body["metadata"] = dict(metadata)
        call = operations.post_sandboxes_id_fork_tree(self.id, body)
        answer: Any = self.client.transport.json(call, Sending(creates=True, cancel=cancel))
        children = list_of(answer, "children", "items", "sandboxes")
        return ForkTree([self._child(child) for child in children], fields_of(answer))

    def _child(self, data: Any) -> Self:
        fields: Dict[str, Any] = dict(fields_of(data)) or {"id": str(data)}
        if "metadata" not in fields:
            fields["metadata"] = {"fork_parent_id": self.id}
        child = type(self).from_dict(fields, self.client)
        # The copy of the memory contains copies of the interpreters.
        child._contexts = dict(self._contexts)
        return child

    def promote(
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
        return self.client.transport.json(call)

    def diff(self, other: Union[Sandbox, str], *, path: Optional[str] = None) -> models.BranchDiff:
        """Compare files and processes with another sandbox. Wakes both.

        `path` compares only what is below it.
        """
        name = other if isinstance(other, str) else other.id
        call = operations.get_sandboxes_id_diff(self.id, with_=name, path=path)
        return self.client.transport.json(call)

    def explore(
        self,
        candidates: Sequence[Union[Candidate, str]],
        **options: Any,
    ) -> ExploreResult:
        """Try several candidates in copies, and keep the best. See `pandastack.explore`."""
        from .explore import explore

        return explore(self, candidates, **options)

    def tree(self) -> models.FamilyTree:
        """Ancestors, siblings and descendants."""
        return self.client.transport.json(operations.get_sandboxes_id_tree(self.id))

    def snapshot(self) -> str:
        """Save memory and disk. Returns the snapshot's id, for `Sandbox.from_snapshot`."""
        call = operations.post_sandboxes_id_snapshots(self.id)
        seconds = max(_SNAPSHOT_SECONDS, self.client.transport.settings.timeout)
        data: Mapping[str, Any] = self.client.transport.json(call, Sending(timeout=seconds))
        return str(data.get("id") or data.get("snapshot_id"))

    # The `with` block.

    def close(self) -> None:
        """End the use of the sandbox: it is deleted, unless it is persistent.

        It is not an error if it is already gone.
        """
        if not self.id or self.persistent or self.status == "deleted":
            return
        call = operations.delete_sandboxes_id(self.id)
        with suppress(NotFoundError):
            # Unlike `kill`, a 404 is a success here, so there is no need to ask twice.
            self.client.transport.empty(call, Sending(repeats=False))
        self.status = "deleted"

    def __enter__(self) -> Self:
        return self._begin()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        del kind, trace
        try:
            # Also if the task was cancelled: nobody else deletes the sandbox.
            flavour.shielded(self.close)
        except PandastackError:
            # What happened in the block is more important.
            if error is None:
                raise


def _first_child(data: Mapping[str, Any]) -> Any:
    if data.get("sandbox"):
        return data["sandbox"]
    children = data.get("children")
    return children[0] if children else data


def _check_cancel(cancel: Optional[CancelEvent]) -> None:
    if not is_cancel_event(cancel):
        raise TypeError("cancel must be a blocking event such as threading.Event")
