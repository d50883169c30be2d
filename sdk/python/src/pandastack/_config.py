"""Where settings come from: arguments, environment variables, and the config file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, cast
from urllib.parse import urlsplit

DEFAULT_API_URL = "https://api.pandastack.ai"
DEFAULT_TIMEOUT_SECONDS = 30.0
# How long a command or cell without a time limit of its own may take.
DEFAULT_COMMAND_SECONDS = 900.0
DEFAULT_MAX_CREATE_RETRY_SECONDS = 60.0
DEFAULT_READY_SECONDS = 20.0
# The longest silence of a stream. The server sends something every 15 seconds.
DEFAULT_IDLE_SECONDS = 60.0


@dataclass(frozen=True)
class Settings:
    """What a client needs to reach a server."""

    api_url: str
    api_key: Optional[str]
    org: Optional[str]
    timeout: float
    command_timeout: float
    idle_timeout: float
    max_create_retry_seconds: float
    ready_seconds: float

    @property
    def origin(self) -> str:
        """The URL that paths such as `/v1/sandboxes` are appended to."""
        return self.api_url[: -len("/v1")] if self.api_url.endswith("/v1") else self.api_url


def config_path() -> Path:
    return Path.home() / ".config" / "pandastack" / "config.json"


def read_config() -> Dict[str, Any]:
    """The config file's object. A missing or damaged file counts as empty."""
    try:
        content: Any = json.loads(config_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast(Dict[str, Any], content) if isinstance(content, dict) else {}


def resolve(
    *,
    api_url: Optional[str] = None,
    api_key: Optional[str] = None,
    org: Optional[str] = None,
    timeout: Optional[float] = None,
    idle_timeout: Optional[float] = None,
    max_create_retry_seconds: Optional[float] = None,
) -> Settings:
    """Fill in what was not given as an argument."""
    config = read_config()
    url = (
        api_url
        or os.environ.get("PANDASTACK_API")
        or os.environ.get("PANDASTACK_API_URL")
        or _text(config, "api_url", "apiUrl")
        or DEFAULT_API_URL
    ).rstrip("/")
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ValueError(f"the API URL must begin with http:// or https://, not {url!r}")
    # An argument counts even if it is empty: then no other key may be used by accident.
    if api_key is None:
        api_key = (
            os.environ.get("PANDASTACK_API_KEY")
            or os.environ.get("PANDASTACK_TOKEN")
            or _text(config, "token", "api_key", "apiKey")
        )
    return Settings(
        api_url=url,
        api_key=api_key or None,
        org=org or os.environ.get("PANDASTACK_ORG") or None,
        timeout=timeout if timeout is not None else DEFAULT_TIMEOUT_SECONDS,
        command_timeout=timeout if timeout is not None else DEFAULT_COMMAND_SECONDS,
        idle_timeout=idle_timeout if idle_timeout is not None else DEFAULT_IDLE_SECONDS,
        max_create_retry_seconds=_retry_seconds(max_create_retry_seconds),
        ready_seconds=_number("PANDASTACK_EXEC_READY_TIMEOUT", DEFAULT_READY_SECONDS),
    )


def _text(config: Dict[str, Any], *names: str) -> Optional[str]:
    for name in names:
        value = config.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _retry_seconds(given: Optional[float]) -> float:
    if given is None:
        given = _number("PANDASTACK_MAX_CREATE_RETRY_SECONDS", DEFAULT_MAX_CREATE_RETRY_SECONDS)
    return max(0.0, float(given))


def _number(name: str, default: float) -> float:
    try:
        return float(os.environ[name])
    except (KeyError, ValueError):
        return default
