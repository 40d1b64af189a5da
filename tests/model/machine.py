"""The hypothesis machine: steps that anyone may take at any time, and what must hold after each.

A failure is shrunk to a few steps; the `#` lines between them tell what each request did, as far as queue and
oracle agreed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rqfast.sql import Statements

from .plans import (
    AHEAD,
    BEHIND,
    COUNTS,
    DEDUP_IDS,
    EVERY,
    EXTRAS,
    FATES,
    GROUPS,
    LIMITS,
    MIN_PRIORITIES,
    OPERATIONS,
    PAUSES,
    PLAIN_SETTLEMENTS,
    PRIORITIES,
    SETTLEMENTS,
    SOME,
    VISIBILITIES,
    WHICH,
    WORKERS,
    Bound,
    Done,
    Only,
    Op,
    Plan,
    Pub,
    Send,
    Take,
)
from .stores import Store
from .world import World

groups = st.sampled_from(GROUPS)
priorities = st.sampled_from(PRIORITIES)
min_priorities = st.sampled_from(MIN_PRIORITIES)
pauses = st.sampled_from(PAUSES)

# Few draws a step, each from a list whose simplest item is the first: hypothesis leaves out steps of few draws.
messages = st.sampled_from(
    [
        Pub("a", priority, rank, delay, dedup, headers)
        for dedup in (None, None, None, None, *DEDUP_IDS)
        for rank, delay, headers in EXTRAS
        for priority in PRIORITIES
    ]
)
bundles = st.sampled_from(
    [
        Bound(0, count, publish, writes)
        for count in (1, 1, 2)
        for publish in ((Pub("b"),), (Pub("a", 2), Pub("b", 1, -1)), (Pub("a", dedup=DEDUP_IDS[0]),), ())
        for writes in (False, False, True)
    ]
    + [Bound(0, 0, (Pub("a", dedup=name),), True) for name in (None, *DEDUP_IDS)]
)
settlements = st.sampled_from([Done(0, how, argument, count) for count in COUNTS for how, argument in SETTLEMENTS])
claims = st.sampled_from(
    [
        Take(limit, visibility, min_priority, run=run, only=only)
        for run, only in (
            (False, EVERY),
            (False, EVERY),
            (True, EVERY),
            *((run, some) for run in (False, True) for some in SOME),
        )
        for min_priority in MIN_PRIORITIES
        for limit in LIMITS
        for visibility in VISIBILITIES
    ]
)
riders = st.sampled_from([(worker, ack) for ack in (None, None, None, *WHICH) for worker in WORKERS])
SENDINGS = [
    Send(client, fate, behind, tidy, after)
    for tidy in (None, None, None, 0, 2)
    for behind in BEHIND
    for fate in FATES
    for client in "AB"
    for after in PAUSES
]
# None: the call waits for the next one.
sendings = st.sampled_from([*SENDINGS, *[None] * 2 * len(SENDINGS)])


class QueueMachine(RuleBasedStateMachine):
    """The default queue and its oracle.

    A call waits for those that are made next, until one says `Send`; then they are made on one client, whose batcher
    decides which requests they become.
    """

    statements: ClassVar[Statements] = Statements(None)
    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.world = World(self.store, self.statements, None, note)
        self.calls: list[Plan] = []
        self.is_checked = False

    @rule(message=messages, group=groups, then=sendings)
    def publish(self, message: Pub, group: str, then: Send | None) -> None:
        """A message on its way in."""
        self._call(replace(message, group=group), then)

    @rule(claim=claims, rider=riders, then=sendings)
    def claim(self, claim: Take, rider: tuple[str, int | None], then: Send | None) -> None:
        """A claim, of one worker or another, perhaps with an acknowledgement."""
        worker, ack = rider
        self._call(replace(claim, worker=worker, ack=ack), then)

    @rule(group=groups, message=messages, claim=claims, then=sendings)
    def publish_and_claim(self, group: str, message: Pub, claim: Take, then: Send | None) -> None:
        """Both, so that there is often a lease in hand."""
        self.calls.append(replace(message, group=group))
        self._call(claim, then)

    @rule(settlement=settlements, lease=st.sampled_from(WHICH), then=sendings)
    def settle(self, settlement: Done, lease: int, then: Send | None) -> None:
        """A settlement: of the newest lease (0), of an earlier one, or once more of one that is spent (-1)."""
        self._call(replace(settlement, lease=lease), then)

    @rule(lease=st.sampled_from(WHICH), bundle=bundles, then=sendings)
    def hand_on(self, lease: int, bundle: Bound, then: Send | None) -> None:
        """An acknowledgement, or several, with messages and a statement of the user's."""
        self._call(replace(bundle, lease=lease), then)

    @rule(first=settlements, second=settlements, lease=st.sampled_from(WHICH), then=sendings)
    def settle_two(self, first: Done, second: Done, lease: int, then: Send | None) -> None:
        """The newest lease and another one, which may be the same."""
        self.calls.append(first)
        self._call(replace(second, lease=lease), then)

    def _call(self, plan: Plan, then: Send | None) -> None:
        self.calls.append(plan)
        if then is None:
            return
        calls, self.calls = self.calls, []
        note(f"# {then}: {calls}")
        self.world.wait(then.after)
        self.world.request(then.client, calls, behind=then.behind, fate=then.fate, tidy=then.tidy)
        self.is_checked = False

    @rule(min_priority=min_priorities, ahead=pauses, only=st.sampled_from((EVERY, EVERY, *SOME)))
    def look(self, min_priority: int, ahead: float, only: Only) -> None:
        """A waiting claim looks."""
        self.world.look(min_priority, ahead, only)

    @rule(operation=st.sampled_from(OPERATIONS), group=groups, then=sendings)
    def operate(self, operation: Op, group: str, then: Send | None) -> None:
        """An operator's call."""
        self._call(replace(operation, group=group), then)

    @rule(group=groups)
    def pause_by_hand(self, group: str) -> None:
        """A tool pauses a group."""
        self.world.pause_by_hand(group)
        self.is_checked = False

    @invariant()
    def agrees(self) -> None:
        """Tables, hints, leases and looks are right after each step that changed something."""
        if not self.is_checked:
            self.world.check()
            self.is_checked = True

    def teardown(self) -> None:
        """Add up what happened."""
        self.counts.update(self.world.counts)
        self.counts["examples"] += 1
        self.store.close()


class MixedMachine(QueueMachine):
    """The default queue with publishers and workers of the plain transport on it."""

    counts: ClassVar[Counter[str]] = Counter()

    @rule(group=groups, priority=priorities, visibility=st.sampled_from((None, *VISIBILITIES)))
    def plain_publish(self, group: str, priority: int, visibility: float | None) -> None:
        """An old publisher; mostly an old worker claims then, so that there is often a lease in hand."""
        self.world.plain.publish(group, priority)
        if visibility is not None:
            self.world.plain.claim(visibility, 0.0)
        self.is_checked = False

    @rule(visibility=st.sampled_from(VISIBILITIES), ahead=st.sampled_from(AHEAD), after=pauses)
    def plain_claim(self, visibility: float, ahead: float, after: float) -> None:
        """An old worker, whose clock may be hours ahead."""
        self.world.wait(after)
        self.world.plain.claim(visibility, ahead)
        self.is_checked = False

    @rule(
        lease=st.sampled_from(WHICH[:6]),
        settlement=st.sampled_from(PLAIN_SETTLEMENTS),
        keep=st.booleans(),
        after=pauses,
    )
    def plain_settle(self, lease: int, settlement: tuple[str, float], keep: bool, after: float) -> None:
        """And what it does with its message, perhaps late, perhaps twice."""
        self.world.wait(after)
        self.world.plain.settle(lease, *settlement, keep=keep)
        self.is_checked = False


class TwoQueuesMachine(QueueMachine):
    """A queue with a name and the default queue in one database: each has an oracle of its own."""

    named: ClassVar[Statements] = Statements("orders")
    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.other = self.world
        self.world = World(self.store, self.named, "orders", note)

    @rule()
    def go_to_the_other_queue(self) -> None:
        """The steps that follow are for the other queue."""
        self.world, self.other = self.other, self.world

    @invariant()
    def the_other_queue_stays_as_it_is(self) -> None:
        """What happens in one queue is not seen in another."""
        if not self.is_checked:
            self.other.check_tables()
            self.other.check_hints()

    def teardown(self) -> None:
        """Add up what happened in both."""
        self.counts.update(self.other.counts)
        super().teardown()
