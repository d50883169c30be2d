"""Snapshots of sandboxes."""

from __future__ import annotations

from ._sync.snapshots import SnapshotsAPI

__all__ = ["SnapshotsAPI"]
