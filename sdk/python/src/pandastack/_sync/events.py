# Written by scripts/write_sync.py from _async/events.py. Do not edit.
"""Everything that happens in a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generator, List, Optional, cast

from .._core import models, operations
from ..exceptions import APIConnectionError, ServerError
from . import flavour

if TYPE_CHECKING:
    from .._sandbox_fields import MachineKind
    from .client import PandaStack

_FIRST_DELAY = 0.25
_MAX_DELAY = 10.0


class EventsAPI:
    """The events of the workspace."""

    def __init__(self, client: PandaStack) -> None:
        self._client = client

    def list(
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
        return self._client.transport.json(call)["events"]

    def follow(
        self, *, since: Optional[str] = None, kind: Optional[MachineKind] = None
    ) -> Generator[models.WorkspaceEvent, None, None]:
        """Iterate over events as they happen, without an end.

        A broken stream is opened again after the last event. An event of the kind `reset` means
        that events were missed: read again what you have read before.
        """
        delay = _FIRST_DELAY
        while True:
            try:
                call = operations.get_events_stream(since=since, kind=kind, follow=True)
                with flavour.closing(self._client.transport.events(call)) as events:
                    for event in events:
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
            flavour.sleep(delay)
            delay = min(_MAX_DELAY, delay * 2)
