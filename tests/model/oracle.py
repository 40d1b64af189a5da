"""The queue as a few dictionaries: what every statement together has to amount to.

Written from the rules of the queue, not from its SQL: no indexes, no hints, no tokens joined to rows, each question
answered by looking at everything.  Slow and plain on purpose, because it decides what is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

PARKED = "__parked__"
# A deferral moves the clock at least this far, so that the message goes behind all that are due now.
LEAST_STEP = 1e-6
# The priority of a group that was paused before it had a message: its first one sets it.
NO_PRIORITY = -1
# What becomes of a settlement: accepted, refused because the lease is lost, or because it is an acknowledgement before
# that of an earlier message of its run.
ACCEPTED = "accepted"
LOST = "lost"
EARLY = "early"
# Settlements that put the message back.
PUT_BACK = ("nack", "park", "defer", "give back")


@dataclass
class Message:
    """A message of the queue; `holder` is the token of its lease, `PARKED`, or None."""

    seq: int
    group: str
    event: str
    rank: int
    due: float
    headers: str | None
    published_at: float | None
    attempts: int = 0
    holder: str | None = None
    held_until: float = 0.0

    def order(self) -> tuple[int, float, int]:
        """Its place in the group: smaller rank, then due earlier, then published earlier."""
        return self.rank, self.due, self.seq

    def held_at(self, time: float) -> bool:
        """Whether a lease or a parking keeps its whole group from being claimed."""
        return self.holder is not None and self.held_until >= time


@dataclass
class Group:
    """A group lives as long as it has a message or is paused."""

    priority: int
    turn: int
    paused: bool = False


class DeadLetter(NamedTuple):
    """A message that was given up, as it was, with why and when."""

    message: Message
    priority: int
    reason: str
    error: str | None
    died_at: float


class Known(NamedTuple):
    """A dedup id that stands: what its first publish got, and until when it counts."""

    seq: int
    until: float


class New(NamedTuple):
    """A message to be published."""

    group: str
    event: str
    priority: int = 0
    rank: int = 0
    delay: float = 0.0
    headers: str | None = None
    dedup: str | None = None
    # It came with an acknowledgement that was refused.
    skipped: bool = False


class Settlement(NamedTuple):
    """What the holder of a lease wants done with its message; `argument` is seconds, or the reason of a death."""

    seq: int
    token: str
    group: str
    how: str
    argument: float | str = 0.0
    error: str | None = None


@dataclass
class Oracle:
    """One queue."""

    time: float = 0.0
    turn: int = 2
    new_turn: int = 1
    last_seq: int = 0
    messages: dict[int, Message] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    paused: bool = False
    dead: dict[int, DeadLetter] = field(default_factory=dict)
    # Tokens of runs, and of those that have ended: somebody claimed from their group after the lease had lapsed.
    runs: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    dedup: dict[str, Known] = field(default_factory=dict)

    # -- questions ---------------------------------------------------------------------------------

    def of(self, group: str) -> list[Message]:
        """The messages of a group, in claim order."""
        return sorted((m for m in self.messages.values() if m.group == group), key=Message.order)

    def head(self, group: str) -> Message | None:
        """The only message of a group that can be claimed."""
        return min((m for m in self.messages.values() if m.group == group), key=Message.order, default=None)

    def by_group(self) -> dict[str, list[Message]]:
        """The messages of each group that has one, in claim order."""
        found: dict[str, list[Message]] = {}
        for message in self.messages.values():
            found.setdefault(message.group, []).append(message)
        for messages in found.values():
            messages.sort(key=Message.order)
        return found

    def claimable(self, min_priority: int = 0, time: float | None = None) -> list[str]:
        """The groups that a claim of this `min_priority` may take, now or at a later time.

        Their head is due, and nothing holds them back.
        """
        at = self.time if time is None else time
        if self.paused:
            return []
        messages = self.by_group()
        return [
            name
            for name, group in self.groups.items()
            if group.priority >= min_priority
            and not group.paused
            and name in messages
            and messages[name][0].due <= at
            and not any(m.held_at(at) for m in messages[name])
        ]

    def ready(self) -> dict[str, float]:
        """When each group that has a message can be claimed, but for a pause, as far as is known now.

        Any time up to now means now.
        """
        return {
            group: max([messages[0].due, *(m.held_until for m in messages if m.held_at(self.time))])
            for group, messages in self.by_group().items()
        }

    def in_work(self, message: Message) -> bool:
        """Whether a worker holds this message now."""
        return message.holder != PARKED and message.held_at(self.time)

    def owns(self, settlement: Settlement) -> bool:
        """Whether a settlement is of the lease that holds the message: seq, token and group all fit."""
        message = self.messages.get(settlement.seq)
        if message is None or (message.holder, message.group) != (settlement.token, settlement.group):
            return False
        if settlement.token in self.ended:
            return False
        if settlement.how != "extend" or message.held_at(self.time):
            return True
        return not any(m.held_at(self.time) for m in self.of(message.group))

    def held_with(self, message: Message) -> list[Message]:
        """The messages of its group under the same token, itself included, in order: more than one only in a run."""
        return [other for other in self.of(message.group) if other.holder == message.holder]

    # -- one request: begin, acks, settlements, publishes, claims ----------------------------------

    def begin(self, now: float, *, claims: bool = False, defers: bool = False) -> None:
        """Time goes on, and never back; a new group's turn is just before that of the group served last."""
        self.time = max(self.time + (LEAST_STEP if defers else 0.0), now)
        self.new_turn = self.turn - 1
        if claims:
            self.turn += 2

    def settle(self, settlements: Sequence[Settlement]) -> list[str]:
        """All verdicts first, then all effects; returns the verdicts."""
        verdicts = self.verdicts(settlements)
        accepted = [one for one, verdict in zip(settlements, verdicts, strict=True) if verdict == ACCEPTED]
        self._give_back_rests([self.messages[one.seq] for one in accepted if one.how in PUT_BACK])
        for one in accepted:
            self._settle_one(self.messages[one.seq], one)
        for one in settlements:
            self.drain(one.group)
        return verdicts

    def verdicts(self, settlements: Sequence[Settlement]) -> list[str]:
        """What is to become of them; changes nothing."""
        verdicts: list[str] = []
        done: set[int] = set()
        for one in settlements:
            verdicts.append(self._verdict(one, done))
            if one.how == "ack" and verdicts[-1] == ACCEPTED:
                done.add(one.seq)
        return verdicts

    def _verdict(self, one: Settlement, done: set[int]) -> str:
        """`done`: the messages that are acknowledged before it in the same request."""
        if not self.owns(one):
            return LOST
        first = next(m for m in self.held_with(self.messages[one.seq]) if m.seq not in done)
        return EARLY if one.how == "ack" and first.seq != one.seq else ACCEPTED

    def _settle_one(self, message: Message, one: Settlement) -> None:
        if one.how == "ack":
            del self.messages[one.seq]
        elif one.how == "dead":
            del self.messages[one.seq]
            priority = self.groups[one.group].priority
            self.dead[one.seq] = DeadLetter(message, priority, str(one.argument), one.error, self.time)
        elif one.how == "extend":
            for other in self.held_with(message):
                other.held_until = self.time + float(one.argument)
        else:
            self._release(message, one)

    def _give_back_rests(self, messages: list[Message]) -> None:
        """What comes after these in their runs goes back with them, unspent."""
        rest: dict[int, Message] = {}
        for message in messages:
            run = self.held_with(message)
            rest |= {other.seq: other for other in run[run.index(message) + 1 :]}
        for other in rest.values():
            other.holder, other.held_until = None, 0.0
            other.attempts -= 1

    def _release(self, message: Message, one: Settlement) -> None:
        message.holder, message.held_until = None, 0.0
        if one.how == "park":
            message.holder, message.held_until = PARKED, self.time + float(one.argument)
        elif one.how == "defer":
            message.due = self.time + float(one.argument)
        elif one.how == "give back":
            message.attempts -= 1

    def drain(self, group: str) -> None:
        """A group without messages goes, unless it is paused."""
        if group in self.groups and not self.groups[group].paused and self.head(group) is None:
            del self.groups[group]

    def publish(self, news: Sequence[New], window: float) -> list[int | None]:
        """Put messages in; returns the seq of each, that of the first publish where a dedup id stands."""
        if any(new.dedup is not None for new in news):
            # Also where the acknowledgement was refused.
            self.dedup = {name: known for name, known in self.dedup.items() if known.until > self.time}
        base = self.last_seq
        seqs: list[int | None] = []
        for seq, new in enumerate(news, base + 1):
            if new.skipped:
                seqs.append(None)
                continue
            if new.dedup is not None and new.dedup in self.dedup:
                seqs.append(self.dedup[new.dedup].seq)
                continue
            due = self.time + new.delay
            self.messages[seq] = Message(seq, new.group, new.event, new.rank, due, new.headers, self.time)
            self.last_seq = seq
            if new.dedup is not None:
                self.dedup[new.dedup] = Known(seq, self.time + window)
            seqs.append(seq)
        for new in news:
            if new.skipped or self.head(new.group) is None:
                continue
            group = self.groups.setdefault(new.group, Group(new.priority, self.new_turn))
            if group.priority == NO_PRIORITY:
                group.priority = new.priority
        return seqs

    def hand_out(self, token: str, visibility: float, groups: Iterable[str]) -> None:
        """The heads of these groups are in work now; it was their turn."""
        for group in groups:
            head = self.head(group)
            assert head is not None
            self._hold(group, token, visibility, [head])

    def hand_out_run(self, token: str, visibility: float, group: str, limit: int) -> list[Message]:
        """The first messages of this group are in work now, up to the first that is not due; which they are."""
        run = list(itertools.takewhile(lambda message: message.due <= self.time, self.of(group)))[:limit]
        self._hold(group, token, visibility, run)
        self.runs.add(token)
        return run

    def _hold(self, group: str, token: str, visibility: float, messages: list[Message]) -> None:
        self.end_runs(group)
        for message in messages:
            message.holder, message.held_until = token, self.time + visibility
            message.attempts += 1
        self.groups[group].turn = self.turn

    def end_runs(self, group: str) -> None:
        """Somebody claims from this group: a run in it has lapsed, and is over."""
        self.ended |= {str(message.holder) for message in self.of(group)} & self.runs

    # -- what others do ----------------------------------------------------------------------------

    def pause(self, group: str | None) -> None:
        """An operator holds a group back, whether it has messages or not; or the queue."""
        if group is None:
            self.paused = True
        else:
            self.groups.setdefault(group, Group(NO_PRIORITY, self.new_turn)).paused = True

    def resume(self, group: str | None) -> None:
        """And lets it go on."""
        if group is None:
            self.paused = False
        elif group in self.groups:
            self.groups[group].paused = False
            self.groups[group].priority = max(self.groups[group].priority, 0)
            self.drain(group)

    # -- the plain transport -----------------------------------------------------------------------

    def plain_publish(self, group: str, event: str, priority: int) -> None:
        """As any plain message; only that nobody told when it was published."""
        self.last_seq += 1
        self.messages[self.last_seq] = Message(self.last_seq, group, event, 0, self.time, None, None)
        self.groups.setdefault(group, Group(priority, self.turn - 1))

    def is_held_by_rqfast(self, seq: int) -> bool:
        """Whether a live lease of rqfast is on a message."""
        message = self.messages.get(seq)
        return message is not None and message.held_at(self.time) and str(message.holder).startswith("~")

    def plain_claim(self, seq: int, token: str, until: float) -> None:
        """An old worker has taken a message: only the due head of a group that nobody holds back from it."""
        message = self.messages[seq]
        group, head = message.group, self.head(message.group)
        assert head is message, f"an old worker has {seq} of {group!r}, its head is {head}"
        assert message.due <= self.time, f"an old worker has {seq} of {group!r}, which is not due"
        assert not self.paused, f"an old worker has {seq} of {group!r}, and the queue is paused"
        assert not self.groups[group].paused, f"an old worker has {seq} of {group!r}, which is paused"
        ours = [other.seq for other in self.of(group) if self.is_held_by_rqfast(other.seq)]
        assert not ours, f"an old worker has {seq} of {group!r}, where rqfast holds {ours}"
        self._forget_runs(group)
        message.holder, message.held_until = token, until
        message.attempts += 1

    def _forget_runs(self, group: str) -> None:
        """Of a run that has lapsed nothing is left when an old worker takes a message of the group or puts it back."""
        for message in self.of(group):
            if message.holder in self.runs and not message.held_at(self.time):
                message.holder, message.held_until = None, 0.0

    def plain_settle(self, seq: int, group: str, how: str, holder: str | None, until: float) -> None:
        """An old worker settles by seq alone, whoever holds the message; only live leases of rqfast are safe."""
        message = self.messages.get(seq)
        if message is not None and not self.is_held_by_rqfast(seq):
            if how == "ack":
                del self.messages[seq]
            else:
                self._forget_runs(group)
                message.holder, message.held_until = holder, until if holder else 0.0
        if how == "ack":
            self.drain(group)
