"""Group subscriptions: what a worker costs over the calls it makes, and rows of a user's own table."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from . import ours, plain, subscribed
from .best import Best
from .claims import add_claims
from .compare import RQFAST, add_rates, cpu_of, rounds_of
from .measure import Cost, stopwatch
from .report import Report
from .servers import Server
from .sizes import Sizes
from .workload import Work, fill, queue_on

pytestmark = [pytest.mark.benchmark(group="subscriptions"), pytest.mark.timeout(900)]

OWN_LOOP = "own loop"
A_GROUP = 10


@pytest.mark.parametrize(("concurrency", "groups"), [(64, 1000), (1024, 4000)])
def test_worker(
    benchmark: Any,
    server: Server,
    report: Report,
    best: Best,
    sizes: Sizes,
    rounds: int,
    concurrency: int,
    groups: int,
) -> None:
    work = Work(sizes.worked if concurrency < 1000 else sizes.worked_wide, groups)

    def filled(run: Any) -> Cost:
        with queue_on(server) as queue:
            fill(server, queue, work)
            cost: Cost = run(server, queue, work, concurrency)
            return cost

    def hand_loop(callers: int) -> Cost:
        return plain.claim_and_ack(server, max(sizes.plain_worked, callers), callers)

    benchmark._timer = stopwatch
    sides: dict[str, Any] = {
        OWN_LOOP: lambda: filled(ours.claim_and_ack),
        RQFAST: lambda: filled(subscribed.work_off),
    }
    goals: dict[str, float | None] = {OWN_LOOP: 0.85}
    if concurrency < 1000:
        pool = best.of(f"httpx claim {server.name}", plain.CALLERS, hand_loop)[0]
        sides = {"httpx": lambda: hand_loop(pool), **sides}
        goals["httpx"] = 85
    costs = rounds_of(benchmark, rounds, sides)
    what = f"handler that does nothing, {concurrency:,} in flight, {groups:,} groups"
    add_rates(benchmark, report, server, what, costs, goals)
    cpu = cpu_of(costs)
    benchmark.extra_info["cpu"] = {f"{side}, {concurrency:,} in flight": found for side, found in cpu.items()}


def test_rows_of_a_table(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    """Claims of a table of a million rows against one of a thousand."""
    least, most = sizes.depths[0], sizes.depths[-1]

    async def both(queue: str) -> list[list[float]]:
        async with AsyncExitStack() as stack:
            feeds = [
                await stack.enter_async_context(subscribed.feed_on(server, queue, table)) for table in ("few", "many")
            ]
            return await subscribed.rows_in_turn(feeds, sizes.claims)

    def run() -> list[list[float]]:
        for table, rows in (("few", least), ("many", most)):
            server.execute(f'DROP TABLE IF EXISTS "{table}"')
            subscribed.make_table(server, table, Work(rows, rows // A_GROUP))
        with queue_on(server) as queue:
            found = asyncio.run(both(queue))
        for table in ("few", "many"):
            server.execute(f'DROP TABLE "{table}"')
        return found

    theirs, mine = benchmark.pedantic(run, rounds=1)
    what = f"claim from a table of {most:,} rows in {most // A_GROUP:,} groups"
    add_claims(benchmark, report, "subscriptions", server.name, what, f"of {least:,} rows", mine, theirs)
