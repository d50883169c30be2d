# Written by scripts/write_sync.py from _async/state.py. Do not edit.
"""The state of a sandbox: whether it runs, sleeps or is gone, and how long it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from .._core import operations
from .._sandbox_fields import SandboxFields

if TYPE_CHECKING:
    from typing_extensions import Self

    from .._core import models
    from .client import PandaStack


class SandboxState(SandboxFields):
    """What changes the state of a sandbox. A part of `Sandbox`."""

    def __init__(self, client: Optional[PandaStack]) -> None:
        self._client = client

    @property
    def client(self) -> PandaStack:
        """The client that sends this sandbox's requests."""
        if self._client is None:
            self._client = default_client()
        return self._client

    def kill(self) -> None:
        """Delete the sandbox."""
        if self.id:
            self.client.transport.empty(operations.delete_sandboxes_id(self.id))
            self.status = "deleted"

    def pause(self) -> None:
        """Stop the CPUs; the memory stays."""
        self.client.transport.empty(operations.post_sandboxes_id_pause(self.id))
        self.status = "paused"

    def resume(self) -> None:
        """Let a paused sandbox run again."""
        self.client.transport.empty(operations.post_sandboxes_id_resume(self.id))
        self.status = "running"

    def hibernate(self) -> None:
        """Save memory and disk, and end the machine. The next use wakes it."""
        call = operations.post_sandboxes_id_hibernate(self.id)
        self._took(self.client.transport.json(call), "hibernated")

    def wake(self) -> None:
        """Wake a hibernated sandbox. It is not an error if it is awake."""
        call = operations.post_sandboxes_id_wake(self.id)
        self._took(self.client.transport.json(call), "running")

    def _took(self, answer: Optional[models.Status], otherwise: str) -> None:
        self.status = answer["status"] if answer else otherwise

    def lifecycle(self) -> models.Lifecycle:
        """The idle limit, and how long the sandbox has not been used."""
        return self.client.transport.json(operations.get_sandboxes_id_lifecycle(self.id))

    def set_ttl(self, seconds: int) -> models.Lifecycle:
        """Change the idle limit."""
        call = operations.patch_sandboxes_id_lifecycle(self.id, {"ttl_seconds": seconds})
        return self._changed(self.client.transport.json(call))

    def set_persistent(self, persistent: bool) -> models.Lifecycle:
        """Choose whether the sandbox sleeps at the idle limit instead of being deleted."""
        call = operations.patch_sandboxes_id_lifecycle(self.id, {"persistent": persistent})
        return self._changed(self.client.transport.json(call))

    def _changed(self, lifecycle: models.Lifecycle) -> models.Lifecycle:
        self.ttl_seconds = lifecycle["ttl_seconds"]
        self.persistent = lifecycle["persistent"]
        return lifecycle

    def refresh(self) -> Self:
        """Ask for the current state."""
        self._load(self.client.transport.json(operations.get_sandboxes_id(self.id)))
        return self


def default_client() -> PandaStack:
    from .client import get_default_client

    return get_default_client()
