"""Operating calls keep their place among all calls of their transport, however many are in flight (rule 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import rqfast
from tests.contract.views import Queue, run_async

Script = Callable[[Any], Awaitable[None]]


@pytest.fixture
def run(q: Queue) -> Callable[[Script], None]:
    """Runs a script on an async transport; the sync colour makes each call after the other anyway."""
    if q.colour == "sync":
        pytest.skip("one call after another")

    def run_script(script: Script) -> None:
        async def on_transport() -> None:
            async with rqfast.connect_async(q.url, **q.options) as transport:
                await script(transport)

        run_async(on_transport(), "a script")

    return run_script


def test_purge_takes_what_was_published_before_it(run: Callable[[Script], None]) -> None:
    async def script(t: Any) -> None:
        first = [t.publish("g", n) for n in range(50)]
        purged = t.purge("g")
        second = [t.publish("g", n) for n in range(50, 60)]
        all_purged = t.purge(everything=True)
        third = [t.publish(f"g{n}", n) for n in range(60, 70)]
        await asyncio.gather(*first, *second, *third)
        assert (await purged, await all_purged) == (50, 10)
        assert {message.event for n in range(60, 70) for message in await t.peek(f"g{n}")} == set(range(60, 70))
        assert (await t.stats()).messages == 10

    run(script)


def test_a_purge_in_steps_spares_what_is_published_between_them(run: Callable[[Script], None]) -> None:
    async def script(t: Any) -> None:
        await t.publish_many((f"g{n % 7}", n) for n in range(6500))
        purged = t.purge(everything=True)
        later = [t.publish(f"g{n % 7}", "later") for n in range(100)]
        again = t.purge("g0")
        last = t.publish("g0", "last")
        await asyncio.gather(*later)
        assert (await purged, await again) == (6500, 15)
        await last
        assert (await t.stats()).messages == 100 - 15 + 1

    run(script)


def test_a_purge_takes_what_a_redrive_before_it_brings_back(run: Callable[[Script], None]) -> None:
    async def script(t: Any) -> None:
        await t.publish_many((f"g{n % 500}", n) for n in range(4500))
        while leases := await t.claim_many("w", 60, 1000):
            await t.dead_letter_many(leases, "why")
        redriven, purged, dropped = t.redrive(), t.purge(everything=True), t.redrive()
        assert (await redriven, await purged, await dropped) == (4500, 4500, 0)
        assert (await t.stats()).messages == 0

    run(script)


def test_pause_and_resume_stand_between_claims(run: Callable[[Script], None]) -> None:
    async def script(t: Any) -> None:
        await t.publish_many((f"g{n}", n) for n in range(3))
        found = []
        for what in (None, "g1"):
            calls = [t.pause(what), t.claim("w"), t.resume(what), t.claim("w")]
            _, first, _, second = await asyncio.gather(*calls)
            found.append((None if first is None else first.group_id, second.group_id))
        assert found == [(None, "g0"), ("g2", "g1")]

    run(script)


def test_settlements_and_operating_calls_of_a_group(run: Callable[[Script], None]) -> None:
    async def script(t: Any) -> None:
        for n in range(20):
            seq = await t.publish("g", n)
            lease = await t.claim("w")
            # In work, so it is not deleted; given back, it is.
            outcomes = await asyncio.gather(t.delete(seq), t.nack(lease), t.delete(seq), t.delete(seq))
            assert outcomes == [False, None, True, False]
            await t.publish("g", n)
            lease = await t.claim("w")
            extended, released, lost = await asyncio.gather(
                t.extend(lease, 60), t.release("g"), t.ack(lease), return_exceptions=True
            )
            assert extended == lease.expires_at and released is True
            assert isinstance(lost, rqfast.LeaseLost)
            lease = await t.claim("w")
            assert await asyncio.gather(t.dead_letter(lease, "why"), t.redrive("g")) == [None, 1]
            assert await t.purge("g") == 1

    run(script)


def test_many_at_once_among_much_else(run: Callable[[Script], None]) -> None:
    async def script(t: Any) -> None:
        calls: list[Any] = []
        for n in range(30):
            calls += [t.publish(f"g{n % 3}", n), t.pause(f"g{n % 3}"), t.claim("w", 60), t.resume(f"g{n % 3}")]
            calls += [t.publish("other", n), t.stats()]
        await asyncio.gather(*calls)
        assert (await t.stats()).messages == 60

    run(script)


def test_one_that_is_cancelled_holds_up_nobody(run: Callable[[Script], None]) -> None:
    async def script(t: Any) -> None:
        await t.publish_many((f"g{n % 7}", n) for n in range(6500))
        before, cancelled, after = t.publish("g", 1), t.purge(everything=True), t.publish("g", 2)
        cancelled.cancel()
        purged = t.purge(everything=True)
        other = t.publish("h", 3)
        await asyncio.gather(before, after, other)
        assert await purged in (2, 6502)
        cancelled, last = t.purge("h"), t.publish("h", 4)
        await asyncio.sleep(0.001)
        cancelled.cancel()
        await last
        assert [message.event for message in await t.peek("h")] in ([3, 4], [4])

    run(script)


def test_closing_ends_what_was_begun(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("one call after another")

    async def script() -> None:
        transport = await rqfast.connect_async(q.url, **q.options)
        calls = [transport.publish("g", 1), transport.pause("g"), transport.publish("g", 2), transport.purge("g")]
        await transport.close()
        assert [call.result() for call in calls][1:] == [None, 2, 2]

    run_async(script(), "close")
    assert [group.state for group in q.open().groups()] == ["paused"]
