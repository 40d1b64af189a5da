"""Group depth: the time of a claim with a thousand messages in the queue and with a million."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from rqfast import connect_async

from . import plain
from .claims import add_claims, claims_in_turn
from .measure import quantile
from .reference import AsyncRqliteTransport
from .report import Report
from .servers import Server
from .sizes import Sizes
from .workload import VISIBILITY, Work, fill, queue_on

pytestmark = [pytest.mark.benchmark(group="depth"), pytest.mark.timeout(900)]

A_GROUP = 10
PLAIN_CLAIMS = 15


def plain_claims(server: Server, depth: int) -> list[float]:
    """Some claims of the plain transport at this depth."""
    plain.fill(server, depth, depth // A_GROUP)
    times: list[float] = []

    async def run() -> None:
        transport = await AsyncRqliteTransport.from_url(server.leader_url)
        for _ in range(PLAIN_CLAIMS):
            start = time.perf_counter()
            lease = await transport.claim("w", VISIBILITY)
            times.append(time.perf_counter() - start)
            assert lease is not None
        await transport.close()

    asyncio.run(run())
    server.drop(None)
    return times


def test_claim_at_depth(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    """Each depth against the least, in turn on two queues."""
    curve: dict[int, float] = {}

    async def both(small: str, large: str) -> list[list[float]]:
        async with AsyncExitStack() as stack:
            transports = [
                await stack.enter_async_context(connect_async(server.url, queue=queue)) for queue in (small, large)
            ]
            return await claims_in_turn(transports, sizes.claims)

    def run() -> None:
        for depth in sizes.depths[1:]:
            with queue_on(server) as small, queue_on(server) as large:
                fill(server, small, Work(sizes.depths[0], sizes.depths[0] // A_GROUP))
                fill(server, large, Work(depth, depth // A_GROUP))
                theirs, ours = asyncio.run(both(small, large))
            curve[depth] = quantile(ours, 0.5)
            curve.setdefault(sizes.depths[0], quantile(theirs, 0.5))
            what = f"claim at {depth:,} messages in {depth // A_GROUP:,} groups"
            goal = 1.5 if depth == sizes.depths[-1] else None
            add_claims(
                benchmark, report, "depth", server.name, what, f"at {sizes.depths[0]:,}", ours, theirs, goal=goal
            )

    benchmark.pedantic(run, rounds=1)
    plains = {depth: quantile(plain_claims(server, depth), 0.5) for depth in sizes.plain_depths}
    benchmark.extra_info["claim_seconds"] = {"rqfast": curve, "httpx": plains}
