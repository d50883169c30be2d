"""Functions, which run when they are called."""

from __future__ import annotations

from ._sync.platform import FunctionsAPI

__all__ = ["FunctionsAPI"]
