"""The raw ceiling: how fast this server can do the work at all, for a client that does nothing else.

The same tables and the same result as rqfast's, its statements (program.py says which), as many rows a request and as
many requests in flight as are best here.  To publish, all bodies are encoded beforehand.  To claim and acknowledge,
each request acknowledges what the line's last one claimed and claims as many again; these bodies cannot be known
beforehand, so they are made while another line's request is at the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from rqfast.engine.rqlite import EXECUTE

from .measure import Cost, measured
from .program import Lane, ack_of, claim_of, publish_of, texts_of
from .servers import Server
from .socket_client import Connection, request_of
from .workload import Work, check_published, check_worked


class Shape(NamedTuple):
    """Rows a request, and requests in flight."""

    rows: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.rows} rows a request, {self.in_flight} in flight"


# Of which the best is taken.
PUBLISH_SHAPES = (Shape(500, 3), Shape(1000, 2), Shape(1000, 3), Shape(2000, 2), Shape(2000, 3), Shape(5000, 2))
WORK_SHAPES = (Shape(250, 2), Shape(500, 2), Shape(1000, 1), Shape(1000, 2), Shape(2000, 2))


class Line:
    """A connection and the lane whose requests go over it."""

    def __init__(self, url: str, lane: Lane, connection: Connection) -> None:
        self.lane = lane
        self._url, self._connection = url, connection

    def encode(self, body: bytes) -> bytes:
        """The bytes to send."""
        return request_of(self._url, EXECUTE, body)

    async def send(self, request: bytes) -> bytes:
        """Send them; the reply."""
        return await self._connection.post(request)


@asynccontextmanager
async def lines_to(server: Server, queue: str, count: int) -> AsyncIterator[list[Line]]:
    """So many lines."""
    url, texts = server.leader_url, texts_of(queue)
    lanes = [Lane(texts) for _ in range(count)]
    connections = [await Connection.open(url) for _ in lanes]
    try:
        reply = await connections[0].post(request_of(url, EXECUTE, Lane.opening(queue, lanes)))
        assert b'"error"' not in reply
        yield [Line(url, lane, connection) for lane, connection in zip(lanes, connections, strict=True)]
    finally:
        for connection in connections:
            connection.close()


def publish(server: Server, queue: str, work: Work, shape: Shape) -> Cost:
    """Publish all messages.  A group keeps to one line, so that its order holds."""

    def encoded(line: Line, place: int) -> list[bytes]:
        numbers = [n for n in range(work.messages) if n % work.groups % shape.in_flight == place]
        bodies = []
        for first in range(0, len(numbers), shape.rows):
            calls = [publish_of(work.group(n), work.event(n)) for n in numbers[first : first + shape.rows]]
            bodies.append(line.encode(line.lane.request(calls).body))
        return bodies

    async def send(line: Line, requests: list[bytes]) -> None:
        for request in requests:
            reply = await line.send(request)
            if b'"error"' in reply:
                raise RuntimeError(reply[:500])

    async def run() -> Cost:
        async with lines_to(server, queue, shape.in_flight) as lines:
            requests = [encoded(line, place) for place, line in enumerate(lines)]
            with measured(server, work.messages, str(shape)) as cost:
                await asyncio.gather(*map(send, lines, requests))
        return cost

    cost = asyncio.run(run())
    check_published(server, queue, work)
    return cost


def claim_and_ack(server: Server, queue: str, work: Work, shape: Shape) -> Cost:
    """Work off a queue that was filled."""
    done: list[Any] = []

    async def send(line: Line) -> None:
        claim = claim_of("raw", shape.rows)
        leases: list[Any] = []
        while True:
            request = line.lane.request([*map(ack_of, leases), claim])
            leases = request.results(await line.send(line.encode(request.body)))[-1]
            if not leases:
                return
            done.extend(leases)
            claim = claim_of("raw", shape.rows)

    async def run() -> Cost:
        async with lines_to(server, queue, shape.in_flight) as lines:
            with measured(server, work.messages, str(shape)) as cost:
                await asyncio.gather(*map(send, lines))
        return cost

    cost = asyncio.run(run())
    check_worked(server, queue, work, ((lease.group_id, lease.event["number"]) for lease in done))
    return cost
