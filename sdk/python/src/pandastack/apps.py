"""Apps that are deployed from a Git repository."""

from __future__ import annotations

from ._sync.platform import AppsAPI

__all__ = ["AppsAPI"]
