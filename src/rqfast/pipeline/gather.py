"""Where async calls meet: while requests are in flight the next batches fill.

A lone call leaves at the end of the loop's turn, with all that came in the same turn; it waits for nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from copy import copy
from typing import Any, Protocol, TypeVar

from .._core import EXTEND, Batch, Batcher, Call, Intake, Outcome, Settle, first_of_each, forked, give_back
from ..errors import Closed, OutcomeUnknown, RqfastError, Unavailable
from ..sql.upgrade import HOUR
from . import wake
from .watch import Watch

SWEEP = 0.1
# Of what a server said, so many characters are shown.
MOST_TROUBLE = 200

# Under which key asyncio, up to Python 3.13, keeps in a thread's state what the thread runs.
RUNNING = "__asyncio_running_event_loop__"

log: logging.Logger = logging.getLogger("rqfast")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)

R = TypeVar("R")


class Carrier(Protocol):
    """What takes batches to the engine: a numbered lane of rqlite, or the worker thread of a SQLite file."""

    async def send(self, batch: Batch) -> Sequence[list[Any] | None] | None:
        """Run a batch; None: it was never applied."""

    @property
    def ambiguous(self) -> bool:
        """Whether what is being sent may have taken effect."""

    @property
    def trouble(self) -> str:
        """Why it has not ended yet, in the words of who said so last; "" when nobody did."""

    def abandon(self) -> None:
        """Nobody waits for what is being sent."""


class Gather:
    """The calls of one async transport, on their way to the engine and back.

    Args:
        carriers: one for each lane; the first takes settlements and claims.
        open: connects, at the first call.
        resolve: gives the calls of a batch their outcomes (the engine knows decoder and clock).
        tend: is run once an hour beside the first request.
    """

    def __init__(
        self,
        batcher: Batcher,
        watch: Watch,
        queue: Hashable,
        *,
        open: Callable[[], Coroutine[Any, Any, Sequence[Carrier]]],
        resolve: Callable[[Batch, Sequence[list[Any] | None]], Outcome],
        unavailable: Callable[[str], Unavailable],
        timeout: float,
        tend: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._batcher = batcher
        self._watch = watch
        self._queue = queue
        self._open = open
        self._resolve = resolve
        self._unavailable = unavailable
        self.timeout = timeout
        self.unfilled: Callable[[list[Any]], None] = lambda calls: None
        self.fresh: Callable[[int], None] = lambda hint: None
        self._carriers: Sequence[Carrier] = ()
        self._opening: asyncio.Task[Sequence[Carrier]] | None = None
        self._in_flight: dict[int, tuple[Batch, asyncio.Task[None]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._intake = Intake(batcher, self._enter, self._wake, RUNNING, watch.claims_at_once)
        self.start: Callable[[Call], None] = self._intake.start
        self._sweeper: asyncio.TimerHandle | None = None
        self._tidy: int | None = None
        self._followers: set[asyncio.Task[None]] = set()
        self._reads: set[asyncio.Task[Any]] = set()
        self._tend = tend
        self._tend_at = time.monotonic() + HOUR
        self._closed = False
        self._ended = False

    # -- in -----------------------------------------------------------------------------------------------

    @property
    def intake(self) -> Intake:
        """The way in, which is also a short one for plain calls."""
        return self._intake

    @property
    def closed(self) -> bool:
        """Whether no more calls are taken in."""
        return self._closed

    def shut(self) -> None:
        """Take in no more calls."""
        self._closed = True
        self._intake.shut()

    def _enter(self) -> tuple[Callable[..., asyncio.Future[Any]], dict[str, Any]]:
        loop = self.bind()
        if getattr(type(loop), "create_future", None) is asyncio.BaseEventLoop.create_future:
            # Which does just this, in Python.
            return asyncio.Future, {"loop": loop}
        return loop.create_future, {}

    def bind(self) -> asyncio.AbstractEventLoop:
        """The loop of this transport: that of its first use."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RqfastError(
                "this transport belongs to the event loop it was first used on; open another one on this loop"
            )
        if self.closed:
            raise Closed("this transport was closed")
        return loop

    @property
    def has_waiting(self) -> bool:
        """Whether calls wait to be sent, so that a request leaves anyway."""
        return self._batcher.waiting() > 0

    def _wake(self) -> None:
        assert self._loop is not None
        self._loop.call_soon(self._pump)

    def call_soon(self, work: Callable[[], object]) -> None:
        """Run `work` on the loop, from any thread; dropped when the loop or the transport is gone."""
        loop = self._loop
        if loop is None or loop.is_closed() or self._ended:
            return
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(work)

    def _pump(self) -> None:
        self._intake.rested()
        if self._sweeper is None and self._loop is not None:
            self._sweeper = self._loop.call_later(SWEEP, self._sweep)
        if not self._carriers:
            self._begin_to_open()
            return
        for lane in range(len(self._carriers)):
            if lane not in self._in_flight and self._batcher.has_work(lane):
                batch = self._batcher.take(lane)
                if batch is not None:
                    task = asyncio.create_task(self._carry(lane, batch), name=f"rqfast: lane {lane}")
                    self._in_flight[lane] = batch, task

    @property
    def is_open(self) -> bool:
        """Whether it has been opened."""
        return bool(self._carriers)

    async def opened(self) -> None:
        """Wait until the transport is open; raises what keeps it from opening."""
        if self._carriers:
            return
        opening = self._begin_to_open()
        # Waited for, not awaited: neither is cancelled with the other.
        await asyncio.wait((opening,))
        if opening.cancelled():
            raise Closed("the transport was closed while it was opening")
        opening.result()

    def _begin_to_open(self) -> asyncio.Task[Sequence[Carrier]]:
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
            self._opening.add_done_callback(self._opening_ended)
        return self._opening

    def _opening_ended(self, task: asyncio.Task[Sequence[Carrier]]) -> None:
        self._opening = None
        if task.cancelled():
            self._reject(self._batcher.drain(), Closed("the transport was closed while it was opening"))
            return
        error = task.exception()
        if error is None:
            self._carriers = task.result()
            self._pump()
        elif isinstance(error, RqfastError):
            self._reject(self._batcher.drain(), error)
        else:
            wrapped = RqfastError(f"the transport could not be opened: {error!r}")
            wrapped.__cause__ = error
            self._reject(self._batcher.drain(), wrapped)

    # -- out ----------------------------------------------------------------------------------------------

    async def _carry(self, lane: int, batch: Batch) -> None:
        if self._tend is not None and time.monotonic() > self._tend_at:
            self._tend_at = time.monotonic() + HOUR
            self._follow(self._tend_now(self._tend))
        if lane == 0:
            batch.tidy, self._tidy = self._tidy, None
        try:
            rows = await self._carriers[lane].send(batch)
            if rows is None:
                batch.reject(self._unavailable("it was given up"))
                for lease in first_of_each(batch.given_back()):
                    if lease.remaining():
                        self._batcher.add(give_back(lease))
            else:
                self._settle(batch, self._resolve(batch, rows))
        except RqfastError as error:
            batch.reject(error)
        except Exception as error:
            # A fault of ours or of a library: the callers must not wait for ever.
            log.exception("a request failed in an unexpected way")
            wrapped = OutcomeUnknown(f"this call failed in an unexpected way, and may have taken effect: {error!r}")
            wrapped.__cause__ = error
            batch.reject(wrapped)
        except BaseException:
            # Cancelled, or a signal's handler raised (SystemExit): nobody may wait for it.
            batch.reject(self._interrupted(lane))
            raise
        finally:
            self._batcher.finish(batch)
            del self._in_flight[lane]
        self._pump()

    async def _tend_now(self, tend: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await tend()
        except RqfastError as error:
            log.warning("statistics could not be removed, claims may be slow until they are: %s", error)

    def _interrupted(self, lane: int) -> RqfastError:
        if self._carriers[lane].ambiguous:
            return OutcomeUnknown("the transport was closed while this call was in flight: it may have taken effect")
        return Closed("the transport was closed before this call was sent; nothing was applied")

    def _settle(self, batch: Batch, outcome: Outcome) -> None:
        """What is left to do when a batch took effect."""
        self._watch.replied(outcome.hint, outcome.short)
        tidy = self._watch.tidies(outcome.short, time.monotonic())
        self._tidy = self._tidy if tidy is None else tidy
        if outcome.goes_on is not None:
            outcome.goes_on.deadline = time.monotonic() + self.timeout
        if outcome.refused:
            self._follow(self._refuse(outcome.refused, outcome.give_back))
        else:
            for lease in first_of_each(outcome.give_back):
                self._batcher.add(give_back(lease))
        for call, leases in outcome.late:
            self._follow(self._extend_first(call, leases))
        if outcome.unfilled:
            self.unfilled(outcome.unfilled)
        if outcome.fresh is not None and outcome.fresh >= 0:
            self.fresh(outcome.fresh)
        if not batch.claims_only:
            wake.stir(self._queue)

    def _follow(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)

    async def _refuse(self, calls: list[Any], leases: list[Any]) -> None:
        """Claims whose `ack=` was lost: the callers are told when nothing is claimed for them any more."""
        try:
            await self.return_leases(leases, max(self.until(call) for call in calls))
        finally:
            for call in calls:
                if call.tied is not None:  # not told before: too late, or closed
                    call.reject(call.tied.lost())

    async def reading(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a plain read; closing ends it with `Closed`."""
        task = asyncio.ensure_future(work)
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise Closed("this transport was closed while it was reading")
        return task.result()

    async def _extend_first(self, call: Any, leases: list[Any]) -> None:
        """A resend let these leases run down: they get their full time before the caller gets them."""
        try:
            # Of a run, one stands for all.
            parts = leases[:1] if call.run else leases
            kept = await self._settled([Settle(lease, EXTEND, call.visibility) for lease in parts], self.until(call))
            kept = kept * len(leases) if call.run else kept
        except BaseException:
            call.reject(Closed("this transport was closed while a claim was in flight"))
            raise
        good = [lease for lease, ok in zip(leases, kept, strict=True) if ok]
        if call.gone:
            for lease in first_of_each(good):
                self.start(give_back(lease))
        elif good:
            call.resolve(good if call.wants_list else good[0])
        else:
            self.unfilled([call])

    def until(self, call: Any) -> float:
        """When a claim is over, with all that may be left to do for it."""
        if not call.until and 0 < call.deadline < math.inf:
            call.until = call.deadline
        elif not call.until:
            call.until = max(time.monotonic(), call.wait_until) + self.timeout
        until: float = call.until
        return until

    async def return_leases(self, leases: list[Any], until: float | None = None) -> None:
        """Give leases back unworked, and wait until that is done (or `until`, on the monotonic clock)."""
        await self._settled([give_back(lease) for lease in first_of_each(leases)], until)

    async def _settled(self, calls: list[Settle], until: float | None) -> list[bool]:
        """Run settlements of our own; which of them were accepted."""
        assert self._loop is not None
        for call in calls:
            call.future = self._loop.create_future()
            call.deadline = time.monotonic() + self.timeout if until is None else until
            self.start(call)
        if calls:
            # Waited for, not awaited: cancelled, the task leaves them on their way.
            await asyncio.wait([call.future for call in calls])
        return [not call.future.cancelled() and call.future.exception() is None for call in calls]

    # -- time-outs ----------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Tell the callers whose time is over; one timer for all of them."""
        self._sweeper = None
        now = time.monotonic()
        # Those that came since the last time: their time-out counts from now.
        fresh = now + self.timeout
        expired = self._batcher.expire(now, fresh)
        if expired:
            self._reject(expired, self._unavailable(f"it waited {self.timeout:g} s in line"))
        for lane, (batch, _task) in self._in_flight.items():
            carrier = self._carriers[lane]
            batch.stamp(fresh)
            over = batch.is_waited_for and batch.all_expired(now)
            # A request that goes on for others may still be applied: nobody in it can be told that it was not.
            batch.expire(now, self._late(carrier.ambiguous or not over, carrier.trouble))
            if over:
                carrier.abandon()
        if self._in_flight or self._batcher.waiting():
            assert self._loop is not None
            self._sweeper = self._loop.call_later(SWEEP, self._sweep)

    def _late(self, ambiguous: bool, trouble: str) -> RqfastError:
        passed = f"{self.timeout:g} s passed" + (f" (the last trouble: {trouble[:MOST_TROUBLE]})" if trouble else "")
        if not ambiguous:
            return self._unavailable(passed)
        return OutcomeUnknown(
            f"{passed} and it cannot be told whether this call took effect: publish again with the same dedup_id; "
            "a claim is given back when its lease ends at the latest"
        )

    def _reject(self, calls: Sequence[Call], error: RqfastError) -> None:
        for call in calls:
            _caller_of(call).reject(copy(error))

    # -- the end ------------------------------------------------------------------------------------------

    def _is_wanted(self) -> bool:
        """Whether a caller still waits for what was not sent yet; the cancelled calls are forgotten."""
        for call in self._batcher.drain():
            if not _caller_of(call).gone:
                self._batcher.add(call)
        return self._batcher.waiting() > 0

    async def close(self, patience: float = 10.0) -> None:
        """Let what was begun end, for `patience` seconds at most."""
        self.shut()
        give_up = time.monotonic() + patience
        for read in self._reads:
            read.cancel()
        for batch, _task in self._in_flight.values():
            batch.reject_claims(Closed("this transport was closed while a claim was in flight"))
        if self._opening is not None and not self._is_wanted():
            self._opening.cancel()
        while (self._in_flight or self._followers or self._batcher.waiting() or self._opening) and (
            time.monotonic() < give_up
        ):
            tasks: list[asyncio.Task[Any]] = [task for _, task in self._in_flight.values()]
            tasks += self._followers
            if self._opening is not None:
                tasks.append(self._opening)
            if not tasks:
                self._pump()
                await asyncio.sleep(0)
                continue
            await asyncio.wait(tasks, timeout=give_up - time.monotonic(), return_when=asyncio.FIRST_COMPLETED)
        tasks = [*(task for _, task in self._in_flight.values()), *self._followers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._ended = True
        self._reject(self._batcher.drain(), Closed("the transport was closed before this call was sent"))
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None


def _caller_of(call: Call) -> Call:
    """The call that somebody waits for: of an `ack=`, its claim."""
    return call.then if isinstance(call, Settle) and call.then is not None else call
