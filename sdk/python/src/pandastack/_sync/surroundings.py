# Written by scripts/write_sync.py from _async/surroundings.py. Do not edit.
"""What is around a sandbox: its network, ports and volumes, and what is told about it."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Generator,
    List,
    Mapping,
    Optional,
    Sequence,
    cast,
)

from .._core import models, operations
from .._retry import READY
from .._sandbox_fields import check_port, volume_body
from .._wire import fields_of, list_of
from ..exceptions import ConflictError
from . import flavour
from .state import SandboxState

if TYPE_CHECKING:
    from .._sandbox_fields import VolumeSpec


class SandboxSurroundings(SandboxState):
    """Network, ports, volumes, logs and metrics of a sandbox. A part of `Sandbox`."""

    def egress(self) -> Optional[List[str]]:
        """The hosts that the sandbox may reach; None if there is no such list."""
        call = operations.get_sandboxes_id_egress(self.id)
        return self.client.transport.json(call)["egress_allowlist"]

    def set_egress(self, allowlist: Optional[Sequence[str]]) -> Optional[List[str]]:
        """Replace the list of hosts, at once. None removes it; an empty list allows no host."""
        hosts = None if allowlist is None else list(allowlist)
        call = operations.put_sandboxes_id_egress(self.id, {"egress_allowlist": hosts})
        self.egress_allowlist = self.client.transport.json(call)["egress_allowlist"]
        return self.egress_allowlist

    def attach_volume(
        self,
        volume: VolumeSpec,
        path: Optional[str] = None,
    ) -> models.VolumeAttachment:
        """The attachment of a volume.

        Volumes are attached when a sandbox is created. So this returns the attachment if the
        sandbox was created with the volume (at that path, if one is given).

        Raises:
            ConflictError: The sandbox was created without it.
        """
        wanted = volume_body(volume)
        place = path or wanted.get("mount_path")
        self.refresh()
        for attachment in self.volumes:
            name = attachment["name"]
            if name == wanted["name"] and place in {None, attachment.get("mount_path")}:
                return attachment
        where = f"volume.mount({place!r})" if place else "volume"
        raise ConflictError(
            f"volume {wanted['name']!r} is not attached. Volumes are attached when a sandbox is "
            f"created: pass volumes=[{where}] then",
            code="volume.not_attached",
        )

    def preview_url(self, port: int, scheme: Optional[str] = None) -> str:
        """The public address of a port. Everybody who knows it can open it.

        For an API URL with `https` it is `https://PORT-ID.HOST`. A server of your own, with
        `http`, serves previews on the same port as its API.
        """
        check_port(port)
        return self.client.preview_address(f"{port}-{self.id}", scheme)

    def preview_urls(self) -> Dict[int, str]:
        """The public addresses of all known ports."""
        answer: Any = self.client.transport.json(operations.get_sandboxes_id_ports(self.id), READY)
        found = list_of(answer, "ports")
        ports = [int(fields_of(item).get("port", item)) for item in found]
        return {port: self.preview_url(port) for port in ports}

    def ports(self) -> List[models.Port]:
        """The ports that programs listen on, and those that were declared."""
        call = operations.get_sandboxes_id_ports(self.id)
        return self.client.transport.json(call, READY)

    def declare_port(self, port: int, label: Optional[str] = None) -> models.Port:
        """List a port even if nothing listens on it yet."""
        body: models.DeclarePort = {"port": check_port(port)}
        if label is not None:
            body["label"] = label
        return self.client.transport.json(operations.post_sandboxes_id_ports(self.id, body))

    def forget_port(self, port: int) -> None:
        """Remove the declaration of a port."""
        call = operations.delete_sandboxes_id_ports_port(self.id, check_port(port))
        self.client.transport.empty(call)

    def create_preview(
        self,
        port: int,
        *,
        paths: Optional[Sequence[str]] = None,
        ttl_seconds: Optional[int] = None,
    ) -> models.Preview:
        """Make a signed link to a port, for some paths and a limited time."""
        body: models.PreviewRequest = {"port": check_port(port)}
        if paths is not None:
            body["paths"] = list(paths)
        if ttl_seconds is not None:
            body["ttl_seconds"] = ttl_seconds
        call = operations.post_sandboxes_id_preview_token(self.id, body)
        return self.client.transport.json(call)

    def logs(
        self,
        stream: str = "both",
        follow: bool = False,
        *,
        tail: Optional[int] = None,
    ) -> Generator[str, None, None]:
        """The lines of the console; with `follow` also those to come."""
        transport = self.client.transport
        if not follow:
            call = operations.get_sandboxes_id_logs(self.id, follow=False, stream=stream, tail=tail)
            for line in transport.text(call).splitlines():
                yield line
            return
        followed = operations.get_sandboxes_id_logs_stream(
            self.id, follow=True, stream=stream, tail=tail
        )
        with flavour.closing(transport.events(followed)) as events:
            for event in events:
                fields = event.json()
                yield str(fields.get("line", fields.get("chunk", ""))).rstrip("\n")

    def events(
        self,
        *,
        tail: Optional[int] = None,
        since: Optional[str] = None,
    ) -> List[models.Event]:
        """What happened to the sandbox, oldest first."""
        call = operations.get_sandboxes_id_events(self.id, tail=tail, since=since)
        return self.client.transport.json(call)["events"]

    def follow_events(
        self,
        *,
        tail: Optional[int] = None,
        since: Optional[str] = None,
    ) -> Generator[models.Event, None, None]:
        """Iterate over what happens to the sandbox."""
        call = operations.get_sandboxes_id_events_stream(
            self.id, tail=tail, since=since, follow=True
        )
        with flavour.closing(self.client.transport.events(call)) as events:
            for event in events:
                if event.event == "event":
                    yield cast(models.Event, event.json())

    def metrics(self) -> models.MachineMetrics:
        """What the machine uses now."""
        return self.client.transport.json(operations.get_sandboxes_id_metrics(self.id))

    def usage_over_time(
        self,
        *,
        start: Optional[str] = None,
        end: Optional[str] = None,
        range: Optional[str] = None,
        step: Any = None,
    ) -> models.MetricSeries:
        """What the machine used, as series over time."""
        call = operations.get_metrics_sandbox_id(
            self.id, from_=start, to=end, range=range, step=step
        )
        return self.client.transport.json(call)

    def mcp(self, message: Mapping[str, Any]) -> Any:
        """Send a message of the Model Context Protocol to the sandbox's tools."""
        call = operations.post_sandboxes_id_mcp(self.id, dict(message))
        return self.client.transport.json(call, READY)
