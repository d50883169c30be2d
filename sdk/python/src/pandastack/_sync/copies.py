# Written by scripts/write_sync.py from _async/copies.py. Do not edit.
"""What copies of a sandbox come in: fork trees, and restores from snapshots."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
    overload,
)

if TYPE_CHECKING:
    from .._core import models
    from .._retry import CancelEvent
    from .._sandbox_fields import SandboxFields
    from .client import PandaStack
    from .sandbox import Sandbox

S = TypeVar("S", bound="Sandbox")


class ForkTree(List[S]):
    """The copies that `fork_tree` made: a list of sandboxes with the id of their tree.

    Example:
        tree = sandbox.fork_tree(4)
        best = max(tree.branches, key=score)
        tree.promote(best, cleanup_siblings=True)
    """

    def __init__(self, branches: Sequence[S], data: Mapping[str, Any]) -> None:
        super().__init__(branches)
        self.tree_id = str(data.get("tree_id") or "")
        self.parent_id = str(data.get("parent_id") or "")
        self.snapshot_id = str(data.get("snapshot_id") or "")
        # Why some of the copies could not be made.
        self.errors: List[models.ForkFailure] = list(data.get("errors") or [])

    @property
    def branches(self) -> List[S]:
        """The sandboxes of the tree."""
        return list(self)

    def promote(
        self,
        winner: Union[S, str],
        cleanup_siblings: bool = True,
    ) -> models.Promotion:
        """Keep one branch; by default the other branches are deleted."""
        branch = self._find(winner) if isinstance(winner, str) else winner
        return branch.promote(tree_id=self.tree_id or None, cleanup_siblings=cleanup_siblings)

    def close(self) -> None:
        """Delete all branches."""
        for branch in self:
            branch.kill()

    def _find(self, sandbox_id: str) -> S:
        for branch in self:
            if branch.id == sandbox_id:
                return branch
        raise ValueError(f"{sandbox_id!r} is not a branch of this tree")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tree_id} of {self.parent_id}: {len(self)} branches>"


class Restore(Generic[S]):
    """Starts a sandbox from a snapshot."""

    def __init__(self, owner: Type[S]) -> None:
        self._owner = owner

    def __call__(
        self,
        snapshot_id: str,
        *,
        ttl_seconds: Optional[int] = None,
        persistent: bool = False,
        metadata: Optional[Mapping[str, str]] = None,
        egress_allowlist: Optional[Sequence[str]] = None,
        env: Optional[Mapping[str, str]] = None,
        client: Optional[PandaStack] = None,
        cancel: Optional[CancelEvent] = None,
    ) -> S:
        return self._owner.create(
            from_snapshot=snapshot_id,
            ttl_seconds=ttl_seconds,
            persistent=persistent,
            metadata=metadata,
            egress_allowlist=egress_allowlist,
            env=env,
            client=client,
            cancel=cancel,
        )


class FromSnapshot:
    """`Sandbox.from_snapshot(id)` starts a sandbox; `sandbox.from_snapshot` is an id, or None."""

    @overload
    def __get__(self, instance: None, owner: Type[S]) -> Restore[S]: ...

    @overload
    def __get__(self, instance: SandboxFields, owner: Type[Any]) -> Optional[str]: ...

    def __get__(self, instance: Optional[SandboxFields], owner: Type[Any]) -> Any:
        if instance is None:
            return Restore(owner)
        return instance._snapshot_id  # pyright: ignore[reportPrivateUsage]
