"""The two sides of a comparison: the same loops on rqfast and on the plain transport, each on a server of its own.

Each run says afterwards what it did, so that a run that lost a message or broke an order is no measurement.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, ClassVar, NamedTuple, TypeAlias

import orjson

from bench.reference import AsyncRqliteTransport as AsyncPlain
from bench.reference import Event
from bench.reference import RqliteTransport as Plain
from rqfast import connect, connect_async
from tests.cluster import Cluster
from tests.contract.conftest import ClusterDatabase

from .measure import Cost, measured

Task: TypeAlias = Callable[[Any], Coroutine[Any, Any, None]]
Thread: TypeAlias = Callable[[Any], None]

TEXT = "x" * 40
VISIBILITY = 600.0
PIECE = 5000


class Callers(NamedTuple):
    """Who calls at the same time: tasks of one loop on the async class, or threads on the sync one."""

    number: int
    are_threads: bool = False

    def __str__(self) -> str:
        what = "thread" if self.are_threads else "task"
        return f"{self.number} {what}{'s' * (self.number > 1)}"


ONE = Callers(1)


class Side:
    """One transport on its server."""

    name: ClassVar[str]
    # Whether calls that one transport makes in order take effect in order.
    keeps_call_order: ClassVar[bool]

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.node = cluster.nodes[0]

    async def open(self) -> Any:
        """A new transport on the default queue, for asyncio."""
        raise NotImplementedError

    def open_sync(self) -> Any:
        """And for threads."""
        raise NotImplementedError

    def fill(self, messages: int, groups: int) -> None:
        """Put messages into an empty queue, in order in each group."""
        raise NotImplementedError

    def clear(self) -> None:
        """Drop all tables."""
        ClusterDatabase(self.cluster).drop(None)

    def time(self, callers: Callers, cost_of: int, task: Task, thread: Thread) -> Cost:
        """Let so many callers do the same on one transport, and measure that."""
        if callers.are_threads:
            return self._time_threads(callers.number, cost_of, thread)
        cost = Cost(cost_of)

        async def run() -> None:
            nonlocal cost
            transport = await self.open()
            try:
                with measured(self.node, cost_of) as cost:
                    await asyncio.gather(*(task(transport) for _ in range(callers.number)))
            finally:
                await transport.close()

        asyncio.run(run())
        return cost

    def _time_threads(self, count: int, cost_of: int, thread: Thread) -> Cost:
        with closing(self.open_sync()) as transport, ThreadPoolExecutor(count) as pool:
            with measured(self.node, cost_of) as cost:
                for done in [pool.submit(thread, transport) for _ in range(count)]:
                    done.result()
            return cost

    def publish(self, callers: Callers, messages: int, groups: int) -> Cost:
        """Publish, each caller one message at a time."""
        self.clear()
        numbers = iter(range(messages))

        async def task(transport: Any) -> None:
            for n in numbers:
                await transport.publish(f"g{n % groups}", Event(n, TEXT))

        def thread(transport: Any) -> None:
            for n in numbers:
                transport.publish(f"g{n % groups}", Event(n, TEXT))

        cost = self.time(callers, messages, task, thread)
        rows = self.cluster.query("SELECT group_id, event->>'number' FROM messages ORDER BY seq")
        assert sorted(number for _, number in rows) == list(range(messages)), f"{self.name} lost or doubled a message"
        if self.keeps_call_order and not callers.are_threads:
            for group in range(groups):
                numbers_in = [number for name, number in rows if name == f"g{group}"]
                assert numbers_in == sorted(numbers_in), f"{self.name}: g{group} is out of order"
        return cost

    def work(self, callers: Callers, messages: int, groups: int, *, together: bool = False) -> Cost:
        """Claim and acknowledge all; `together` acknowledges in the commit of the next claim."""
        self.fill(messages, groups)
        done: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

        async def task(transport: Any) -> None:
            lease = await transport.claim("w", VISIBILITY)
            while lease is not None:
                done[lease.group_id].append((lease.seq, lease.event.number))
                if together:
                    lease = await transport.claim("w", VISIBILITY, ack=lease)
                else:
                    await transport.ack(lease)
                    lease = await transport.claim("w", VISIBILITY)

        def thread(transport: Any) -> None:
            lease = transport.claim("w", VISIBILITY)
            while lease is not None:
                done[lease.group_id].append((lease.seq, lease.event.number))
                if together:
                    lease = transport.claim("w", VISIBILITY, ack=lease)
                else:
                    transport.ack(lease)
                    lease = transport.claim("w", VISIBILITY)

        cost = self.time(callers, messages, task, thread)
        assert self.cluster.query("SELECT count(*) FROM messages") == [(0,)], f"{self.name} left messages"
        for group in range(groups):
            worked = done[f"g{group}"]
            assert [number for _, number in worked] == list(range(group, messages, groups)), f"{self.name}: g{group}"
            assert [seq for seq, _ in worked] == sorted(seq for seq, _ in worked), f"{self.name}: order of g{group}"
        return cost

    def claim(self, claims: int, messages: int, groups: int) -> Cost:
        """Claim one after another where so many messages lie; nothing is acknowledged."""
        self.fill(messages, groups)
        found: list[tuple[str, int]] = []

        async def task(transport: Any) -> None:
            for _ in range(claims):
                lease = await transport.claim("w", VISIBILITY)
                found.append((lease.group_id, lease.event.number))

        cost = self.time(ONE, claims, task, _no_thread)
        assert len({group for group, _ in found}) == claims, f"{self.name}: one group twice"
        assert all(group == f"g{number}" for group, number in found), f"{self.name}: not the head"
        return cost


def _no_thread(transport: Any) -> None:
    raise NotImplementedError


class Ours(Side):
    """rqfast."""

    name = "rqfast"
    keeps_call_order = True

    async def open(self) -> Any:
        return await connect_async(self.cluster.url, decode=Event.model_validate_json)

    def open_sync(self) -> Any:
        return connect(self.cluster.url, decode=Event.model_validate_json)

    def fill(self, messages: int, groups: int) -> None:
        self.clear()
        with closing(self.open_sync()) as transport:
            transport.publish_many((f"g{n % groups}", Event(n, TEXT)) for n in range(messages))


class Theirs(Side):
    """The plain transport."""

    name = "the plain transport"
    keeps_call_order = False

    async def open(self) -> Any:
        return await AsyncPlain.from_url(self.cluster.url)

    def open_sync(self) -> Any:
        return Plain.from_url(self.cluster.url)

    def fill(self, messages: int, groups: int) -> None:
        """By SQL: it would take minutes. Opening adds the rows of the groups."""
        self.clear()
        self.open_sync().close()
        for first in range(0, messages, PIECE):
            piece = range(first, min(first + PIECE, messages))
            rows = [[f"g{n % groups}", Event(n, TEXT).model_dump_json()] for n in piece]
            self.cluster.execute(
                "INSERT INTO messages(group_id,event) SELECT value->>0, value->>1 FROM json_each(?) ORDER BY key",
                orjson.dumps(rows).decode(),
            )
