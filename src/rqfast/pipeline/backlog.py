"""The messages of `publish_soon` that are on their way: room for more, and what went wrong since the last flush."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from copy import copy
from typing import Any, TypeAlias

from ..errors import RqfastError

Soon: TypeAlias = futures.Future[Any]
Pending: TypeAlias = futures.Future[Any] | asyncio.Future[Any]


class Backlog:
    """Counts what is on its way.

    Args:
        most: how many may be; whoever wants to add more waits for room.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun = 0
        self._failed = 0
        self._first: BaseException | None = None
        self.pending: set[Pending] = set()

    @property
    def has_room(self) -> bool:
        """Whether one more may be added."""
        return len(self.pending) < self._most

    def add(self, future: Pending) -> None:
        """One more is on its way."""
        self._begun += 1
        self.pending.add(future)

    def forget(self, future: Pending) -> None:
        """It was not begun after all."""
        self.pending.discard(future)

    def failed(self, error: BaseException) -> None:
        """One could not even begin."""
        self._begun += 1
        self._failed += 1
        self._first = self._first or error

    def ended(self, future: Pending) -> None:
        """One has arrived, or failed; its caller may have cancelled it, which is no failure."""
        self.pending.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._failed += 1
            self._first = self._first or error

    def raise_failed(self) -> None:
        """Raise the first error since the last time, as a copy that tells how many there were."""
        begun, failed, first = self._begun, self._failed, self._first
        self._begun, self._failed, self._first = len(self.pending), 0, None
        if first is None:
            return
        error = copy(first) if isinstance(first, RqfastError) else RqfastError(f"a publish failed: {first!r}")
        error.add_note(f"{failed} of {begun} messages given to publish_soon failed; this is the first failure")
        raise error from first


class ThreadBacklog(Backlog):
    """The same for threads, which wait here.

    No Condition: interrupted in its Python code by Ctrl-C, a thread would keep its lock for ever.
    """

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._sleepers: set[threading.Lock] = set()

    def wait_for_room(self) -> None:
        """Wait until one more may be added."""
        self._wait_until(lambda: self.has_room)

    def wait(self) -> None:
        """Wait until all that were added before this call have ended."""
        waited = set(self.pending)
        self._wait_until(lambda: waited.isdisjoint(self.pending))

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            sleeper = threading.Lock()
            sleeper.acquire()
            self._sleepers.add(sleeper)
            try:
                if not is_so():
                    sleeper.acquire(timeout=1.0)
            finally:
                self._sleepers.discard(sleeper)

    def ended(self, future: Pending) -> None:
        """One has arrived, or failed."""
        super().ended(future)
        self._wake()

    def arrived(self, many: list[Pending]) -> None:
        """These have arrived."""
        self.pending.difference_update(many)
        self._wake()

    def _wake(self) -> None:
        for sleeper in list(self._sleepers):
            with contextlib.suppress(RuntimeError):  # another thread woke it
                sleeper.release()


class TaskBacklog(Backlog):
    """The same for the tasks of a loop: whoever finds no room gets a place in line."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._line: deque[tuple[asyncio.Future[Any], Callable[[], asyncio.Future[Any]]]] = deque()

    def add_when_room(self, room: asyncio.Future[Any], begin: Callable[[], asyncio.Future[Any]]) -> None:
        """Begin a publish as soon as there is room; then `room` gets its future."""
        if self.has_room and not self._line:
            self._begin(room, begin)
        else:
            self._line.append((room, begin))

    def _begin(self, room: asyncio.Future[Any], begin: Callable[[], asyncio.Future[Any]]) -> None:
        try:
            future = begin()
        except RqfastError as error:
            self.failed(error)
            room.set_exception(error)
            return
        self.add(future)
        future.add_done_callback(self.ended)
        room.set_result(future)

    def ended(self, future: Pending) -> None:
        """One has arrived, or failed: the next in line begins."""
        super().ended(future)
        while self._line and self.has_room:
            room, begin = self._line.popleft()
            if not room.done():
                self._begin(room, begin)

    async def flush(self) -> None:
        """Wait until all that were added, or stood in line, before this call have ended; raise what failed."""
        in_line = [room for room, _ in self._line]
        waited: set[Any] = set(self.pending)
        if in_line:
            await asyncio.wait(in_line)
            waited |= {room.result() for room in in_line if not room.cancelled() and room.exception() is None}
        if waited:
            await asyncio.wait(waited)
            # Their callbacks run in the loop's next turn.
            await asyncio.sleep(0)
        self.raise_failed()

    def drop(self, error: RqfastError) -> None:
        """The transport is closed: nothing in line begins any more."""
        while self._line:
            room, _ = self._line.popleft()
            if not room.done():
                self.failed(error)
                room.set_exception(copy(error))
