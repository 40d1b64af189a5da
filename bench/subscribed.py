"""rqfast's subscriptions, each side of their measurements one function."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from rqfast import Ack, Column, Context, Inbox, Worker, connect_async
from rqfast.worker.inbox_feed import InboxFeed

from .measure import Cost, measured
from .servers import Server
from .workload import VISIBILITY, Work, check_worked

PIECE = 5000
PAUSE = 0.001

COLUMNS = (
    "id INTEGER PRIMARY KEY, target TEXT NOT NULL, attempt INT NOT NULL DEFAULT 0, locked_until REAL, token TEXT, "
    "payload TEXT NOT NULL"
)


def work_off(server: Server, queue: str, work: Work, concurrency: int) -> Cost:
    """A worker whose handler does nothing but note what it got, on a queue that was filled."""
    done: list[tuple[str, Any]] = []

    async def run() -> Cost:
        worker = Worker(server.url, queue=queue, concurrency=concurrency, visibility=VISIBILITY)
        ended = asyncio.Event()

        @worker.subscriber()
        async def handle(event: dict[str, Any], ctx: Context) -> None:
            done.append((ctx.group, event["number"]))
            if len(done) == work.messages:
                ended.set()

        serving = asyncio.ensure_future(worker.serve())
        await worker.started()
        with measured(server, work.messages, f"{concurrency:,} in flight") as cost:
            await ended.wait()
            while worker.counts.acked < work.messages:  # noqa: ASYNC110 - a hook would be part of what is measured
                await asyncio.sleep(PAUSE)
        worker.stop()
        await serving
        return cost

    cost = asyncio.run(run())
    check_worked(server, queue, work, done)
    return cost


def make_table(server: Server, table: str, work: Work) -> None:
    """A user's own table, filled by SQL, with the indexes that rqfast asks for."""
    server.execute(f'CREATE TABLE "{table}"({COLUMNS})')
    server.execute(f'CREATE INDEX "{table}_claim" ON "{table}"(target, id)')
    server.execute(f'CREATE INDEX "{table}_lease" ON "{table}"(target, locked_until) WHERE locked_until IS NOT NULL')
    for first in range(0, work.messages, PIECE):
        piece = range(first, min(first + PIECE, work.messages))
        rows = orjson.dumps([[work.group(n), orjson.dumps(work.event(n)).decode()] for n in piece]).decode()
        server.execute(
            f'INSERT INTO "{table}"(target,payload) SELECT value->>0, value->>1 FROM json_each(?) ORDER BY key', rows
        )


@asynccontextmanager
async def feed_on(server: Server, queue: str, table: str) -> AsyncIterator[InboxFeed]:
    """What claims rows of such a table."""
    inbox = Inbox.describe(
        table,
        id=Column("id", generated=True),
        fifo_group="target",
        attempt=Column("attempt", generated=True),
        locked_until="locked_until",
        token="token",
        payload="payload",
    )
    async with connect_async(server.url, queue=queue) as transport:
        feed = InboxFeed(inbox, transport, worker_id="bench", visibility=VISIBILITY)
        await feed.check()
        yield feed


async def rows_in_turn(feeds: list[InboxFeed], count: int) -> list[list[float]]:
    """How long each claim of one row took of each feed, in seconds; settled outside of the time."""
    times: list[list[float]] = [[] for _ in feeds]
    for n in range(count):
        turn = list(zip(feeds, times, strict=True))
        for feed, taken in turn if n % 2 else turn[::-1]:
            start = time.perf_counter()
            (row,) = await feed.claim_next(1)
            taken.append(time.perf_counter() - start)
            await feed.settle(row, Ack())
    return times
