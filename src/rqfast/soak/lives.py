"""From calls to the life of each message: its publishes, its leases, what became of each.  No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .calls import DONE, REFUSED, SECOND, UNKNOWN, Call, Held, Sent

NEVER = 1 << 62


class Settlement(NamedTuple):
    """A settlement of one lease, and what was told of it."""

    call: Call
    told: str

    @property
    def how(self) -> str:
        """ack, nack, defer, extend, dead_letter or give_back (str)."""
        return self.call.how

    @property
    def may_count(self) -> bool:
        """Whether it was accepted, or may have been."""
        return self.told in (DONE, UNKNOWN)


class Take:
    """A lease as its holder knew it.

    Attributes:
        call: the claim.
        held: what it returned.
        settlements: of this lease, in the order in which they were begun.
    """

    __slots__ = ("call", "held", "settlements")

    def __init__(self, call: Call, held: Held) -> None:
        self.call: Call = call
        self.held: Held = held
        self.settlements: list[Settlement] = []

    @property
    def since(self) -> int:
        """When its holder had it (ns)."""
        return NEVER if self.call.ended is None else self.call.ended

    def until(self, slack: int, before: int = NEVER) -> int:
        """Until when it was live for certain: its first settlement, or its end at the earliest (ns).

        Args:
            slack: how much earlier than asked a lease may end (ns).
            before: settlements begun then or later are left out.
        """
        end = self.call.begun + round(self.call.seconds * SECOND) - slack
        for settlement in self.settlements:
            call = settlement.call
            if call.begun >= min(before, end) or settlement.told == REFUSED:
                continue
            if settlement.how != "extend":
                return call.begun
            extended = call.begun + round(call.seconds * SECOND) - slack
            if settlement.told == DONE and call.ended is not None and call.ended > end:
                # It may have lapsed, somebody else had another message meanwhile, and then it was extended.
                return end
            if settlement.told == DONE:
                end = extended
            else:
                end = min(end, extended if settlement.told == UNKNOWN else call.begun)
        return end

    def until_lost(self, call: Call, slack: int) -> int:
        """Until when it was live for certain, for a settlement that was told that it is lost (ns).

        What its holder had under way beside may have ended it: a service extends a lease while it acknowledges it.
        """
        beside = (
            one.call.begun
            for one in self.settlements
            if one.may_count and one.how != "extend" and call.begun <= one.call.begun < (call.ended or NEVER)
        )
        return min([self.until(slack, call.begun), *beside])

    def over(self, slack: int) -> int:
        """When it has ended at the latest, if nobody settled it (ns)."""
        end = self.since + round(self.call.seconds * SECOND) + slack
        for settlement in self.settlements:
            if settlement.how == "extend" and settlement.may_count:
                ended = settlement.call.ended
                end = NEVER if ended is None else max(end, ended + round(settlement.call.seconds * SECOND) + slack)
        return end

    @property
    def was_given_back(self) -> bool:
        """Whether it was, or may have been, given back with no attempt spent."""
        return any(one.may_count for one in self.settlements if one.how == "give_back")

    @property
    def has_lapsed(self) -> bool:
        """Whether nobody settled it."""
        return not any(one.may_count for one in self.settlements if one.how != "extend")


class Life:
    """A message.

    Attributes:
        id: its name in the history.
        group: its group.
        sends: its publishes, in their order, with the calls they were in.
        takes: its leases, in the order of their fences.
    """

    __slots__ = ("group", "id", "sends", "takes")

    def __init__(self, name: str, group: str) -> None:
        self.id: str = name
        self.group: str = group
        self.sends: list[tuple[Call, Sent]] = []
        self.takes: list[Take] = []

    @property
    def is_confirmed(self) -> bool:
        """Whether its publisher was told that it is in."""
        return any(sent.told == DONE for _, sent in self.sends)

    @property
    def was_in(self) -> bool:
        """Whether it was in the queue for certain."""
        return bool(self.takes) or self.is_confirmed

    @property
    def seq(self) -> int | None:
        """Its seq, None: nobody was told one."""
        for _, sent in self.sends:
            if sent.told == DONE:
                return sent.seq
        return self.takes[0].held.seq if self.takes else None

    @property
    def begun(self) -> int:
        """When its first publish was begun (ns)."""
        return self.sends[0][0].begun

    @property
    def entered(self) -> int:
        """From when on it was in the queue for certain (ns)."""
        told = [call.ended for call, sent in self.sends if sent.told == DONE and call.ended is not None]
        return min([*told, *(take.since for take in self.takes)], default=NEVER)

    @property
    def settlements(self) -> list[tuple[Take, Settlement]]:
        """All settlements of all its leases."""
        return [(take, one) for take in self.takes for one in take.settlements]


class Lives:
    """All messages of a history.

    Attributes:
        calls: the history, in the order in which the calls were begun.
        by_id: each message by its name.
        strangers: leases of messages that nobody published.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        self.calls: list[Call] = sorted(calls, key=lambda call: call.begun)
        self.by_id: dict[str, Life] = {}
        self.strangers: list[Take] = []
        self._takes: dict[tuple[str, int], dict[int, Take]] = {}
        for call in self.calls:
            for sent in call.sent:
                life = self.by_id.setdefault(sent.id, Life(sent.id, sent.group))
                life.sends.append((call, sent))
        for call in self.calls:
            if call.is_claim and call.held:
                self._take(call)
        for call in self.calls:
            for settled in call.settled:
                take = self._takes.get((call.who, settled.claim), {}).get(settled.seq)
                if take is not None:
                    take.settlements.append(Settlement(call, settled.told))
        for life in self.by_id.values():
            life.takes.sort(key=lambda take: take.held.fence)

    def _take(self, call: Call) -> None:
        taken = self._takes.setdefault((call.who, call.n), {})
        for held in call.held:
            take = taken[held.seq] = Take(call, held)
            life = self.by_id.get(held.id)
            if life is None:
                self.strangers.append(take)
            else:
                life.takes.append(take)

    def by_group(self) -> dict[str, list[Life]]:
        """The messages of each group."""
        found: dict[str, list[Life]] = defaultdict(list)
        for life in self.by_id.values():
            found[life.group].append(life)
        return dict(found)

    def of(self, *names: str) -> Sequence[Call]:
        """The calls of these methods."""
        return [call for call in self.calls if call.name in names]
