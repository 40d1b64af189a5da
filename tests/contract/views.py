"""What contract tests hold in their hands: one blocking view of a queue, whatever the engine and the colour.

Nothing here depends on pytest, so that child processes import it as well.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import secrets
import string
import threading
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast

import rqfast
from rqfast.sql.names import quote, table_names

T = TypeVar("T")
Lease: TypeAlias = rqfast.Lease[Any]
View: TypeAlias = rqfast.Transport[Any]
Row: TypeAlias = tuple[Any, ...]

CALL_SECONDS = 60.0


class Clock:
    """A clock moved by hand; given as `q.open(clock=clock)`."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Address(NamedTuple):
    """Where a queue is and how it is opened: all that a child process needs. It pickles."""

    url: str
    options: dict[str, Any]
    colour: str


class Database(Protocol):
    """One engine's database, seen past rqfast: what `QueueUnderTest` asks of an engine."""

    url: str

    def sql(self, statement: str, params: tuple[object, ...]) -> list[Row]: ...
    def execute(self, statement: str, params: tuple[object, ...]) -> None: ...
    def entries(self) -> int: ...
    def drop(self, queue: str | None) -> None: ...
    def close(self) -> None: ...


class QueueUnderTest:
    """A queue of its own on one engine in one colour."""

    def __init__(self, engine: str, colour: str, database: Database, queue: str | None) -> None:
        self.engine, self.colour, self.database, self.queue = engine, colour, database, queue
        self.url = database.url
        self.options: dict[str, Any] = {} if queue is None else {"queue": queue}
        self._views: list[View] = []
        self._queues: list[str | None] = [queue]

    def open(self, **options: Any) -> View:
        """A new transport, as the blocking API of `rqfast.Transport`; closed when the test ends."""
        merged = {**self.options, **options}
        if merged.get("queue") not in self._queues:
            self._queues.append(merged["queue"])
        view = open_address(self.address, **options)
        self._views.append(view)
        return view

    @property
    def address(self) -> Address:
        """For child processes: `open_address(address)` opens the same queue there."""
        return Address(self.url, dict(self.options), self.colour)

    def table(self, name: str) -> str:
        """The real name, quoted, of the queue's table `messages`, `groups`, `state` and so on."""
        return quote(table_names(self.queue)[name])

    def sql(self, statement: str, *params: object) -> list[Row]:
        """Rows of a raw read that sees all that is committed; adds no entry."""
        return self.database.sql(statement, params)

    def execute(self, statement: str, *params: object) -> None:
        """A raw write of one statement in a transaction of its own."""
        self.database.execute(statement, params)

    def entries(self) -> int:
        """A count that rises by one with each commit that changes something: of Raft entries on rqlite (where
        a write that changes nothing counts as well), of transactions in the write-ahead log when embedded.
        The difference of two is the number of commits in between."""
        return self.database.entries()

    def close(self) -> None:
        """Close all views and drop all tables; what a view raises is raised last."""
        errors: list[BaseException] = []
        for view in self._views:
            try:
                view.close()
            except Exception as error:
                errors.append(error)
        for queue in self._queues:
            self.database.drop(queue)
        self.database.close()
        if errors:
            raise errors[0]


Queue = QueueUnderTest


def queue_name() -> str:
    """A name that no other test has."""
    letters = string.ascii_lowercase + string.digits
    return "t" + "".join(secrets.choice(letters) for _ in range(12))


def open_address(address: Address, **options: Any) -> View:
    """Open a queue under test, in this or in a child process; the caller closes it."""
    merged = {**address.options, **options}
    if address.colour == "sync":
        return rqfast.connect(address.url, **merged)

    async def connect() -> Any:
        return await rqfast.connect_async(address.url, **merged)

    # The blocking methods of a view are made by name: no type checker can see them.
    return cast(View, BlockingView(run_async(connect(), "connect_async")))


class BlockingView:
    """An async transport with the sync API: threads in tests serve both colours alike.

    Each call runs on this process's background loop; the calling thread waits, at most a minute.
    """

    def __init__(self, transport: Any) -> None:
        self.transport = transport

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.transport, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            async def on_loop() -> Any:
                result = found(*args, **kwargs)
                return await result if inspect.isawaitable(result) else result

            return run_async(on_loop(), name)

        return call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_async(step: Coroutine[Any, Any, T], what: str = "a coroutine", timeout: float = CALL_SECONDS) -> T:
    """Run a coroutine on the background loop and wait for it in this thread; the failure names `what`."""
    future = asyncio.run_coroutine_threadsafe(step, _background_loop())
    try:
        # Not `result(timeout)`: a TimeoutError that the call raises is not ours.
        concurrent.futures.wait([future], timeout)
    except BaseException:
        future.cancel()
        raise
    if not future.done():
        future.cancel()
        raise AssertionError(f"waited {timeout:g} s for {what} on the async transport")
    return future.result()


# By process id: a forked child needs a loop of its own.
_loops: dict[int, tuple[asyncio.AbstractEventLoop, threading.Thread]] = {}
_loops_lock = threading.Lock()


def _background_loop() -> asyncio.AbstractEventLoop:
    with _loops_lock:
        if os.getpid() not in _loops:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="async-views", daemon=True)
            _loops[os.getpid()] = loop, thread
            thread.start()
        return _loops[os.getpid()][0]


def stop_background_loop() -> None:
    """End this process's background loop, when no view is open any more."""
    with _loops_lock:
        loop, thread = _loops.pop(os.getpid(), (None, None))
    if loop is None or thread is None:
        return

    async def finish() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await loop.shutdown_asyncgens()

    asyncio.run_coroutine_threadsafe(finish(), loop).result(15)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(15)
    loop.close()
