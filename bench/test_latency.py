"""Group latency: what one lone publish costs over one POST of the same statements."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import Any

import pytest

from rqfast import connect, connect_async

from .bare import callers_on
from .claims import MS, blocks_of
from .measure import quantile
from .report import Report, Row
from .servers import Server
from .sizes import Sizes
from .workload import Work, queue_on

pytestmark = [pytest.mark.benchmark(group="latency"), pytest.mark.timeout(300)]

WARM = 20


def told(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Quantiles of both, in ms."""
    return {
        f"{side} p{p}": round(quantile(values, p / 100) * MS, 3)
        for side, values in (("rqfast", ours), ("bare", theirs))
        for p in (50, 99)
    }


def add(benchmark: Any, report: Report, server: Server, what: str, ours: list[float], theirs: list[float]) -> None:
    """A row of the medians."""

    goal = 1.15 if "async" in what else None
    row = Row(
        "latency",
        server.name,
        what,
        "one bare POST",
        "ms",
        blocks_of(ours),
        blocks_of(theirs),
        goal,
        True,
        told(ours, theirs),
    )
    benchmark.extra_info |= row.extra
    report.add(benchmark, row)


def test_lone_publish(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    work = Work(sizes.pairs, 100)

    async def run(queue: str) -> None:
        async with connect_async(server.url, queue=queue) as transport, callers_on(server, queue, 1) as (bare,):
            for n in range(-WARM, sizes.pairs):
                pair: list[tuple[Any, list[float]]] = [(transport.publish, ours), (bare.publish, theirs)]
                for publish, times in pair if n % 2 else pair[::-1]:
                    start = time.perf_counter()
                    await publish(work.group(n), work.event(n))
                    if n >= 0:
                        times.append(time.perf_counter() - start)

    with queue_on(server) as queue:
        benchmark.pedantic(lambda: asyncio.run(run(queue)), rounds=1)
    add(benchmark, report, server, f"one lone publish, async, {sizes.pairs} pairs", ours, theirs)


def test_lone_publish_sync(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    work = Work(sizes.pairs, 100)

    async def post(bare: Any, n: int) -> None:
        start = time.perf_counter()
        await bare.publish(work.group(n), work.event(n))
        theirs.append(time.perf_counter() - start)

    def run(queue: str) -> None:
        with asyncio.Runner() as runner, closing(connect(server.url, queue=queue)) as transport:
            callers = callers_on(server, queue, 1)
            (bare,) = runner.run(callers.__aenter__())
            for n in range(sizes.pairs + WARM):
                runner.run(post(bare, n))
                start = time.perf_counter()
                transport.publish(work.group(n), work.event(n))
                ours.append(time.perf_counter() - start)
            runner.run(callers.__aexit__(None, None, None))

    with queue_on(server) as queue:
        benchmark.pedantic(lambda: run(queue), rounds=1)
    what = f"one lone publish, sync (one hop between threads more), {sizes.pairs} pairs"
    add(benchmark, report, server, what, ours[WARM:], theirs[WARM:])
