# Written by scripts/write_sync.py from _async/sandboxes.py. Do not edit.
"""The sandboxes of the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generator, List, Mapping, Optional, Sequence

from .._core import operations
from .sandbox import Sandbox

if TYPE_CHECKING:
    from .._core import models
    from .._retry import CancelEvent
    from .._sandbox_fields import MachineKind, VolumeSpec
    from .client import PandaStack
    from .copies import ForkTree

_PAGE = 100


class SandboxAPI:
    """Creates, finds and deletes sandboxes."""

    def __init__(self, client: PandaStack) -> None:
        self._client = client

    def create(
        self,
        template: Optional[str] = None,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        ttl_seconds: Optional[int] = None,
        persistent: bool = False,
        metadata: Optional[Mapping[str, str]] = None,
        from_snapshot: Optional[str] = None,
        volumes: Optional[Sequence[VolumeSpec]] = None,
        *,
        egress_allowlist: Optional[Sequence[str]] = None,
        egress_mbps: Optional[int] = None,
        env: Optional[Mapping[str, str]] = None,
        cancel: Optional[CancelEvent] = None,
    ) -> Sandbox:
        """Create a sandbox; it is ready when this returns. See `Sandbox.create`."""
        return Sandbox.create(
            template,
            cpu,
            memory_mb,
            metadata,
            ttl_seconds,
            persistent,
            from_snapshot,
            volumes,
            egress_allowlist=egress_allowlist,
            egress_mbps=egress_mbps,
            env=env,
            client=self._client,
            cancel=cancel,
        )

    def list(self, *, kind: Optional[MachineKind] = None) -> List[Sandbox]:
        """All sandboxes, newest first.

        The machines of managed databases are left out, unless `kind` is `database` or `all`.
        """
        return Sandbox.list(kind=kind, client=self._client)

    def iterate(
        self, *, page: int = _PAGE, kind: Optional[MachineKind] = None
    ) -> Generator[Sandbox, None, None]:
        """Iterate over all sandboxes, newest first, without fetching them all at once."""
        after: Optional[str] = None
        while True:
            call = operations.get_sandboxes(limit=page, after=after, kind=kind)
            found = self._client.transport.json(call)
            for data in found:
                yield Sandbox.from_dict(data, self._client)
            if len(found) < page:
                return
            after = found[-1]["id"]

    def get(self, sandbox_id: str) -> Sandbox:
        """A sandbox that exists."""
        return Sandbox.get(sandbox_id, client=self._client)

    def fork(
        self,
        sandbox_id: str,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[CancelEvent] = None,
    ) -> Sandbox:
        """Make a running copy of a sandbox."""
        return self._named(sandbox_id).fork(metadata, cancel=cancel)

    def fork_tree(
        self,
        sandbox_id: str,
        count: int,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[CancelEvent] = None,
    ) -> ForkTree[Sandbox]:
        """Make several running copies of a sandbox at once."""
        return self._named(sandbox_id).fork_tree(count, metadata, cancel=cancel)

    def promote(
        self,
        sandbox_id: str,
        *,
        cleanup_siblings: bool = False,
        tree_id: Optional[str] = None,
    ) -> models.Promotion:
        """Keep one copy of a tree."""
        return self._named(sandbox_id).promote(cleanup_siblings=cleanup_siblings, tree_id=tree_id)

    def delete(self, sandbox_id: str) -> None:
        """Delete a sandbox."""
        self._client.transport.empty(operations.delete_sandboxes_id(sandbox_id))

    def _named(self, sandbox_id: str) -> Sandbox:
        """A sandbox of which only the id is known; nothing is asked for."""
        return Sandbox(id=sandbox_id, client=self._client)
