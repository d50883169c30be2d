"""Webhooks: subscriptions, and checking what they deliver.

from pandastack.webhooks import verify

event = verify(secret, request.headers, request.body)
print(event["type"], event["sandbox_id"])
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from typing import Any, Dict, Mapping, Optional, Union, cast

from ._sync.webhooks import WebhooksAPI
from .exceptions import SignatureError

_PREFIX = "whsec_"


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: Union[bytes, str],
    *,
    tolerance: float = 300.0,
    now: Optional[float] = None,
) -> Dict[str, Any]:
    """Check the signature of a delivery and return its event.

    Args:
        secret: The webhook's secret, `whsec_…`.
        headers: The headers of the request.
        body: The body of the request, byte by byte as it arrived.
        tolerance: How many seconds the delivery's time may differ from now.
        now: The current time, for tests.

    Raises:
        SignatureError: The delivery is not from the server, or too old.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        delivery = lower["webhook-id"]
        sent_at = lower["webhook-timestamp"]
        given = lower["webhook-signature"]
        age = abs((time.time() if now is None else now) - int(sent_at))
    except (KeyError, ValueError) as error:
        raise SignatureError(f"the delivery has no valid signature headers: {error}") from error
    if age > tolerance:
        raise SignatureError(f"the delivery's time differs from now by {age:.0f} s")
    content = body.encode() if isinstance(body, str) else body
    expected = sign(secret, delivery, sent_at, content)
    if not any(hmac.compare_digest(expected.encode(), one.encode()) for one in given.split(" ")):
        raise SignatureError("the signature does not match: is it the secret of this webhook?")
    return cast(Dict[str, Any], json.loads(content))


def sign(secret: str, delivery_id: str, timestamp: str, body: bytes) -> str:
    """The signature that a delivery has. Useful for tests of a receiver."""
    text = secret[len(_PREFIX) :] if secret.startswith(_PREFIX) else secret
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise SignatureError("the secret is not valid: it begins with whsec_") from error
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


__all__ = ["WebhooksAPI", "sign", "verify"]
