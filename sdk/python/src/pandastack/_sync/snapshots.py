# Written by scripts/write_sync.py from _async/snapshots.py. Do not edit.
"""Snapshots: memory and disk of a sandbox at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional

from .._core import operations
from .._wire import list_of

if TYPE_CHECKING:
    from .._core import models
    from .client import PandaStack


class SnapshotsAPI:
    """The snapshots of the workspace. `Sandbox.snapshot` makes one."""

    def __init__(self, client: PandaStack) -> None:
        self._client = client

    def list(self, *, sandbox_id: Optional[str] = None) -> List[models.Snapshot]:
        """All snapshots, newest first."""
        call = operations.get_snapshots(sandbox_id=sandbox_id)
        return list_of(self._client.transport.json(call), "snapshots", "items")

    def get(self, snapshot_id: str) -> models.Snapshot:
        return self._client.transport.json(operations.get_snapshots_snapshot(snapshot_id))

    def delete(self, snapshot_id: str) -> None:
        self._client.transport.empty(operations.delete_snapshots_snapshot(snapshot_id))
