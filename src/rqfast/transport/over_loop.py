"""rqlite for blocking callers: the async transport on a loop in one background thread.

All threads' calls land on that loop, so they share its batches.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from concurrent import futures
from copy import copy
from typing import Any, Generic, TypeVar, overload

from .._core import Call, Claim, LockSlot, Relay, Settle, Slot, as_parts, first_of_each, give_back
from ..errors import Closed, RqfastError, Unavailable
from ..pipeline.backlog import Soon, ThreadBacklog
from ..pipeline.parts import failure_of, truthful
from ..pipeline.soon import deliver, expect
from ..sql.own import for_http
from .blocking import BlockingTransport, T
from .hidden import hidden_options, hidden_url
from .operating import Operating, Question, Rows
from .options import split
from .rqlite_async import RQLITE_OPTIONS, AsyncRqliteTransport, connect_patience

D = TypeVar("D")

CLOSING = 15.0


class LoopThread:
    """An event loop in a daemon thread of its own."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rqfast-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is this one."""
        return threading.get_ident() == self._thread.ident

    def is_alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        """Run a coroutine on the loop and wait for it in the calling thread."""
        running = asyncio.run_coroutine_threadsafe(work, self.loop)
        give_up = math.inf if timeout is None else time.monotonic() + timeout
        try:
            # Not `result(timeout)`: a TimeoutError of the work's own is not ours.
            while not futures.wait([running], 1.0).done:
                if not self._thread.is_alive():
                    raise Closed("this transport was closed meanwhile")
                if time.monotonic() > give_up:
                    raise TimeoutError(f"rqfast's loop did not end within {timeout:g} s")
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def stop(self) -> None:
        """End the loop and its thread."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5.0)


_open: weakref.WeakSet[RqliteTransport[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for transport in list(_open):
        transport.close()


class RqliteTransport(BlockingTransport[T], Generic[T]):
    """A queue on an rqlite cluster.  Connects and makes its tables at once; may be shared by threads.

    Args:
        base_url: `http(s)://[user:pass@]host:port[,host:port..]` or `rqlite(s)://..`.
        timeout: bounds a whole call, retries and elections included, in seconds.
        clock: see `connect`.
        **options: see `connect`; here also `auth`, `ssl`, `discover`.

    Raises:
        ConfigError: the URL, an option, the credentials.
        Unavailable: no node with a leader within `timeout`.
        SchemaError, StatementError: the tables.
    """

    _own_statement = staticmethod(for_http)

    @overload
    def __init__(
        self,
        base_url: str,
        timeout: float = 10.0,
        clock: Callable[[], float] | None = None,
        *,
        decode: Callable[[str], T],
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RqliteTransport[Any],
        base_url: str,
        timeout: float = 10.0,
        clock: Callable[[], float] | None = None,
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        base_url: str,
        timeout: float = 10.0,
        clock: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        base_url, options = hidden_url(base_url), hidden_options(options)
        self._setup(base_url, timeout, {"clock": clock} | options, None)

    def _setup(self, base_url: str, timeout: float, options: dict[str, Any], patience: float | None) -> None:
        shared, _ = split(options, RQLITE_OPTIONS, "RqliteTransport")
        super().__init__(shared)
        self._address = (base_url, timeout, options)
        self._posted: deque[tuple[Callable[[Any], None], Any, Sequence[Call]]] = deque()
        self._outbox: deque[Relay] = deque()
        self._post_is_due = False
        self._closed = False
        self._connect(patience)
        _open.add(self)

    @overload
    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        decode: Callable[[str], D],
        timeout: float = 10.0,
        connect_retries: int = 30,
        retry_delay: float = 1.0,
        **options: Any,
    ) -> RqliteTransport[D]: ...
    @overload
    @classmethod
    def from_url(
        cls, url: str, *, timeout: float = 10.0, connect_retries: int = 30, retry_delay: float = 1.0, **options: Any
    ) -> RqliteTransport[Any]: ...
    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        timeout: float = 10.0,
        connect_retries: int = 30,
        retry_delay: float = 1.0,
        **options: Any,
    ) -> RqliteTransport[Any]:
        """The same, but waits for a node with a leader: `connect_retries` times, `retry_delay` seconds apart."""
        url, options = hidden_url(url), hidden_options(options)
        transport = cls.__new__(cls)
        transport._setup(url, timeout, options, connect_patience(connect_retries, retry_delay))
        return transport

    def _connect(self, patience: float | None = None) -> None:
        base_url, timeout, options = self._address
        self._pid = os.getpid()
        # Made before the thread: a bad URL or option starts nothing.
        self._inner: AsyncRqliteTransport[T] = AsyncRqliteTransport(base_url, timeout, **options)
        if patience is not None:
            self._inner._patience = patience
        self._timeout = self._inner._timeout
        self._thread = LoopThread()
        try:
            self._thread.run(self._inner._ready())
        except BaseException:
            self._thread.run(self._close_inner(), CLOSING)
            self._thread.stop()
            raise

    def __repr__(self) -> str:
        nodes = ",".join(self._inner._engine.cluster.seeds)
        return f"<{type(self).__name__} {nodes} queue={self._options.queue!r}>"

    # -- to the loop --------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._closed:
            raise Closed("this transport was closed")
        if self._pid != os.getpid():
            # After fork there is no loop thread here, and the connections are the parent's.
            self._posted = deque()
            self._outbox = deque()
            self._post_is_due = False
            self._connect()
        if self._thread.is_here:
            raise RqfastError("a blocking call from rqfast's own loop thread would wait for itself; use another thread")

    def _post(self, start: Callable[[Any], None], what: Any, calls: Sequence[Call]) -> None:
        """Have `start(what)` run on the loop, which starts these calls."""
        self._posted.append((start, what, calls))
        if not self._post_is_due:
            self._post_is_due = True
            try:
                self._thread.loop.call_soon_threadsafe(self._take_posted)
            except RuntimeError:
                raise Closed("this transport was closed") from None
            except BaseException:
                # Ctrl-C, perhaps before the loop was woken, and other threads' calls rely on that.
                self._post_is_due = False
                with contextlib.suppress(RuntimeError):
                    self._thread.loop.call_soon_threadsafe(self._take_posted)
                raise

    def _take_posted(self) -> None:
        self._post_is_due = False
        try:
            self._inner._gather.bind()
        except RqfastError as error:
            self._reject_posted(error)
            return
        while self._posted:
            start, what, calls = self._posted.popleft()
            try:
                start(what)
            except RqfastError as error:
                for call in calls:
                    call.reject(copy(error))

    def _reject_posted(self, error: RqfastError) -> None:
        while self._posted:
            for call in self._posted.popleft()[2]:
                call.reject(copy(error))

    def _slot(self) -> LockSlot:
        lock = threading.Lock()
        lock.acquire()
        return LockSlot(lock)

    def _start(self, calls: Sequence[Call], slot: Slot) -> None:
        self._check()
        self._post(self._inner._intake.start_all, calls, calls)

    def _wait(self, slot: Slot, undo: Callable[[], object] | None = None) -> Any:
        assert isinstance(slot, LockSlot)
        try:
            return self._outcome(slot)
        except BaseException:
            if undo is not None:
                undo()
            slot.abandon()
            raise

    def _outcome(self, slot: LockSlot) -> Any:
        """Wait for the outcome, as long as somebody is there to bring it."""
        while not slot.lock.acquire(timeout=1.0):
            if not self._thread.is_alive():
                raise Closed("the transport was closed while this call was waiting")
        return slot.result()

    def _check_thread(self) -> None:
        self._check()

    def _expect(self, call: Call, backlog: ThreadBacklog) -> Soon:
        return expect(call, backlog, self._outbox, self._deliver_soon)

    def _deliver_soon(self) -> None:
        # Once for all outcomes of a reply.
        try:
            self._thread.loop.call_soon(self._deliver)
        except RuntimeError:
            # The loop has ended; what was left to send is refused.
            self._deliver()

    def _deliver(self) -> None:
        deliver(self._outbox)

    def _launch(self, call: Call) -> None:
        self._check()
        self._post(self._inner._gather.start, call, (call,))

    def _start_claim(self, made: tuple[Sequence[Settle], Claim]) -> None:
        # Together, so that no request leaves between them.
        acks, call = made
        self._inner._intake.start_all(acks)
        self._inner._waiting.start(call)

    def _claim(self, call: Claim, acks: Sequence[Settle]) -> Any:
        self._check()
        slot = self._slot()
        call.future = slot
        others, deadline = None, time.monotonic() + self._timeout
        for settle in acks[-1:]:
            settle.tie(call)
            settle.on_lost = self._on_lost
            settle.deadline = deadline
        if len(acks) > 1:
            others = self._slot()
            as_parts(others, list(acks[:-1]), deadline)
        self._post(self._start_claim, (acks[:-1], call), (*acks[:-1], call))
        outcomes: Sequence[Any] = ()
        try:
            if others is not None:
                outcomes = self._wait(others)
            failure = failure_of(outcomes, self._on_lost)
            if failure is not None:
                call.wait_until = 0.0
            found = self._outcome(slot)
            if failure is not None:
                self._return(slot)
                raise truthful(failure, [None])
            return found
        except Unavailable as error:
            raise truthful(error, outcomes) from error.__cause__
        except RqfastError:
            raise
        except BaseException:
            # Ctrl-C: what came, or just comes, for this claim goes back; nothing more will.
            slot.abandon()
            with contextlib.suppress(RuntimeError):
                self._thread.loop.call_soon_threadsafe(self._post_back, slot)
            raise

    @property
    def _operating(self) -> Operating:  # type: ignore[override]
        return self._inner._operating

    @property
    def _key(self) -> Hashable:  # type: ignore[override]
        return self._inner._key

    def _ask(self, question: Question[Any]) -> list[Rows]:
        self._check()
        rows: list[Rows] = self._thread.run(self._inner._gather.reading(self._inner._ask(question)))
        return rows

    def _return(self, slot: Slot) -> None:
        """Give back what the slot got, and wait until that is done."""
        calls = [give_back(lease) for lease in first_of_each(slot.leases())]
        if calls:
            self._wait(self._begin(calls))

    def _post_back(self, slot: Slot) -> None:
        # On the loop, where no outcome is half-way into the slot.
        if self._inner._gather.closed:
            return
        for lease in first_of_each(slot.leases()):
            self._inner._gather.start(give_back(lease))

    # -- the end ------------------------------------------------------------------------------------------

    async def _close_inner(self) -> None:
        await self._inner.close()

    def _end(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pid != os.getpid() or not self._thread.is_alive():
            return
        if self._thread.is_here:
            raise RqfastError("close() from rqfast's own loop thread would wait for itself")
        try:
            self._thread.run(self._close_inner(), CLOSING)
        finally:
            self._thread.stop()
            self._reject_posted(Closed("this transport was closed before this call was sent"))
            self._deliver()
