"""Runs the calls of an embedded transport that no thread waits for, and hands over their outcomes."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from typing import Any

from .._core import Call, Relay
from ..engine.hold import Hold, let_go
from ..errors import RqfastError
from .backlog import Pending, ThreadBacklog

# As `concurrent.futures` has it.
FINISHED = "FINISHED"

# Held while a future gets its locks, or an outcome without them.
_door = Hold()


def _after_fork() -> None:
    # A thread that is not here may have held it.
    global _door
    _door = Hold()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SoonFuture(futures.Future[Any]):
    """The future of such a call; cancelled in time, the call is not run.

    Most are never waited for one by one.  What `Future` needs for that (a Condition, lists) is made when it is first
    asked for, since it would cost more than all the rest of a publish.
    """

    relay: Relay
    _state = "PENDING"
    _result = None
    _exception = None

    def __init__(self, backlog: ThreadBacklog) -> None:
        self.backlog = backlog

    def __getattr__(self, name: str) -> Any:
        if name not in ("_condition", "_waiters", "_done_callbacks"):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        mine = self.__dict__
        try:
            with _door:
                if "_condition" not in mine:
                    # Room for the next publish comes before what callbacks of the user do.
                    ended = [] if self._state == FINISHED else [self.backlog.ended]
                    mine |= {"_waiters": [], "_done_callbacks": ended, "_condition": threading.Condition()}
        except BaseException:
            let_go(_door)
            raise
        return mine[name]

    @property
    def is_bare(self) -> bool:
        """Whether nobody has asked for more than that it is there; `_door` is held."""
        return "_condition" not in self.__dict__

    def cancel(self) -> bool:
        """See `concurrent.futures.Future.cancel`; False once the call has taken effect."""
        if self.relay.done():
            return False
        self.relay.abandon()
        return super().cancel()


def expect(call: Call, backlog: ThreadBacklog, outbox: Any, wake: Callable[[], None] | None = None) -> SoonFuture:
    """The future of a call that is about to start; its outcome goes through the outbox."""
    future = SoonFuture(backlog)
    future.relay = Relay(future, outbox, wake)
    call.future = future.relay
    return future


def deliver(outbox: deque[Relay]) -> None:
    """Give the futures in an outbox their outcomes, unless they were cancelled.

    In a thread that no signal interrupts: what a future's callbacks do must not be cut short.
    """
    while outbox:
        arrived: dict[ThreadBacklog, list[Pending]] = {}
        others: list[Relay] = []
        with _door:
            while outbox:
                relay = outbox.popleft()
                future = relay.future
                if relay.error is None and future.is_bare:
                    future._result = relay.value
                    future._state = FINISHED
                    arrived.setdefault(future.backlog, []).append(future)
                else:
                    others.append(relay)
        for backlog, many in arrived.items():
            backlog.arrived(many)
        for relay in others:
            _complete(relay)


def _complete(relay: Relay) -> None:
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
        self._starting = Hold()
        self._wanted = threading.Event()
        self._stopping = False
        self._outbox: deque[Relay] = deque()

    def expect(self, call: Call, backlog: ThreadBacklog) -> SoonFuture:
        """The future of a call that is about to start."""
        return expect(call, backlog, self._outbox)

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
            try:
                with self._starting:
                    if self._thread is None or not self._thread.is_alive():
                        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                        self._thread.start()
            except BaseException:
                let_go(self._starting)
                raise
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
        deliver(self._outbox)
