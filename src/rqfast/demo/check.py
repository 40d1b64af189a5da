"""The check: from what was published and what the workers wrote down to what is wrong.  No I/O.

Of the queue itself it knows nothing but its promises:

1. Each message is done, its text unchanged, and acknowledged; what was acknowledged never comes again.
2. In each group the messages are done in the order in which they were published.
3. One worker at a time is in a group.  A message that a worker left undone keeps the group until the lease is over;
   then it comes again, before the group goes on.
4. What a killed worker held comes again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from .journal import Attempt
from .publish import Published

SECOND = 1_000_000_000
# How much earlier than a lease should end by our clock a message may come again: clocks of Windows tick slowly.
TOLERANCE = SECOND // 20
SHOWN = 5

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Wait:
    """A group that stood still because the worker in it was killed.

    Attributes:
        group: its name.
        line: the message's line in the file.
        seconds: from the claim of the worker that was killed to the begin of the work of the next one.
        behind: how many messages of the group waited behind it.
    """

    group: str
    line: int
    seconds: float
    behind: int


@dataclass(slots=True)
class Verdict:
    """What the check found.

    Attributes:
        faults: what is wrong, a line each; empty when all promises were kept.
        done: messages that were done.
        groups: groups.
        redelivered: messages that came more than once.
        held: messages that killed workers left undone.
        waits: groups that waited for a killed worker's lease, those with most messages behind first.
        seconds: from the begin of the first work to the end of the last.
    """

    faults: list[str] = field(default_factory=list)
    done: int = 0
    groups: int = 0
    redelivered: int = 0
    held: int = 0
    waits: list[Wait] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong (bool)."""
        return not self.faults


def check(published: Published, attempts: Sequence[Attempt], *, visibility: float, killed: Collection[str]) -> Verdict:
    """Compare what the workers wrote down with what was published.

    Args:
        visibility: how long each lease lasts (seconds).
        killed: names of the workers that were killed.
    """
    return _Check(published, attempts, round(visibility * SECOND), killed).run()


class _Faults:
    """Faults by kind; of each kind only the first few are told."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, text: str) -> None:
        self._kinds[kind].append(text)

    def lines(self) -> list[str]:
        told = []
        for kind, texts in self._kinds.items():
            told += [f"{kind}: {text}" for text in texts[:SHOWN]]
            if len(texts) > SHOWN:
                told.append(f"{kind}: and {len(texts) - SHOWN:,} more")
        return told


class _Check:
    def __init__(self, published: Published, attempts: Sequence[Attempt], lease: int, killed: Collection[str]) -> None:
        self._published = published
        self._lease = lease
        self._killed = killed
        self._faults = _Faults()
        self._place = {seq: place for place, seq in enumerate(published.seqs)}
        known = [attempt for attempt in attempts if self._is_known(attempt)]
        self._by_seq = _sorted_by(known, lambda attempt: attempt.seq)
        self._by_group = _sorted_by(known, lambda attempt: attempt.group)

    def run(self) -> Verdict:
        self._check_done()
        for group, attempts in self._by_group.items():
            self._check_order(group, attempts)
            self._check_turns(group, attempts)
        for of_one in self._by_seq.values():
            self._check_again(of_one)
        held = self._check_killed()
        times = [attempt.ended for of_one in self._by_seq.values() for attempt in of_one if attempt.ended]
        begins = [of_one[0].begun for of_one in self._by_seq.values()]
        return Verdict(
            faults=self._faults.lines(),
            done=sum(any(one.ended for one in of_one) for of_one in self._by_seq.values()),
            groups=self._published.group_count,
            redelivered=sum(_came_again(of_one) for of_one in self._by_seq.values()),
            held=len(held),
            waits=self._waits(held),
            seconds=(max(times) - min(begins)) / SECOND if times else 0.0,
        )

    def _is_known(self, attempt: Attempt) -> bool:
        """Whether this is a message that was published, as it was published."""
        place = self._place.get(attempt.seq)
        published = self._published
        if place is None:
            self._faults.add("unknown message", f"{attempt.worker} got {attempt.seq}, which nobody published")
        elif (attempt.group, attempt.line) != (published.groups[place], published.lines[place]):
            self._faults.add(
                "changed message",
                f"{attempt.worker} got line {attempt.line} of group {attempt.group} as message {attempt.seq}, which "
                f"is line {published.lines[place]} of group {published.groups[place]}",
            )
            return False
        elif attempt.ended is not None and attempt.sum != published.sums[place]:
            self._faults.add("changed message", f"{_name(attempt)} came with another text")
        return place is not None

    def _check_done(self) -> None:
        published = self._published
        if len(published.seqs) != len(published.lines):
            self._faults.add("lost", f"{len(published.lines)} messages were published, {len(published.seqs)} are in")
        for seq, line, group in zip(published.seqs, published.lines, published.groups, strict=False):
            attempts = self._by_seq.get(seq, ())
            if not any(attempt.ended for attempt in attempts):
                self._faults.add("lost", f"line {line} of group {group} was never done")
            elif not any(attempt.acked or attempt.lost for attempt in attempts):
                self._faults.add("not acknowledged", f"line {line} of group {group} was done, but not confirmed")

    def _check_order(self, group: str, attempts: Iterable[Attempt]) -> None:
        """The messages were first done in the order of their lines."""
        first: dict[int, int] = {}
        for attempt in attempts:
            if attempt.ended is not None:
                first[attempt.seq] = min(attempt.ended, first.get(attempt.seq, attempt.ended))
        order = sorted(first, key=lambda seq: (first[seq], self._place[seq]))
        for before, after in pairwise(order):
            if self._place[before] > self._place[after]:
                lines = self._published.lines
                early, late = lines[self._place[before]], lines[self._place[after]]
                self._faults.add("order", f"group {group}: line {early} was done before line {late}")

    def _check_turns(self, group: str, attempts: Sequence[Attempt]) -> None:
        """One at a time was in the group, and what was left undone came again before it went on."""
        furthest = attempts[0]
        for before, after in pairwise(attempts):
            until = self._until(furthest)
            if after.begun < until:
                self._faults.add(
                    "two at once",
                    f"group {group}: {after.worker} began line {after.line}, {(until - after.begun) / SECOND:.3f} s "
                    f"before {furthest.worker} {_was_through(furthest)} line {furthest.line}",
                )
            if before.ended is None and after.seq != before.seq:
                self._faults.add(
                    "order",
                    f"group {group}: went on to line {after.line} when {before.worker} had left line {before.line} "
                    "undone",
                )
            if self._until(after) >= until:
                furthest = after

    def _until(self, attempt: Attempt) -> int:
        """Until when the worker was in the group: the end of the work, else the end of the lease (ns)."""
        return attempt.asked + self._lease - TOLERANCE if attempt.ended is None else attempt.ended

    def _check_again(self, attempts: Sequence[Attempt]) -> None:
        """A message came again only when its lease was over, and with a higher count of attempts."""
        for before, after in pairwise(attempts):
            if before.acked:
                self._faults.add("came again", f"{_name(before)} was acknowledged, then {after.worker} got it too")
            elif after.begun < before.asked + self._lease - TOLERANCE:
                seconds = (after.begun - before.asked) / SECOND
                self._faults.add(
                    "came again",
                    f"{_name(before)} came to {after.worker} {seconds:.3f} s after {before.worker} asked for it, "
                    f"before the lease of {self._lease / SECOND:g} s was over",
                )
            if after.attempts <= before.attempts:
                self._faults.add("attempts", f"{_name(before)} came with {before.attempts}, then with {after.attempts}")

    def _check_killed(self) -> list[Attempt]:
        """What killed workers held came again; returns the work that they left undone."""
        held = [
            attempt
            for of_one in self._by_seq.values()
            for attempt in of_one
            if attempt.worker in self._killed and attempt.ended is None
        ]
        for worker in self._killed:
            of_worker = [attempt for attempt in held if attempt.worker == worker]
            if not of_worker:
                self._faults.add("kill", f"{worker} was killed, but had no message in work")
            for attempt in of_worker:
                if self._by_seq[attempt.seq][-1] is attempt:
                    self._faults.add("no redelivery", f"{worker} was killed with {_name(attempt)}; it never came again")
        return held

    def _waits(self, held: Iterable[Attempt]) -> list[Wait]:
        waits = []
        for attempt in held:
            again = [one for one in self._by_seq[attempt.seq] if one.begun > attempt.begun]
            if again:
                of_group = {one.seq for one in self._by_group[attempt.group] if one.begun > again[0].begun}
                behind = len(of_group - {attempt.seq})
                seconds = (again[0].begun - attempt.asked) / SECOND
                waits.append(Wait(attempt.group, attempt.line, seconds, behind))
        return sorted(waits, key=lambda wait: -wait.behind)


def _came_again(attempts: Sequence[Attempt]) -> bool:
    return len(attempts) > 1 or attempts[0].attempts > 1


def _was_through(attempt: Attempt) -> str:
    return "was through with" if attempt.ended is not None else "lost its lease of"


def _name(attempt: Attempt) -> str:
    return f"line {attempt.line} of group {attempt.group}"


def _sorted_by(attempts: Iterable[Attempt], key: Callable[[Attempt], K]) -> dict[K, list[Attempt]]:
    """Attempts by key, each list in the order in which the work was begun."""
    found: dict[K, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[key(attempt)].append(attempt)
    for of_one in found.values():
        of_one.sort(key=lambda attempt: (attempt.begun, attempt.ended or attempt.begun, attempt.line, attempt.attempts))
    return dict(found)
