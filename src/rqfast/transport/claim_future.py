"""The future of a claim: a message that nobody took goes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from .._core import Lease


class ClaimFuture(asyncio.Future[Any]):
    """Knows whether its result was taken.

    A task that is cancelled after its claim came, but before it runs again, never sees the lease: the future does,
    and gives the message back, then or when it is collected.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, give_back: Callable[[list[Lease[Any]]], None]) -> None:
        super().__init__(loop=loop)
        self._give_back = give_back
        self._taken = False
        self._awaiting = 0

    def result(self) -> Any:
        """The lease or leases; from now on they are the caller's."""
        found = super().result()
        # A task that wakes up looks here first, and may still be cancelled before its coroutine goes on.
        if not self._awaiting:
            self._taken = True
        return found

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():
            self._asyncio_future_blocking = True
            self._awaiting += 1
            try:
                yield self
            except BaseException:
                self._awaiting -= 1
                self._return()
                raise
            self._awaiting -= 1
        return self.result()

    __iter__ = __await__

    def after(self, work: asyncio.Future[Any]) -> ClaimFuture:
        """The future of this claim and more: done when `work`, which awaits this one, is done; it ends with it."""
        outer = ClaimFuture(self.get_loop(), self._give_back)

        def hand_over(done: asyncio.Future[Any]) -> None:
            if done.cancelled():
                self.drop()
                outer.cancel()
            elif (error := done.exception()) is not None:
                if not outer.done():
                    outer.set_exception(error)
            elif not outer.done():
                outer.set_result(done.result())
            elif done.result():
                self._give_back(done.result())

        work.add_done_callback(hand_over)
        outer.add_done_callback(lambda _: work.cancel())
        return outer

    def drop(self) -> None:
        """Nobody wants it any more: cancelled, or what came goes back."""
        if not self.cancel():
            self._return()

    def _return(self) -> None:
        if self._taken or self._awaiting or not self.done() or self.cancelled() or super().exception() is not None:
            return
        found = self.result()
        if found:
            self._give_back(found if isinstance(found, list) else [found])

    def __del__(self) -> None:
        self._return()
        super().__del__()
