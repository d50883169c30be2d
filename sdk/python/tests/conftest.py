from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

import pytest

from pandastack import PandaStack, Sandbox, set_default_client

from .standin import KEY, StandIn, sandbox

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_settings(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[None]:
    """Tests do not see the caller's settings, except those against a live server."""
    if request.node.get_closest_marker("live") is None:
        for name in (
            "PANDASTACK_API",
            "PANDASTACK_API_KEY",
            "PANDASTACK_API_URL",
            "PANDASTACK_EXEC_READY_TIMEOUT",
            "PANDASTACK_MAX_CREATE_RETRY_SECONDS",
            "PANDASTACK_ORG",
            "PANDASTACK_PREVIEW_HOST",
            "PANDASTACK_TOKEN",
        ):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
    yield
    set_default_client(None)


@pytest.fixture
def server() -> Iterator[StandIn]:
    standin = StandIn()
    yield standin
    standin.close()


@pytest.fixture
def client(server: StandIn) -> Iterator[PandaStack]:
    with PandaStack(server.url, KEY) as made:
        yield made


@pytest.fixture
def box(client: PandaStack) -> Sandbox:
    return Sandbox.from_dict(sandbox(), client)
