"""Where settings come from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pandastack import PandaStack, Sandbox, get_default_client
from pandastack._config import config_path


def test_the_order_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PandaStack().api_url == "https://api.pandastack.ai"
    assert PandaStack().api_key is None
    config_path().parent.mkdir(parents=True)
    config_path().write_text(json.dumps({"api_url": "http://file/", "token": "t", "api_key": "k"}))
    assert (PandaStack().api_url, PandaStack().api_key) == ("http://file", "t")
    monkeypatch.setenv("PANDASTACK_API_URL", "http://cli")
    monkeypatch.setenv("PANDASTACK_TOKEN", "page")
    assert (PandaStack().api_url, PandaStack().api_key) == ("http://cli", "page")
    monkeypatch.setenv("PANDASTACK_API", "http://env")
    monkeypatch.setenv("PANDASTACK_API_KEY", "key")
    assert (PandaStack().api_url, PandaStack().api_key) == ("http://env", "key")
    given = PandaStack(token="arg", base_url="http://arg")
    assert (given.api_url, given.api_key) == ("http://arg", "arg")
    assert PandaStack(api_base="http://base").api_url == "http://base"
    assert PandaStack(api_url="http://url", api_base="http://base").api_url == "http://url"


@pytest.mark.parametrize("text", ["", "[]", "{broken", '{"token": 3}'])
def test_a_damaged_config_file_counts_as_empty(text: str) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text(text)
    assert PandaStack().api_key is None


def test_a_base_that_ends_in_v1() -> None:
    client = PandaStack("http://server/v1/", "k")
    assert client.api_url == "http://server/v1"
    assert client.transport.settings.origin == "http://server"


def test_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    client = PandaStack(api_key="k")
    assert client.timeout == 30
    assert client.command_seconds(None) == 900
    assert client.command_seconds(100) == 130
    assert PandaStack(api_key="k", timeout=5).command_seconds(None) == 5
    monkeypatch.setenv("PANDASTACK_MAX_CREATE_RETRY_SECONDS", "7")
    assert PandaStack().max_create_retry_seconds == 7
    assert PandaStack(max_create_retry_seconds=-1).max_create_retry_seconds == 0


def test_a_url_needs_a_scheme() -> None:
    with pytest.raises(ValueError, match="http"):
        PandaStack("server:8080")


def test_the_key_is_not_shown() -> None:
    key = "pds_0123456789abcdef0123456789abcdef"
    assert key not in repr(PandaStack(api_key=key))


def test_the_default_client_is_made_once() -> None:
    assert get_default_client() is get_default_client()
    assert Sandbox(id="s").client is get_default_client()


def test_the_import_does_not_load_http() -> None:
    code = "import sys, pandastack; sys.exit('httpx' in sys.modules or 'asyncio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_synchronous_modules_are_up_to_date() -> None:
    script = Path(__file__).parents[1] / "scripts" / "write_sync.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)


def test_python_dash_m() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pandastack", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("pandastack 0.")
    ran = subprocess.run(
        [sys.executable, "-m", "pandastack", "cma"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "ANTHROPIC_ENVIRONMENT_ID" in ran.stderr
