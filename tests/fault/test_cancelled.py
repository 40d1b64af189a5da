"""Cancelled claims of the async transport: the message comes back at once, and no attempt is spent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rqfast
from tests.contract.views import Lease, run_async
from tests.fault.calls import GROUP, rows
from tests.fault.conftest import FaultyQueue
from tests.proxy import Exchange, contains, is_write

pytestmark = pytest.mark.cluster


@pytest.fixture
def aq(three_nodes_q: FaultyQueue) -> FaultyQueue:
    return three_nodes_q


def is_claim(exchange: Exchange) -> bool:
    return is_write(exchange) and b"attempts" in exchange.body


async def opened(q: FaultyQueue, **options: Any) -> Any:
    return await rqfast.connect_async(q.url, **{**q.options, **options})


async def hit(rule: Any) -> None:
    await asyncio.to_thread(rule.wait)


async def check_given_back(transport: Any, seq: int) -> None:
    """The message can be claimed within a moment, long before its lease ends, as if it had not been."""
    lease: Lease | None = await transport.claim("w2", 600, wait=15)
    assert lease is not None, "the message was not given back"
    assert (lease.seq, lease.attempts) == (seq, 1)
    await transport.ack(lease)


@pytest.mark.parametrize("how", ["delay", "cut_after", "cut_half"])
def test_cancelled_in_flight_after_delivery(aq: FaultyQueue, how: str) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            seq = await transport.publish(GROUP, "a")
            proxy = await asyncio.to_thread(lambda: aq.proxy)
            delay = proxy.delay(match=is_claim, reply=True)
            if how != "delay":
                getattr(proxy, how)(match=is_claim)
            claim = asyncio.ensure_future(transport.claim("w", 600))
            await hit(delay)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
            delay.release()
            await check_given_back(transport, seq)

    run_async(script(), "a claim cancelled in flight")
    assert rows(aq) == []


def test_a_run_cancelled_in_flight_after_delivery(aq: FaultyQueue) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            await transport.publish_many([(GROUP, n) for n in range(5)])
            proxy = await asyncio.to_thread(lambda: aq.proxy)
            delay = proxy.delay(match=is_claim, reply=True)
            proxy.cut_after(match=is_claim)
            claim = asyncio.ensure_future(transport.claim_run("w", 600, 4))
            await hit(delay)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
            delay.release()
            run = await transport.claim_run("w2", 600, 5, wait=15)
            assert [(lease.event, lease.attempts) for lease in run] == [(n, 1) for n in range(5)]
            assert await transport.ack_many(run) == []

    run_async(script(), "a run cancelled in flight")
    assert rows(aq) == []


def test_cancelled_in_flight_before_delivery(aq: FaultyQueue) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            seq = await transport.publish(GROUP, "a")
            proxy = await asyncio.to_thread(lambda: aq.proxy)
            delay = proxy.delay(match=is_claim)
            claim = asyncio.ensure_future(transport.claim("w", 600))
            await hit(delay)
            claim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await claim
            delay.release()
            await check_given_back(transport, seq)

    run_async(script(), "a claim cancelled before it was delivered")
    assert rows(aq) == []


def test_cancelled_after_the_result_came_and_before_the_task_took_it(aq: FaultyQueue) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            seq = await transport.publish(GROUP, "a")
            claim = transport.claim("w", 600)
            # This callback is older than the task's own, so the cancel comes between result and wake-up.
            tasks: list[asyncio.Task[Any]] = []
            claim.add_done_callback(lambda _: tasks[0].cancel())
            tasks.append(asyncio.ensure_future(_take(claim)))
            with pytest.raises(asyncio.CancelledError):
                await tasks[0]
            assert claim.done()
            assert not claim.cancelled()
            tasks.clear()
            del claim
            await check_given_back(transport, seq)

    run_async(script(), "a claim cancelled with its result")
    assert rows(aq) == []


async def _take(claim: Any) -> Any:
    return await claim


@pytest.mark.parametrize("wait", [None, 30])
def test_a_waiting_claim_that_is_cancelled_takes_nothing(aq: FaultyQueue, wait: float | None) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(transport.claim("w", 600, wait=wait), 0.2)
            seq = await transport.publish(GROUP, "a")
            await check_given_back(transport, seq)

    run_async(script(), "a waiting claim that was cancelled")


def test_one_of_many_waiting_claims_is_cancelled_as_a_message_comes(aq: FaultyQueue) -> None:
    async def script() -> None:
        async with await opened(aq) as transport, await opened(aq) as other:
            for _ in range(20):
                claims = [asyncio.ensure_future(transport.claim("w", 600, wait=15)) for _ in range(3)]
                publish = asyncio.ensure_future(other.publish(GROUP, "a"))
                await asyncio.sleep(0)
                claims[0].cancel()
                seq = await publish
                done, _ = await asyncio.wait(claims[1:], return_when=asyncio.FIRST_COMPLETED, timeout=20)
                assert done, "a message that a cancelled claim took was not given back"
                [lease] = [each.result() for each in done]
                assert (lease.seq, lease.attempts) == (seq, 1)
                await transport.ack(lease)
                for each in claims:
                    each.cancel()
                await asyncio.gather(*claims, return_exceptions=True)

    run_async(script(), "waiting claims of which one is cancelled")


def test_claim_many_cancelled_in_flight(aq: FaultyQueue) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            seqs = [await transport.publish(f"g{n}", n) for n in range(4)]
            proxy = await asyncio.to_thread(lambda: aq.proxy)
            delay = proxy.delay(match=is_claim, reply=True)
            claim = asyncio.ensure_future(transport.claim_many("w", 600, 4))
            await hit(delay)
            claim.cancel()
            delay.release()
            with pytest.raises(asyncio.CancelledError):
                await claim
            found: dict[int, int] = {}
            async with asyncio.timeout(20):
                while len(found) < 4:
                    for lease in await transport.claim_many("w2", 600, 4, wait=1):
                        found[lease.seq] = lease.attempts
            assert found == dict.fromkeys(seqs, 1)

    run_async(script(), "claim_many cancelled in flight")


def test_others_in_the_same_request_are_not_cancelled_with_one(aq: FaultyQueue) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            for n in range(4):
                await transport.publish(f"g{n}", n)
            proxy = await asyncio.to_thread(lambda: aq.proxy)
            delay = proxy.delay(match=is_claim, reply=True)
            claims = [asyncio.ensure_future(transport.claim("w", 600)) for _ in range(4)]
            await hit(delay)
            claims[1].cancel()
            delay.release()
            leases = await asyncio.gather(claims[0], claims[2], claims[3])
            assert len({lease.seq for lease in leases}) == 3
            last = await transport.claim("w", 600, wait=15)
            assert last is not None
            assert {lease.event for lease in (*leases, last)} == {0, 1, 2, 3}
            assert last.attempts == 1

    run_async(script(), "four claims of which one is cancelled")


def test_close_gives_back_what_no_caller_received(aq: FaultyQueue) -> None:
    async def script() -> int:
        transport = await opened(aq)
        seq: int = await transport.publish(GROUP, "a")
        proxy = await asyncio.to_thread(lambda: aq.proxy)
        delay = proxy.delay(match=is_claim, reply=True)
        claim = asyncio.ensure_future(transport.claim("w", 600))
        await hit(delay)
        claim.cancel()
        closing = asyncio.ensure_future(transport.close())
        await asyncio.sleep(0)
        delay.release()
        await closing
        with pytest.raises((asyncio.CancelledError, rqfast.Closed)):
            await claim
        return seq

    seq = run_async(script(), "close with a claim in flight")
    assert rows(aq, "seq, locked_by, attempts") == [(seq, None, 0)]


def test_a_cancelled_publish_is_in_once_or_not_at_all(aq: FaultyQueue) -> None:
    async def script() -> None:
        async with await opened(aq) as transport:
            await transport.publish(GROUP, "first")
            proxy = await asyncio.to_thread(lambda: aq.proxy)
            rule = proxy.delay(match=contains("second"), reply=True)
            publish = asyncio.ensure_future(transport.publish(GROUP, "second"))
            await hit(rule)
            publish.cancel()
            rule.release()
            await transport.publish(GROUP, "third")

    run_async(script(), "a publish that was cancelled")
    found = [event for (event,) in rows(aq, "event")]
    assert found in (['"first"', '"third"'], ['"first"', '"second"', '"third"'])
