"""rqfast as its users run it, each side of each group of measurements one function."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any, TypeAlias

from rqfast import connect, connect_async

from .measure import Cost, measured
from .servers import Server
from .workload import VISIBILITY, Work, check_published, check_worked

# One call of so many is timed.
SAMPLED = 16

Task: TypeAlias = Callable[[Any, int], Coroutine[Any, Any, None]]


def _run(server: Server, queue: str, callers: int, messages: int, task: Task) -> Cost:
    async def run() -> Cost:
        async with connect_async(server.url, queue=queue) as transport:
            with measured(server, messages, f"{callers:,} in flight") as cost:
                await asyncio.gather(*(task(transport, k) for k in range(callers)))
        return cost

    return asyncio.run(run())


def publish(server: Server, queue: str, work: Work, callers: int) -> Cost:
    """Single `await publish` calls."""
    numbers = itertools.count()
    latencies: list[float] = []

    async def task(transport: Any, _: int) -> None:
        for n in numbers:
            if n >= work.messages:
                return
            if n % SAMPLED:
                await transport.publish(work.group(n), work.event(n))
                continue
            start = time.perf_counter()
            await transport.publish(work.group(n), work.event(n))
            latencies.append(time.perf_counter() - start)

    cost = _run(server, queue, callers, work.messages, task)
    cost.latencies = latencies
    check_published(server, queue, work)
    return cost


def claim_and_ack(server: Server, queue: str, work: Work, workers: int, *, together: bool = False) -> Cost:
    """Work off a queue that was filled; `together` acknowledges in the commit of the next claim.

    The latencies are those of an ack.
    """
    done: list[tuple[str, Any]] = []
    latencies: list[float] = []

    async def apart(transport: Any, k: int) -> None:
        worker = f"w{k}"
        while (lease := await transport.claim(worker, VISIBILITY)) is not None:
            done.append((lease.group_id, lease.event))
            if len(done) % SAMPLED:
                await transport.ack(lease)
                continue
            start = time.perf_counter()
            await transport.ack(lease)
            latencies.append(time.perf_counter() - start)

    async def in_one(transport: Any, k: int) -> None:
        worker = f"w{k}"
        lease = await transport.claim(worker, VISIBILITY)
        while lease is not None:
            done.append((lease.group_id, lease.event))
            lease = await transport.claim(worker, VISIBILITY, ack=lease)

    cost = _run(server, queue, workers, work.messages, in_one if together else apart)
    cost.latencies = latencies
    check_worked(server, queue, work, ((group, event["number"]) for group, event in done))
    return cost


def publish_many_sync(server: Server, queue: str, work: Work) -> Cost:
    """One `publish_many` of a script."""
    with closing(connect(server.url, queue=queue)) as transport, measured(server, work.messages, "sync") as cost:
        seqs = transport.publish_many(work.rows())
    assert len(seqs) == work.messages
    check_published(server, queue, work)
    return cost


def publish_many_async(server: Server, queue: str, work: Work) -> Cost:
    """The same in a coroutine."""

    async def run() -> Cost:
        async with connect_async(server.url, queue=queue) as transport:
            with measured(server, work.messages, "async") as cost:
                seqs = await transport.publish_many(work.rows())
        assert len(seqs) == work.messages
        return cost

    cost = asyncio.run(run())
    check_published(server, queue, work)
    return cost


def publish_soon(server: Server, queue: str, work: Work) -> Cost:
    """A script's own loop, and `flush` after it."""
    with closing(connect(server.url, queue=queue)) as transport, measured(server, work.messages) as cost:
        for group, event in work.rows():
            transport.publish_soon(group, event)
        transport.flush()
    check_published(server, queue, work)
    return cost
