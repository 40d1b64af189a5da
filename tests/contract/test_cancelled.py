"""Calls of the async transports that are cancelled at any moment: no gap in a stream, no message stays leased."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import rqfast
from tests.contract.conftest import ENGINES
from tests.contract.views import Queue, queue_name, run_async

GROUPS = 3
STREAMS = 12
ITEMS = 120


@pytest.fixture(params=["embedded", pytest.param("one node", marks=pytest.mark.cluster("one node"))])
def aq(request: pytest.FixtureRequest) -> Iterator[Queue]:
    q = Queue(request.param, "async", ENGINES[request.param](request), queue_name())
    yield q
    q.close()


# -- publish_many ------------------------------------------------------------------------------------------


async def slowly(given: list[tuple[str, int]]) -> AsyncIterator[tuple[str, int]]:
    for item in given:
        if random.random() < 0.1:
            await asyncio.sleep(0)
        yield item


async def stream_and_cancel(transport: Any, number: int, kind: str, after: float | None) -> None:
    """Cancel a stream after so many seconds, or, None, when it has begun and nothing of it has left."""
    before = []
    for lane in range(2):
        before.append(transport.publish(f"before {lane}", ITEMS))
        await asyncio.sleep(0)
    given = [(f"{number} {n % GROUPS}", n // GROUPS) for n in range(ITEMS)]
    many = transport.publish_many(given if kind == "iterable" else slowly(given))
    if after is None:
        await asyncio.sleep(0)
    else:
        await asyncio.wait((many,), timeout=after)
    many.cancel()
    # Others go on meanwhile, in the same groups.
    await transport.publish(f"{number} 0", ITEMS)
    await asyncio.gather(many, *before, return_exceptions=True)


@pytest.mark.parametrize("kind", ["iterable", "async iterable"])
def test_a_stream_that_is_cancelled_leaves_no_gap(aq: Queue, kind: str) -> None:
    """Of each group the queue has what was given up to some point."""

    async def script() -> None:
        # Small batches, of which many are on their way at once.
        async with rqfast.connect_async(aq.url, max_batch=7, max_in_flight=70, **aq.options) as transport:
            for number in range(STREAMS):
                await stream_and_cancel(transport, number, kind, random.uniform(0, 0.02) if number % 2 else None)

    run_async(script(), "streams that are cancelled")
    found: dict[str, list[int]] = defaultdict(list)
    for group, event in aq.sql(f"SELECT group_id, event FROM {aq.table('messages')} ORDER BY seq"):
        if int(event) != ITEMS:
            found[group].append(int(event))
    for group, events in found.items():
        assert events == list(range(len(events))), group
    assert sum(map(len, found.values())) < STREAMS * ITEMS, "no stream was cancelled in time"


# -- a claim with several acks -----------------------------------------------------------------------------


async def leased(transport: Any) -> list[Any]:
    """Two leases, and two more messages to claim."""
    await transport.publish_many([("a", 0), ("b", 0), ("c", 1), ("d", 1)])
    leases = [await transport.claim("w", 600) for _ in range(2)]
    assert [lease.event for lease in leases] == [0, 0]
    return leases


async def check_nothing_is_leased(transport: Any) -> None:
    """All that is left is claimable at once, as if nobody had."""
    left = []
    async with asyncio.timeout(20):
        while len(left) < 2:
            left += await transport.claim_many("other", 600, 4, wait=1)
    assert {(lease.group_id, lease.attempts) for lease in left if lease.event} == {("c", 1), ("d", 1)}


def test_a_claim_with_several_acks(aq: Queue) -> None:
    async def script() -> None:
        async with rqfast.connect_async(aq.url, **aq.options) as transport:
            leases = await transport.claim_many("w", 600, 2, ack=await leased(transport))
            assert {lease.group_id for lease in leases} == {"c", "d"}
            assert await transport.claim_many("w", 600, 2, ack=leases) == []

    run_async(script(), "a claim with several acks")
    assert aq.sql(f"SELECT count(*) FROM {aq.table('messages')}") == [(0,)]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_claim_of_whose_acks_one_was_lost(aq: Queue, lost: int) -> None:
    async def script() -> None:
        async with rqfast.connect_async(aq.url, **aq.options) as transport:
            leases = await leased(transport)
            await transport.ack(leases[lost])
            with pytest.raises(rqfast.LeaseLost) as caught:
                await transport.claim_many("w", 600, 2, ack=leases)
            assert caught.value.seq == leases[lost].seq
            await check_nothing_is_leased(transport)

    run_async(script(), "a claim with a lost ack")


@pytest.mark.parametrize("turns", [*range(8), None])
def test_a_claim_with_several_acks_that_is_cancelled(aq: Queue, turns: int | None) -> None:
    """After so many turns of the loop; None: when its result has come, and before its task took it."""

    async def take(claim: Any) -> Any:
        return await claim

    async def script() -> None:
        async with rqfast.connect_async(aq.url, **aq.options) as transport:
            claim = transport.claim_many("w", 600, 2, ack=await leased(transport))
            tasks: list[asyncio.Task[Any]] = []
            if turns is None:
                claim.add_done_callback(lambda _: tasks[0].cancel())
            tasks.append(asyncio.ensure_future(take(claim)))
            if turns is not None:
                for _ in range(turns):
                    await asyncio.sleep(0.0005 if aq.engine == "one node" else 0)
                tasks[0].cancel()
            came = await asyncio.gather(*tasks, return_exceptions=True)
            if isinstance(came[0], list):
                return  # it was too late to cancel it
            tasks.clear()
            del claim
            await check_nothing_is_leased(transport)

    run_async(script(), "a claim with several acks that is cancelled")


@pytest.mark.parametrize("wait", [None, 30])
def test_a_waiting_claim_with_several_acks_that_is_cancelled(aq: Queue, wait: float | None) -> None:
    async def script() -> None:
        async with rqfast.connect_async(aq.url, **aq.options) as transport:
            await transport.publish_many([("a", 0), ("b", 0)])
            leases = await transport.claim_many("w", 600, 2)
            claim = asyncio.ensure_future(transport.claim_many("w", 600, 2, wait=wait, ack=leases))
            await asyncio.sleep(0.1)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
            await transport.publish_many([("c", 1), ("d", 1)])
            await check_nothing_is_leased(transport)

    run_async(script(), "a waiting claim with several acks that is cancelled")
    assert aq.sql(f"SELECT count(*) FROM {aq.table('messages')}") == [(2,)]


# -- opening -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["refuses", "says nothing"])
def unreachable(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a port where nobody listens, or where nobody answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "says nothing":
            server.listen(16)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("how", ["connect_async", "first call", "entered"])
@pytest.mark.parametrize("after", [0.0, 0.3])
def test_opening_that_is_cancelled_ends_at_once(unreachable: str, how: str, after: float) -> None:
    """And leaves neither a task nor a session."""

    async def begin() -> None:
        if how == "connect_async":
            await rqfast.connect_async(unreachable)
        elif how == "first call":
            transport: Any = rqfast.AsyncRqliteTransport(unreachable)
            try:
                await transport.publish("g", 1)
            finally:
                await transport.close()
        else:
            async with rqfast.connect_async(unreachable):
                pass

    async def script() -> None:
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(begin())
        await asyncio.sleep(after)
        task.cancel()
        async with asyncio.timeout(2):
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() - before == set()

    run_async(script(), "opening that is cancelled")
    gc.collect()
