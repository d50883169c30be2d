"""The sandboxes of the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, AsyncGenerator, List, Mapping, Optional, Sequence

from .._core import operations
from .sandbox import AsyncSandbox

if TYPE_CHECKING:
    from .._core import models
    from .._retry import CancelEvent
    from .._sandbox_fields import MachineKind, VolumeSpec
    from .client import AsyncPandaStack
    from .copies import AsyncForkTree

_PAGE = 100


class AsyncSandboxAPI:
    """Creates, finds and deletes sandboxes."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def create(
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
    ) -> AsyncSandbox:
        """Create a sandbox; it is ready when this returns. See `Sandbox.create`."""
        return await AsyncSandbox.create(
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

    async def list(self, *, kind: Optional[MachineKind] = None) -> List[AsyncSandbox]:
        """All sandboxes, newest first.

        The machines of managed databases are left out, unless `kind` is `database` or `all`.
        """
        return await AsyncSandbox.list(kind=kind, client=self._client)

    async def iterate(
        self, *, page: int = _PAGE, kind: Optional[MachineKind] = None
    ) -> AsyncGenerator[AsyncSandbox, None]:
        """Iterate over all sandboxes, newest first, without fetching them all at once."""
        after: Optional[str] = None
        while True:
            call = operations.get_sandboxes(limit=page, after=after, kind=kind)
            found = await self._client.transport.json(call)
            for data in found:
                yield AsyncSandbox.from_dict(data, self._client)
            if len(found) < page:
                return
            after = found[-1]["id"]

    async def get(self, sandbox_id: str) -> AsyncSandbox:
        """A sandbox that exists."""
        return await AsyncSandbox.get(sandbox_id, client=self._client)

    async def fork(
        self,
        sandbox_id: str,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[CancelEvent] = None,
    ) -> AsyncSandbox:
        """Make a running copy of a sandbox."""
        return await self._named(sandbox_id).fork(metadata, cancel=cancel)

    async def fork_tree(
        self,
        sandbox_id: str,
        count: int,
        metadata: Optional[Mapping[str, str]] = None,
        *,
        cancel: Optional[CancelEvent] = None,
    ) -> AsyncForkTree[AsyncSandbox]:
        """Make several running copies of a sandbox at once."""
        return await self._named(sandbox_id).fork_tree(count, metadata, cancel=cancel)

    async def promote(
        self,
        sandbox_id: str,
        *,
        cleanup_siblings: bool = False,
        tree_id: Optional[str] = None,
    ) -> models.Promotion:
        """Keep one copy of a tree."""
        return await self._named(sandbox_id).promote(
            cleanup_siblings=cleanup_siblings, tree_id=tree_id
        )

    async def delete(self, sandbox_id: str) -> None:
        """Delete a sandbox."""
        await self._client.transport.empty(operations.delete_sandboxes_id(sandbox_id))

    def _named(self, sandbox_id: str) -> AsyncSandbox:
        """A sandbox of which only the id is known; nothing is asked for."""
        return AsyncSandbox(id=sandbox_id, client=self._client)
