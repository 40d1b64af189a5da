"""Leases of messages in work: extended whatever the handler does, lost when an operator takes them away."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from rqfast import Ack, Context, LeaseLost, Worker
from tests.contract.views import Clock
from tests.subscriptions.place import SECONDS, Place, run, serving, until

# A bound for what never ends by itself.
LONG = 60.0


def visibility_of(place: Place, kind: str = "") -> float:
    """Short; but a cluster of three, each with its own disk, on a machine of two cores, needs longer for a commit, and
    so does a dev server that a busy handler shares the interpreter with."""
    return 1.5 if place.engine == "three nodes" or kind == "busy" else 0.5


def rest(kind: str, seconds: float) -> None:
    """Hold the thread for so long; "busy" also holds the interpreter, as far as a thread can."""
    end = time.monotonic() + seconds
    if kind == "busy":
        while time.monotonic() < end:
            pass
    else:
        time.sleep(seconds)


@pytest.mark.parametrize("kind", ["plain", "busy", "async"])
def test_a_handler_of_three_leases_keeps_its_message(place: Place, kind: str) -> None:
    async def scenario() -> None:
        visibility = visibility_of(place, kind)
        seen: list[tuple[str, int]] = []

        def declare(worker: Worker) -> None:
            def plain(number: int, ctx: Context) -> None:
                seen.append((worker.name, ctx.attempt))
                rest(kind, 3 * visibility)
                assert not ctx.lease_lost

            async def blocking(number: int, ctx: Context) -> None:
                # Nothing else runs on this worker's loop.
                plain(number, ctx)

            worker.subscriber(group="crm", name="crm")(blocking if kind == "async" else plain)

        workers = [place.worker(name=name, visibility=visibility) for name in ("one", "two")]
        for worker in workers:
            declare(worker)
        async with place.connect() as transport:
            await transport.publish("crm", 1)
            running = [asyncio.create_task(asyncio.to_thread(worker.run)) for worker in workers]
            await until(lambda: sum(worker.counts.acked for worker in workers) == 1, "the message")
            for worker in workers:
                worker.stop()
            one, two = await asyncio.wait_for(asyncio.gather(*running), SECONDS)
            assert (await transport.stats()).messages == 0
        assert len(seen) == 1 and seen[0][1] == 1
        assert one.extended + two.extended > 0
        assert one.lost + two.lost + one.failed + two.failed == 0

    run(scenario())


async def release(place: Place, group: str) -> None:
    async with place.connect() as transport:
        assert await transport.release(group), f"nothing of group {group!r} was in work"


def test_a_lost_lease_cancels_an_async_handler(place: Place) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        cancelled: list[bool] = []
        worker = place.worker(visibility=visibility_of(place), concurrency=1)

        @worker.subscriber(group="crm")
        async def handle(number: int, ctx: Context) -> None:
            seen.append(ctx.attempt)
            if ctx.attempt > 1:
                return
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                cancelled.append(ctx.lease_lost)
                raise

        async with serving(worker):
            await worker.publish("crm", 1)
            await until(lambda: seen, "the first delivery")
            await release(place, "crm")
            await until(lambda: worker.counts.acked == 1, "the second delivery")
            assert (worker.counts.lost, worker.counts.failed) == (1, 0)
        assert seen == [1, 2] and cancelled == [True]

    run(scenario())


def test_a_plain_handler_sees_that_its_lease_was_lost(place: Place) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        flags: list[bool] = []
        worker = place.worker(visibility=visibility_of(place), concurrency=1)

        @worker.subscriber(group="crm")
        def handle(number: int, ctx: Context) -> Ack:
            seen.append(ctx.attempt)
            if ctx.attempt == 1:
                end = time.monotonic() + SECONDS
                while not ctx.lease_lost and time.monotonic() < end:
                    time.sleep(0.01)
                flags.append(ctx.lease_lost)
            # Of the first delivery it comes too late.
            return Ack(publish=[("sent", ctx.attempt)])

        async with serving(worker), place.connect() as transport:
            await worker.publish("crm", 1)
            await until(lambda: seen, "the first delivery")
            await release(place, "crm")
            await until(lambda: worker.counts.acked == 1, "the second delivery")
            assert (worker.counts.lost, worker.counts.failed) == (1, 0)
            assert [message.event for message in await transport.peek("sent")] == [2]
        assert seen == [1, 2] and flags == [True]

    run(scenario())


def test_a_plain_handler_that_hangs_is_told_when_its_lease_is_lost(
    embedded_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()

    def warned(text: str) -> bool:
        return any(text in one.getMessage() for one in caplog.records)

    async def scenario() -> None:
        seen: list[int] = []
        worker = embedded_place.worker(visibility=visibility_of(embedded_place), concurrency=2)

        @worker.subscriber(group="crm", name="crm")
        def handle(number: int, ctx: Context) -> None:
            seen.append(ctx.attempt)
            over.wait(LONG)

        async with serving(worker):
            await worker.publish("crm", 1)
            for taken in (1, 2):
                await until(lambda: len(seen) == taken, f"delivery {taken}")  # noqa: B023
                assert not warned("nothing is claimed")
                await release(embedded_place, "crm")
                line = f"(attempt {taken}) was lost (released by an operator, or it ran down), its handler still runs"
                await until(lambda: warned(line), f"the warning of delivery {taken}")  # noqa: B023
                assert warned(f"{taken} of 2 places are taken by such handlers")
            await until(lambda: warned("all places (2) are taken by handlers that do not end"), "the second warning")
            assert warned("(groups 'crm'): pause these groups, and restart this worker")
            assert worker.counts.lost == 0
            over.set()
            await until(lambda: worker.counts.acked == 1, "the third delivery")
            assert worker.counts.lost == 2
        assert seen == [1, 2, 3]
        assert sum("nothing is claimed" in one.getMessage() for one in caplog.records) == 1
        assert warned("somebody else has it, or it was released by an operator")

    with caplog.at_level(logging.WARNING, "rqfast.worker"):
        try:
            run(scenario())
        finally:
            over.set()


def test_another_worker_goes_on_with_what_a_handler_lost(place: Place) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, int]] = []
        over = asyncio.Event()
        workers = [place.worker(name=name, visibility=visibility_of(place), concurrency=1) for name in ("one", "two")]

        def declare(worker: Worker) -> None:
            @worker.subscriber(group="crm", name="crm")
            async def handle(number: int, ctx: Context) -> None:
                seen.append((worker.name, ctx.attempt))
                while ctx.attempt == 1 and not over.is_set():
                    try:
                        await over.wait()
                    except asyncio.CancelledError:
                        continue  # it does not let go

        for worker in workers:
            declare(worker)
        async with serving(*workers), place.connect() as transport:
            await transport.publish("crm", 1)
            await until(lambda: seen, "the first delivery")
            await release(place, "crm")
            await until(lambda: len(seen) == 2, "the second delivery")
            assert seen[0][0] != seen[1][0] and [attempt for _, attempt in seen] == [1, 2]
            await until(lambda: sum(worker.counts.acked for worker in workers) == 1, "the second outcome")
            over.set()
            await until(lambda: sum(worker.counts.lost for worker in workers) == 1, "the late outcome")
            # The handler was cancelled, and went on: the next message finds nothing of that.
            await transport.publish_many(("crm", n) for n in range(4))
            await until(lambda: sum(worker.counts.acked for worker in workers) == 5, "four more messages")

    run(scenario())


def test_a_handler_that_cancels_itself_has_failed(place: Place) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        worker = place.worker(concurrency=1)

        @worker.subscriber(group="crm")
        async def handle(number: int, ctx: Context) -> None:
            seen.append(ctx.attempt)
            task = asyncio.current_task()
            assert task is not None and not task.cancelling()
            if ctx.attempt == 1:
                task.cancel()
                await asyncio.sleep(LONG)
            if ctx.attempt == 2:
                raise asyncio.CancelledError

        async with serving(worker):
            await worker.publish("crm", 1)
            await until(lambda: worker.counts.acked == 1, "the third delivery")
            assert worker.counts.failed == 2
        assert seen == [1, 2, 3]

    run(scenario())


def test_an_ack_on_its_way_is_no_lost_lease(place: Place) -> None:
    async def scenario() -> None:
        visibility = visibility_of(place)
        worker = place.worker(visibility=visibility, concurrency=2)
        over = asyncio.Event()

        @worker.subscriber(group="quick")
        async def quick(number: int) -> None:
            over.set()

        @worker.subscriber(group="slow")
        async def slow(number: int) -> None:
            await asyncio.wait_for(over.wait(), SECONDS)
            over.clear()
            # The ack of the other is with the database, and its answer cannot be heard.
            await asyncio.sleep(0.001 * number)
            rest("sleep", visibility)

        async with serving(worker):
            for n in range(3):
                await worker.publish("slow", n)
                await worker.publish("quick", n)
                await until(lambda: worker.counts.acked == 2 * n + 2, f"both messages of round {n}")  # noqa: B023
            assert (worker.counts.lost, worker.counts.discarded, worker.counts.failed) == (0, 0, 0)

    run(scenario())


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_extend_and_remaining(place: Place, plain: bool) -> None:
    async def scenario() -> None:
        found: list[float] = []
        worker = place.worker(visibility=5)

        def before(ctx: Context) -> None:
            assert 0 < ctx.remaining() <= 5

        def after(ctx: Context, ends: Any) -> None:
            found.extend((ends, ctx.remaining()))

        @worker.subscriber(group="async")
        async def handle(number: int, ctx: Context) -> None:
            before(ctx)
            after(ctx, await ctx.extend(100))  # type: ignore[misc]

        @worker.subscriber(group="plain")
        def handle_plainly(number: int, ctx: Context) -> None:
            before(ctx)
            after(ctx, ctx.extend(100))

        async with serving(worker):
            await worker.publish("plain" if plain else "async", 1)
            await until(lambda: worker.counts.acked + worker.counts.failed == 1, "the message")
            assert worker.counts.failed == 0
        ends, remaining = found
        assert 50 < remaining <= 100
        assert abs(time.time() + remaining - ends) < 50, "no time of the queue's clock"

    run(scenario())


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_extend_of_a_lost_lease(place: Place, plain: bool) -> None:
    async def scenario() -> None:
        found: list[Any] = []
        released = asyncio.Event()
        begun = asyncio.Event()
        worker = place.worker(visibility=LONG)
        loop = asyncio.get_running_loop()

        @worker.subscriber(group="async")
        async def handle(number: int, ctx: Context) -> None:
            if ctx.attempt > 1:
                return
            begun.set()
            await released.wait()
            try:
                await ctx.extend(100)  # type: ignore[misc]
            except LeaseLost as error:
                found.extend((error.group_id, error.seq, ctx.lease_lost))
                raise

        @worker.subscriber(group="plain")
        def handle_plainly(number: int, ctx: Context) -> None:
            if ctx.attempt > 1:
                return
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(released.wait(), loop).result(SECONDS)
            try:
                ctx.extend(100)
            except LeaseLost as error:
                found.extend((error.group_id, error.seq, ctx.lease_lost))
                raise

        group = "plain" if plain else "async"
        async with serving(worker):
            seq = await worker.publish(group, 1)
            await asyncio.wait_for(begun.wait(), SECONDS)
            await release(place, group)
            released.set()
            await until(lambda: worker.counts.acked == 1 and worker.counts.lost == 1, "the second delivery")
            assert worker.counts.failed == 0, "what came too late is no failure"
        assert found == [group, seq, True]

    run(scenario())


def test_leases_are_counted_on_the_clock_of_the_queue(place: Place) -> None:
    async def scenario() -> None:
        clock = Clock()
        over = asyncio.Event()
        contexts: list[Context] = []
        worker = place.worker(visibility=20, clock=clock)

        @worker.subscriber(group="crm")
        async def handle(number: int, ctx: Context) -> None:
            contexts.append(ctx)
            await over.wait()

        async with serving(worker), place.connect(clock=clock) as transport:
            await worker.publish("crm", 1)
            await until(lambda: contexts, "the message")
            (context,) = contexts
            assert 19 < context.remaining() <= 20
            for n in range(3):
                # Three times more than half of it, so that without extensions it would have ended.
                clock.advance(11)
                await until(lambda: worker.counts.extended == n + 1, f"extension {n + 1}")  # noqa: B023
                assert 19 < context.remaining() <= 20
                assert await transport.claim() is None
            over.set()
            await until(lambda: worker.counts.acked == 1, "the outcome")
        assert [ctx.attempt for ctx in contexts] == [1]

    run(scenario())
