"""Schedules, which run functions at certain times."""

from __future__ import annotations

from ._sync.platform import SchedulesAPI

__all__ = ["SchedulesAPI"]
