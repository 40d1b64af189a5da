"""What the tests of runs share: how they take one, settle it, and look at what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.contract.views import Lease, Queue, Row, View

Settle = Callable[[View, Lease], object]

PUT_BACK: dict[str, Settle] = {
    "nack": lambda view, lease: view.nack(lease),
    "park": lambda view, lease: view.nack(lease, 50),
    "defer": lambda view, lease: view.defer(lease, 50),
    "defer by 0": lambda view, lease: view.defer(lease, 0),
}
SETTLE: dict[str, Settle] = PUT_BACK | {
    "ack": lambda view, lease: view.ack(lease),
    "extend": lambda view, lease: view.extend(lease, 500),
    "dead letter": lambda view, lease: view.dead_letter(lease, "why"),
}


def fill(view: View, count: int, group: str = "g") -> None:
    """Messages 0, 1, 2.. of a group."""
    view.publish_many((group, n) for n in range(count))


def take(view: View, count: int, visibility: float = 30.0) -> list[Lease]:
    """A run of just so many messages."""
    run = view.claim_run("w", visibility, count)
    assert len(run) == count
    return run


def events(leases: list[Lease]) -> list[Any]:
    return [lease.event for lease in leases]


def left(view: View) -> list[tuple[Any, int]]:
    """Events and attempts of what is in the group, in claim order."""
    return [(message.event, message.attempts) for message in view.peek("g", 100)]


def rows(q: Queue) -> list[Row]:
    """All that a settlement could have changed of the messages."""
    columns = "seq, event, attempts, locked_by, lock_expiry, due"
    return q.sql(f"SELECT {columns} FROM {q.table('messages')} ORDER BY seq")
