"""What a history has shown: a run that saw no lapse and no fault has proved little, and says so.  No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise

from .calls import DONE, LOST, PUBLISHES, REFUSED, SECOND, UNKNOWN
from .lives import Life, Lives, Take


@dataclass(slots=True)
class Ended:
    """How calls ended of which it was not told whether they were applied.

    Attributes:
        applied, not_applied: so many messages or leases of them were, were not.
        untold: of so many the history does not say.
    """

    applied: int = 0
    not_applied: int = 0
    untold: int = 0

    @property
    def total(self) -> int:
        """All of them (int)."""
        return self.applied + self.not_applied + self.untold


@dataclass(slots=True)
class Shown:
    """What was seen.

    Attributes:
        messages: that were in the queue.
        groups: with messages.
        confirmed: messages whose publish was confirmed.
        leases: that were held.
        done: messages that were acknowledged.
        calls: settlements and others that were done, by their names.
        lapses: leases that nobody settled.
        taken_over: of these, those whose message was claimed again.
        orphans: of those taken over, those whose holder was killed.
        late: settlements that were accepted though the lease had lapsed (nobody had claimed the group).
        refused: settlements that were told that the lease was lost.
        unavailable: calls that were told that nothing was applied.
        cut: calls in which their process was killed; these are among the unknown ones.
        unknown: calls whose outcome was unknown, by name: how the messages in them ended.
        longest_take_over: the longest time from the end of a lapsed lease to the next one of the message (seconds).
        longest_pause: the longest time in which no call of any process was done (seconds).
        longest_call: the longest call that was done (seconds); waits for messages do not count.
    """

    messages: int = 0
    groups: int = 0
    confirmed: int = 0
    leases: int = 0
    done: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    lapses: int = 0
    taken_over: int = 0
    orphans: int = 0
    late: int = 0
    refused: int = 0
    unavailable: int = 0
    cut: int = 0
    unknown: dict[str, Ended] = field(default_factory=dict)
    longest_take_over: float = 0.0
    longest_pause: float = 0.0
    longest_call: float = 0.0


def show(lives: Lives, killed: Collection[str] = ()) -> Shown:
    """See what a history has shown.

    Args:
        killed: the processes that were killed.
    """
    shown = Shown()
    left = {held.id for call in lives.of("left", "dead") for held in call.held}
    groups = set()
    for life in lives.by_id.values():
        if life.was_in:
            shown.messages += 1
            groups.add(life.group)
        shown.confirmed += life.is_confirmed
        shown.leases += len(life.takes)
        shown.done += any(one.how == "ack" and one.told == DONE for _, one in life.settlements)
        _see_publishes(life, shown)
        _see_leases(life, shown, killed, is_left=life.id in left)
    shown.groups = len(groups)
    _see_calls(lives, shown)
    return shown


def _see_publishes(life: Life, shown: Shown) -> None:
    trials = {take.held.trial for take in life.takes}
    for call, sent in life.sends:
        if sent.told == UNKNOWN:
            ended = shown.unknown.setdefault(call.name, Ended())
            if sent.trial in trials:
                ended.applied += 1
            else:
                ended.not_applied += 1


def _see_leases(life: Life, shown: Shown, killed: Collection[str], *, is_left: bool) -> None:
    for take, after in pairwise([*life.takes, None]):
        if take is None:
            continue
        if take.has_lapsed:
            shown.lapses += 1
            if after is not None:
                shown.taken_over += 1
                shown.orphans += take.call.who in killed
                waited = (after.since - take.over(0)) / SECOND
                shown.longest_take_over = max(shown.longest_take_over, waited)
        for one in take.settlements:
            shown.calls[one.how] += one.told == DONE
            shown.refused += one.told == LOST
            shown.late += one.told == DONE and one.call.begun > take.over(0)
            if one.told == UNKNOWN and one.call.told == UNKNOWN:
                _see_unknown(one.how, after, shown, is_left=is_left)


def _see_unknown(how: str, after: Take | None, shown: Shown, *, is_left: bool) -> None:
    ended = shown.unknown.setdefault(how, Ended())
    if how == "ack":
        if after is None and not is_left:
            ended.applied += 1
        else:
            ended.not_applied += 1
    elif how == "dead_letter" and after is not None:
        if after.held.attempts == 1:
            ended.applied += 1
        else:
            ended.not_applied += 1
    else:
        ended.untold += 1


def _see_calls(lives: Lives, shown: Shown) -> None:
    last = lives.calls[0].begun if lives.calls else 0
    for call in sorted(lives.calls, key=lambda call: call.ended or 0):
        shown.unavailable += call.told == REFUSED
        shown.cut += call.ended is None
        if call.is_claim and call.told == UNKNOWN:
            shown.unknown.setdefault(call.name, Ended()).untold += 1
        if call.name == "redrive":
            shown.calls["redriven"] += call.count
        if call.told != DONE or call.ended is None:
            continue
        if call.name in PUBLISHES or call.settled or call.held:
            shown.longest_pause = max(shown.longest_pause, (call.ended - last) / SECOND)
            last = max(last, call.ended)
        if not call.is_claim:
            shown.longest_call = max(shown.longest_call, (call.ended - call.begun) / SECOND)
