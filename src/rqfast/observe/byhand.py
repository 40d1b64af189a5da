"""Hooks for a loop of one's own, that claims and settles without a worker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core import Lease
from ..errors import LeaseLost
from .hooks import Event, Heard, Hooks, around, tell


class Handling:
    """How a message is being handled.

    Attributes:
        outcome: what becomes of it: "Ack", unless set to "Retry", "RetryAfter", "Drop" or "Dead".
    """

    __slots__ = ("outcome",)

    def __init__(self) -> None:
        self.outcome: str = "Ack"


@contextmanager
def handling(hooks: Iterable[Hooks], lease: Lease[Any], subscription: str = "", queue: str = "") -> Iterator[Handling]:
    """Tell hooks how a lease is handled, from here to the end of the block, at which it must have been settled.

    They hear what a worker would tell them.  A block that raises `LeaseLost` is "lost"; one that raises anything else
    is settled with "Retry": the message comes again.

    Args:
        hooks: those of the application.
        lease: what was claimed.
        subscription: a name for what the loop does: one of few, metrics have it as a label.
        queue: the name of the queue; "" for the default one.

    Example:
        >>> while lease := queue.claim(wait=None):
        ...     with handling(hooks, lease, "billing"):
        ...         bill(lease.event)
        ...         queue.ack(lease)
    """
    heard = Heard(hooks)
    age = _age(lease)
    said = Handling()
    began = time.monotonic()

    def event(outcome: str = "", error: BaseException | None = None, **more: Any) -> Event:
        seconds = more.pop("seconds", time.monotonic() - began)
        return Event(
            subscription,
            lease.group_id,
            lease.seq,
            lease.attempts,
            seconds,
            outcome,
            headers=lease.headers,
            age=None if age is None else age + time.monotonic() - began,
            error=error,
            queue=queue,
            **more,
        )

    claimed = event(seconds=age)
    tell(heard.claimed, "claimed", claimed)
    try:
        with around(heard.handling, [claimed]):
            try:
                yield said
            except LeaseLost:
                tell(heard.lost, "lost", event())
                raise
            except BaseException as error:
                tell(heard.handled, "handled", event("Retry", error))
                raise
            tell(heard.handled, "handled", event(said.outcome))
    except LeaseLost:
        raise
    except BaseException as error:
        tell(heard.settled, "settled", event("Retry", error))
        raise
    tell(heard.settled, "settled", event(said.outcome))


def _age(lease: Lease[Any]) -> float | None:
    """Since it was published, in seconds, as well as this process knows the time."""
    return None if lease.published_at is None else max(0.0, time.time() - lease.published_at)
