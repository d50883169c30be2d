"""What a sandbox knows about itself, and how it is asked for. No input or output here."""

from __future__ import annotations

import os
import shlex
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Union,
    cast,
)
from urllib.parse import urlsplit

from ._core import models
from ._results import Execution

if TYPE_CHECKING:
    from .volumes import Volume

DEFAULT_TEMPLATE = "code-interpreter"

# Which machines a list or a stream of events has: plain sandboxes, those of databases, or all.
MachineKind = Literal["sandbox", "database", "all"]

VolumeSpec = Union[str, "Volume", Mapping[str, Any]]

_LANGUAGES = {"py": "python", "python3": "python", "js": "javascript", "node": "javascript"}


def create_body(
    *,
    template: Optional[str] = None,
    ttl_seconds: Optional[int] = None,
    persistent: bool = False,
    metadata: Optional[Mapping[str, str]] = None,
    from_snapshot: Optional[str] = None,
    volumes: Optional[Sequence[VolumeSpec]] = None,
    egress_allowlist: Optional[Sequence[str]] = None,
    egress_mbps: Optional[int] = None,
    env: Optional[Mapping[str, str]] = None,
) -> models.CreateSandbox:
    """The body of a create. Fields that were not given are absent."""
    body: models.CreateSandbox = {"template": template or DEFAULT_TEMPLATE}
    if from_snapshot is not None:
        body["from_snapshot"] = from_snapshot
    if ttl_seconds is not None:
        body["ttl_seconds"] = ttl_seconds
    if persistent:
        body["persistent"] = True
    if metadata is not None:
        body["metadata"] = dict(metadata)
    if volumes:
        body["volumes"] = [volume_body(volume) for volume in volumes]
    if egress_allowlist is not None:
        if isinstance(egress_allowlist, str):
            raise TypeError("egress_allowlist must be a list of hosts, not one text")
        body["egress_allowlist"] = list(egress_allowlist)
    if egress_mbps is not None:
        body["egress_mbps"] = egress_mbps
    if env is not None:
        body["env"] = dict(env)
    return body


def volume_body(volume: VolumeSpec) -> models.VolumeAttachmentRequest:
    """A volume to attach: its name, a `Volume`, or what `Volume.mount` returns."""
    if isinstance(volume, str):
        return {"name": volume}
    fields: Mapping[str, Any] = volume
    known = ("name", "mount_path", "read_only")
    # A Volume has more fields, which are not for the request.
    return cast(
        models.VolumeAttachmentRequest,
        {name: fields[name] for name in known if fields.get(name) is not None},
    )


def exec_body(
    cmd: Optional[str] = None,
    *,
    argv: Optional[Sequence[str]] = None,
    timeout_seconds: Optional[float] = None,
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    stdin: Optional[str] = None,
    user: Optional[str] = None,
) -> models.ExecRequest:
    body: models.ExecRequest = {}
    if (cmd is None) == (argv is None):
        raise ValueError("give either a command line or argv")
    if cmd is not None:
        body["cmd"] = cmd
    if argv is not None:
        body["argv"] = list(argv)
    if timeout_seconds is not None:
        body["timeout_seconds"] = timeout_seconds
    if cwd is not None:
        body["cwd"] = cwd
    if env is not None:
        body["env"] = dict(env)
    if stdin is not None:
        body["stdin"] = stdin
    if user is not None:
        body["user"] = user
    return body


def command_of(code: str, language: str) -> str:
    """A shell command that runs code without a context."""
    name = language_name(language)
    programs = {
        "python": ("python3", "-c"),
        "bash": ("bash", "-c"),
        "sh": ("sh", "-c"),
        "javascript": ("node", "-e"),
        "ruby": ("ruby", "-e"),
    }
    if name not in programs:
        known = ", ".join(programs)
        raise ValueError(f"unsupported language {language!r}: use one of {known}")
    program, flag = programs[name]
    return f"{program} {flag} {shlex.quote(code)}"


def language_name(language: str) -> str:
    """The API's name of a language. Unknown names pass: the server knows best."""
    lower = language.strip().lower()
    return _LANGUAGES.get(lower, lower)


def preview_suffix(preview_host: Optional[str], api_url: str) -> str:
    """The host below which the ports of sandboxes have their names."""
    chosen = preview_host or os.environ.get("PANDASTACK_PREVIEW_HOST")
    if chosen:
        return chosen
    host = urlsplit(api_url).hostname or "localhost"
    return host[len("api.") :] if host.startswith("api.") else host


def check_port(port: int) -> int:
    if not 1 <= port <= 65535:
        raise ValueError(f"port must be between 1 and 65535, not {port}")
    return port


class SandboxFields:
    """The data of a sandbox, as of the last answer about it."""

    id: str
    template: str
    cpu: int
    memory_mb: int
    status: str
    guest_ip: Optional[str]
    created_at: Optional[str]
    metadata: Dict[str, str]
    boot_ms: Optional[int]
    boot_mode: Optional[str]
    persistent: bool
    ttl_seconds: Optional[int]
    isolation: Optional[str]
    isolation_warning: Optional[str]
    status_reason: Optional[str]
    egress_allowlist: Optional[List[str]]
    volumes: List[models.VolumeAttachment]
    _snapshot_id: Optional[str]

    def _load(self, data: Mapping[str, Any]) -> None:
        """Take over an answer. Some servers leave fields out, or send null."""
        self.id = str(data["id"])
        self.template = str(data.get("template") or DEFAULT_TEMPLATE)
        self.cpu = int(data.get("cpu") or 1)
        self.memory_mb = int(data.get("memory_mb") or 512)
        self.status = str(data.get("status") or "running")
        self.guest_ip = data.get("guest_ip")
        self.created_at = data.get("created_at")
        self.metadata = dict(data.get("metadata") or {})
        self.boot_ms = data.get("boot_ms")
        self.boot_mode = data.get("boot_mode")
        self.persistent = bool(data.get("persistent"))
        self.ttl_seconds = data.get("ttl_seconds")
        self.isolation = data.get("isolation")
        self.isolation_warning = data.get("isolation_warning")
        self.status_reason = data.get("status_reason")
        self.egress_allowlist = data.get("egress_allowlist")
        self.volumes = list(data.get("volumes") or [])
        self._snapshot_id = data.get("from_snapshot") or None

    def __repr__(self) -> str:
        name = type(self).__name__
        if not getattr(self, "id", ""):
            return f"<{name} not created yet>"
        return (
            f"<{name} {self.id} {self.status} template={self.template!r} "
            f"cpu={self.cpu} memory_mb={self.memory_mb}>"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SandboxFields) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


RunResult = Execution
