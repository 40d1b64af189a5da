"""From a subscription to where its messages come from."""

from __future__ import annotations

from typing import Any

from ..transport.awaitable import AwaitableTransport
from .feed import Feed
from .inbox_feed import InboxFeed
from .queue_feed import QueueFeed
from .subscription import Subscription


def feed_of(
    subscription: Subscription, transport: AwaitableTransport[Any], *, worker_id: str, visibility: float
) -> Feed:
    """The feed of its source.

    Raises:
        ConfigError: where its dead letters go.
    """
    if subscription.address is not None:
        return InboxFeed(
            subscription.address,
            transport,
            worker_id=worker_id,
            visibility=visibility,
            dead_letter=subscription.dead_letter,
            max_poll=transport.desk.max_poll,
        )
    return QueueFeed(
        transport,
        subscription.selection,
        worker_id=worker_id,
        visibility=visibility,
        min_priority=subscription.min_priority,
        dead_letter=subscription.dead_letter,
    )
