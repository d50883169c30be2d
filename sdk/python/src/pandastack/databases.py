"""Managed PostgreSQL databases."""

from __future__ import annotations

from ._queries import QueryColumn, QueryResult
from ._sync.databases import Database, DatabasesAPI

__all__ = ["Database", "DatabasesAPI", "QueryColumn", "QueryResult"]
