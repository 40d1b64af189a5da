"""Group parked: the time of a claim behind groups that cannot be claimed, or not by it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from rqfast import Message, connect_async
from tests.cluster import find_rqlited, wait_until

from .claims import add_claims, claims_in_turn
from .report import Report
from .servers import Server, running
from .sizes import Sizes
from .workload import VISIBILITY, Work, queue_on

pytestmark = [pytest.mark.benchmark(group="parked"), pytest.mark.timeout(900)]

LIVE = Work(1000, 100)
PIECE = 2000
LONG = 3600.0
OPTIMIZE_SECONDS = 60.0
LONGEST_CLAIM = 10.0

Obstacle = Callable[[Any, Sizes], Awaitable[None]]


async def publish_behind(transport: Any, sizes: Sizes, delay: float = 0.0) -> None:
    """One message in each of many groups."""
    await transport.publish_many(Message(f"behind{n}", n, delay=delay) for n in range(sizes.behind))


async def parked(transport: Any, sizes: Sizes) -> None:
    """Groups whose heads were given back with a delay."""
    await publish_behind(transport, sizes)
    while leases := await transport.claim_many("w", VISIBILITY, PIECE):
        await transport.nack_many(leases, LONG)


async def deferred(transport: Any, sizes: Sizes) -> None:
    """Groups whose only message is not due."""
    await publish_behind(transport, sizes, LONG)


async def lapsed(transport: Any, sizes: Sizes) -> None:
    """Groups whose leases have just ended, all at the same time."""
    await publish_behind(transport, sizes)
    end, taken = time.monotonic() + sizes.lapse, 0
    while leases := await transport.claim_many("w", end - time.monotonic(), PIECE):
        taken += len(leases)
    assert taken == sizes.behind and time.monotonic() < end, f"{taken} claimed in {sizes.lapse:g} s"
    await asyncio.sleep(end - time.monotonic() + 0.05)


async def live(transport: Any, priority: int = 0) -> None:
    """The messages that are claimed while it is measured."""
    await transport.publish_many((group, event, priority) for group, event in LIVE.rows())


async def against_without(
    server: Server, queues: tuple[str, str], obstacle: Obstacle, sizes: Sizes, priority: int = 0, warm: bool = True
) -> list[list[float]]:
    """Claims in turn on a queue without the obstacle, and on one with it.

    `warm` False: of the second, what the obstacle leaves is claimed, from the very first claim on; and plain writes of
    one row stand beside them.
    """
    async with AsyncExitStack() as stack:
        without, having = [await stack.enter_async_context(connect_async(server.url, queue=queue)) for queue in queues]
        await live(without, priority)
        await obstacle(having, sizes)
        if warm:
            await live(having, priority)
        insert = None if warm else await stack.enter_async_context(plain_insert(server))
        return await claims_in_turn([without, having], sizes.claims, min_priority=priority, warm=warm, beside=insert)


@asynccontextmanager
async def plain_insert(server: Server) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A write of one row, past rqfast: what no write of this server can be sooner than."""
    server.execute("CREATE TABLE IF NOT EXISTS plain_insert(x)")
    async with aiohttp.ClientSession(server.leader_url) as session:

        async def insert() -> None:
            async with session.post("/db/execute", json=[["INSERT INTO plain_insert VALUES(1)"]]) as reply:
                assert "error" not in await reply.text()

        yield insert


@pytest.mark.parametrize(
    ("what", "obstacle", "priority"),
    [
        ("{:,} groups parked", parked, 0),
        ("{:,} groups deferred", deferred, 0),
        ("min_priority=1 behind {:,} groups of priority 0", publish_behind, 1),
    ],
    ids=["parked", "deferred", "min_priority"],
)
def test_claim_behind(
    benchmark: Any,
    server: Server,
    report: Report,
    sizes: Sizes,
    what: str,
    obstacle: Obstacle,
    priority: int,
) -> None:
    def run() -> list[list[float]]:
        with queue_on(server) as without, queue_on(server) as having:
            return asyncio.run(against_without(server, (without, having), obstacle, sizes, priority))

    theirs, ours = benchmark.pedantic(run, rounds=1)
    what = f"claim, {what.format(sizes.behind)}"
    add_claims(benchmark, report, "parked", server.name, what, "without", ours, theirs)


def test_claim_after_leases_lapsed(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    def run() -> list[list[float]]:
        with queue_on(server) as without, queue_on(server) as having:
            return asyncio.run(against_without(server, (without, having), lapsed, sizes, warm=False))

    theirs, ours, inserts = benchmark.pedantic(run, rounds=1)
    what = f"claim, right after {sizes.behind:,} leases lapsed together"
    add_claims(
        benchmark, report, "parked", server.name, what, "without", ours, theirs, longest=LONGEST_CLAIM, beside=inserts
    )


@pytest.mark.skipif(find_rqlited() is None, reason="only rqlited runs PRAGMA optimize")
def test_claim_after_optimize(benchmark: Any, report: Report, sizes: Sizes) -> None:
    """A server of its own, which runs `PRAGMA optimize` every 5 s: on queues that hold three messages at that time."""

    async def optimized(server: Server, queues: tuple[str, str]) -> list[list[float]]:
        async with AsyncExitStack() as stack:
            transports = [await stack.enter_async_context(connect_async(server.url, queue=queue)) for queue in queues]
            for transport in transports:
                await transport.publish_many((f"few{n}", n) for n in range(3))
                await transport.claim_many("w", LONG, 3)
            await asyncio.to_thread(wait_optimized, server, queues[1])
            await live(transports[0])
            await transports[1].publish_many(Work(sizes.behind, sizes.behind // 10).rows())
            return await claims_in_turn(transports, sizes.claims)

    def run(server: Server) -> list[list[float]]:
        with queue_on(server) as small, queue_on(server) as large:
            return asyncio.run(optimized(server, (small, large)))

    with running(1, ("-auto-optimize-int", "5s")) as server:
        theirs, ours = benchmark.pedantic(lambda: run(server), rounds=1)
    what = f"claim at {sizes.behind:,} messages after PRAGMA optimize on a nearly empty queue"
    add_claims(benchmark, report, "parked", server.name, what, "at 1,000, likewise", ours, theirs)


def wait_optimized(server: Server, queue: str) -> None:
    """Wait until the server has notes on the tables of the queue; a snapshot is when it makes them."""
    pattern = f"rqfast_{queue}_%"

    def noted() -> bool:
        server.snapshot()
        if not server.query("SELECT 1 FROM sqlite_master WHERE name='sqlite_stat1'"):
            return False
        return server.query("SELECT count(*) FROM sqlite_stat1 WHERE tbl LIKE ?", pattern) != [(0,)]

    wait_until("PRAGMA optimize to have run", noted, OPTIMIZE_SECONDS, every=1.0)
