"""API keys of the current organisation, for people who are logged in."""

from __future__ import annotations

from typing import List, Optional

from ._builds import Token
from ._sync.account import ApiKeysAPI, TokensAPI
from ._sync.client import get_default_client


def list() -> List[Token]:
    """All keys, newest first."""
    return get_default_client().tokens.list()


def create(name: str, expires_in_days: Optional[int] = None) -> Token:
    """Create a key. Only this answer has the whole key."""
    return get_default_client().tokens.create(name, expires_in_days)


def revoke(prefix: str) -> None:
    """Revoke the keys with this prefix."""
    get_default_client().tokens.revoke(prefix)


__all__ = ["ApiKeysAPI", "Token", "TokensAPI", "create", "list", "revoke"]
