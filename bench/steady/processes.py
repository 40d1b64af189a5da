"""What a publisher and a worker do, each in a process of its own; both report to a queue now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

from rqfast import AsyncTransport, connect_async

TEXT = "x" * 40
TASKS = 32
# Of so many messages one has a dedup id, and of those one in so many is published twice.
WITH_ID, TWICE = 3, 4
VISIBILITY = 60.0
# Seconds of turns that may be made up for.
BEHIND = 0.1


class Plan(NamedTuple):
    """The same for all processes; `rate` is that of one publisher, in messages a second."""

    url: str
    rate: float
    groups: int
    window: float
    every: float


class Report(NamedTuple):
    """Of one process, since its last one; `failed` ends the run."""

    who: str
    done: int
    p50: float
    p99: float
    failed: str = ""


@dataclass
class Tally:
    """Counts calls and their times, and hands them over."""

    who: str
    reports: Queue[Report]
    done: int = 0
    times: list[float] = field(default_factory=list)

    async def timed(self, call: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> Any:
        """Await a call and note how long it took."""
        start = time.perf_counter()
        result = await call
        self.times.append(time.perf_counter() - start)
        return result

    def send(self) -> None:
        """Report, and begin anew."""
        times = sorted(self.times) or [0.0]
        self.reports.put(Report(self.who, self.done, times[len(times) // 2], times[len(times) * 99 // 100]))
        self.done = 0
        self.times = []

    async def send_every(self, seconds: float) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            self.send()


class Wrong(AssertionError):
    """A message came out of order, or a second time."""


Job = Callable[[AsyncTransport[Any], Tally], Coroutine[Any, Any, None]]


class Pace:
    """Hands out turns at a rate; what was missed while held is not made up for."""

    def __init__(self, rate: float) -> None:
        self._step = 1 / rate
        self._next = time.monotonic()

    async def turn(self) -> None:
        """Wait for the next one."""
        now = time.monotonic()
        self._next = max(self._next + self._step, now - BEHIND)
        await asyncio.sleep(max(0.0, self._next - now))


def publish(plan: Plan, who: int, reports: Queue[Report], stop: Event, hold: Event) -> None:
    """Publish at the rate of the plan, to groups of its own, until told to stop; not while told to hold."""

    async def run(transport: AsyncTransport[Any], tally: Tally) -> None:
        pace = Pace(plan.rate)
        groups = max(1, plan.groups // TASKS)

        async def task(name: str) -> None:
            number = 0
            while not stop.is_set():
                await pace.turn()
                if not hold.is_set():
                    number += 1
                    await publish_one(transport, tally, f"{name}.{number % groups}", number)

        await asyncio.gather(*(task(f"p{who}.{n}") for n in range(TASKS)))

    _process(f"publisher {who}", plan, reports, run)


async def publish_one(transport: AsyncTransport[Any], tally: Tally, group: str, number: int) -> None:
    """One message, some with a dedup id, some of those twice: the second must change nothing."""
    event = {"number": number, "text": TEXT}
    if number % WITH_ID:
        await tally.timed(transport.publish(group, event))
    else:
        dedup_id = f"{group} {number}"
        seq = await tally.timed(transport.publish(group, event, dedup_id=dedup_id))
        if number % (WITH_ID * TWICE) == 0 and await transport.publish(group, event, dedup_id=dedup_id) != seq:
            raise Wrong(f"{dedup_id} was published twice")
    tally.done += 1


def work(plan: Plan, who: int, reports: Queue[Report], stop: Event, hold: Event) -> None:
    """Claim and acknowledge until told to stop, and then until nothing is left."""

    async def run(transport: AsyncTransport[Any], tally: Tally) -> None:
        last: dict[str, int] = {}

        async def task(number: int) -> None:
            lease = None
            while True:
                ending = stop.is_set()
                name = f"w{who}.{number}"
                if lease is None:
                    lease = await transport.claim(name, VISIBILITY, wait=0 if ending else 0.5)
                else:
                    lease = await tally.timed(transport.claim(name, VISIBILITY, ack=lease))
                if lease is None:
                    if ending:
                        return
                    continue
                if lease.event["number"] <= last.get(lease.group_id, 0):
                    raise Wrong(f"{lease.group_id}: {lease.event['number']} after {last[lease.group_id]}")
                last[lease.group_id] = lease.event["number"]
                tally.done += 1

        await asyncio.gather(*(task(number) for number in range(TASKS)))

    _process(f"worker {who}", plan, reports, run)


def _process(who: str, plan: Plan, reports: Queue[Report], job: Job) -> None:
    tally = Tally(who, reports)

    async def main() -> None:
        async with connect_async(plan.url, dedup_window=plan.window) as transport:
            sending = asyncio.ensure_future(tally.send_every(plan.every))
            try:
                await job(transport, tally)
            finally:
                sending.cancel()

    try:
        asyncio.run(main())
        tally.send()
    except Exception as error:
        reports.put(Report(who, 0, 0.0, 0.0, f"{type(error).__name__}: {error}"))
