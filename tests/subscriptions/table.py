"""A table of the user's own, and feeds on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from rqfast import connect_async
from rqfast.address.inbox import Address, Inbox
from rqfast.address.roles import Column
from rqfast.worker.inbox_feed import InboxFeed
from rqfast.worker.inbox_row import Row
from tests.contract.views import Database, queue_name

T = TypeVar("T")

WAIT = 20.0

DDL = (
    "CREATE TABLE {table}(id INTEGER PRIMARY KEY, target TEXT, prio INT, retry_at REAL, attempt INT, "
    "locked_until REAL, token TEXT, payload BLOB, headers TEXT, done REAL)"
)
ROLES: dict[str, Any] = {
    "id": Column("id", generated=True),
    "fifo_group": "target",
    "priority": "prio",
    "retry_at": "retry_at",
    "attempt": "attempt",
    "locked_until": "locked_until",
    "token": "token",
    "payload": "payload",
    "headers": "headers",
}


class Table:
    """A table, and feeds on it."""

    def __init__(self, engine: str, database: Database) -> None:
        self.engine = engine
        self.database = database
        self.queue = queue_name()
        self.name = f"jobs_{self.queue}"
        self._tables = [self.name]

    def make(self, ddl: str = DDL, name: str | None = None, *indexes: str) -> None:
        """Make a table; {table} in the statements is its name."""
        table = name or self.name
        self._tables.append(table)
        for statement in (ddl, *indexes):
            self.database.execute(statement.replace("{table}", table), ())

    def box(self, **changes: Any) -> Inbox:
        """An Inbox of the table; a role of None is left out."""
        return Inbox.describe(self.name, **{name: one for name, one in (ROLES | changes).items() if one is not None})

    def add(self, *groups: str, **values: Any) -> None:
        """Insert a row for each group by plain SQL; the payload is its group and number."""
        for number, group in enumerate(groups, 1):
            row = {"target": group, "payload": f"{group}{number}"} | values
            places = ",".join("?" * len(row))
            self.database.execute(f"INSERT INTO {self.name}({','.join(row)}) VALUES({places})", tuple(row.values()))

    def rows(self, what: str = "*") -> list[tuple[Any, ...]]:
        """What stands in the table, by id."""
        return self.database.sql(f"SELECT {what} FROM {self.name} ORDER BY id", ())

    @asynccontextmanager
    async def feed(
        self, source: Inbox | Address | None = None, url: str | None = None, **options: Any
    ) -> AsyncIterator[InboxFeed]:
        """A feed over a transport of its own."""
        settings: dict[str, Any] = {"worker_id": "w", "visibility": 30.0, "max_poll": 0.1} | options
        async with connect_async(url or self.database.url, queue=self.queue) as transport:
            feed = InboxFeed(source or self.box(), transport, **settings)
            try:
                yield feed
            finally:
                feed.close()

    def close(self) -> None:
        self.database.drop(self.queue)
        if self.engine != "embedded":
            for table in self._tables:
                self.database.execute(f"DROP TABLE IF EXISTS {table}", ())
        self.database.close()


async def take(feed: InboxFeed, limit: int = 1) -> list[Row]:
    """What a claim gives; it comes."""
    return await soon(feed.claim(limit), f"a claim of {limit}")


async def nothing(feed: InboxFeed) -> None:
    """A claim that does not wait finds nothing."""
    found = await soon(feed.claim_next(10), "a claim that does not wait")
    assert found == []


async def soon(work: Awaitable[T], what: str) -> T:
    """The outcome of what must come."""
    try:
        async with asyncio.timeout(WAIT):
            return await work
    except TimeoutError:
        raise AssertionError(f"{what}: nothing in {WAIT} s") from None
