"""The hypothesis machine: steps that anyone may take at any time, and what must hold after each.

A failure is shrunk to a few `request(...)` lines; the `t=...` lines between them tell what each of their batches
did, as far as queue and oracle agreed.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rqfast.sql import Statements

from .plans import (
    BEHIND,
    DEDUP_IDS,
    EXTRAS,
    FATES,
    GROUPS,
    LIMITS,
    MIN_PRIORITIES,
    PAUSES,
    PRIORITIES,
    SETTLEMENTS,
    VISIBILITIES,
    WHICH,
    WORKERS,
    Done,
    Plan,
    Pub,
    Take,
)
from .world import World

groups = st.sampled_from(GROUPS)
priorities = st.sampled_from(PRIORITIES)
min_priorities = st.sampled_from(MIN_PRIORITIES)
leases = st.sampled_from(WHICH)
pauses = st.sampled_from(PAUSES)
dedup_ids = st.sampled_from((None, None, None, None, *DEDUP_IDS))


def _pub(group: str, priority: int, extra: tuple[int, float, str | None], dedup: str | None) -> Pub:
    rank, delay, headers = extra
    return Pub(group, priority, rank, delay, dedup, headers)


def _done(lease: int, settlement: tuple[str, float | str]) -> Done:
    return Done(lease, *settlement)


publishes = st.builds(_pub, groups, priorities, st.sampled_from(EXTRAS), dedup_ids)
settlements = st.builds(_done, leases, st.sampled_from(SETTLEMENTS))
claims = st.builds(
    Take,
    st.sampled_from(LIMITS),
    st.sampled_from(VISIBILITIES),
    min_priorities,
    st.sampled_from(WORKERS),
    st.sampled_from((None, None, None, *WHICH)),
)
plans: st.SearchStrategy[Plan] = st.one_of(claims, settlements, publishes)


class QueueMachine(RuleBasedStateMachine):
    """The default queue and its oracle."""

    statements: ClassVar[Statements] = Statements(None)
    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.db = sqlite3.connect(":memory:", isolation_level=None, cached_statements=256)
        self.world = World(self.db, self.statements, None, note)

    @rule(
        client=st.sampled_from("AB"),
        calls=st.lists(plans, min_size=1, max_size=6),
        behind=st.sampled_from(BEHIND),
        fate=st.sampled_from(FATES),
        tidy=st.sampled_from((None, None, None, 0, 2)),
        after=pauses,
    )
    def request(self, client: str, calls: list[Plan], behind: float, fate: str, tidy: int | None, after: float) -> None:
        """Some calls, made together on one client; the batcher decides which requests they become."""
        self.world.wait(after)
        self.world.request(client, calls, behind=behind, fate=fate, tidy=tidy)

    @rule(min_priority=min_priorities, ahead=pauses)
    def look(self, min_priority: int, ahead: float) -> None:
        """A waiting claim looks."""
        self.world.look(min_priority, ahead)

    @rule(group=groups, hint=st.booleans())
    def pause(self, group: str, hint: bool) -> None:
        """An operator pauses a group."""
        self.world.pause(group, hint=hint)

    @rule(group=groups)
    def resume(self, group: str) -> None:
        """And lets it go on."""
        self.world.resume(group)

    @rule(group=groups, priority=priorities)
    def publish_plainly(self, group: str, priority: int) -> None:
        """A publisher of the plain transport begins a group."""
        self.world.publish_plainly(group, priority)

    @invariant()
    def tables_hints_leases_and_looks_are_right(self) -> None:
        """Holds after each step."""
        self.world.check()

    def teardown(self) -> None:
        """Add up what happened."""
        self.counts.update(self.world.counts)
        self.counts["examples"] += 1
        self.db.close()


class TwoQueuesMachine(QueueMachine):
    """A queue with a name and the default queue in one database: each has an oracle of its own."""

    named: ClassVar[Statements] = Statements("orders")
    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.other = self.world
        self.world = World(self.db, self.named, "orders", note)

    @rule()
    def go_to_the_other_queue(self) -> None:
        """The steps that follow are for the other queue."""
        self.world, self.other = self.other, self.world

    @invariant()
    def the_other_queue_stays_as_it_is(self) -> None:
        """What happens in one queue is not seen in another."""
        self.other.check_tables()
        self.other.check_hints()

    def teardown(self) -> None:
        """Add up what happened in both."""
        self.counts.update(self.other.counts)
        super().teardown()
