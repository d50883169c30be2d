"""Managed PostgreSQL databases."""

from __future__ import annotations

from ._sync.platform import DatabasesAPI

__all__ = ["DatabasesAPI"]
