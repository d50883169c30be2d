"""Everything that happens in a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, AsyncGenerator, List, Optional, cast

from .._core import models, operations
from ..exceptions import APIConnectionError, ServerError
from . import flavour

if TYPE_CHECKING:
    from .._sandbox_fields import MachineKind
    from .client import AsyncPandaStack

_FIRST_DELAY = 0.25
_MAX_DELAY = 10.0


class AsyncEventsAPI:
    """The events of the workspace."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def list(
        self,
        *,
        limit: Optional[int] = None,
        since: Optional[str] = None,
        kind: Optional[MachineKind] = None,
    ) -> List[models.WorkspaceEvent]:
        """The last events, oldest first. `since` is the id of an event that is known.

        Events of the machines of databases are left out, unless `kind` is `database` or `all`.
        """
        call = operations.get_events(limit=limit, since=since, kind=kind)
        return (await self._client.transport.json(call))["events"]

    async def follow(
        self, *, since: Optional[str] = None, kind: Optional[MachineKind] = None
    ) -> AsyncGenerator[models.WorkspaceEvent, None]:
        """Iterate over events as they happen, without an end.

        A broken stream is opened again after the last event. An event of the kind `reset` means
        that events were missed: read again what you have read before.
        """
        delay = _FIRST_DELAY
        while True:
            try:
                call = operations.get_events_stream(since=since, kind=kind, follow=True)
                async with flavour.closing(self._client.transport.events(call)) as events:
                    async for event in events:
                        delay = _FIRST_DELAY
                        fields = event.json()
                        if event.event == "event":
                            since = str(fields["id"])
                            yield cast(models.WorkspaceEvent, fields)
                        elif event.event in {"ready", "reset"}:
                            since = str(fields["cursor"])
                            if event.event == "reset":
                                yield {"id": since, "ts": "", "kind": "reset", "payload": {}}
            except (APIConnectionError, ServerError):
                pass
            await flavour.sleep(delay)
            delay = min(_MAX_DELAY, delay * 2)
