"""Checking of webhook deliveries."""

from __future__ import annotations

import json

import pytest

from pandastack import SignatureError
from pandastack.webhooks import sign, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = json.dumps({"type": "sandbox.running"}).encode()


def headers(secret: str = SECRET, at: int = 1000) -> dict[str, str]:
    return {
        "Webhook-Id": "evt_1",
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": f"v1,bm90IHRoaXM= {sign(secret, 'evt_1', str(at), BODY)}",
    }


def test_a_delivery_is_accepted() -> None:
    assert verify(SECRET, headers(), BODY, now=1100)["type"] == "sandbox.running"
    assert verify(SECRET, headers(), BODY.decode(), now=1100)["type"] == "sandbox.running"


def test_the_published_example_of_the_standard() -> None:
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body) == expected


def test_others_are_refused() -> None:
    with pytest.raises(SignatureError, match="differs from now"):
        verify(SECRET, headers(), BODY, now=2000)
    with pytest.raises(SignatureError, match="does not match"):
        verify(SECRET, headers(), BODY + b" ", now=1000)
    with pytest.raises(SignatureError, match="headers"):
        verify(SECRET, {}, BODY)
    with pytest.raises(SignatureError, match="whsec_"):
        verify("whsec_?", headers(), BODY, now=1000)
