"""Snapshots: memory and disk of a sandbox at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional

from .._core import operations
from .._wire import list_of

if TYPE_CHECKING:
    from .._core import models
    from .client import AsyncPandaStack


class AsyncSnapshotsAPI:
    """The snapshots of the workspace. `Sandbox.snapshot` makes one."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def list(self, *, sandbox_id: Optional[str] = None) -> List[models.Snapshot]:
        """All snapshots, newest first."""
        call = operations.get_snapshots(sandbox_id=sandbox_id)
        return list_of(await self._client.transport.json(call), "snapshots", "items")

    async def get(self, snapshot_id: str) -> models.Snapshot:
        return await self._client.transport.json(operations.get_snapshots_snapshot(snapshot_id))

    async def delete(self, snapshot_id: str) -> None:
        await self._client.transport.empty(operations.delete_snapshots_snapshot(snapshot_id))
