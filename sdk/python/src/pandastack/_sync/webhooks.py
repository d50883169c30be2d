# Written by scripts/write_sync.py from _async/webhooks.py. Do not edit.
"""Webhooks: the server reports events to an address of yours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence

from .._core import operations
from .._wire import list_of

if TYPE_CHECKING:
    from .._core import models
    from .client import PandaStack


class WebhooksAPI:
    """The webhooks of the workspace. `pandastack.webhooks.verify` checks what they deliver."""

    def __init__(self, client: PandaStack) -> None:
        self._client = client

    def list(self) -> List[models.Webhook]:
        """All webhooks, newest first."""
        return list_of(self._client.transport.json(operations.get_webhooks()), "items")

    def create(
        self,
        url: str,
        events: Sequence[str] = ("*",),
        *,
        description: Optional[str] = None,
        enabled: bool = True,
    ) -> models.Webhook:
        """Subscribe a URL to events such as `sandbox.*`. Only this answer has the `secret`."""
        body: models.CreateWebhook = {"url": url, "events": list(events), "enabled": enabled}
        if description is not None:
            body["description"] = description
        return self._client.transport.json(operations.post_webhooks(body))

    def get(self, webhook_id: str) -> models.Webhook:
        return self._client.transport.json(operations.get_webhooks_webhook(webhook_id))

    def update(
        self,
        webhook_id: str,
        *,
        url: Optional[str] = None,
        events: Optional[Sequence[str]] = None,
        description: Optional[str] = None,
        enabled: Optional[bool] = None,
    ) -> models.Webhook:
        """Change the given fields."""
        body: models.ChangeWebhook = {}
        if url is not None:
            body["url"] = url
        if events is not None:
            body["events"] = list(events)
        if description is not None:
            body["description"] = description
        if enabled is not None:
            body["enabled"] = enabled
        call = operations.patch_webhooks_webhook(webhook_id, body)
        return self._client.transport.json(call)

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook and its deliveries."""
        self._client.transport.empty(operations.delete_webhooks_webhook(webhook_id))

    def ping(self, webhook_id: str) -> models.Ping:
        """Send a test event, and show the receiver's answer."""
        return self._client.transport.json(operations.post_webhooks_webhook_ping(webhook_id))

    def rotate_secret(
        self,
        webhook_id: str,
        *,
        grace_seconds: Optional[int] = None,
    ) -> models.Webhook:
        """Make a new secret. The old one also signs during the grace period."""
        body: models.RotateSecret = {}
        if grace_seconds is not None:
            body["grace_seconds"] = grace_seconds
        call = operations.post_webhooks_webhook_rotate_secret(webhook_id, body)
        return self._client.transport.json(call)

    def deliveries(
        self,
        webhook_id: str,
        *,
        status: Any = None,
        limit: Optional[int] = None,
    ) -> List[models.Delivery]:
        """Deliveries, newest first: `pending`, `failed`, `delivered` or `dead` ones, or all."""
        call = operations.get_webhooks_webhook_deliveries(webhook_id, status=status, limit=limit)
        return list_of(self._client.transport.json(call), "items")

    def dead_letters(self, *, limit: Optional[int] = None) -> List[models.Delivery]:
        """Deliveries that were given up, of all webhooks."""
        call = operations.get_webhooks_dead_letters(limit=limit)
        return list_of(self._client.transport.json(call), "items")

    def delivery(self, delivery_id: str) -> models.Delivery:
        """One delivery, with its content and attempts."""
        call = operations.get_webhooks_deliveries_delivery(delivery_id)
        return self._client.transport.json(call)

    def replay(self, delivery_id: str) -> models.Delivery:
        """Deliver once more."""
        call = operations.post_webhooks_deliveries_delivery_replay(delivery_id)
        return self._client.transport.json(call)
