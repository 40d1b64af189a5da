"""Settlements of rows, each in its place: one for each lease, and none before an extension it would undo."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy

from ..address.inbox import Inbox
from ..errors import Closed, LeaseLost
from ..sql.inbox import EXTEND
from .inbox_program import Settlement
from .inbox_row import Row

# How soon it is looked again whether an extension has ended.
EXTENSION_PAUSE = 0.005
# Each row with a time of its own is looked up in the list of the request.
MAX_SETTLED = 256


class Settlements:
    """Those that wait for a request.

    Args:
        schedule: called when there is something to send.
    """

    def __init__(self, inbox: Inbox, schedule: Callable[[], None]) -> None:
        self._table = inbox.table
        self._has_token = inbox.has("token")
        self._schedule = schedule
        self._ready: deque[Settlement] = deque()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._ready)

    def add(self, one: Settlement) -> Future[None]:
        """Send it, if the lease is not spent yet; the future of its end."""
        one.future = asyncio.get_running_loop().create_future()
        if self._closed:
            one.fail(Closed("this subscription was closed"))
        elif one.row.settled:
            # A lease is spent by its first settlement.
            one.fail(one.lost_error(self._table))
        else:
            one.row.settled = True
            if one.row.extending and not self._has_token:
                # Where the end of the lease is the token, it is about to be another one.
                self._after_extension(one)
            else:
                self._ready.append(one)
                self._schedule()
        return one.future

    def _after_extension(self, one: Settlement) -> None:
        if one.row.extending and not self._closed:
            asyncio.get_running_loop().call_later(EXTENSION_PAUSE, self._after_extension, one)
        else:
            self._ready.append(one)
            self._schedule()

    def extend(self, held: Sequence[Row], visibility: float) -> Future[list[Row]]:
        """Let all their leases end `visibility` seconds from now; returns those that were lost."""
        loop = asyncio.get_running_loop()
        settlements = [Settlement(row, EXTEND, visibility, future=loop.create_future()) for row in held]
        lost: Future[list[Row]] = loop.create_task(_lost_of(settlements))
        for one in settlements:
            self._begin_to_extend(one)
        return lost

    def _begin_to_extend(self, one: Settlement) -> None:
        assert one.future is not None
        if one.future.done():
            return
        if self._closed:
            one.future.set_exception(Closed("this subscription was closed"))
        elif not one.row.begin_extension():
            asyncio.get_running_loop().call_later(EXTENSION_PAUSE, self._begin_to_extend, one)
        elif one.row.settled:
            # In this order: whoever settles it, maybe in another thread, sets the one and looks at the other.
            one.fail(one.lost_error(self._table))
        else:
            self._ready.append(one)
            self._schedule()

    def next(self) -> list[Settlement]:
        """Those that go with the next request; one with more than its row goes alone."""
        found: list[Settlement] = []
        while self._ready and len(found) < MAX_SETTLED:
            if self._ready[0].alone:
                return found or [self._ready.popleft()]
            found.append(self._ready.popleft())
        return found

    def close(self, error: Exception) -> None:
        """End them with this error; take no more."""
        self._closed = True
        for one in self._ready:
            one.fail(copy(error))
        self._ready.clear()


async def _lost_of(settlements: list[Settlement]) -> list[Row]:
    outcomes = await asyncio.gather(*(one.future for one in settlements if one.future), return_exceptions=True)
    lost = []
    for one, outcome in zip(settlements, outcomes, strict=True):
        if isinstance(outcome, LeaseLost):
            lost.append(one.row)
        elif isinstance(outcome, BaseException):
            raise outcome
    return lost
