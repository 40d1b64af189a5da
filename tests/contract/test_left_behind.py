"""What is left of much use: after 10,000 cancelled claims, of 64 threads on one transport, in a second loop."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rqfast
from tests.contract.conftest import ENGINES
from tests.contract.views import Queue, View, queue_name

THREADS = 64
ROUNDS = 10
CLAIMS = 10_000
TOGETHER = 250
CONNECTIONS = 4  # that a transport keeps, or closes when they are idle
GROWTH = 4 << 20  # bytes of memory: 420 for each cancelled claim would be found

on_two = pytest.mark.parametrize(
    "engine", ["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))]
)


@pytest.fixture
def q(request: pytest.FixtureRequest, engine: str) -> Iterator[Queue]:
    q = Queue(engine, "sync", ENGINES[engine](request), queue_name())
    yield q
    q.close()


class Left(NamedTuple):
    """What a process has open."""

    files: int
    threads: int

    @classmethod
    async def now(cls) -> Left:
        """When no task is left but the one that asks."""
        async with asyncio.timeout(30):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
        return cls(files(), threading.active_count())


def files() -> int:
    """How many this process has open, sockets among them; 0 where that is not told."""
    gc.collect()
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def memory() -> int:
    """Bytes that this process has in memory; 0 where that is not told."""
    gc.collect()
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


async def cancel_claims(transport: Any, count: int) -> None:
    """Half of them wait for ever; the others are cancelled with their answer on its way, or there."""
    for turn in range(count // TOGETHER):
        claims = [transport.claim(f"w{n}", 600, wait=None if n % 2 else 0) for n in range(TOGETHER)]
        for _ in range(turn % 7):
            await asyncio.sleep(0.0002)
        for claim in claims:
            claim.cancel()
        await asyncio.wait(claims)


@on_two
@pytest.mark.skipif(sys.platform == "win32", reason="counts what POSIX shows")
def test_ten_thousand_cancelled_claims(q: Queue) -> None:
    """Sockets, threads, tasks and memory are back where they were, and so are the messages."""

    async def script() -> tuple[Left, Left, int]:
        async with rqfast.connect_async(q.url, **q.options) as transport:
            await transport.publish_many((f"g{n}", n) for n in range(20))
            await cancel_claims(transport, CLAIMS // 2)  # all that is kept between calls is there
            await transport.stats()
            before, bytes_before = await Left.now(), memory()
            await cancel_claims(transport, CLAIMS)
            await transport.stats()
            async with asyncio.timeout(30):
                leases: list[Any] = []
                while len(leases) < 20:
                    leases += await transport.claim_many("w", 600, 20, wait=5)
            assert {lease.attempts for lease in leases} == {1}
            assert await transport.ack_many(leases) == []
            del leases
            return before, await Left.now(), memory() - bytes_before

    before, after, growth = asyncio.run(script())
    assert after.files <= before.files + CONNECTIONS
    assert after.threads <= before.threads
    assert growth < GROWTH


@on_two
def test_sixty_four_threads_on_one_transport(q: Queue) -> None:
    """Each message once, and in each group in the order of its publishes."""
    view = q.open()
    seen: dict[str, list[int]] = defaultdict(list)
    total = THREADS * ROUNDS
    acked: list[int] = []

    def work(view: View, number: int) -> None:
        for n in range(ROUNDS):
            view.publish(f"g{number}", n)
            lease = view.claim(f"w{number}", 600, wait=30)
            assert lease is not None
            # Its group is ours until the ack: nobody else writes here.
            seen[lease.group_id].append(lease.event)
            view.ack(lease)
            acked.append(lease.seq)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(work, view, number) for number in range(THREADS)]:
            future.result(60)
    assert len(set(acked)) == len(acked) == total
    assert seen == {f"g{number}": list(range(ROUNDS)) for number in range(THREADS)}
    assert view.stats().messages == 0


@on_two
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_second_loop(q: Queue) -> None:
    """A transport that was left open when its loop ended says so on another one, and can be closed there.

    (Python warns of the sockets of a loop that is no more.)
    """
    kept: list[Any] = []

    async def first() -> None:
        kept.append(await rqfast.connect_async(q.url, **q.options))
        await kept[0].publish("g", 1)

    async def second() -> None:
        for call in (lambda: kept[0].publish("g", 2), lambda: kept[0].claim("w"), lambda: kept[0].stats()):
            with pytest.raises(rqfast.RqfastError, match="open another one on this loop"):
                await call()
        await kept[0].close()
        async with rqfast.connect_async(q.url, **q.options) as transport:
            lease = await transport.claim("w")
            assert lease.event == 1
            await transport.ack(lease)

    asyncio.run(first())
    asyncio.run(second())
    kept.clear()
    gc.collect()
