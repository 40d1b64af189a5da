"""Group idle: what an empty queue costs while workers wait for it, and how soon they have what comes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from rqfast import connect_async

from .bare import callers_on
from .claims import MS, blocks_of
from .report import Report, Row
from .servers import Server
from .sizes import Sizes
from .workload import VISIBILITY, queue_on

pytestmark = [pytest.mark.benchmark(group="idle"), pytest.mark.timeout(300)]

WORKERS = 100
WARM = 2.0
WAKES = 30
WAKES_BY_OTHERS = 8
# Longer than the longest pause between two looks takes to grow.
REST = 1.6
MAX_POLL = 0.5
EVERY = 0.005


def wait_in_line(transport: Any) -> set[asyncio.Task[Any]]:
    """The waiting claims of all workers."""

    async def wait(k: int) -> Any:
        return await transport.claim(f"w{k}", VISIBILITY, wait=None)

    return {asyncio.create_task(wait(k)) for k in range(WORKERS)}


async def first_of(transport: Any, waiting: set[asyncio.Task[Any]]) -> float:
    """When the first waiting worker has a message; it is acknowledged, and the worker waits again."""
    done, _ = await asyncio.wait(waiting, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    now = time.perf_counter()
    assert len(done) == 1, f"{len(done)} workers woke for one message"
    (task,) = done
    waiting -= done

    async def wait() -> Any:
        return await transport.claim("again", VISIBILITY, wait=None)

    await transport.ack(task.result())
    waiting.add(asyncio.create_task(wait()))
    return now


def test_waiting(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    found: dict[str, Any] = {}

    async def run(queue: str) -> None:
        async with connect_async(server.url, queue=queue, max_poll=MAX_POLL) as transport:
            waiting = wait_in_line(transport)
            await asyncio.sleep(WARM)
            before = server.counters()
            await asyncio.sleep(sizes.idle)
            after = server.counters()
            found["entries"] = after.entries - before.entries
            found["reads"] = (after.reads - before.reads) / sizes.idle if after.reads >= 0 else -1.0
            found["same"], found["other"], found["trip"] = [], [], []
            for n in range(WAKES):
                await transport.publish("g", n)
                published = time.perf_counter()
                found["same"].append(await first_of(transport, waiting) - published)
                await asyncio.sleep(0.02)
            async with callers_on(server, queue, 1) as (bare,):
                # Past rqfast, as another process publishes: nothing wakes the waiting claims but their looks.
                for n in range(WAKES_BY_OTHERS):
                    await asyncio.sleep(REST)
                    await bare.publish("g", n)
                    published = time.perf_counter()
                    found["other"].append(await first_of(transport, waiting) - published)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for n in range(WAKES):
                await transport.publish("g", n)
                start = time.perf_counter()
                lease: Any = await transport.claim("w", VISIBILITY)
                found["trip"].append(time.perf_counter() - start)
                await transport.ack(lease)

    with queue_on(server) as queue:
        benchmark.pedantic(lambda: asyncio.run(run(queue)), rounds=1)
    benchmark.extra_info |= {"reads_a_second": found["reads"], "raft_entries": found["entries"]}

    def add(what: str, unit: str, value: float, goal: float) -> None:
        report.add(benchmark, Row("idle", server.name, what, "", unit, [value], [], goal, at_most=True))

    waits = f"{WORKERS} workers wait on an empty queue for {sizes.idle:g} s"
    add(waits, "Raft entries", found["entries"], 0)
    if found["reads"] >= 0:
        add(waits, "reads/s", found["reads"], 2)
    what = "from a publish in the same process to a waiting worker's hands"
    row = Row("idle", server.name, what, "one claim", "ms", blocks_of(found["same"]), blocks_of(found["trip"]), 1, True)
    report.add(benchmark, row)
    what = f"from a publish in another process to a waiting worker's hands, longest of {WAKES_BY_OTHERS}"
    # One look within max_poll finds it; then it is claimed.
    add(what, "ms", max(found["other"]) * MS, round(MAX_POLL * MS + 2 * max(found["trip"]) * MS))


def test_polling(benchmark: Any, server: Server, report: Report, sizes: Sizes) -> None:
    """As workers of the plain transport do."""
    found: dict[str, int] = {}

    async def run(queue: str) -> None:
        async with connect_async(server.url, queue=queue) as transport:
            await transport.claim("w0", VISIBILITY)
            before, end = server.counters(), time.monotonic() + sizes.polling

            async def poll(k: int) -> int:
                calls = 0
                while time.monotonic() < end:
                    assert await transport.claim(f"w{k}", VISIBILITY) is None
                    calls += 1
                    await asyncio.sleep(EVERY)
                return calls

            found["claims"] = sum(await asyncio.gather(*(poll(k) for k in range(WORKERS))))
            found["entries"] = server.counters().entries - before.entries

    with queue_on(server) as queue:
        benchmark.pedantic(lambda: asyncio.run(run(queue)), rounds=1)
    benchmark.extra_info |= found
    what = f"{WORKERS} workers call claim() every {EVERY * MS:g} ms for {sizes.polling:g} s: {found['claims']:,} claims"
    report.add(benchmark, Row("idle", server.name, what, "", "Raft entries", [found["entries"]], [], 0, at_most=True))
