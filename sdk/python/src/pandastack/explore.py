"""Best of several attempts: each runs in a copy of a sandbox, and the best copy is kept."""

from __future__ import annotations

from ._sync.explore import (
    MAX_BRANCHES,
    BranchOutcome,
    Candidate,
    ExploreError,
    ExploreResult,
    explore,
)

__all__ = [
    "BranchOutcome",
    "Candidate",
    "ExploreError",
    "ExploreResult",
    "MAX_BRANCHES",
    "explore",
]
