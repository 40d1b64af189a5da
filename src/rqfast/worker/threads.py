"""Threads for plain handlers.

Daemon threads: one that never ends must not keep the process from ending (those of concurrent.futures do).
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any


class Threads:
    """Runs functions for a loop, each in a thread of its own; threads are used again.

    Args:
        on_late: called in the loop's thread with nothing, when a function ended whose caller had gone.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, on_late: Callable[[], None]) -> None:
        self._loop = loop
        self._name = name
        self._on_late = on_late
        self._work: queue.SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._idle = 0
        self._count = 0
        self._lock = threading.Lock()

    def run(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run it, in a copy of the caller's context; the future of what it returns or raises."""
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._serve, name=f"{self._name}-{self._count}", daemon=True).start()
        self._work.put((future, partial(contextvars.copy_context().run, work)))
        return future

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            future, work = item
            if future.cancelled():
                # Its message was given back before the thread came to it.
                with self._lock:
                    self._idle += 1
                continue
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            # Free before its caller is told, who may come with the next at once.
            with self._lock:
                self._idle += 1
            try:
                self._loop.call_soon_threadsafe(self._tell, future, result, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more
            del item, future, work, result, error

    def _tell(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        if future.done():
            self._on_late()
        elif error is None:
            future.set_result(result)
        else:
            future.set_exception(Stopped(error) if isinstance(error, StopIteration) else error)

    def close(self) -> None:
        """Let idle threads end; those that work end after it."""
        with self._lock:
            for _ in range(self._count):
                self._work.put(None)


class Stopped(RuntimeError):
    """A plain handler raised StopIteration, which no future can carry."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the handler raised {error!r}")
