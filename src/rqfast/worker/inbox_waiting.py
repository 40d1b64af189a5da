"""Claims that wait until a table has something for them, and the looks that are taken meanwhile."""

from __future__ import annotations

import asyncio
import heapq
from asyncio import Future
from collections import deque
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from ..transport.desk import Desk
from .inbox_row import Row

FIRST_PAUSE = 0.01
# Moments that it remembers, so that it looks just then; of more it learns within `max_poll`.
MAX_DUE = 10_000


@dataclass(slots=True, eq=False)
class Wish:
    """A claim that waits for rows.

    Attributes:
        inner: where they are reported.
        kept: what the caller holds, alive until then.
        waits: whether it waits until one comes.
    """

    limit: int
    inner: Future[list[Row]]
    kept: Any
    waits: bool

    def answer(self, rows: list[Row]) -> None:
        """Hand over what came."""
        self.inner.set_result(rows)

    def fail(self, error: Exception) -> None:
        """Nothing comes."""
        if not self.inner.done():
            self.inner.set_exception(error)


class Waiting:
    """Looks by plain reads while any claim waits: less and less often, at once when a row is published or due.

    Args:
        max_poll: the longest pause between two looks, in seconds.
        busy: the request under way, or None: what it brings comes before a look.
        finds: whether a claim would find something.
        go: takes the claims that waited, when it would.
        fail: takes them, and why nothing comes.

    Attributes:
        wishes: the claims that wait, in their order.
    """

    def __init__(
        self,
        desk: Desk,
        table: str,
        *,
        max_poll: float,
        busy: Callable[[], asyncio.Task[None] | None],
        finds: Callable[[], Awaitable[bool]],
        go: Callable[[list[Wish]], None],
        fail: Callable[[Exception, list[Wish]], None],
    ) -> None:
        self._desk = desk
        self._table = table
        self._max_poll = max_poll
        self._busy = busy
        self._finds = finds
        self._go = go
        self._fail = fail
        self.wishes: deque[Wish] = deque()
        self._due: list[float] = []
        self._idle: asyncio.Task[None] | None = None
        self._woken: asyncio.Event | None = None
        self._stirred = False
        self._pause = FIRST_PAUSE
        self._closed = False

    def add(self, wish: Wish) -> None:
        """Let it wait."""
        self.wishes.append(wish)
        if self._woken is None:
            self._woken = asyncio.Event()
        if self._idle is None:
            self._idle = asyncio.create_task(self._look_on(), name=f"rqfast: waiting for table {self._table}")

    def left(self, inner: Future[Any]) -> None:
        """A future of a claim is done."""
        if inner.cancelled():
            # Perhaps nobody waits any more.
            self.wake()

    def stir(self) -> None:
        """A row was published in this process; from any thread."""
        if not self._stirred:
            self._stirred = True
            self._desk.call_soon(self.wake)

    def wake(self) -> None:
        """Look now."""
        self._stirred = False
        self.look_often()
        if self._woken is not None:
            self._woken.set()

    def look_often(self) -> None:
        """There was something: the next pause is a short one."""
        self._pause = FIRST_PAUSE

    def note_due(self, delay: float) -> None:
        """A row is due so many seconds from now: look just then."""
        now = self._desk.now()
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
        if len(self._due) < MAX_DUE:
            heapq.heappush(self._due, now + delay)

    async def _look_on(self) -> None:
        try:
            while self._are_waiting():
                assert self._woken is not None
                self._woken.clear()
                if (busy := self._busy()) is not None:
                    await asyncio.wait((busy,))
                    continue
                if await self._finds():
                    self._go(self._taken())
                    continue
                await self._rest()
        except asyncio.CancelledError:
            # The loop ends.
            while self.wishes:
                self.wishes.popleft().inner.cancel()
            raise
        except Exception as error:
            self._fail(error, self._taken())
        finally:
            self._idle = None
            if self.wishes and not self._closed:
                self.add(self.wishes.pop())

    def _are_waiting(self) -> bool:
        self.wishes = deque(wish for wish in self.wishes if not wish.inner.done())
        return bool(self.wishes) and not self._closed

    def _taken(self) -> list[Wish]:
        taken, self.wishes = list(self.wishes), deque()
        return taken

    async def _rest(self) -> None:
        pause, self._pause = self._pause, min(self._pause * 2, self._max_poll)
        now = self._desk.now()
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
        if self._due:
            pause = min(pause, self._due[0] - now + 0.001)
        assert self._woken is not None
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            pass

    def close(self, error: Exception) -> None:
        """End the claims that wait with this error, and look no more."""
        self._closed = True
        for wish in self._taken():
            wish.fail(copy(error))
        if self._idle is not None:
            self._idle.cancel()
