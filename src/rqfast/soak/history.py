"""The checker: from what the processes of a history were told to which rule of the queue was broken.  No I/O.

    lost      a message whose publish was confirmed is done, or still there at the end
    left      nothing is left in the queue at the end, nor among the dead letters
    twice     a message is one message: one seq, done once
    again     what is done does not come again
    two       one lease at a time is live in a group
    early     a lease that is live is not lost
    fenced    once a message was claimed anew, no settlement of an older lease is accepted; fences rise
    order     the head of the group comes first; what is published first is first
    attempts  each claim counts once, and nothing else does; a redrive begins anew
    refused   what was told not to be applied is not applied
    changed   what comes is what was published
    stats     stats() agrees with what was published and done

All that is told is certain: what a call was not told of (its process was killed, `OutcomeUnknown`) may have been
applied or not, and what two calls side by side did may have been in either order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .attempts import TIMEOUT, Attempts
from .calls import DONE, LOST, REFUSED, SECOND, UNKNOWN, Call
from .lives import NEVER, Life, Lives, Take
from .order import out_of_line, overtakings, published_late

RULES = (
    "lost", "left", "twice", "again", "two", "early", "fenced", "order", "attempts", "refused", "changed", "stats",
)  # fmt: skip

SLACK = SECOND // 5
KEPT = 20


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that was broken.

    Attributes:
        rule: which, one of RULES.
        text: how.
        calls: those that show it.
    """

    rule: str
    text: str
    calls: tuple[Call, ...]


@dataclass(slots=True)
class Verdict:
    """What the check found.

    Attributes:
        broken: what shows that a rule was broken, the first few of each rule.
        counts: how often each broken rule was.
    """

    broken: list[Broken] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether no rule was broken (bool)."""
        return not self.counts

    def add(self, rule: str, text: str, *calls: Call) -> None:
        """Note that a rule was broken."""
        count = self.counts[rule] = self.counts.get(rule, 0) + 1
        if count <= KEPT:
            self.broken.append(Broken(rule, text, calls))


def check(calls: Iterable[Call] | Lives, *, slack: int = SLACK, timeout: int = TIMEOUT) -> Verdict:
    """Check a history against all rules.

    Args:
        calls: all that was called, in any order.
        slack: how much earlier than asked a lease may end, and how far off due times may be, for the ways of messages
            and coarse clocks (ns).
        timeout: of a call (ns).
    """
    lives = calls if isinstance(calls, Lives) else Lives(calls)
    checker = _Checker(lives, slack, timeout)
    checker.run()
    return checker.verdict


class _Checker:
    def __init__(self, lives: Lives, slack: int, timeout: int) -> None:
        self.verdict = Verdict()
        self._lives = lives
        self._slack = slack
        self._attempts = Attempts(lives, slack, timeout)
        self._add = self.verdict.add
        self._lists = [call for call in lives.of("left", "dead") if call.told == DONE]
        self._left = {held.id: call for call in self._lists for held in call.held}

    def run(self) -> None:
        for take in self._lives.strangers:
            held = take.held
            self._add("changed", f"message {held.seq} of group {held.group} was published by nobody", take.call)
        for life in self._lives.by_id.values():
            self._check_same(life)
            self._check_end(life)
            self._check_once(life)
            self._check_leases(life)
            self._check_attempts(life)
        self._check_unseen()
        self._check_left()
        for group, lives in self._lives.by_group().items():
            self._check_two(group, lives)
            self._check_fences(group, lives)
            self._check_order(group, lives)
        for call in self._lives.of("publish_many"):
            for group, before, after in out_of_line(call):
                self._add("order", f"group {group}: seq {after} was given after {before}", call)
        self._check_stats()

    # -- of one message ------------------------------------------------------------------------------------------

    def _check_same(self, life: Life) -> None:
        """It is what was published; what was refused is not there."""
        for take in life.takes:
            if not take.held.intact or take.held.group != life.group:
                self._add("changed", f"{_name(life)} came as another", life.sends[0][0], take.call)
        refused = {sent.trial: call for call, sent in life.sends if sent.told == REFUSED}
        for take in life.takes:
            if take.held.trial in refused:
                text = f"{_name(life)} was told not to be in, and came"
                self._add("refused", text, refused[take.held.trial], take.call)
                break

    def _check_end(self, life: Life) -> None:
        """It was done, or is there."""
        if not life.was_in or life.id in self._left:
            return
        if not any(one.may_count and one.how == "ack" for _, one in life.settlements):
            last = life.takes[-1].call if life.takes else None
            self._add("lost", f"{_name(life)} was never done, and is gone", *_some(life.sends[0][0], last))

    def _check_once(self, life: Life) -> None:
        """It has one seq, is done once, and does not come again."""
        seqs = {sent.seq: call for call, sent in life.sends if sent.told == DONE}
        seqs |= {take.held.seq: take.call for take in life.takes}
        if len(seqs) > 1:
            self._add("twice", f"{_name(life)} is there under {_listed(seqs)}", *seqs.values())
        acks = [one.call for _, one in life.settlements if one.told == DONE and one.how == "ack"]
        if len(acks) > 1:
            self._add("twice", f"{_name(life)} was done twice", *acks)
        told = min((call.ended for call in acks if call.ended is not None), default=NEVER)
        for take in life.takes:
            if take.call.begun >= told:
                self._add("again", f"{_name(life)} was done, and came again", acks[0], take.call)
                break

    def _check_leases(self, life: Life) -> None:
        """A live lease is not lost; one that was taken over settles nothing."""
        taken_over, by = NEVER, None
        for take in reversed(life.takes):
            for one in take.settlements:
                call = one.call
                if one.told == DONE and by is not None and call.begun >= taken_over:
                    text = f"{_name(life)}: {call.name} of a lease that was taken over was accepted"
                    self._add("fenced", text, take.call, by, call)
                if (
                    one.told == LOST
                    and call.ended is not None
                    and (until := take.until_lost(call, self._slack)) >= call.ended
                ):
                    left = (until - call.ended) / SECOND
                    self._add("early", f"{_name(life)}: lost {left:.3f} s before its end", take.call, call)
            if take.since < taken_over:
                taken_over, by = take.since, take.call

    def _check_attempts(self, life: Life) -> None:
        """Each claim counts; those that nobody was told of count too."""
        for wrong in self._attempts.miscounts(life):
            before, take = wrong.before, wrong.take
            text = f"{_name(life)} came with {take.held.attempts} attempts after "
            text += "none" if before is None else f"{before.held.attempts}"
            self._add("attempts", text, *_some(None if before is None else before.call, take.call))

    def _check_unseen(self) -> None:
        attempts = self._attempts
        if attempts.count > attempts.limit:
            self._add(
                "attempts",
                f"{attempts.count} attempts were counted that nobody was told of; calls whose outcome is unknown "
                f"asked for {attempts.limit} messages",
                *attempts.unseen[:3],
            )

    def _check_left(self) -> None:
        """Nothing is there at the end."""
        for call in self._lists:
            where = "in the queue" if call.name == "left" else "among the dead letters"
            for held in call.held:
                life = self._lives.by_id.get(held.id)
                name = f"message {held.seq} of group {held.group}" if life is None else _name(life)
                self._add(
                    "left", f"{name} is {where} at the end", *_some(None if life is None else life.sends[0][0], call)
                )

    # -- of one group --------------------------------------------------------------------------------------------

    def _check_two(self, group: str, lives: Sequence[Life]) -> None:
        """One lease at a time is live."""
        takes = sorted((take for life in lives for take in life.takes), key=lambda take: take.since)
        holder: Take | None = None
        until = 0
        for take in takes:
            end = take.until(self._slack)
            if holder is not None and take.since < min(until, end):
                both = (min(until, end) - take.since) / SECOND
                text = f"group {group}: messages {holder.held.seq} and {take.held.seq} were in work for {both:.3f} s"
                self._add("two", text, holder.call, take.call)
            if end > until:
                holder, until = take, end

    def _check_fences(self, group: str, lives: Sequence[Life]) -> None:
        """Of two claims one after the other the second has the greater fence."""
        takes = sorted((take for life in lives for take in life.takes), key=lambda take: take.held.fence)
        for before, take in pairwise(takes):
            if before.held.fence == take.held.fence and before.call is not take.call:
                self._add("fenced", f"group {group}: two leases have one fence", before.call, take.call)
        last: Take | None = None
        for take in takes:
            if last is not None and take.since <= last.call.begun:
                text = f"group {group}: fence {take.held.fence} came before {last.held.fence}"
                self._add("fenced", text, take.call, last.call)
            if last is None or take.call.begun > last.call.begun:
                last = take

    def _check_order(self, group: str, lives: Sequence[Life]) -> None:
        for found in overtakings(lives, self._slack):
            text = f"group {group}: {found.take.held.seq} was claimed while {found.head.seq} was before it"
            self._add("order", text, found.head.sends[0][0], found.take.call)
        for late, early in published_late(lives):
            text = f"group {group}: {late.id} has seq {late.seq}, {early.id} was published later and has {early.seq}"
            self._add("order", text, late.sends[-1][0], early.sends[0][0])

    # -- of the queue --------------------------------------------------------------------------------------------

    def _check_stats(self) -> None:
        """What it tells lies between what was there for certain and what may have been."""
        told = [call for call in self._lives.of("stats") if call.totals is not None]
        if not told:
            return
        bounds = _Bounds(self._lives.by_id.values())
        for call in told:
            totals, ended = call.totals, call.ended
            if totals is None or ended is None:
                continue
            least, most = bounds.at(call.begun, ended)
            count = totals.messages + totals.dead
            if not least <= count <= most:
                text = f"{totals.messages} messages and {totals.dead} dead letters were told: {least} to {most} it was"
                self._add("stats", text, call)
        last = told[-1]
        for call in self._lists:
            count = getattr(last.totals, "messages" if call.name == "left" else "dead")
            if count != len(call.held):
                where = "messages" if call.name == "left" else "dead letters"
                self._add("stats", f"{count} {where} were told at the end, {len(call.held)} are there", last, call)


class _Bounds:
    """How many messages there were at a time, dead letters included: at the least and at the most."""

    def __init__(self, lives: Iterable[Life]) -> None:
        self._begun: list[int] = []
        self._entered: list[int] = []
        self._may_leave: list[int] = []
        self._left: list[int] = []
        for life in lives:
            if life.was_in or any(sent.told == UNKNOWN for _, sent in life.sends):
                self._begun.append(life.begun)
            if life.was_in:
                self._entered.append(life.entered)
            acks = [one for _, one in life.settlements if one.how == "ack" and one.may_count]
            if acks:
                self._may_leave.append(max(life.entered, min(one.call.begun for one in acks)))
            done = [one.call.ended for one in acks if one.told == DONE and one.call.ended is not None]
            if done:
                self._left.append(min(done))
        for times in (self._begun, self._entered, self._may_leave, self._left):
            times.sort()

    def at(self, begun: int, ended: int) -> tuple[int, int]:
        """The bounds for a look begun and ended then."""
        least = bisect_right(self._entered, begun) - bisect_right(self._may_leave, ended)
        most = bisect_right(self._begun, ended) - bisect_left(self._left, begun)
        return max(0, least), most


def _name(life: Life) -> str:
    return f"{life.id} of group {life.group}"


def _listed(values: Iterable[object]) -> str:
    return " and ".join(str(value) for value in values)


def _first(life: Life | None) -> tuple[Call, ...]:
    return () if life is None else (life.sends[0][0],)


def _some(*calls: Call | None) -> Iterator[Call]:
    return (call for call in calls if call is not None)
