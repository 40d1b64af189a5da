"""What a fixed workload may cost: Raft entries, requests, and Python calls in the client.  No times.

A budget that breaks says that something is done for each call that was not done before; one that is far from being
used up is to be lowered.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, NamedTuple

import pytest

from rqfast import connect_async
from rqfast.devserver import DevServer
from rqfast.engine.rqlite import RqliteEngine
from tests.contract.views import queue_name
from tests.devserver import DevDatabase

CALLS = 1000
# Of all calls of functions written in Python while CALLS publishes are made and awaited, those for each publish.
PYTHON_CALLS_A_PUBLISH = 3.0
# Functions and methods written in C that Python code calls, likewise.
C_CALLS_A_PUBLISH = 0.5


class Spent(NamedTuple):
    """What a stretch of work cost."""

    entries: int
    requests: int


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of all requests that rqfast sends."""
    sent: list[str] = []
    post = RqliteEngine.post

    async def counted(self: RqliteEngine, node: str, path: str, body: bytes) -> Any:
        sent.append(path)
        return await post(self, node, path, body)

    monkeypatch.setattr(RqliteEngine, "post", counted)
    return sent


async def spent_on(server: DevServer, requests: list[str], work: Callable[[], Awaitable[object]]) -> Spent:
    """Run it, and say what it cost."""
    database = DevDatabase(server)
    entries, before = await asyncio.to_thread(database.raft_entries), len(requests)
    await work()
    return Spent(await asyncio.to_thread(database.raft_entries) - entries, len(requests) - before)


@asynccontextmanager
async def opened(server: DevServer) -> AsyncIterator[Any]:
    """A transport on a new queue whose lanes are open."""
    async with connect_async(server.url, queue=queue_name()) as transport:
        await transport.publish("warm", 0)
        lease = await transport.claim("w")
        await transport.ack(lease)
        yield transport


def test_publishes_made_together_share_two_requests(dev_server: DevServer, requests: list[str]) -> None:
    async def main() -> None:
        async with opened(dev_server) as t:

            async def work() -> None:
                await asyncio.gather(*(t.publish(f"g{n % 10}", n) for n in range(CALLS)))

            cost = await spent_on(dev_server, requests, work)
        assert cost.entries <= 2 and cost.requests <= 2, cost

    asyncio.run(main())


def test_publish_many_fills_its_requests(dev_server: DevServer, requests: list[str]) -> None:
    async def main() -> None:
        async with opened(dev_server) as t:
            cost = await spent_on(
                dev_server, requests, lambda: t.publish_many((f"g{n % 10}", n) for n in range(10 * CALLS))
            )
        # 2,000 rows a request.
        assert cost.entries <= 6 and cost.requests <= 6, cost

    asyncio.run(main())


@pytest.mark.parametrize(("together", "each"), [(True, 1), (False, 2)], ids=["claim(ack=)", "ack, then claim"])
def test_one_worker_writes_what_its_calls_need(
    dev_server: DevServer, requests: list[str], together: bool, each: int
) -> None:
    messages = 20

    async def main() -> None:
        async with opened(dev_server) as t:
            await t.publish_many((f"g{n % 5}", n) for n in range(messages))

            async def work() -> None:
                lease = await t.claim("w", 600)
                for _ in range(messages - 1):
                    if together:
                        lease = await t.claim("w", 600, ack=lease)
                    else:
                        await t.ack(lease)
                        lease = await t.claim("w", 600)
                await t.ack(lease)

            cost = await spent_on(dev_server, requests, work)
        extra = 1 if together else 0  # the first claim has no lease to acknowledge
        # And one look, because the transport does not know yet that there is work.
        assert cost.entries == each * messages + extra and cost.requests <= cost.entries + 1, cost

    asyncio.run(main())


def test_workers_that_call_together_share_requests(dev_server: DevServer, requests: list[str]) -> None:
    workers = 64

    async def main() -> None:
        async with opened(dev_server) as t:
            await t.publish_many((f"g{n}", n) for n in range(workers))

            async def work() -> None:
                leases = await asyncio.gather(*(t.claim(f"w{n}", 600) for n in range(workers)))
                await asyncio.gather(*map(t.ack, leases))

            cost = await spent_on(dev_server, requests, work)
        # One look, one request of claims, one of acks.
        assert cost.entries <= 2 and cost.requests <= 3, cost

    asyncio.run(main())


def test_claims_that_find_nothing_write_nothing(dev_server: DevServer, requests: list[str]) -> None:
    async def main() -> None:
        async with opened(dev_server) as t:

            async def work() -> None:
                for n in range(20):
                    assert await t.claim(f"w{n}", 600) is None

            cost = await spent_on(dev_server, requests, work)
        assert cost.entries == 0 and cost.requests <= 20, cost

    asyncio.run(main())


def test_python_calls_of_a_publish(dev_server: DevServer) -> None:
    """Counted with `sys.setprofile`, in this thread: the dev server runs in another."""
    counted = {"call": 0, "c_call": 0}

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event in counted:
            counted[event] += 1

    async def main() -> None:
        async with opened(dev_server) as t:
            publish, event = t.publish, {"number": 1, "text": "x" * 40}
            sys.setprofile(count)
            try:
                made = [publish("g", event) for _ in range(CALLS)]
                for future in made:
                    await future
            finally:
                sys.setprofile(None)

    before = sys.getprofile()
    try:
        asyncio.run(main())
    finally:
        sys.setprofile(before)
    calls, c_calls = counted["call"] / CALLS, counted["c_call"] / CALLS
    assert calls <= PYTHON_CALLS_A_PUBLISH, f"{calls:.2f} calls of Python functions a publish"
    assert c_calls <= C_CALLS_A_PUBLISH, f"{c_calls:.2f} calls of C functions a publish"
