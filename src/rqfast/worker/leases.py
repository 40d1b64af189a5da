"""Keeps the leases of messages in work alive, off the handlers' threads.

A thread with a loop and connections of its own: a handler that holds the worker's loop busy keeps its message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import RqfastError
from ..transport.awaitable import AwaitableTransport
from ..transport.over_loop import LoopThread
from .context import Context
from .feed import Feed
from .station import Station

log: logging.Logger = logging.getLogger("rqfast.worker")

# Looks for a lease of so long: ten times in it, but neither all the time nor seldom.
LOOKS, SHORTEST, LONGEST = 20, 0.01, 1.0

# What its connections get to close, and all of it to end, in seconds.
CLOSING, ENDING = 0.5, 5.0


class LeaseKeeper:
    """Extends each lease when half of it has passed.

    Args:
        transport: of the worker; what extends is its twin, opened when first needed.
        on_lost: told, in this thread, of a message whose lease was lost.
    """

    def __init__(
        self,
        transport: AwaitableTransport[Any],
        stations: Sequence[Station],
        on_lost: Callable[[Context], None],
    ) -> None:
        self._transport = transport
        self._stations = stations
        self._on_lost = on_lost
        self._pause = min(
            (min(max(station.visibility / LOOKS, SHORTEST), LONGEST) for station in stations), default=LONGEST
        )
        self._thread: LoopThread | None = None
        self._watching: asyncio.Task[None] | None = None
        self._twin: AwaitableTransport[Any] | None = None
        self._feeds: dict[Station, Feed] = {}

    def start(self) -> None:
        """Begin to watch."""
        self._thread = LoopThread()
        self._thread.loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await self._look()

    async def _look(self) -> None:
        for station in self._stations:
            station.hanging.look()
            due = station.due_for_extension()
            if due:
                await self._try_to_extend(station, due)

    async def look(self) -> None:
        """Extend now what is due for it; for clocks that are moved by hand."""
        if self._thread is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._look(), self._thread.loop))

    async def _try_to_extend(self, station: Station, due: list[Context]) -> None:
        try:
            await self._extend(station, due)
        except Exception:
            # A fault of ours; all other leases must be extended nevertheless.
            log.exception("%s: the leases of %d messages could not be extended", station.name, len(due))

    async def _extend(self, station: Station, due: list[Context]) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            lost = await self._feed(station).extend([one._held for one in due], station.visibility)
        except RqfastError as error:
            log.warning(
                "%s: the leases of %d messages could not be extended, it is tried again: %s",
                station.name, len(due), error,
            )  # fmt: skip
            return
        gone = {id(one) for one in lost}
        for one in due:
            if id(one._held) not in gone:
                station.counts.extended += 1
                station.telling.extended(one, loop.time() - start)
            elif not one._over and not one._settling:
                # Is it being settled, the settlement tells: an Ack that came first looks like a lease that was lost.
                one.lease_lost = True
                self._on_lost(one)

    def _feed(self, station: Station) -> Feed:
        if self._twin is None:
            self._twin = self._transport.desk.twin()
        if station not in self._feeds:
            self._feeds[station] = station.feed.twin(self._twin)
        return self._feeds[station]

    async def _end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        if self._twin is None:
            return
        await asyncio.wait((self._twin.close(),), timeout=CLOSING)
        # Only where the database does not answer is anything left.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.gather(*left, return_exceptions=True)
            await self._twin._close_engine()

    async def stop(self) -> None:
        """End it, without holding up the loop that waits for it."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(), thread.loop)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENDING):
                await asyncio.wrap_future(ending)
        await asyncio.to_thread(thread.stop)
