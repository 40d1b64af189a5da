"""Pausing: subscriptions, groups, the queue; in this process at once, in others within about a second."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rqfast import ConfigError, Context, RqfastError, Worker
from tests.subscriptions.children import Child, lines
from tests.subscriptions.place import SECONDS, Place, run, serving, until

# For what must not happen; a worker that did not obey would do it at once, since a publish in its process wakes it.
MOMENT = 0.3


class Two:
    """A worker with two subscriptions, which write down what they get."""

    def __init__(self, place: Place) -> None:
        self.worker: Worker = place.worker()
        self.seen: dict[str, list[int]] = {"one": [], "two": []}
        self.worker.subscriber(prefix="one/", name="one")(self._into("one"))
        self.worker.subscriber(prefix="two/", name="two")(self._into("two"))

    def _into(self, name: str) -> Any:
        async def handle(number: int) -> None:
            self.seen[name].append(number)

        return handle

    async def publish(self, *numbers: int) -> None:
        """To both."""
        for number in numbers:
            for name in self.seen:
                await self.worker.publish(f"{name}/{number}", number)


def test_a_paused_subscription_hides_nobody_else(place: Place) -> None:
    async def scenario() -> None:
        two = Two(place)
        async with serving(two.worker):
            await two.publish(1)
            await until(lambda: two.seen == {"one": [1], "two": [1]}, "both messages")
            await two.worker.pause("one")
            await two.worker.pause("one")
            await two.publish(2, 3)
            await until(lambda: sorted(two.seen["two"]) == [1, 2, 3], "the messages of the other")
            await asyncio.sleep(MOMENT)
            assert two.seen["one"] == [1]
            await two.worker.resume("one")
            await two.worker.resume("one")
            await until(lambda: sorted(two.seen["one"]) == [1, 2, 3], "what had waited")

    run(scenario())


def test_pause_and_resume_again_and_again(place: Place) -> None:
    async def scenario() -> None:
        two = Two(place)
        async with serving(two.worker):
            for n in range(10):
                await two.worker.pause("one")
                before = list(two.seen["one"])
                await two.publish(n)
                await until(lambda: n in two.seen["two"], f"message {n} of the other")  # noqa: B023
                assert two.seen["one"] == before, "claimed while paused"
                await two.worker.resume("one")
                await until(lambda: n in two.seen["one"], f"message {n}")  # noqa: B023
            assert two.seen["one"] == list(range(10))
        assert place.held() == []

    run(scenario())


def test_a_pause_is_kept_over_a_restart(place: Place) -> None:
    async def scenario() -> None:
        two = Two(place)
        async with serving(two.worker):
            await two.worker.pause("one")
        two = Two(place)
        async with serving(two.worker):
            await two.publish(1)
            await until(lambda: two.seen["two"] == [1], "the message of the other")
            await asyncio.sleep(MOMENT)
            assert two.seen["one"] == []
            await two.worker.resume("one")
            await until(lambda: two.seen["one"] == [1], "what had waited")

    run(scenario())


def test_what_is_in_work_goes_on(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker()
        begun, over = asyncio.Event(), asyncio.Event()

        @worker.subscriber(name="one")
        async def handle(number: int) -> None:
            begun.set()
            await over.wait()

        async with serving(worker), place.connect() as transport:
            await worker.publish("a", 1)
            await asyncio.wait_for(begun.wait(), SECONDS)
            await worker.pause("one")
            await worker.publish("a", 2)
            over.set()
            await until(lambda: worker.counts.acked == 1, "what was in work")
            await asyncio.sleep(MOMENT)
            assert (worker.counts.acked, worker.counts.lost) == (1, 0)
            assert (await transport.stats()).in_work == 0
            await worker.resume("one")
            await until(lambda: worker.counts.acked == 2, "what had waited")

    run(scenario())


def test_a_pause_reaches_another_process(place: Place, tmp_path: Path) -> None:
    child = Child(place, tmp_path, "done", subscription={"prefix": "work/"})

    def is_done(number: int) -> bool:
        return f"begins {number} 1" in lines(tmp_path)

    async def scenario() -> None:
        # Of another subscription, in this process: it only tells.
        worker = place.worker()

        @worker.subscriber(group="nothing", name="nothing")
        async def nothing(number: int) -> None:
            pass

        async with serving(worker), place.connect() as transport:
            await transport.publish("work/0", 0)
            await until(lambda: is_done(0), "a message in the child")
            await worker.pause("child")
            number = 0
            end = time.monotonic() + SECONDS
            while is_done(number):
                assert time.monotonic() < end, f"waited {SECONDS:g} s for the child to pause"
                number += 1
                await transport.publish(f"work/{number}", number)
                with contextlib.suppress(AssertionError):
                    await until(lambda: is_done(number), "one more", 0.7)  # noqa: B023
            await worker.resume("child")
            await until(lambda: is_done(number), "what had waited in the child")

    try:
        child.wait_for("started")
        run(scenario())
    finally:
        child.close()


def test_a_paused_group(place: Place) -> None:
    async def scenario() -> None:
        two = Two(place)
        async with serving(two.worker), place.connect() as transport:
            await two.worker.pause(group="one/1")
            await two.worker.pause(group="one/1")
            await two.publish(1, 2)
            # Groups of one subscription go side by side.
            await until(lambda: sorted(two.seen["two"]) == [1, 2], "the messages of the other subscription")
            await until(lambda: two.seen["one"] == [2], "the message of the other group")
            await asyncio.sleep(MOMENT)
            assert two.seen["one"] == [2]
            assert [group.state for group in await transport.groups()] == ["paused"]
            await two.worker.resume(group="one/1")
            await two.worker.resume(group="one/1")
            await until(lambda: two.seen["one"] == [2, 1], "what had waited")

    run(scenario())


def test_a_paused_queue(place: Place) -> None:
    async def scenario() -> None:
        two = Two(place)
        async with serving(two.worker), place.connect() as transport:
            await two.worker.pause()
            await two.worker.pause()
            await two.publish(1)
            await asyncio.sleep(MOMENT)
            assert two.seen == {"one": [], "two": []}
            assert (await transport.stats()).queue_paused
            await two.worker.resume()
            await two.worker.resume()
            await until(lambda: two.seen == {"one": [1], "two": [1]}, "what had waited")

    run(scenario())


def test_a_subscription_that_was_never_paused_is_resumed(place: Place) -> None:
    async def scenario() -> None:
        two = Two(place)
        async with serving(two.worker):
            await two.worker.resume("one")
            await two.worker.resume("nobody is called so")
            await two.publish(1)
            await until(lambda: two.seen == {"one": [1], "two": [1]}, "both messages")

    run(scenario())


def test_a_stop_while_it_is_paused(place: Place) -> None:
    async def scenario() -> None:
        two = Two(place)
        async with serving(two.worker):
            await two.publish(1)
            await until(lambda: two.seen == {"one": [1], "two": [1]}, "both messages")
            await two.worker.pause("one")
        assert place.held() == []

    run(scenario())


def test_what_cannot_be_paused(embedded_place: Place) -> None:
    async def scenario() -> None:
        two = Two(embedded_place)
        with pytest.raises(RqfastError, match="does not run"):
            await two.worker.pause("one")
        async with serving(two.worker):
            with pytest.raises(ConfigError, match="which"):
                await two.worker.pause("one", group="one/1")
            with pytest.raises(ConfigError, match="which"):
                await two.worker.resume("one", group="one/1")

    run(scenario())


def test_a_plain_handler_that_stands_still_stops_no_other_group(place: Place) -> None:
    async def scenario() -> None:
        over = threading.Event()
        seen: list[str] = []
        worker = place.worker(concurrency=2)

        @worker.subscriber()
        def handle(number: int, ctx: Context) -> None:
            if ctx.group == "stuck":
                assert over.wait(SECONDS)
            else:
                seen.append(ctx.group)

        try:
            async with serving(worker):
                await worker.publish("stuck", 0)
                await until(lambda: worker.counts.claimed == 1, "the handler that stands still")
                for n in range(10):
                    await worker.publish(f"g{n}", n)
                await until(lambda: len(seen) == 10, "ten other groups")
                over.set()
                await until(lambda: worker.counts.acked == 11, "all messages")
        finally:
            over.set()

    run(scenario())
