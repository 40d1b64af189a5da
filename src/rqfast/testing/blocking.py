"""A worker under test for tests that are plain functions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import ConfigError
from ..model import Header
from ..observe.hooks import Event
from ..transport.over_loop import LoopThread
from ..worker.counts import Counts
from .clock import Clock
from .record import Handled

if TYPE_CHECKING:
    from .worker import TestWorker

T = TypeVar("T")


class BlockingTest:
    """What `with TestWorker(worker) as test` gives: the methods of `TestWorker`, which wait.

    The handlers run on a loop in a thread of its own.

    Attributes:
        transport: a transport of the test's queue, whose methods wait: `test.transport.stats()`.
        database: runs statements on the test's database: `test.database.query("SELECT ..")`.
    """

    def __init__(self, test: TestWorker) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError("this blocks a running loop; in an async test: async with TestWorker(worker) as test")
        self._test = test
        self._thread = LoopThread()
        try:
            self._thread.run(test.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        self.transport: Any = _Waits(self, test.transport)
        self.database: Any = _Waits(self, test.database)

    def close(self) -> None:
        """End the worker; once is enough."""
        if not self._thread.is_alive():
            return
        try:
            self._thread.run(self._test.__aexit__(None, None, None))
        finally:
            self._thread.stop()

    @property
    def clock(self) -> Clock:
        """See `TestWorker`."""
        return self._test.clock

    @property
    def handled(self) -> list[Handled]:
        """See `TestWorker`."""
        return self._test.handled

    @property
    def settled(self) -> list[Event]:
        """See `TestWorker`."""
        return self._test.settled

    @property
    def counts(self) -> Counts:
        """See `TestWorker`."""
        return self._test.counts

    def publish(
        self, to: Any, event: Any, *, headers: Mapping[str, Header] | None = None, **options: Any
    ) -> int | None:
        """See `TestWorker.publish`."""
        return self.run(self._test.publish(to, event, headers=headers, **options))

    def advance(self, seconds: float | timedelta) -> None:
        """See `TestWorker.advance`."""
        self.run(self._test.advance(seconds))

    def idle(self) -> None:
        """See `TestWorker.idle`."""
        self.run(self._test.idle())

    def run(self, work: Awaitable[T]) -> T:
        """Run a coroutine on the handlers' loop, and wait: `test.run(worker.pause("sync"))`."""

        async def awaited() -> T:
            return await work

        result: T = self._thread.run(awaited())
        return result

    def assert_handled(
        self,
        subscription: str | None = None,
        *payloads: Any,
        attempts: Sequence[int] | None = None,
        outcomes: Sequence[Any] | None = None,
        count: int | None = None,
    ) -> None:
        """See `TestWorker.assert_handled`."""
        self._test.assert_handled(subscription, *payloads, attempts=attempts, outcomes=outcomes, count=count)


class _Waits:
    """Methods that give awaitables, as methods that wait."""

    def __init__(self, test: BlockingTest, target: Any) -> None:
        self._test, self._target = test, target

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            async def made() -> Any:
                # Made on the loop: a transport's calls begin when they are made.
                return await method(*args, **kwargs)

            return self._test.run(made())

        return call
