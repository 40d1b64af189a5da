"""Publishers and workers of the plain transport beside rqfast: the statements are its own, tests/reference pins them.

What they may and may not do is said by the oracle; what they find is their own affair, so it is read and then judged.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from bench.reference import Event, Lease, statements

from .oracle import PARKED

if TYPE_CHECKING:
    from .world import World

# How many leases the old workers remember; those that are spent stay for a while, to be settled late.
IN_HAND = 8


class PlainSide:
    """Old publishers and workers on the default queue."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tokens = itertools.count()
        self.hand: list[Lease] = []

    def publish(self, group: str, priority: int) -> None:
        """Publish a message; its place and its group's turn are those that rqfast would have given them."""
        world = self._world
        event = Event(world.new_event()).model_dump_json()
        world.store.transaction(statements.publish(group, event, priority))
        world.oracle.plain_publish(group, event, priority)
        world.counts["plain publish"] += 1
        world.tell(f"#   plain publish {world.oracle.last_seq} to {group!r}")

    def claim(self, visibility: float, ahead: float, min_priority: int = 0) -> None:
        """Claim by a clock that is `ahead` of the others; whatever is found, it must be the worker's to have."""
        world = self._world
        token, now = f"old:{next(self._tokens)}", world.now + ahead
        world.store.transaction([statements.claim(token, now, visibility, min_priority)])
        rows = world.store.read(*statements.claimed(token))
        if not rows:
            world.counts["plain claim of nothing"] += 1
            return
        seq, group, _ = rows[0]
        world.store.transaction([statements.served(group, now)])
        world.oracle.plain_claim(seq, token, now + visibility)
        self.hand = [*self.hand, Lease(seq, group, Event(seq), token)][-IN_HAND:]
        world.counts["plain claim"] += 1
        world.tell(f"#   plain claim until {now + visibility:g}: {seq} of {group!r}")

    def settle(self, which: int, how: str, argument: float, *, keep: bool) -> None:
        """Ack, nack or park, perhaps long after the lease has lapsed; with `keep` the worker will do so again."""
        if which >= len(self.hand):
            return
        lease = self.hand[-1 - which] if keep else self.hand.pop(-1 - which)
        world = self._world
        program: list[list[Any]] = [statements.nack(lease, argument, world.now)]
        if how == "ack":
            program = statements.ack(lease)
        if world.oracle.is_held_by_rqfast(lease.seq):
            world.counts["plain settlement of a live lease"] += 1
        world.store.transaction(program)
        holder = PARKED if how == "park" else None
        world.oracle.plain_settle(lease.seq, lease.group_id, how, holder, world.now + argument)
        world.counts[f"plain {how}"] += 1
        world.tell(f"#   plain {how} {lease.seq} of {lease.group_id!r}")
