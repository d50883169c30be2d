"""What tests against a live server share."""

from __future__ import annotations

import os
from typing import Tuple

import pytest


def settings() -> Tuple[str, str]:
    """The server's URL and key. Tests that are asked for fail without them."""
    url, key = os.environ.get("PANDASTACK_API"), os.environ.get("PANDASTACK_API_KEY")
    if not url or not key:
        pytest.fail("live tests need a server: set PANDASTACK_API and PANDASTACK_API_KEY")
    return url, key


def template() -> str:
    """A small template with python3."""
    return os.environ.get("PANDASTACK_TEST_TEMPLATE", "mini")
