"""The rules of order in a group: who is the head, and what is published first is first.  No I/O.

A message that was published without delay and never deferred is *plain*: plain ones are in the order of their seqs.
All others are compared by when they are due, as far as that is known: an interval.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from .calls import DONE, SECOND, UNKNOWN, Call
from .lives import NEVER, Life, Settlement, Take


class Place(NamedTuple):
    """A message's place in its group, for some time.

    Attributes:
        since, until: when it was in the queue, at that place, for certain (ns).
        seq: its seq.
        plain: whether its seq decides among plain ones.
        early, late: when it is due at the earliest and at the latest (ns).
        life: the message.
    """

    since: int
    until: int
    seq: int
    plain: bool
    early: int
    late: int
    life: Life


class Overtaking(NamedTuple):
    """A lease of a message that was not the head: `head` was in the queue, before it."""

    take: Take
    head: Life


class _Path:
    """Follows one message through its places."""

    def __init__(self, life: Life, slack: int) -> None:
        self.places: list[Place] = []
        self.taken: list[tuple[Take, Place]] = []
        self._life = life
        self._slack = slack
        self._seq = life.seq or 0
        delay = round(life.sends[0][1].delay * SECOND)
        self._plain = not delay
        self._early = life.begun + delay - slack
        self._late = life.entered + delay + slack
        self._since: int | None = life.entered

    def follow(self) -> None:
        steps: list[tuple[int, int, Take | Settlement]] = [(take.since, 0, take) for take in self._life.takes]
        for _, settlement in self._life.settlements:
            if settlement.may_count and settlement.how in ("ack", "dead_letter", "defer"):
                steps.append((settlement.call.begun, 1, settlement))
        is_gone = False
        for at, _, step in sorted(steps, key=lambda step: step[:2]):
            if isinstance(step, Take):
                self._since = at if self._since is None else self._since
                self.taken.append((step, self._place(NEVER)))
                is_gone = False
            elif not (is_gone and step.told == UNKNOWN):
                self._leave(at)
                if step.how == "defer":
                    self._defer(step)
                else:
                    is_gone = step.told == DONE
        self._leave(NEVER)

    def _place(self, until: int) -> Place:
        since = NEVER if self._since is None else self._since
        return Place(since, until, self._seq, self._plain, self._early, self._late, self._life)

    def _leave(self, at: int) -> None:
        if self._since is not None and self._since < at:
            self.places.append(self._place(at))
        self._since = None

    def _defer(self, settlement: Settlement) -> None:
        call = settlement.call
        delay = round(call.seconds * SECOND)
        early = call.begun + delay - self._slack
        late = NEVER if call.ended is None else call.ended + delay + self._slack
        if settlement.told == UNKNOWN:
            early, late = min(early, self._early), max(late, self._late)
        self._plain, self._early, self._late = False, early, late
        self._since = call.ended


def overtakings(lives: Sequence[Life], slack: int) -> Iterator[Overtaking]:
    """The leases of one group that went to a message that was not the head for certain.

    Args:
        lives: the messages of the group.
        slack: how far off a time may be (ns).
    """
    places: list[Place] = []
    taken: list[tuple[Take, Place]] = []
    for life in lives:
        if life.was_in:
            path = _Path(life, slack)
            path.follow()
            places += path.places
            taken += path.taken
    places.sort(key=lambda place: place.since)
    taken.sort(key=lambda pair: pair[0].call.begun)
    by_seq, by_due = _Waiting(), _Waiting()
    next_place = 0
    for take, place in taken:
        while next_place < len(places) and places[next_place].since <= take.call.begun:
            waiting = places[next_place]
            if waiting.plain:
                by_seq.add(waiting.seq, waiting)
            by_due.add(waiting.late, waiting)
            next_place += 1
        head = by_seq.first(take) if place.plain else None
        if head is None or head.seq >= place.seq:
            head = by_due.first(take)
            if head is None or head.late >= place.early:
                continue
        yield Overtaking(take, head.life)


class _Waiting:
    """Places that are taken, the first in some order at hand."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Place]] = []
        self._count = 0

    def add(self, key: int, place: Place) -> None:
        self._count += 1
        heapq.heappush(self._heap, (key, self._count, place))

    def first(self, take: Take) -> Place | None:
        """The first that stood all through the claim."""
        heap, aside = self._heap, []
        found = None
        while heap:
            place = heap[0][2]
            if place.until > take.since:
                found = place
                break
            entry = heapq.heappop(heap)
            if place.until > take.call.begun:
                aside.append(entry)
        for entry in aside:
            heapq.heappush(heap, entry)
        return found


def published_late(lives: Sequence[Life]) -> Iterator[tuple[Life, Life]]:
    """Pairs of one group whose seqs are against the order in which they were published for certain."""
    known = [life for life in lives if life.was_in and life.seq is not None]
    known.sort(key=lambda life: life.seq or 0)
    last: Life | None = None
    for life in known:
        if last is not None and life.entered <= last.begun:
            yield life, last
        if last is None or life.begun > last.begun:
            last = life


def out_of_line(call: Call) -> Iterator[tuple[str, int, int]]:
    """Groups of one publish_many whose seqs do not rise with the items: the group, and the two seqs."""
    groups: dict[str, list[int]] = {}
    for sent in call.sent:
        if sent.told == DONE and sent.seq is not None and sent.trial == 1:
            groups.setdefault(sent.group, []).append(sent.seq)
    for group, seqs in groups.items():
        for before, after in pairwise(seqs):
            if after <= before:
                yield group, before, after
