"""What a good engineer would write by hand: the same statements, one call a request, over aiohttp and orjson.

So many tasks, each with a line of requests of its own, send and wait; that is all.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import aiohttp

from rqfast.engine.rqlite import EXECUTE

from .measure import Cost, measured
from .program import Lane, ack_of, claim_of, publish_of, texts_of
from .servers import Server
from .workload import Work, check_published, check_worked

# In flight, of which the better is taken.
CALLERS = (64, 128)
# And for the chart only.
FEW_CALLERS = (1, 8)
PAUSE = 0.002
HEADERS = {"Content-Type": "application/json"}


class Bare:
    """One caller: a line of requests on a connection that is kept."""

    def __init__(self, session: aiohttp.ClientSession, url: str, lane: Lane, worker: str) -> None:
        self._session, self._url, self._lane, self._worker = session, url + EXECUTE, lane, worker

    async def publish(self, group: str, event: Any) -> int:
        """Returns the seq."""
        return int(await self._call(publish_of(group, event)))

    async def claim(self) -> Any:
        """A lease, or None."""
        return await self._call(claim_of(self._worker))

    async def ack(self, lease: Any) -> None:
        """The message is done."""
        await self._call(ack_of(lease))

    async def _call(self, call: Any) -> Any:
        request = self._lane.request([call])
        async with self._session.post(self._url, data=request.body) as reply:
            return request.results(await reply.read())[0]


@asynccontextmanager
async def callers_on(server: Server, queue: str, count: int) -> AsyncIterator[list[Bare]]:
    """So many callers of one session."""
    texts = texts_of(queue)
    lanes = [Lane(texts) for _ in range(count)]
    url = server.leader_url
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=HEADERS) as session:
        async with session.post(url + EXECUTE, data=Lane.opening(queue, lanes)) as reply:
            assert reply.status == 200 and b'"error"' not in await reply.read()
        yield [Bare(session, url, lane, f"w{k}") for k, lane in enumerate(lanes)]


Task: TypeAlias = Callable[[Bare], Coroutine[Any, Any, None]]


async def _run(server: Server, queue: str, callers: int, messages: int, task: Task) -> Cost:
    async with callers_on(server, queue, callers) as all_of_them:
        with measured(server, messages, f"{callers} in flight") as cost:
            await asyncio.gather(*map(task, all_of_them))
    return cost


def publish(server: Server, queue: str, work: Work, callers: int) -> Cost:
    """Publish all messages; their order is that in which the server happens to take them."""
    numbers = itertools.count()

    async def task(bare: Bare) -> None:
        for n in numbers:
            if n >= work.messages:
                return
            await bare.publish(work.group(n), work.event(n))

    cost = asyncio.run(_run(server, queue, callers, work.messages, task))
    check_published(server, queue, work, in_order=False)
    return cost


def claim_and_ack(server: Server, queue: str, work: Work, callers: int) -> Cost:
    """Work off a queue that was filled."""
    done: list[tuple[str, int]] = []
    tickets = itertools.count()

    async def task(bare: Bare) -> None:
        while next(tickets) < work.messages:
            # Near the end the last messages may stand behind others that are in work.
            lease = await bare.claim()
            while lease is None:
                await asyncio.sleep(PAUSE)
                lease = await bare.claim()
            done.append((lease.group_id, lease.event["number"]))
            await bare.ack(lease)

    cost = asyncio.run(_run(server, queue, callers, work.messages, task))
    check_worked(server, queue, work, done)
    return cost
