"""One run of a worker: open, start-up hooks, checks, work, stop.  Belongs to one loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import RqfastError
from ..observe.hooks import Heard
from ..transport.awaitable import AwaitableTransport
from .context import Context
from .counts import Counts
from .database import Database
from .leases import LeaseKeeper
from .pauses import Pauses
from .source import feed_of
from .station import Station
from .subscription import event_of
from .threads import Threads

if TYPE_CHECKING:
    from .worker import Worker

log: logging.Logger = logging.getLogger("rqfast.worker")

# What a cancelled handler gets to end, in seconds, before its message is given back without it.
LAST_WORDS = 0.5


class Service:
    """Runs all subscriptions of a worker on an open transport."""

    def __init__(self, worker: Worker, transport: AwaitableTransport[Any]) -> None:
        self._worker = worker
        self.transport = transport
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.counts: Counts = Counts()
        self.heard: Heard = Heard(worker.hooks)
        self.stations: list[Station] = []
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._failed: BaseException | None = None
        self._threads = Threads(self.loop, f"rqfast-{worker.name}", self._came_late)
        self._keeper: LeaseKeeper | None = None
        self.pauses: Pauses = Pauses(transport, self.loop)
        self.ready: asyncio.Event = asyncio.Event()

    # -- from outside -------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop, or has failed."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Stop; a second time: at once.  On the loop."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def extend_leases(self) -> None:
        """Extend now the leases of which half is over; for clocks that are moved by hand."""
        if self._keeper is not None:
            await self._keeper.look()

    def _fatal(self, error: BaseException) -> None:
        if self._failed is None:
            self._failed = error
            log.error("worker %r stops: %s", self._worker.name, error)
        # Not stop(): each place that fails would be one more signal, and the second one means at once.
        self._stop.set()

    def _came_late(self) -> None:
        self.counts.discarded += 1

    # -- the run ------------------------------------------------------------------------------------------

    async def run(self) -> Counts:
        """Until it is stopped, or fails."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._started()
            await self._stop.wait()
        finally:
            tasks = await self._end()
        for task in tasks:
            # Nobody waits for them any more; the loop would complain of each.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        if self._failed is not None:
            raise self._failed
        return self.counts

    async def _started(self) -> None:
        """Start; a stop meanwhile lets hooks end within the grace."""
        starting = self.loop.create_task(self._start())
        stop = self.loop.create_task(self._stop.wait())
        hurry = self.loop.create_task(self._hurry.wait())
        try:
            await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                await asyncio.wait((starting, hurry), timeout=self._worker.grace, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (starting, stop, hurry):
                task.cancel()
        await asyncio.wait((starting,), timeout=LAST_WORDS)
        if not starting.done():
            log.error("worker %r: a start-up hook does not end, it is left to itself", self._worker.name)
        elif not starting.cancelled():
            starting.result()

    async def _start(self) -> None:
        await self._call_hooks(self._worker.startup_hooks)
        self._make_stations()
        for station in self.stations:
            await station.feed.check()
        self._warn_uncapped()
        self._keeper = LeaseKeeper(self.transport, self.stations, self._lost)
        self._keeper.start()
        await self.pauses.start(self.stations)
        for station in self.stations:
            station.start()
        served = ", ".join(f"{one.name} ({one.subscription.where})" for one in self.stations)
        log.info("worker %r serves %s on %s", self._worker.name, served, self.transport)
        self.ready.set()

    async def _end(self) -> list[asyncio.Task[None]]:
        until = time.monotonic() + self._worker.grace
        await self.pauses.stop()
        for station in self.stations:
            station.stop_claiming()
        await self._let_end(until)
        for station in self.stations:
            station.cancel()
        last = time.monotonic() + LAST_WORDS
        for station in self.stations:
            await station.finished(last - time.monotonic())
        left: list[asyncio.Task[None]] = []
        for station in self.stations:
            left += await station.abandon()
        if self._keeper is not None:
            await self._keeper.stop()
        self._threads.close()
        await self._call_hooks(self._worker.shutdown_hooks, max(LAST_WORDS, until - time.monotonic()))
        # Last, since `worker.counts` adds them up.
        for station in self.stations:
            self.counts += station.counts
        self.stations = []
        return left

    async def _let_end(self, until: float) -> None:
        """Let handlers end within the grace, unless it is to be at once."""
        hurry = self.loop.create_task(self._hurry.wait())
        ending = self.loop.create_task(self._finished(until))
        await asyncio.wait((hurry, ending), return_when=asyncio.FIRST_COMPLETED)
        for task in (hurry, ending):
            task.cancel()
        await asyncio.gather(hurry, ending, return_exceptions=True)

    async def _finished(self, until: float) -> None:
        for station in self.stations:
            await station.finished(until - time.monotonic())

    async def _call_hooks(self, hooks: Sequence[Callable[..., Any]], seconds: float | None = None) -> None:
        """Those of the start raise; those of the end get so many seconds, together, and are logged."""
        database = Database(self.transport)
        end = None if seconds is None else self.loop.time() + seconds
        for hook in hooks:
            try:
                said = hook(database)
                if isinstance(said, Awaitable):
                    async with asyncio.timeout_at(end):
                        await said
            except Exception:
                if end is None:
                    raise
                log.exception("a shutdown hook of worker %r failed", self._worker.name)

    def _make_stations(self) -> None:
        worker = self._worker
        for subscription in worker.subscriptions:
            visibility = subscription.visibility or worker.visibility
            self.stations.append(
                Station(
                    subscription,
                    feed_of(subscription, self.transport, worker_id=worker.worker_id, visibility=visibility),
                    concurrency=subscription.concurrency or worker.concurrency,
                    visibility=visibility,
                    heard=self.heard,
                    queue=(self.transport._options.queue or "")
                    if subscription.inbox is None
                    else subscription.inbox.table,
                    threads=self._threads,
                    decode=event_of if subscription.inbox is None else self._payload_of,
                    now=self.transport.desk.now,
                    fatal=self._fatal,
                )
            )

    def _payload_of(self, row: Any) -> Any:
        """What a row of a table holds, where no annotation says it: as the queue's events are decoded."""
        return self.transport.desk.decode(row.raw)

    def _warn_uncapped(self) -> None:
        for station in self.stations:
            if station.subscription.max_attempts is None and station.subscription.fifo:
                log.warning(
                    "%s: no max_attempts= and dead_letter=: a message that keeps failing holds its group back",
                    station.name,
                )

    def _lost(self, context: Context) -> None:
        # In the keeper's thread.
        try:
            self.loop.call_soon_threadsafe(context._station.lease_lost, context)
        except RuntimeError as error:
            raise RqfastError("the worker's loop is closed") from error
