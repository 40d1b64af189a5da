"""Bounds of the dev server's connections: how many, and how long one may take to ask and to take its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

MOST = 512
# Bytes of a head; what is read at once with its end counts too.
MOST_HEAD = 1 << 20
# Seconds: from the first byte of a request (or the begin of the connection) to the end of its head, without any
# request, and while the client does not read its reply.
HEAD_SECONDS, IDLE_SECONDS, WRITE_SECONDS = 10.0, 120.0, 60.0


class Guards:
    """All connections of one server.

    Args:
        make: makes the HTTP protocol of a connection.
    """

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        self._make = make
        # In the order in which they began to wait.
        self._guards: dict[asyncio.BaseTransport, Guard] = {}

    def __call__(self) -> Guard:
        """The protocol of a new connection."""
        return Guard(self._make(), self)

    def __len__(self) -> int:
        return len(self._guards)

    def add(self, guard: Guard, transport: asyncio.Transport) -> None:
        """A connection begins; one too many ends that which has waited longest, so that who asks gets in."""
        if len(self._guards) >= MOST:
            idle = (one for one in self._guards.values() if not one.in_request)
            next(idle, guard).abort()
        self._guards[transport] = guard

    def remove(self, transport: asyncio.BaseTransport | None) -> None:
        """It has ended."""
        if transport is not None:
            self._guards.pop(transport, None)

    def begin(self, transport: asyncio.BaseTransport | None) -> None:
        """The head of a request has come."""
        guard = self._guards.get(transport) if transport is not None else None
        if guard is not None:
            guard.begin()

    def end(self, transport: asyncio.BaseTransport | None) -> None:
        """It is answered."""
        guard = self._guards.pop(transport, None) if transport is not None else None
        if guard is not None and transport is not None:
            self._guards[transport] = guard
            guard.end()


class Guard(asyncio.Protocol):
    """Stands before the HTTP protocol of one connection."""

    def __init__(self, inner: asyncio.Protocol, guards: Guards) -> None:
        self._inner = inner
        self._guards = guards
        self._transport: asyncio.Transport | None = None
        self._waits_for_head = False
        self._head = 0
        self._limit: asyncio.TimerHandle | None = None
        self._write_limit: asyncio.TimerHandle | None = None
        self.in_request = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._guards.add(self, transport)
        self._inner.connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if not self.in_request and not self._waits_for_head:
            self._wait_for_head()
        if self._waits_for_head:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self.abort()
                return
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """See `asyncio.Protocol`."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._write_limit = asyncio.get_running_loop().call_later(WRITE_SECONDS, self.abort)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        _cancel(self._write_limit)
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        _cancel(self._limit)
        _cancel(self._write_limit)
        self._guards.remove(self._transport)
        self._inner.connection_lost(exc)

    def begin(self) -> None:
        """The head of a request is there: what it takes from now on is bounded elsewhere."""
        self.in_request, self._waits_for_head = True, False
        _cancel(self._limit)

    def end(self) -> None:
        """The request is answered."""
        self.in_request = False
        self._end_in(IDLE_SECONDS)

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def _wait_for_head(self) -> None:
        self._waits_for_head, self._head = True, 0
        self._end_in(HEAD_SECONDS)

    def _end_in(self, seconds: float) -> None:
        _cancel(self._limit)
        self._limit = asyncio.get_running_loop().call_later(seconds, self.abort)


def _cancel(handle: asyncio.TimerHandle | None) -> None:
    if handle is not None:
        handle.cancel()
