"""The rule of attempts: each claim counts once, and nothing else does; a redrive begins anew.  No I/O.

A claim of which nobody was told what it took may have taken a message, once: while it was under way, or somewhat later,
for a request may be held up on its way when its caller has given up, or is gone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from .calls import DONE, SECOND, UNKNOWN, Call
from .lives import Life, Lives, Take

TIMEOUT = 10 * SECOND
MARGIN = 10 * SECOND


class Miscount(NamedTuple):
    """A message came with a number of attempts that cannot be.

    Attributes:
        life: the message.
        before, take: the lease before, None: there is none; the one with the wrong number.
    """

    life: Life
    before: Take | None
    take: Take


class Attempts:
    """Adds up attempts.

    Args:
        lives: the history.
        slack: how much earlier than asked a lease may end (ns).
        timeout: of a call (ns).

    Attributes:
        unseen: claims of which nobody was told what they took; or was told too late: where a claim took longer than
            its leases were to last, they may have ended, and been taken over, before its reply came.
        count: attempts found so far that must be theirs.
    """

    def __init__(self, lives: Lives, slack: int, timeout: int = TIMEOUT) -> None:
        unseen = [call for call in lives.calls if call.is_claim and (call.told == UNKNOWN or _outlived(call, slack))]
        self.unseen: list[Call] = unseen
        self.count: int = 0
        self._begun = [call.begun for call in unseen]
        self._over = [_over(call, timeout) for call in unseen]
        self._longest = max((over - begun for begun, over in zip(self._begun, self._over, strict=True)), default=0)
        redrives = [call for call in lives.of("redrive") if call.told in (DONE, UNKNOWN)]
        self._redriven = [call.begun for call in redrives]
        self._redriving = list(accumulate((_over(call, timeout) for call in redrives), max))

    @property
    def limit(self) -> int:
        """How many messages the unseen claims asked for (int)."""
        return sum(call.limit for call in self.unseen)

    def miscounts(self, life: Life) -> Iterator[Miscount]:
        """Where the attempts of a message do not add up."""
        used: set[int] = set()
        before: Take | None = None
        for take in life.takes:
            told = take.held.attempts - 1
            since = life.begun if before is None else before.call.begun
            more = min((told - base for base in self._bases(before, take) if base <= told), default=None)
            if more is None or not self._pardon(more, since, take.since, used):
                yield Miscount(life, before, take)
            before = take

    def _bases(self, before: Take | None, take: Take) -> list[int]:
        """How many attempts may have been counted when the lease before was over."""
        if before is None:
            return [0]
        kept = before.held.attempts
        found = [kept]
        for one in before.settlements:
            if one.how == "give_back" and one.may_count:
                found.append(kept - 1)
            elif one.how == "dead_letter" and one.may_count:
                if one.told == DONE and kept in found:
                    found.remove(kept)
                if self._may_be_redriven(one.call.begun, take.since):
                    found.append(0)
        return found

    def _may_be_redriven(self, since: int, until: int) -> bool:
        place = bisect_right(self._redriven, until)
        return place > 0 and self._redriving[place - 1] >= since

    def _pardon(self, count: int, since: int, until: int, used: set[int]) -> bool:
        """Whether so many unseen claims may have taken a message then, each once; they are added to `used`."""
        if not count:
            return True
        first, last = bisect_left(self._begun, since - self._longest), bisect_right(self._begun, until)
        able = [place for place in range(first, last) if self._over[place] >= since and place not in used]
        # Those that are over first cannot serve later leases.
        chosen = sorted(able, key=self._over.__getitem__)[:count]
        if len(chosen) < count:
            return False
        used.update(chosen)
        self.count += count
        return True


def _outlived(claim: Call, slack: int) -> bool:
    """Whether its leases may have ended before it was answered."""
    return claim.ended is None or claim.ended - claim.begun >= round(claim.seconds * SECOND) - slack


def _over(call: Call, timeout: int) -> int:
    """Until when it may have been applied (ns)."""
    if call.told == DONE and call.ended is not None:
        return call.ended
    return max(call.ended or 0, call.begun + timeout) + MARGIN
