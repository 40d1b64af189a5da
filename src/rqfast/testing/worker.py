"""Runs the subscriptions of a worker on a queue in memory, and tells what their handlers got."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from ..address.inbox import Inbox, as_address
from ..connect import connect_async
from ..errors import ConfigError, RqfastError
from ..model import GroupInfo, Header
from ..observe.hooks import Event
from ..pipeline import wake
from ..transport import checks
from ..transport.awaitable import AwaitableTransport
from ..transport.tables import table_key
from ..worker.context import Context
from ..worker.counts import Counts
from ..worker.database import Database
from ..worker.inbox_feed import InboxFeed
from ..worker.service import Service
from ..worker.worker import Worker
from .blocking import BlockingTest
from .clock import Clock
from .due import next_due
from .record import Handled, Record, Recorder, assert_handled, check_name

SECONDS = 5.0

# A lease or a delay that ends at an instant still holds at that instant.
TICK = 1e-6
# The queue's time runs ahead of its source by as much, since each commit moves it.
SLACK = 1e-3

GROUPS = 10_000


class TestWorker:
    """A worker under test: its handlers, on a queue in memory with the real statements.

    Time is `test.clock`, which stands until it is moved.  Start-up and shutdown hooks run as usual.  What is declared
    on the worker is not changed, so that it serves many tests, one after another; while one runs, `worker.publish`,
    `worker.pause` and so on act on the test's queue.

    In an async test, whatever runs it (`asyncio.run`, pytest-asyncio, anyio on asyncio):

    >>> async with TestWorker(worker) as test:
    ...     await test.publish("crm", {"customer": 7})
    ...     test.assert_handled("sync", {"customer": 7})

    In a plain one, with the same methods, which wait (a loop in a thread runs the handlers); see `BlockingTest`:

    >>> with TestWorker(worker) as test:
    ...     test.publish("crm", {"customer": 7})
    ...     test.assert_handled("sync", {"customer": 7})

    Args:
        worker: what is declared on it is run; its URL is not used, its queue, `encode` and `decode` are.
        clock: moved by hand; a new one by default.
        timeout: how long a wait of this class may take, in seconds of real time; then it fails and says what for.

    Attributes:
        handled: each delivery, in the order in which they began (list of `Handled`).
        settled: how messages ended (list of `Event`).
        transport: an async transport of the test's queue: for messages that are there before, for what is left.
        database: runs statements on the test's database, as start-up hooks do (`Database`).
    """

    __test__ = False  # not a test class of pytest's

    def __init__(self, worker: Worker, *, clock: Clock | None = None, timeout: float = SECONDS) -> None:
        if not isinstance(worker, Worker):
            raise ConfigError(f"a TestWorker tests a Worker, not {type(worker).__name__}")
        self.worker = worker
        self.clock: Clock = clock or Clock()
        self.timeout: float = checks.option_seconds(timeout, "timeout")
        self._record = Record(self._stir)
        self._blocking: BlockingTest | None = None

    # -- running ------------------------------------------------------------------------------------------

    def __enter__(self) -> BlockingTest:
        self._blocking = BlockingTest(self)
        return self._blocking

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._record = Record(self._stir)
        self._serving = connect_async(
            ":memory:", hooks=self.worker.hooks, clock=self.clock, max_poll=0.05, **self.worker.queue_options
        ).make()
        await self._serving._ready()
        # Not the one that claims: what a test claims by itself would share the name of the holder.
        self.transport: AwaitableTransport[Any] = self._serving.desk.twin()
        self.database: Database = Database(self.transport)
        run = copy(self.worker)
        run.subscriptions = [self._record.recorded(one) for one in self.worker.subscriptions]
        run.hooks = (*self.worker.hooks, Recorder(self._record))
        self._service = Service(run, self._serving)
        try:
            self.worker.attach(self._service)
        except BaseException:
            await self._close()
            raise
        self._task: asyncio.Task[Counts] = asyncio.ensure_future(self._service.run())
        ready = asyncio.ensure_future(self._service.ready.wait())
        await asyncio.wait((ready, self._task), timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            hangs = not self._task.done()
            await self._leave(at_once=True)
            if hangs:
                raise TimeoutError(f"waited {self.timeout:g} s for worker {self.worker.name!r} to start")
            raise RqfastError(f"worker {self.worker.name!r} stopped before it had started")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self, *, at_once: bool = False) -> None:
        self._service.stop()
        self._service.stop()
        try:
            if not at_once:
                await asyncio.wait((self._task,), timeout=self.timeout)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait((self._task,))
            if not self._task.cancelled():
                self._task.result()
        finally:
            self.worker.detach(self._service)
            await self._close()

    async def _close(self) -> None:
        await self.transport.close()
        await self._serving.close()

    def _stir(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    # -- acting -------------------------------------------------------------------------------------------

    async def publish(
        self, to: Any, event: Any, *, headers: Mapping[str, Header] | None = None, **options: Any
    ) -> int | None:
        """Publish, and wait until the message is settled.

        What it leads to (a message that its handler publishes, a retry later) is left: see `idle` and `advance`.  A
        message that cannot go yet, being delayed, or behind one that is, or paused, is not waited for.

        Args:
            to: a group of the queue, or an address of an `Inbox`.
            event: the payload.
            headers: what travels with it.
            **options: see `Worker.publish`.

        Returns:
            The seq; None of a table.

        Raises:
            ConfigError: no subscription serves it; to put a message there all the same: `test.transport`.
            TimeoutError: nobody settled it in time.
        """
        before = len(self._record.settled)
        self._check_served(to)
        if isinstance(to, str):
            seq: int = await self.worker.publish(to, event, headers=headers, **options)

            async def done() -> bool:
                return self._record.is_over(seq, before) or await self._rests(to)

            what = f"message {seq} of group {to!r} to be settled"
            await self._wait(done, lambda: f"{what}: {self._record.last_of(seq)}")
            return seq
        await self.worker.publish(to, event, headers=headers, **options)
        await self.idle()
        return None

    async def advance(self, seconds: float | timedelta) -> None:
        """Move the clock forward, and wait until all that becomes due on the way is settled.

        The clock stops at each instant at which something becomes due, so what is tried again every 10 s is tried six
        times in a minute.  Leases of messages that are in work are extended on the way; a handler that was at work
        before is not waited for.  `test.clock.advance` jumps, and waits for nothing.

        Raises:
            TimeoutError: something never settles.
        """
        end = self.clock.now + checks.seconds(seconds, "seconds")
        besides = frozenset(self._active())
        give_up = self._loop.time() + self.timeout
        while True:
            await self._idle(besides, give_up, f"the clock, {max(0.0, end - self.clock.now):g} s before its end, ")
            following = await self._next_due()
            if following > end + SLACK:
                if self.clock.now >= end:
                    return
                following = end
            self.clock.now = max(self.clock.now, following) + TICK
            self._record.clock_moved()
            await self._service.extend_leases()
            self._wake()

    async def idle(self) -> None:
        """Wait until nothing is in work, and no handler could get anything without the clock being moved.

        Raises:
            TimeoutError: something never settles.
        """
        self._wake()
        await self._idle(frozenset(), self._loop.time() + self.timeout, "")

    def _wake(self) -> None:
        key = self._serving.desk.key
        wake.stir(key)
        for inbox in self._inboxes():
            wake.stir(table_key(key, inbox.table))

    async def _idle(self, besides: frozenset[Context], give_up: float, moving: str) -> None:
        async def done() -> bool:
            return await self._is_idle(besides)

        def what() -> str:
            active = [one for one in self._active() if one not in besides]
            told = f"{moving}in work: {active or 'nothing'}"
            return f"the worker to be idle: {told}{'; ' + self._record.last_of(active[0].id) if active else ''}"

        await self._wait(done, what, give_up)

    async def _wait(
        self, condition: Callable[[], Awaitable[bool]], what: Callable[[], str], give_up: float | None = None
    ) -> None:
        if give_up is None:
            give_up = self._loop.time() + self.timeout
        while True:
            self._changed.clear()
            if await condition():
                return
            self._record.check_tries()
            if self._task.done():
                self._task.result()
                raise RqfastError(f"worker {self.worker.name!r} was stopped while this waited for {what()}")
            if self._loop.time() > give_up:
                raise TimeoutError(f"waited {self.timeout:g} s for {what()}")
            try:
                async with asyncio.timeout(0.02):
                    await self._changed.wait()
            except TimeoutError:
                continue

    # -- what could happen --------------------------------------------------------------------------------

    def _active(self) -> list[Context]:
        return [context for station in self._service.stations for context in station.active]

    async def _groups(self) -> list[GroupInfo]:
        return [one for one in await self.transport.groups(limit=GROUPS) if self._serves(one)]

    def _serves(self, group: GroupInfo) -> bool:
        """Whether one of the subscriptions on the queue would take it now."""
        return any(
            one.subscription.address is None
            and not one.paused
            and one.subscription.selection.includes(group.group_id)
            and group.priority >= one.subscription.min_priority
            for one in self._service.stations
        )

    def _inboxes(self) -> set[Inbox]:
        return {one.inbox for one in self.worker.subscriptions if one.inbox is not None}

    def _tables(self) -> list[InboxFeed]:
        """The feeds of tables of the user's own that would claim now."""
        return [one.feed for one in self._service.stations if isinstance(one.feed, InboxFeed) and not one.paused]

    def _may_go(self, group: GroupInfo) -> bool:
        """Whether a handler gets it with the clock as it stands, or is about to."""
        return group.state == "claimable" or (group.state == "in_work" and group.worker_id == self.worker.worker_id)

    async def _rests(self, group_id: str) -> bool:
        moves = self._record.moves
        if self._service.stopping:
            # What it gives back is not done.
            return False
        if any(self._may_go(one) for one in await self._groups() if one.group_id == group_id):
            return False
        return moves == self._record.moves and all(one.group != group_id for one in self._active())

    async def _is_idle(self, besides: frozenset[Context]) -> bool:
        moves = self._record.moves
        if self._service.stopping:
            return False
        working = {one.group for one in besides if one in self._active()}
        for feed in self._tables():
            if await feed.has_work():
                return False
        if any(self._may_go(one) for one in await self._groups() if one.group_id not in working):
            return False
        return moves == self._record.moves and all(one in besides for one in self._active())

    async def _next_due(self) -> float:
        """When the next that is held back may go, or half of a lease of what is in work is over."""
        moments = [one.until for one in await self._groups() if not self._may_go(one)]
        moments += [self.clock.now + one.visibility / 2 + TICK for one in self._service.stations if one.active]
        for inbox in self._inboxes():
            moments.append(await next_due(inbox, self.database, self.transport.desk.now()))
        return min((one for one in moments if one is not None), default=float("inf"))

    def _check_served(self, to: Any) -> None:
        if isinstance(to, str):
            served = any(one.address is None and one.selection.includes(to) for one in self.worker.subscriptions)
        else:
            served = as_address(to).inbox in self._inboxes()
        if not served:
            raise ConfigError(
                f"no subscription of worker {self.worker.name!r} serves "
                f"{f'group {to!r}' if isinstance(to, str) else to}: "
                f"{', '.join(map(repr, self.worker.subscriptions)) or 'it has none'}"
            )

    # -- looking ------------------------------------------------------------------------------------------

    @property
    def handled(self) -> list[Handled]:
        """Each delivery, in the order in which they began."""
        return self._record.handled

    @property
    def settled(self) -> list[Event]:
        """How messages ended, in that order."""
        return self._record.settled

    @property
    def counts(self) -> Counts:
        """What was done so far."""
        total = Counts()
        total += self._service.counts
        for station in self._service.stations:
            total += station.counts
        return total

    def assert_handled(
        self,
        subscription: str | None = None,
        *payloads: Any,
        attempts: Sequence[int] | None = None,
        outcomes: Sequence[Any] | None = None,
        count: int | None = None,
    ) -> None:
        """Fail unless the handlers got just these payloads, in this order.

        Args:
            subscription: only of the subscription of this name; None: of all.
            *payloads: what was got, one for each delivery, so one that was tried again comes again.
            attempts: which attempt each delivery was.
            outcomes: what the handler said to each.
            count: how many deliveries there were; 0: none.

        Raises:
            AssertionError: it shows what was got.
            ConfigError: there is no subscription of this name.
        """
        check_name(subscription, self.worker.subscriptions)
        found = self._record.of(subscription)
        assert_handled(found, subscription or "the worker", payloads, attempts, outcomes, count)
