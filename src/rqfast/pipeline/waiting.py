"""Idle claims of an async transport: they look with plain reads, and write only when there is work."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from copy import copy
from typing import Any

from .._core import Claim
from ..errors import Closed, RqfastError
from . import wake
from .gather import Gather
from .watch import Watch

log: logging.Logger = logging.getLogger("rqfast")

# How many waiting claims a publish sends out: with fewer than this a request is not parted.
TOGETHER = 100

# Of which groups a claim is, and from which priority on.
Wish = tuple[int, tuple[str, str] | None]
Look = Callable[[list[Wish]], Awaitable[list[tuple[bool, float | None]]]]


class Waiting:
    """The claims of one transport that may not go out at once.

    One look serves all of them.  A claim that does not wait is answered by the first look that began after it came.
    """

    def __init__(self, gather: Gather, watch: Watch, look: Look, now: Callable[[], float], queue: Hashable) -> None:
        self._gather = gather
        self._watch = watch
        self._look = look
        self._now = now
        self._claims: list[Claim] = []
        self._task: asyncio.Task[None] | None = None
        self._woken: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_wakes = False
        self._resting_until = 0.0
        gather.unfilled = self._unfilled
        gather.fresh = self._fresh
        wake.register(queue, self.stir)

    def start(self, call: Claim) -> None:
        """Send a claim at once where the last reply left work for it, or it can ride along with other calls that
        wait to be sent; else let it look first."""
        # The time-out is that of the whole call: looks, claim, and what may have to be extended or given back.
        self._gather.until(call)
        at_once = call.only is None and self._watch.claims_at_once(call.min_priority)
        if call.tied is not None or at_once or self._gather.has_waiting:
            call.deadline = time.monotonic() + self._gather.timeout
            self._gather.start(call)
        else:
            self._add(call)

    def _add(self, call: Claim) -> None:
        self._claims.append(call)
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._woken = asyncio.Event()
            self._task = asyncio.create_task(self._run(), name="rqfast: waiting claims")
        elif self._woken is not None and (not call.looked or call.wait_until < self._resting_until):
            self._woken.set()

    def _unfilled(self, calls: list[Claim]) -> None:
        """Claims that went out and found nothing after all: they are answered, or wait on."""
        for call in calls:
            call.untie()
            if call.wait_until <= time.monotonic():
                call.resolve(call.empty())
            else:
                call.looked = True
                call.deadline = float("inf")
                self._gather.until(call)
                self._add(call)

    def _fresh(self, hint: int) -> None:
        """A publish of this transport left work, up to this priority: its own waiting claims need no look."""
        now = time.monotonic()
        waiting, self._claims = self._claims, []
        sent: list[Claim] = []
        for call in waiting:
            # As many as go in one request: a second would find nothing, and write that down.
            # Of some groups only, nobody has said whether there is any: these look first.
            apart = call.only is not None or (sent and not _go_together(call, sent[0]))
            if apart or call.min_priority > hint or len(sent) >= TOGETHER:
                self._claims.append(call)
            elif not call.gone:
                sent.append(call)
        for call in sent:
            self._send(call, now)

    def _send(self, call: Claim, now: float) -> None:
        call.looked = False
        call.deadline = min(now + self._gather.timeout, call.until)
        self._gather.start(call)

    def stir(self) -> None:
        """Something was published in this process; from any thread."""
        self._watch.stirred()
        loop = self._loop
        if self._task is None or loop is None or loop.is_closed() or self._thread_wakes:
            return
        self._thread_wakes = True
        try:
            loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # The loop was closed between the question and the call: nobody waits there any more.
            self._thread_wakes = False

    def _wake(self) -> None:
        self._thread_wakes = False
        if self._woken is not None:
            self._woken.set()

    # -- the looks ----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self._claims:
                assert self._woken is not None
                self._woken.clear()
                try:
                    await self._look_once()
                except RqfastError as error:
                    self._fail(error)
                except Exception as error:
                    # A fault of ours or of a library: the callers must not wait for ever.
                    log.exception("a look for work failed in an unexpected way")
                    wrapped = RqfastError(f"this claim failed in an unexpected way, nothing was claimed: {error!r}")
                    wrapped.__cause__ = error
                    self._fail(wrapped)
                if self._claims and all(call.looked for call in self._claims):
                    await self._rest()
        finally:
            self._task = None
            if self._claims and not self._gather.closed:
                self._add(self._claims.pop())

    async def _look_once(self) -> None:
        asked = self._claims
        wishes: list[Wish] = list(dict.fromkeys((call.min_priority, call.only) for call in asked))
        self._claims = []
        try:
            found = await self._look(wishes)
        except BaseException:
            self._claims = asked + self._claims
            raise
        next_ready = min((ready for _, ready in found if ready is not None), default=None)
        self._watch.looked(any(work for work, _ in found), next_ready)
        work = {wish: work for wish, (work, _) in zip(wishes, found, strict=True)}
        now = time.monotonic()
        for call in asked:
            if call.gone:
                continue
            if work[call.min_priority, call.only]:
                self._send(call, now)
            elif call.wait_until <= now:
                call.resolve(call.empty())
            else:
                call.looked = True
                self._claims.append(call)

    async def _rest(self) -> None:
        now = time.monotonic()
        until = min(call.wait_until for call in self._claims) - now
        pause = min(self._watch.rest(self._now()), max(until, 0.0))
        self._resting_until = now + pause
        assert self._woken is not None
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _fail(self, error: RqfastError) -> None:
        claims, self._claims = self._claims, []
        for call in claims:
            call.reject(copy(error))

    async def close(self) -> None:
        """End the waiting claims with `Closed`."""
        self._fail(Closed("this transport was closed while a claim was waiting"))
        task: asyncio.Task[Any] | None = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._fail(Closed("this transport was closed while a claim was waiting"))


def _go_together(call: Claim, other: Claim) -> bool:
    """Whether both are claimed by one statement."""
    return (call.visibility, call.min_priority) == (other.visibility, other.min_priority) and not (
        call.run or other.run
    )
