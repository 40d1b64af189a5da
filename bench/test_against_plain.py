"""rqfast against the transport that it replaces, in turn on servers of their own: `make bench`.

The time that pytest-benchmark shows is rqfast's; the table at the end has both. A round that lost a message or broke
an order fails. The plain transport works on as few messages as it can bear: its claims read the whole table, so more
would be to its disadvantage.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from .measure import Cost, Row
from .sides import ONE, Callers, Ours, Theirs

ROUNDS = 3
TASKS, THREADS = Callers(64), Callers(64, are_threads=True)
# Callers -> messages and groups of rqfast, of the plain transport.
PUBLISHED = {
    ONE: ((1500, 100), (500, 100)),
    TASKS: ((40_000, 1000), (1500, 100)),
    THREADS: ((20_000, 1000), (3000, 100)),
}
WORKED = {ONE: ((800, 100), (150, 100)), TASKS: ((20_000, 1000), (400, 100)), THREADS: ((10_000, 1000), (800, 100))}
CLAIMS = 40

Sides = tuple[Ours, Theirs]


def compare(
    benchmark: BenchmarkFixture,
    rows: list[Row],
    what: str,
    ours: Callable[[], Cost],
    theirs: Callable[[], Cost],
) -> None:
    """Rounds of both in turn."""
    row = Row(what, [], [])
    benchmark.pedantic(lambda: row.ours.append(ours()), setup=lambda: row.theirs.append(theirs()), rounds=ROUNDS)
    rows.append(row)
    benchmark.extra_info["ratio"] = round(row.ratio, 1)
    for name, costs in (("rqfast", row.ours), ("plain", row.theirs)):
        benchmark.extra_info[f"{name}, messages a second"] = [round(cost.rate) for cost in costs]


@pytest.mark.parametrize("callers", PUBLISHED, ids=str)
def test_publish(benchmark: BenchmarkFixture, sides: Sides, rows: list[Row], callers: Callers) -> None:
    (ours, theirs), (ours_size, theirs_size) = sides, PUBLISHED[callers]
    compare(
        benchmark,
        rows,
        f"publish, {callers}",
        lambda: ours.publish(callers, *ours_size),
        lambda: theirs.publish(callers, *theirs_size),
    )


@pytest.mark.parametrize("together", [False, True], ids=["claim, then ack", "claim with ack"])
@pytest.mark.parametrize("callers", WORKED, ids=str)
def test_work(benchmark: BenchmarkFixture, sides: Sides, rows: list[Row], callers: Callers, together: bool) -> None:
    (ours, theirs), (ours_size, theirs_size) = sides, WORKED[callers]
    compare(
        benchmark,
        rows,
        f"{'claim with last ack' if together else 'claim, then ack'}, {callers}",
        lambda: ours.work(callers, *ours_size, together=together),
        lambda: theirs.work(callers, *theirs_size),
    )


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_claim(benchmark: BenchmarkFixture, sides: Sides, rows: list[Row], depth: int) -> None:
    ours, theirs = sides
    compare(
        benchmark,
        rows,
        f"claim at {depth:,} messages",
        lambda: ours.claim(CLAIMS, depth, 1000),
        lambda: theirs.claim(CLAIMS, depth, 1000),
    )
