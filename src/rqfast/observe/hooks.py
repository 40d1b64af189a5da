"""The one interface on which metrics and tracing are built: what happens to messages, as it happens."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("rqfast.worker")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a message.

    Attributes:
        subscription: the name of the subscription; "" of a publish.
        group: its group.
        seq: its number, or the id of its row; None where a publish does not tell it.
        attempt: which delivery (1, 2, ..); 0 of a publish.
        seconds: how long it took: of "claimed" since it was published, where that is known, else None; of
            "settled" and "lost" the work of the handler; of "published" and "extended" the call.
        outcome: of "settled": "Ack", "Retry", "RetryAfter", "Drop" or "Dead"; else "".
        delay: of "Retry" and "RetryAfter": seconds until it may come again.
        headers: of the message; what a producer put there for a consumer's trace.
    """

    subscription: str
    group: str
    seq: Any
    attempt: int
    seconds: float | None = None
    outcome: str = ""
    delay: float = 0.0
    headers: Any = field(default=None, repr=False)


class Hooks:
    """Derive, override what you want to see, and pass it: `Worker(hooks=[mine])`.

    The methods are called on the worker's loop, but for `extended`, which comes from the thread that extends leases;
    they must return soon.  What one raises is logged and does not touch the message.

    Example:
        >>> class Rate(Hooks):
        ...     def settled(self, event: Event) -> None:
        ...         counter.labels(event.subscription, event.outcome).inc()
    """

    def published(self, event: Event) -> None:
        """`worker.publish` has published it."""

    def claimed(self, event: Event) -> None:
        """It goes to a handler."""

    def settled(self, event: Event) -> None:
        """Its outcome has taken effect."""

    def lost(self, event: Event) -> None:
        """Its outcome was refused, or thrown away: the lease no longer held it."""

    def extended(self, event: Event) -> None:
        """Its lease was extended."""


def tell(hooks: Iterable[Hooks], what: str, event: Event) -> None:
    """Call a method of all of them."""
    for hook in hooks:
        try:
            getattr(hook, what)(event)
        except Exception:
            log.exception("a hook failed: %s.%s", type(hook).__name__, what)
