"""The client."""

from __future__ import annotations

from ._config import DEFAULT_API_URL, DEFAULT_MAX_CREATE_RETRY_SECONDS
from ._retry import (
    CREATE_RETRY_507_MIN_DELAY_SECONDS,
    CREATE_RETRY_INITIAL_DELAY_SECONDS,
    CREATE_RETRY_MAX_DELAY_SECONDS,
    CREATE_RETRY_MIN_SHORTENED_DELAY_SECONDS,
    CancelEvent,
    CreateRetryEvent,
)
from ._sync.client import PandaStack, get_default_client, set_default_client
from ._sync.sandboxes import SandboxAPI

Client = PandaStack

__all__ = [
    "CREATE_RETRY_507_MIN_DELAY_SECONDS",
    "CREATE_RETRY_INITIAL_DELAY_SECONDS",
    "CREATE_RETRY_MAX_DELAY_SECONDS",
    "CREATE_RETRY_MIN_SHORTENED_DELAY_SECONDS",
    "CancelEvent",
    "Client",
    "CreateRetryEvent",
    "DEFAULT_API_URL",
    "DEFAULT_MAX_CREATE_RETRY_SECONDS",
    "PandaStack",
    "SandboxAPI",
    "get_default_client",
    "set_default_client",
]
