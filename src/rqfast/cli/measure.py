"""What `rqfast bench` measures, and how."""

from __future__ import annotations

import asyncio
import secrets
import string
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from ..api import AsyncTransport
from ..connect import connect_async, locate

PUBLISHERS, WORKERS, BATCH = 256, 64, 5000
VISIBILITY = 60.0
PATIENCE = 5
# So many are published before claims are measured, at most.
BACKLOG = 200_000


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured.

    Attributes:
        what: it is about.
        count: of messages.
        seconds: it took.
        times: of single calls in seconds, sorted; empty where calls are not single.
    """

    what: str
    count: int
    seconds: float
    times: list[float]

    def at(self, part: float) -> float | None:
        """The time that this part of the calls did not exceed, in seconds."""
        return self.times[min(len(self.times) - 1, int(part * len(self.times)))] if self.times else None

    def fields(self) -> dict[str, Any]:
        """For programs; times in milliseconds."""
        times = {name: self.at(part) for name, part in (("median_ms", 0.5), ("p99_ms", 0.99))}
        rate = round(self.count / max(self.seconds, 1e-9), 1)
        return {
            "what": self.what, "messages": self.count, "seconds": round(self.seconds, 3), "a_second": rate,
        } | {name: None if value is None else round(value * 1000, 3) for name, value in times.items()}  # fmt: skip

    def row(self) -> list[str]:
        """For people."""
        told = self.fields()
        times = [told["median_ms"], told["p99_ms"]]
        return [self.what, f"{told['a_second']:,.0f}", *("" if ms is None else f"{ms:,.1f} ms" for ms in times)]


class Measuring:
    """Measures one thing after the other, in a new queue.

    Args:
        url, queue: where; the queue is not there yet.
        seconds: for each of them.
        size: of an event, in bytes.
        groups: of the messages.
    """

    def __init__(self, url: str, queue: str, seconds: float, size: int, groups: int) -> None:
        self._url, self._queue, self._seconds = url, queue, seconds
        self._event = orjson.dumps("x" * max(0, size - 2))
        self._groups = groups
        self._next = 0

    async def run(self) -> AsyncIterator[tuple[str, Figure | None]]:
        """What is measured next, without a figure, and then with it."""
        _, is_rqlite = locate(self._url)
        options: dict[str, Any] = {"connect_retries": PATIENCE} if is_rqlite else {}
        async with connect_async(self._url, queue=self._queue, **options) as transport:
            for what, phase in PHASES.items():
                yield what, None
                yield what, await phase(self, what, transport)

    def _group(self) -> str:
        self._next += 1
        return f"group-{self._next % self._groups}"

    async def _many(self, what: str, callers: int, call: Callable[[], Awaitable[object]]) -> Figure:
        """Calls by so many at once, for the time, or as long as they find something."""
        times: list[float] = []
        until = (began := time.monotonic()) + self._seconds

        async def caller() -> None:
            while (start := time.monotonic()) < until and await call() is not None:
                times.append(time.monotonic() - start)

        await asyncio.gather(*(caller() for _ in range(callers)))
        return Figure(what, len(times), time.monotonic() - began, sorted(times))

    async def publish_one(self, what: str, transport: AsyncTransport[Any], callers: int = 1) -> Figure:
        """Each caller publishes one message after the other."""
        return await self._many(what, callers, lambda: transport.publish(self._group(), self._event))

    async def publish_at_once(self, what: str, transport: AsyncTransport[Any]) -> Figure:
        """Many callers."""
        return await self.publish_one(what, transport, PUBLISHERS)

    async def publish_many(self, what: str, transport: AsyncTransport[Any]) -> Figure:
        """In bulk; what is published is claimed afterwards."""
        began, count = time.monotonic(), 0
        while time.monotonic() - began < self._seconds and count < BACKLOG:
            count += len(await transport.publish_many([(self._group(), self._event) for _ in range(BATCH)]))
        return Figure(what, count, time.monotonic() - began, [])

    async def claim_one(self, what: str, transport: AsyncTransport[Any], workers: int = 1) -> Figure:
        """Each worker claims and acknowledges one message after the other."""

        async def work() -> object:
            lease = await transport.claim("bench", VISIBILITY)
            if lease is not None:
                await transport.ack(lease)
            return lease

        return await self._many(what, workers, work)

    async def claim_at_once(self, what: str, transport: AsyncTransport[Any]) -> Figure:
        """Many workers."""
        return await self.claim_one(what, transport, WORKERS)


PHASES: dict[str, Callable[[Measuring, str, AsyncTransport[Any]], Awaitable[Figure]]] = {
    "publish, one after the other": Measuring.publish_one,
    f"publish, {PUBLISHERS} callers": Measuring.publish_at_once,
    "publish_many": Measuring.publish_many,
    "claim and ack, one worker": Measuring.claim_one,
    f"claim and ack, {WORKERS} workers": Measuring.claim_at_once,
}


def queue_name() -> str:
    """A name for a queue that nobody else has (str)."""
    return "bench_" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(8))
