"""What closing a transport leaves behind: nothing that a caller did not get."""

import asyncio

import pytest

from rqfast import Closed, connect_async
from tests.contract.views import Queue, run_async


def test_closing_gives_back_a_claim_in_flight(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("sync: a call has ended when it returns")

    async def script() -> None:
        transport = await connect_async(q.url, **q.options)
        await asyncio.gather(transport.publish("a", 1), transport.publish("b", 2))
        held = await transport.claim("w", 600)
        assert held is not None
        claim = transport.claim("w", 600)
        await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(Closed):
            await claim

    run_async(script(), "a claim in flight while its transport is closed")
    lease = q.open().claim("other", 600, wait=15)
    assert lease is not None
    assert lease.attempts == 1


def test_closing_ends_a_waiting_claim(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("sync: has its own test among those of opening")

    async def script() -> None:
        transport = await connect_async(q.url, **q.options)
        claim = transport.claim("w", wait=None)
        await asyncio.sleep(0.05)
        await transport.close()
        with pytest.raises(Closed):
            await claim
        with pytest.raises(Closed):
            transport.publish("g", 1)

    run_async(script(), "a waiting claim whose transport is closed")
