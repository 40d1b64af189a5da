"""Workers that die: their messages are worked by others, and those that kill are given up."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rqfast import Context, DeadLetter
from tests.contract.processes import HAS_SIGKILL
from tests.subscriptions.children import LONG, Child, lines
from tests.subscriptions.place import SECONDS, Place, run, serving, until

VISIBILITY = 0.5


def publish(place: Place, *items: Any) -> None:
    async def scenario() -> None:
        async with place.connect() as transport:
            await transport.publish_many(items)

    run(scenario())


def dead_letters(place: Place) -> list[DeadLetter[Any]]:
    async def scenario() -> list[DeadLetter[Any]]:
        async with place.connect() as transport:
            found: list[DeadLetter[Any]] = await transport.dead_letters()
            return found

    found: list[DeadLetter[Any]] = run(scenario())
    return found


def crash(place: Place, folder: Path, cap: int) -> int:
    """Start workers again and again, as a supervisor does, until the good message is done; how many died."""
    deaths = 0
    end = time.monotonic() + 3 * SECONDS
    subscription = {"max_attempts": cap, "dead_letter": True}
    while "begins good 1" not in lines(folder):
        child = Child(place, folder, "exits", subscription=subscription, visibility=VISIBILITY, concurrency=1)
        try:
            while child.process.is_alive() and "begins good 1" not in lines(folder):
                assert time.monotonic() < end, f"waited for the message behind; {deaths} deaths, {lines(folder)}"
                child.process.join(0.02)
            if child.process.exitcode is not None:
                assert child.process.exitcode == 9, lines(folder)
                deaths += 1
        finally:
            child.close()
    return deaths


@pytest.mark.parametrize("cap", [1, 3])
def test_a_handler_that_kills_its_worker_is_dead_lettered_after_its_cap(place: Place, tmp_path: Path, cap: int) -> None:
    publish(place, ("crm", "poison"), ("crm", "good"))
    assert crash(place, tmp_path, cap) == cap
    begun = [line for line in lines(tmp_path) if line.startswith("begins")]
    assert begun == [*(f"begins poison {n + 1}" for n in range(cap)), "begins good 1"]
    (dead,) = dead_letters(place)
    assert (dead.event, dead.attempts) == ("poison", cap + 1)
    times = "1 time" if cap == 1 else f"{cap} times"
    assert dead.reason == f"delivered {times} before, and max_attempts is {cap}: not tried again"


@pytest.mark.skipif(not HAS_SIGKILL, reason="no SIGKILL here")
@pytest.mark.parametrize("handler", ["is_cancelled", "plain_sleeps"])
def test_a_killed_worker_holds_its_group_for_a_lease_and_no_longer(place: Place, tmp_path: Path, handler: str) -> None:
    publish(place, ("crm", 1), ("crm", 2))
    child = Child(place, tmp_path, handler, subscription={}, visibility=VISIBILITY)
    try:
        child.wait_for("begins 1 1")
        child.process.kill()
        child.process.join(SECONDS)
    finally:
        child.close()
    assert [group for group, _ in place.held()] == ["crm"]

    async def scenario() -> None:
        seen: list[tuple[int, int]] = []
        worker = place.worker()

        @worker.subscriber(group="crm")
        async def handle(number: int, ctx: Context) -> None:
            seen.append((number, ctx.attempt))

        async with serving(worker):
            await until(lambda: worker.counts.acked == 2, "both messages of the group")
        assert seen == [(1, 2), (2, 1)]

    run(scenario())


@pytest.mark.skipif(not HAS_SIGKILL, reason="no SIGKILL here")
def test_a_killed_worker_holds_no_other_group(place: Place, tmp_path: Path) -> None:
    publish(place, ("crm", 1))
    child = Child(place, tmp_path, "is_cancelled", subscription={}, visibility=LONG)
    try:
        child.wait_for("begins 1 1")
    finally:
        child.close()

    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber()
        async def handle(number: int) -> None:
            await asyncio.sleep(0)

        async with serving(worker):
            await worker.publish("other", 2)
            await until(lambda: worker.counts.acked == 1, "the message of another group")
        assert [group for group, _ in place.held()] == ["crm"]

    run(scenario())
