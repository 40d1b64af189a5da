"""A group "g" in every state, for the tests of the operating calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import rqfast
from tests.contract.views import Clock, Lease, View

GROUP = "g"


def take(view: View, visibility: float = 60) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def empty(view: View, clock: Clock) -> Lease | None:
    return None


def claimable(view: View, clock: Clock) -> Lease | None:
    view.publish(GROUP, "a")
    return None


def in_work(view: View, clock: Clock) -> Lease | None:
    view.publish(GROUP, "a")
    return take(view)


def lapsed(view: View, clock: Clock) -> Lease | None:
    lease = in_work(view, clock)
    clock.advance(61)
    return lease


def parked(view: View, clock: Clock) -> Lease | None:
    lease = in_work(view, clock)
    assert lease is not None
    view.nack(lease, 60)
    return lease


def delayed(view: View, clock: Clock) -> Lease | None:
    view.publish(GROUP, "a", delay=60)
    return None


def deferred(view: View, clock: Clock) -> Lease | None:
    lease = in_work(view, clock)
    assert lease is not None
    view.defer(lease, 60)
    return lease


def paused(view: View, clock: Clock) -> Lease | None:
    view.publish(GROUP, "a")
    view.pause(GROUP)
    return None


def paused_in_work(view: View, clock: Clock) -> Lease | None:
    lease = in_work(view, clock)
    view.pause(GROUP)
    return lease


def paused_empty(view: View, clock: Clock) -> Lease | None:
    view.pause(GROUP)
    return None


def dead(view: View, clock: Clock) -> Lease | None:
    lease = in_work(view, clock)
    assert lease is not None
    view.dead_letter(lease, "why")
    return lease


class State(NamedTuple):
    """How a group gets there (what is left is the lease that was had), and what must be seen of it.

    `holds` tells whether its message is in work, `released` what `release` says, `messages` how many there are.
    """

    prepare: Callable[[View, Clock], Lease | None]
    shown: str | None
    messages: int = 1
    holds: bool = False
    released: bool = False


STATES = {
    "empty": State(empty, None, 0),
    "claimable": State(claimable, "claimable"),
    "in work": State(in_work, "in_work", holds=True, released=True),
    "lapsed": State(lapsed, "claimable", released=True),
    "parked": State(parked, "parked", released=True),
    "delayed": State(delayed, "delayed"),
    "deferred": State(deferred, "delayed"),
    "paused": State(paused, "paused"),
    "paused in work": State(paused_in_work, "paused", holds=True, released=True),
    "paused empty": State(paused_empty, "paused", 0),
    "dead": State(dead, None, 0),
}


def settles(view: View, lease: Lease) -> bool:
    """Whether the lease still owns its message; acknowledges it."""
    try:
        view.ack(lease)
    except rqfast.LeaseLost:
        return False
    return True
