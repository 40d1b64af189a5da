"""Runs in the core: which leases are of one, and which of their settlements go together."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from rqfast import Lease
from rqfast._core import (
    ACK,
    DEAD,
    DEFER,
    EXTEND,
    MAX_RUNS,
    NACK,
    PARK,
    Batcher,
    Claim,
    Many,
    Settle,
    Slot,
    first_of_each,
)

RUN = "~w:lane.7.0+42"


def leases(*tokens: str) -> list[Lease[None]]:
    return [Lease(seq, "g", None, token) for seq, token in enumerate(tokens)]


def settle(seq: int, op: int, token: str = RUN) -> Settle:
    call = Settle(Lease(seq, "g", None, token), op)
    call.future, call.deadline = Slot(), 1e9
    return call


def batches(*calls: Any) -> list[int]:
    """How many calls go in each batch."""
    batcher = Batcher(1, 100, 10_000)
    for call in calls:
        batcher.add(call)
    found = []
    while (batch := batcher.take(0)) is not None:
        found.append(len(batch))
        batcher.finish(batch)
    return found


def test_of_each_run_the_first() -> None:
    given = leases(RUN, "~w:lane.8.0", RUN, "~w:lane.8.0", "~w:lane.8.1+44", RUN)
    assert [lease.seq for lease in first_of_each(given)] == [0, 1, 3, 4]
    assert [lease.seq for lease in first_of_each(pickle.loads(pickle.dumps(given)))] == [0, 1, 3, 4]
    assert [lease.seq for lease in first_of_each(copy.copy(given))] == [0, 1, 3, 4]


@pytest.mark.parametrize(
    "token", ["", "+", "~a+5:lane.1.0", "~w:lane.1.0+", "~w:lane.1.0+4a", "~w:lane.1.0+٤", "+" + "9" * 30]
)
def test_what_is_no_token_of_a_run(token: str) -> None:
    assert len(first_of_each(leases(token, token))) == 2


@pytest.mark.parametrize("op", [EXTEND, DEAD])
def test_extensions_and_deaths_in_a_run_go_together(op: int) -> None:
    assert batches(*(settle(seq, op) for seq in range(5))) == [5]
    # Of two leases that are not of one run, one at a time: only one of them can be the group's.
    assert batches(settle(0, op, "~w:lane.8.0"), settle(1, op, "~w:lane.9.0")) == [1, 1]
    assert batches(settle(0, op), settle(1, op, "~w:lane.8.0+44")) == [1, 1]
    assert batches(settle(0, EXTEND), settle(1, DEAD)) == [1, 1]


@pytest.mark.parametrize("op", [NACK, PARK, DEFER])
def test_what_is_put_back_goes_together_as_one_call(op: int) -> None:
    """Made one by one, the first takes along what is behind it, and the others are lost."""
    assert batches(*(settle(seq, op) for seq in range(3))) == [1, 1, 1]
    calls = [settle(seq, op) for seq in range(3)]
    many = Many(Slot(), 3)
    for position, call in enumerate(calls):
        call.part_of(many, position)
    assert batches(*calls) == [3]


def test_each_run_has_a_block_of_its_own() -> None:
    claims = [Claim("w", 30.0, 0, 10, True, run) for run in (False, True, False, True)]
    for claim in claims:
        claim.future, claim.deadline = Slot(), 1e9
    batcher = Batcher(1, 100, 10_000)
    for claim in claims:
        batcher.add(claim)
    batch = batcher.take(0)
    assert batch is not None
    # Those that are no runs share one, which stands first.
    assert batch.calls() == [claims[0], claims[2], claims[1], claims[3]]


def run_claim(seq: int | None = None) -> Claim:
    """With a seq it has an `ack=`."""
    claim = Claim("w", 30.0, 0, 10, True, True)
    claim.future, claim.deadline = Slot(), 1e9
    if seq is not None:
        ack = Settle(Lease(seq, f"g{seq}", None, "~w:lane.8.0"), ACK)
        ack.deadline = 1e9
        ack.tie(claim)
    return claim


def test_claims_with_acks_leave_room_for_those_without() -> None:
    batcher = Batcher(1, 10_000, 1 << 20)
    waiting = [run_claim() for _ in range(3 * MAX_RUNS)]
    for claim in waiting:
        batcher.add(claim)
    for number in range(20):
        for seq in range(3 * MAX_RUNS):
            batcher.add(run_claim(number * 1000 + seq))
        batch = batcher.take(0)
        assert batch is not None and len(batch.calls()) == MAX_RUNS
        waiting = [claim for claim in waiting if claim not in batch.calls()]
        batcher.finish(batch)
    assert waiting == []
