"""A subscription at work: its places, each of which claims a message, has it handled, and settles it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import LeaseLost, OutcomeUnknown, RqfastError, Unavailable
from ..observe.hooks import Heard
from .away import FIRST_REST, LONGEST_REST, Away
from .context import Context
from .counts import Counts
from .failures import Failures
from .feed import Feed
from .handling import Handling
from .hanging import Hanging
from .hop import hop
from .settling import Settling
from .subscription import Subscription
from .telling import Telling
from .threads import Threads

log: logging.Logger = logging.getLogger("rqfast.worker")

# How long a worker that stops waits for what it gives back, in seconds; then the leases end by themselves.
GIVING_BACK = 2.0

# What is left of a lease at least, as a part of `visibility`, for a handler to begin: it is extended only from then on.
LEAST_LEFT = 0.1


class Station:
    """Runs one subscription.  Belongs to one loop.

    Args:
        queue: the name of the queue, or of the table.
        now: the queue's time.
        fatal: told of an error that no trying again would mend.
    """

    def __init__(
        self,
        subscription: Subscription,
        feed: Feed,
        *,
        concurrency: int,
        visibility: float,
        heard: Heard,
        queue: str,
        threads: Threads,
        decode: Callable[[Any], Any],
        now: Callable[[], float],
        fatal: Callable[[BaseException], None],
    ) -> None:
        self.subscription = subscription
        self.feed = feed
        self.name: str = subscription.name
        self.visibility = visibility
        self.telling: Telling = Telling(self.name, queue, heard, now)
        self.counts: Counts = Counts()
        self.active: dict[Context, None] = {}
        self._loop = asyncio.get_running_loop()
        self._fatal = fatal
        self._batch = subscription.batch or 1
        self._places = max(1, concurrency // self._batch)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._stopping = asyncio.Event()
        self._away = Away(self.name)
        self.hanging: Hanging = Hanging(self.name, self._places, self.active.copy)
        failures = Failures(subscription, visibility, self.counts)
        self._settling = Settling(
            self.name,
            feed,
            visibility=visibility,
            active=self.active,
            failures=failures,
            counts=self.counts,
            telling=self.telling,
        )
        self._handling = Handling(
            subscription,
            threads=threads,
            decode=subscription.decoder or decode,
            failures=failures,
            settling=self._settling,
            counts=self.counts,
            stopping=self._stopping,
        )

    # -- its places ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to claim."""
        for place in range(self._places):
            task = self._loop.create_task(self._work(), name=f"rqfast: {self.name} {place}")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fatal(task.exception() or RqfastError("a place ended"))

    async def _work(self) -> None:
        claim: asyncio.Future[Any] | None = None
        rest = FIRST_REST
        task = asyncio.current_task()
        assert task is not None
        free = time.monotonic()
        try:
            while not self._stopping.is_set():
                self._waiting.add(task)
                try:
                    if not self._resumed.is_set():
                        self._drop(claim)
                        claim = None
                        await self._resumed.wait()
                    found = await (claim or self._claim())
                except (Unavailable, OutcomeUnknown) as error:
                    claim = None
                    self._away.tell(error)
                    await asyncio.sleep(rest)
                    rest = min(rest * 2, LONGEST_REST)
                    continue
                finally:
                    self._waiting.discard(task)
                claim = None
                rest = FIRST_REST
                self._away.tell_back()
                if found:
                    settled = await self._handle(found if type(found) is list else [found], free)
                    if self._may_claim():
                        claim = self.feed.claim_next(self._batch)
                    await self._settle_all(task, settled)
                    free = time.monotonic()
        finally:
            self._drop(claim)

    def _claim(self) -> asyncio.Future[Any]:
        # One that waits would tell that the database is back only when it has a message.
        return self.feed.claim_next(self._batch) if self._away.is_away else self.feed.claim(self._batch)

    async def _settle_all(self, task: asyncio.Task[None], settled: list[Awaitable[None]]) -> None:
        self._ending.add(task)
        try:
            for one in settled:
                await one
        finally:
            self._ending.discard(task)

    def _may_claim(self) -> bool:
        return not self._stopping.is_set() and self._resumed.is_set()

    def _drop(self, claim: asyncio.Future[Any] | None) -> None:
        # What came for it goes back.
        if claim is not None:
            drop = getattr(claim, "drop", claim.cancel)
            drop()

    # -- handling -----------------------------------------------------------------------------------------

    async def _handle(self, found: list[Any], free: float) -> list[Awaitable[None]]:
        """Have messages handled; what settles them has begun, and is awaited by the caller.

        Args:
            free: since when this place had nothing to do.
        """
        contexts = await self._in_time([Context(self, held) for held in found])
        if not contexts:
            return []
        now = time.monotonic()
        for context in contexts:
            context._began = now
            self.active[context] = None
        self.counts.claimed += len(contexts)
        with self.telling.claimed(contexts, now - free):
            return await self._handled(contexts)

    async def _handled(self, contexts: list[Context]) -> list[Awaitable[None]]:
        outcomes = await self._handling.outcomes(contexts)
        return [
            self._settling.begin(context, outcome)
            for context, outcome in zip(contexts, outcomes, strict=True)
            if outcome is not None
        ]

    async def _in_time(self, contexts: list[Context]) -> list[Context]:
        """Without those whose lease has run down since they came, as this process stalled: others may have them."""
        least = self.visibility * LEAST_LEFT
        late = [context for context in contexts if context._held.remaining() < least]
        if not late:
            return contexts
        log.warning(
            "%s: the leases of %d messages had run down before their handlers could begin, they are given back: "
            "is visibility=%g s too short for a stall of this process?",
            self.name, len(late), self.visibility,
        )  # fmt: skip
        tasks = self._settling.begin_to_give_back(late)
        left = [context for context in contexts if context not in late]
        if not left:
            await asyncio.wait(tasks)
        return left

    # -- leases -------------------------------------------------------------------------------------------

    def due_for_extension(self) -> list[Context]:
        """The messages of whose lease at most half is left; from any thread."""
        half = self.visibility / 2
        return [one for one in self.active.copy() if one._held.remaining() <= half and not one.lease_lost]

    def lease_lost(self, context: Context) -> None:
        """An extension was refused: the handler is told, in the loop's thread."""
        if context._over or context._task is None:
            return
        if self.subscription.signature.is_async:
            context._task.cancel()
        else:
            self.hanging.tell(context)

    def extend(self, context: Context, visibility: float) -> Any:
        """See `Context.extend`."""

        async def extended() -> float:
            lost = await self.feed.extend([context._held], visibility)
            if lost:
                context.lease_lost = True
                raise LeaseLost(context.id, context.group, "extend")
            return context._held.expires_at

        return hop(self._loop, extended())

    # -- pausing and stopping -----------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether it claims nothing until `resume`."""
        return not self._resumed.is_set()

    def pause(self) -> None:
        """Claim nothing any more; what is in work goes on."""
        if self._resumed.is_set():
            self._resumed.clear()
            for task in self._waiting.copy():
                # Its claim is taken back; the place itself goes on.
                self._tasks.discard(task)
                task.remove_done_callback(self._ended)
                task.cancel()
                self._replace()

    def _replace(self) -> None:
        task = self._loop.create_task(self._work(), name=f"rqfast: {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def resume(self) -> None:
        """Claim again."""
        self._resumed.set()

    def stop_claiming(self) -> None:
        """Claim nothing any more; places that have nothing in work end."""
        self._stopping.set()
        for task in self._waiting.copy():
            task.cancel()

    async def finished(self, seconds: float) -> bool:
        """Wait until all places have ended; whether they have."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(0.0, seconds))
        return not self._tasks

    def cancel(self) -> None:
        """Cancel all handlers; what is being settled goes on."""
        for task in self._tasks - self._ending:
            task.cancel()

    async def abandon(self) -> list[asyncio.Task[None]]:
        """Give back what handlers still have that do not end; returns their tasks."""
        for task in self._ending:
            task.cancel()
        for context in [one for one in self.active if not one._settling]:
            log.error(
                "%s: the handler of message %s of group %r does not end, the message is given back and what it does "
                "is thrown away", self.name, context.id, context.group,
            )  # fmt: skip
        giving = self._loop.create_task(self._settling.give_back(list(self.active)))
        quiet = self._loop.create_task(self.feed.quiet())
        await asyncio.wait((giving, quiet, *self._settling.returning), timeout=GIVING_BACK)
        for late in (giving, quiet, *self._settling.returning):
            # The database does not answer.
            late.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.remove_done_callback(self._ended)
        self._tasks.clear()
        return tasks
