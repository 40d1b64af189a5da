"""SQLite for asyncio: the loop gathers calls, one worker thread for each transport runs them, the loop never waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar, overload

from .._core import Batch, Batcher, Publish
from ..engine.sqlite import SqliteEngine
from ..engine.sqlite_caller import SqliteCaller
from ..errors import Unavailable
from ..pipeline import wake
from ..pipeline.gather import Gather
from ..pipeline.waiting import Waiting, Wish
from ..pipeline.watch import Watch
from .awaitable import AwaitableTransport, Opening, T
from .hidden import place_text
from .operating import Operating, Question, Rows
from .options import Options, split
from .sqlite_sync import SQLITE_OPTIONS, make_engine, queue_key, sqlite_path

D = TypeVar("D")


class ThreadCarrier:
    """Takes batches to the engine's own thread."""

    def __init__(self, engine: SqliteEngine, thread: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._thread = thread
        self.ambiguous: bool = False
        self.trouble = ""

    async def send(self, batch: Batch) -> list[list[Any]] | None:
        """Run a batch as one transaction; it cannot be interrupted half-way."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._engine.run, batch)
        # A transaction that a thread has begun cannot be called back: until it ends, it may take effect.
        self.ambiguous = True
        rows = await asyncio.shield(running)
        self.ambiguous = False
        return rows

    def abandon(self) -> None:
        """A transaction ends by itself, within `busy_timeout`."""


class AsyncSqliteTransport(AwaitableTransport[T], Generic[T]):
    """`SqliteTransport` for asyncio.

    Opens when entered or at its first call.

    Args:
        path: of the file, or a `sqlite://` URL; ":memory:" is a queue of its own in memory.
        **options: see `connect`; here also `synchronous` ("FULL") and `busy_timeout` (10 seconds).
    """

    @overload
    def __init__(self, path: str | os.PathLike[str], *, decode: Callable[[str], T], **options: Any) -> None: ...
    @overload
    def __init__(self: AsyncSqliteTransport[Any], path: str | os.PathLike[str], **options: Any) -> None: ...
    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        shared, own = split(options, SQLITE_OPTIONS, "AsyncSqliteTransport")
        name = sqlite_path(path)
        key = queue_key(name, shared.queue)
        engine = make_engine(name, shared, own)
        self._build(shared, engine, ThreadPoolExecutor(1, thread_name_prefix="rqfast-sqlite"), key)
        self._owns_engine = True

    def _build(self, shared: Options, engine: SqliteEngine, thread: ThreadPoolExecutor, key: Hashable) -> None:
        super().__init__(shared)
        self._engine, self._thread, self._key = engine, thread, key
        self._caller = SqliteCaller(engine)
        watch = Watch(shared.max_poll)
        gather = Gather(
            Batcher(1, shared.max_batch, 8 << 20),
            watch,
            key,
            open=self._open,
            resolve=self._engine.resolve,
            unavailable=self._unavailable,
            timeout=float("inf"),
        )
        self._operating = Operating(self._engine.statements, self._engine.clock.now, shared.decoder)
        self._use(gather, Waiting(gather, watch, self._look, self._engine.clock.now, key))

    @overload
    @classmethod
    def from_url(cls, url: str, *, decode: Callable[[str], D], **options: Any) -> Opening[AsyncSqliteTransport[D]]: ...
    @overload
    @classmethod
    def from_url(cls, url: str, **options: Any) -> Opening[AsyncSqliteTransport[Any]]: ...
    @classmethod
    def from_url(cls, url: str, **options: Any) -> Opening[AsyncSqliteTransport[Any]]:
        """The same, from a `sqlite://` URL; awaited or entered."""
        return Opening(lambda: cls(url, **options))

    def _twin(self) -> AsyncSqliteTransport[T]:
        """It shares the database connection, and the thread that uses it."""
        twin: AsyncSqliteTransport[T] = AsyncSqliteTransport.__new__(AsyncSqliteTransport)
        twin._build(self._options, self._engine, self._thread, self._key)
        twin._owns_engine = False
        return twin

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._engine.path} queue={self._engine.queue!r}>"

    def __str__(self) -> str:
        return place_text(self._options.queue, self._engine.path)

    async def _open(self) -> Sequence[ThreadCarrier]:
        if self._owns_engine:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.open)
        return (ThreadCarrier(self._engine, self._thread),)

    async def _look(self, wishes: list[Wish]) -> list[tuple[bool, float | None]]:
        await self._gather.opened()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, lambda: [self._engine.look(priority, only) for priority, only in wishes]
        )

    async def _glance(self, names: list[str], statements: list[list[Any]]) -> list[Rows]:
        return await self._ask(Question(names, statements, list))

    async def _ask(self, question: Question[Any]) -> list[Rows]:
        await self._gather.opened()
        # Beside the writer, in a thread of the loop's own, where the database has more than one connection.
        thread = None if self._engine.reads_apart else self._thread
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(thread, self._engine.ask, question.names, question.statements)

    async def _publish_on(self, connection: Any, call: Publish) -> int:
        # In the caller's own thread, which is this one: the connection is no other's.
        await self._gather.opened()
        seq = self._caller.publish(call, connection)
        wake.stir(self._key)
        return seq

    def _unavailable(self, text: str) -> Unavailable:
        return Unavailable(f"{self._engine.path}: {text}; nothing was applied, call again")

    async def _close_engine(self) -> None:
        if not self._owns_engine:
            return
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.close)
        self._thread.shutdown(wait=False)
