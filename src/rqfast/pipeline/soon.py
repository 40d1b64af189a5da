"""Runs the calls of an embedded transport that no thread waits for, and hands over their outcomes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from typing import Any

from .._core import Call, Relay
from ..errors import RqfastError


class SoonFuture(futures.Future[Any]):
    """The future of such a call; cancelled in time, the call is not run."""

    relay: Relay

    def cancel(self) -> bool:
        """See `concurrent.futures.Future.cancel`; False once the call has taken effect."""
        if self.relay.done():
            return False
        self.relay.abandon()
        return super().cancel()


class AtOnce:
    """An outbox for a thread that no signal interrupts: what is put there is handed over at once."""

    def append(self, relay: Relay) -> None:
        """Hand over an outcome."""
        complete(relay)


def expect(call: Call, outbox: Any) -> SoonFuture:
    """The future of a call that is about to start; its outcome goes through the outbox."""
    future = SoonFuture()
    future.relay = Relay(future, outbox)
    call.future = future.relay
    return future


def complete(relay: Relay) -> None:
    """Give a future its outcome, unless it was cancelled."""
    if not relay.future.set_running_or_notify_cancel():
        return
    if relay.error is not None:
        relay.future.set_exception(relay.error)
    else:
        relay.future.set_result(relay.value)


class Runner:
    """A daemon thread, started when it is first needed.

    Outcomes reach their futures in this thread only: what a future's callbacks do must not be interrupted by a
    signal in the middle of a batch, as it would be in the main thread.

    Args:
        work: runs all calls that wait.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._name = name
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = False
        self._outbox: deque[Relay] = deque()

    def expect(self, call: Call) -> SoonFuture:
        """The future of a call that is about to start."""
        return expect(call, self._outbox)

    def check_thread(self) -> None:
        """Raise RqfastError in the thread that runs the calls: waiting there, it would wait for itself."""
        if threading.current_thread() is self._thread:
            raise RqfastError("a callback of publish_soon must not wait for others of them; use another thread")

    @property
    def has_outcomes(self) -> bool:
        """Whether outcomes wait to be handed over."""
        return bool(self._outbox)

    def want(self) -> None:
        """There is something to do."""
        if self._thread is None or not self._thread.is_alive():
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    self._thread.start()
        if not self._wanted.is_set():
            self._wanted.set()

    def stop(self) -> None:
        """Hand over what is left and end the thread, for good."""
        thread, self._stopping = self._thread, True
        self._wanted.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._deliver()

    def _run(self) -> None:
        while not self._stopping:
            self._wanted.wait()
            self._wanted.clear()
            self._work()
            self._deliver()

    def _deliver(self) -> None:
        while self._outbox:
            complete(self._outbox.popleft())
