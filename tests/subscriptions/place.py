"""What tests of subscriptions share: a queue of their own on each engine, and workers that serve it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from rqfast import Worker, connect_async
from rqfast.sql.names import quote, table_names
from tests.contract.views import Database, Row, queue_name

SECONDS = 30.0


class Place:
    """A queue (and a database for tables) that no other test uses."""

    def __init__(self, engine: str, database: Database) -> None:
        self.engine, self.database, self.url, self.queue = engine, database, database.url, queue_name()

    def worker(self, **options: Any) -> Worker:
        """A worker of this queue."""
        return Worker(self.url, **{"queue": self.queue, "grace": 5, "max_poll": 0.1, **options})

    def connect(self, **options: Any) -> Any:
        """An async transport of this queue."""
        return connect_async(self.url, queue=self.queue, **options)

    def sql(self, statement: str, *params: object) -> list[Row]:
        """Rows of a raw read."""
        return self.database.sql(statement, params)

    def execute(self, statement: str, *params: object) -> None:
        """A raw write."""
        self.database.execute(statement, params)

    def table(self, name: str) -> str:
        """The real name, quoted, of the queue's table `messages`, `groups` and so on."""
        return quote(table_names(self.queue)[name])

    def held(self) -> list[Row]:
        """The messages on which a lease or a parking stands, seen past rqfast: (group, locked_by)."""
        return self.sql(f"SELECT group_id, locked_by FROM {self.table('messages')} WHERE locked_by IS NOT NULL")

    def close(self) -> None:
        """Drop what is there."""
        self.database.drop(self.queue)
        self.database.close()


@asynccontextmanager
async def serving(*workers: Worker) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Serve with all of them; stopped at the end, when what one raised is raised."""
    tasks = [asyncio.ensure_future(worker.serve()) for worker in workers]
    try:
        for worker, task in zip(workers, tasks, strict=True):
            started = asyncio.ensure_future(worker.started())
            await asyncio.wait((started, task), timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not started.done():
                started.cancel()
                if task.done():
                    task.result()
                raise AssertionError(f"waited {SECONDS:g} s for {worker} to start")
        yield tasks
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.wait(tasks, timeout=SECONDS)
        assert all(task.done() for task in tasks), f"waited {SECONDS:g} s for workers to stop"
    for task in tasks:
        task.result()


async def until(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    """Wait until it holds; the failure names what was waited for."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert asyncio.get_running_loop().time() < end, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(0.005)


def run(scenario: Awaitable[Any], seconds: float = 90.0) -> Any:
    """Run a test's coroutine, bounded."""

    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await scenario

    return asyncio.run(bounded())
