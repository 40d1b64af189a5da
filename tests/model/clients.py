"""Processes that use the queue, as far as the core is concerned: their lanes, their calls, the order of these."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from rqfast._core import ACK, Batch, Batcher, Bundle, Call, Claim, Operate, Publish, Settle

Row = list[Any]


class Answer:
    """What the core calls a future."""

    def __init__(self) -> None:
        self._done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self._done

    def set_result(self, value: Any) -> None:
        """The call took effect."""
        assert not self._done
        self._done, self.value = True, value

    def set_exception(self, error: BaseException) -> None:
        """It did not."""
        assert not self._done
        self._done, self.error = True, error


class NotApplied(Exception):
    """What the callers of a request get that was given up."""


class Lane:
    """A lane of a client, and the program that went out last on it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.at = 0.0
        self.last: list[Row] | None = None

    def remember(self, program: list[Row]) -> None:
        """Keep a copy: this is what may still be on its way."""
        self.last = [list(statement) for statement in program]


class Client:
    """A process that uses the queue."""

    def __init__(self, name: str, lanes: int, max_rows: int, window: float) -> None:
        self.name = name
        self.window = window
        self.lanes = [Lane(f"{name}{number}") for number in range(lanes)]
        self.batcher = Batcher(lanes, max_rows, 1 << 20)
        # Calls of each group, in the order in which they were made.
        self.made: defaultdict[str, list[Call]] = defaultdict(list)
        # All calls that are not over, in that order too.
        self.pending: list[Call] = []
        self.begun: set[int] = set()

    def add(self, call: Call) -> None:
        """Make a call."""
        call.deadline = math.inf
        if isinstance(call, Bundle):
            call.until(math.inf)
            self.pending += [*call.acks, *call.publishes]
        else:
            self.pending.append(call)
        for one in _ordered(call):
            self.made[_group(one)].append(one)
        self.batcher.add(call)

    def check_operates(self, batch: Batch) -> None:
        """An operating call goes when all before it is over; what was made after it goes when it has begun."""
        for call in self.pending:
            if call is batch.operate:
                self.begun.add(id(call))
                return
            assert batch.operate is None, "an operating call has overtaken another call"
            if isinstance(call, Operate) and id(call) not in self.begun:
                taken = set(map(id, batch.calls()))
                later = self.pending[self.pending.index(call) :]
                assert not [one for one in later if id(one) in taken], "an operating call was overtaken"
                return

    def check_order(self, calls: Iterable[Call]) -> None:
        """Rule 9: a batch takes the oldest calls of each group, and its fixed order inverts none of them."""
        taken: defaultdict[str, list[Call]] = defaultdict(list)
        for call in calls:
            for one in _ordered(call):
                taken[_group(one)].append(one)
        for group, found in taken.items():
            first, self.made[group] = self.made[group][: len(found)], self.made[group][len(found) :]
            assert set(map(id, first)) == set(map(id, found)), f"calls of {group!r} overtook one another"
            kinds = [_kind(call) for call in first]
            assert kinds == sorted(kinds), f"calls of {group!r} were inverted by their batch: {kinds}"


def _ordered(call: Call) -> list[Publish | Settle]:
    """The parts of a call that have a place in the order of a group."""
    if isinstance(call, Publish | Settle):
        return [call]
    if isinstance(call, Bundle):
        return [*call.acks, *call.publishes]
    if isinstance(call, Operate):
        return []
    assert isinstance(call, Claim)
    return [] if call.tied is None else [call.tied]


def _group(call: Publish | Settle) -> str:
    return call.group if isinstance(call, Publish) else call.lease.group_id


def _kind(call: Call) -> int:
    if isinstance(call, Publish):
        return 2
    assert isinstance(call, Settle)
    return 0 if call.op == ACK else 1


class Request:
    """The calls of one batch, sorted out."""

    def __init__(self, batch: Batch, made: Sequence[Call]) -> None:
        calls = batch.calls()
        place = {id(call): number for number, call in enumerate(made)}
        self.calls = calls
        self.claims = [call for call in calls if isinstance(call, Claim)]
        self.news = [call for call in calls if isinstance(call, Publish)]
        settles = [call for call in calls if isinstance(call, Settle)]
        self.acks = [call for call in settles if call.op == ACK]
        self.acks += [claim.tied for claim in self.claims if claim.tied is not None]
        # As they were made: the acks of a run have an order.
        self.acks.sort(key=lambda ack: place[id(ack if ack.then is None else ack.then)])
        self.others = [call for call in settles if call.op != ACK]
        self.blocks = [list(block) for _, block in groupby(self.claims, key=block_of)]


def block_of(claim: Claim) -> tuple[float, int, int, tuple[str, str] | None]:
    """What claims of one block share; a run has one of its own."""
    return claim.visibility, claim.min_priority, id(claim) if claim.run else 0, claim.only
