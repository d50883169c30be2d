# Written by scripts/write_sync.py from _async/client.py. Do not edit.
"""The client: one server, one key, one pool of connections."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Optional
from urllib.parse import urlsplit

from .._config import resolve
from .._core import operations
from .._sandbox_fields import preview_suffix
from .account import (
    ApiKeysAPI,
    AuditAPI,
    AuthAPI,
    BillingAPI,
    OrgsAPI,
    ServerAPI,
    TokensAPI,
)
from .databases import DatabasesAPI
from .events import EventsAPI
from .platform import AppsAPI, FunctionsAPI, SchedulesAPI
from .sandboxes import SandboxAPI
from .snapshots import SnapshotsAPI
from .templates import TemplatesAPI
from .transport import Transport
from .volumes import VolumesAPI
from .webhooks import WebhooksAPI

if TYPE_CHECKING:
    import httpx

    from .._core import models
    from .._retry import CreateRetryEvent


class PandaStack:
    """A client of a PandaStack server.

    Example:
        with PandaStack() as client:
            sandbox = client.sandboxes.create(template="code-interpreter")

    Args:
        api_url: The server; else `PANDASTACK_API`, `PANDASTACK_API_URL`, or the config file.
        api_key: The API key; else `PANDASTACK_API_KEY`, `PANDASTACK_TOKEN`, or the config file.
        timeout: The deadline of a request in seconds. By default 30, and 900 for commands and
            code that have no time limit of their own.
        api_base: The same as `api_url`.
        max_create_retry_seconds: How long creates and forks are retried while the server is full.
            By default 60, or `PANDASTACK_MAX_CREATE_RETRY_SECONDS`. 0 turns retries off.
        on_create_retry: Is called before each such retry.
        token: The same as `api_key`.
        base_url: The same as `api_url`.
        org: The id of the organisation to act in, for people; else `PANDASTACK_ORG`.
        idle_timeout: The longest silence of a stream in seconds. By default 60.
        preview_host: The host of previews; else `PANDASTACK_PREVIEW_HOST`, or the server's.
        http_client: Your own pool of connections, for example for a proxy. You close it.
    """

    def __init__(
        self,
        api_url: Optional[str] = None,
        api_key: Optional[str] = None,
        timeout: Optional[float] = None,
        api_base: Optional[str] = None,
        max_create_retry_seconds: Optional[float] = None,
        on_create_retry: Optional[Callable[[CreateRetryEvent], None]] = None,
        *,
        token: Optional[str] = None,
        base_url: Optional[str] = None,
        org: Optional[str] = None,
        idle_timeout: Optional[float] = None,
        preview_host: Optional[str] = None,
        http_client: Optional[httpx.Client] = None,
    ) -> None:
        settings = resolve(
            api_url=api_url or api_base or base_url,
            api_key=api_key if api_key is not None else token,
            org=org,
            timeout=timeout,
            idle_timeout=idle_timeout,
            max_create_retry_seconds=max_create_retry_seconds,
        )
        self.transport = Transport(
            settings, on_create_retry=on_create_retry, http_client=http_client
        )
        self.preview_host = preview_host
        self.sandboxes = SandboxAPI(self)
        self.templates = TemplatesAPI(self)
        self.volumes = VolumesAPI(self)
        self.snapshots = SnapshotsAPI(self)
        self.webhooks = WebhooksAPI(self)
        self.tokens = TokensAPI(self)
        self.api_keys = ApiKeysAPI(self)
        self.orgs = OrgsAPI(self)
        self.billing = BillingAPI(self)
        self.audit = AuditAPI(self)
        self.events = EventsAPI(self)
        self.auth = AuthAPI(self)
        self.server = ServerAPI(self)
        self.apps = AppsAPI(self)
        self.databases = DatabasesAPI(self)
        self.functions = FunctionsAPI(self)
        self.schedules = SchedulesAPI(self)

    @property
    def sandbox(self) -> SandboxAPI:
        """The same as `sandboxes`."""
        return self.sandboxes

    @property
    def api_url(self) -> str:
        return self.transport.settings.api_url

    @property
    def api_base(self) -> str:
        """The same as `api_url`."""
        return self.api_url

    @property
    def base_url(self) -> str:
        """The same as `api_url`."""
        return self.api_url

    @property
    def api_key(self) -> Optional[str]:
        return self.transport.settings.api_key

    @property
    def timeout(self) -> float:
        """The deadline of an ordinary request in seconds."""
        return self.transport.settings.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._change(timeout=seconds, command_timeout=seconds)

    @property
    def max_create_retry_seconds(self) -> float:
        """How long creates and forks are retried while the server is full."""
        return self.transport.settings.max_create_retry_seconds

    @max_create_retry_seconds.setter
    def max_create_retry_seconds(self, seconds: float) -> None:
        self._change(max_create_retry_seconds=seconds)

    @property
    def on_create_retry(self) -> Optional[Callable[[CreateRetryEvent], None]]:
        """Is called before each such retry."""
        return self.transport.on_create_retry

    @on_create_retry.setter
    def on_create_retry(self, callback: Optional[Callable[[CreateRetryEvent], None]]) -> None:
        self.transport.on_create_retry = callback

    @property
    def session(self) -> httpx.Client:
        """The pool of connections. In 0.10 it was one of requests; now it is one of httpx."""
        return self.transport.http

    def _change(self, **settings: Any) -> None:
        self.transport.settings = replace(self.transport.settings, **settings)

    def me(self) -> models.Me:
        """Who the API key belongs to."""
        return self.transport.json(operations.get_me())

    def command_seconds(self, limit: Optional[float]) -> float:
        """The deadline of a request that runs a command with this limit."""
        settings = self.transport.settings
        # The server ends the command; the rest is for its answer.
        return limit + settings.timeout if limit else settings.command_timeout

    def preview_address(self, label: str, scheme: Optional[str] = None) -> str:
        """The address of a preview: `label` is the first part of its host name."""
        parts = urlsplit(self.api_url)
        host = preview_suffix(self.preview_host, self.api_url)
        # A server without TLS serves previews itself, on the port of its API, below `localhost`.
        if parts.scheme == "http" and scheme in {None, "http"} and parts.port:
            if host in {"127.0.0.1", "::1"}:
                host = "localhost"
            # A chosen host may name a port of its own.
            place = host if ":" in host else f"{host}:{parts.port}"
            return f"http://{label}.{place}"
        return f"{scheme or 'https'}://{label}.{host}"

    def close(self) -> None:
        """Close the connections. Sandboxes are not affected."""
        self.transport.close()

    def __enter__(self) -> PandaStack:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        # Only as much of the key as may be shown.
        key = f"{self.api_key[:12]}…" if self.api_key else None
        return f"<{type(self).__name__} {self.api_url} api_key={key!r}>"


_default: Optional[PandaStack] = None


def get_default_client() -> PandaStack:
    """The client that is used where none is given. It is made from the environment."""
    global _default
    if _default is None:
        _default = PandaStack()
    return _default


def set_default_client(client: Optional[PandaStack]) -> None:
    """Use another client where none is given. None makes a new one at the next use."""
    global _default
    _default = client
