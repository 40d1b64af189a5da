"""The pure-Python transport on httpx as its users run it (bench/reference), with a pool of 256 connections.

It works on as few messages as it can bear, each in a group of its own: its claims read the whole table, so more would
be to its disadvantage.  It writes 1 Raft entry a publish and 4 a message that is claimed and acknowledged; a run in
which it does not is none.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import orjson

from .measure import Cost, measured
from .reference import AsyncRqliteTransport, Event
from .servers import Server
from .workload import TEXT, VISIBILITY

CALLERS = (1, 8, 64, 256)
PIECE = 5000

Task: TypeAlias = Callable[[AsyncRqliteTransport, int], Coroutine[Any, Any, None]]


def _run(server: Server, callers: int, messages: int, task: Task) -> Cost:
    async def run() -> Cost:
        transport = await AsyncRqliteTransport.from_url(server.leader_url)
        try:
            with measured(server, messages, f"{callers} caller{'s' * (callers > 1)}") as cost:
                await asyncio.gather(*(task(transport, k) for k in range(callers)))
        finally:
            await transport.close()
        return cost

    return asyncio.run(run())


def _check_entries(cost: Cost, each: int) -> None:
    """Raft's own entries, of an election or a change of members, are few."""
    found = cost.entries / cost.messages
    assert round(found, 1) == each, f"httpx wrote {found:.2f} Raft entries a message, not {each}: no honest baseline"


def publish(server: Server, messages: int, callers: int) -> Cost:
    """Publish into the default queue."""
    server.drop(None)
    numbers = iter(range(messages))

    async def task(transport: AsyncRqliteTransport, _: int) -> None:
        for n in numbers:
            await transport.publish(f"g{n % 100}", Event(n, TEXT))

    cost = _run(server, callers, messages, task)
    _check_entries(cost, 1)
    assert server.query("SELECT count(DISTINCT event->>'number') FROM messages") == [(messages,)]
    server.drop(None)
    return cost


def fill(server: Server, messages: int, groups: int) -> None:
    """By SQL: it would take minutes."""
    server.drop(None)

    async def make() -> None:
        await (await AsyncRqliteTransport.from_url(server.leader_url)).close()

    asyncio.run(make())
    for first in range(0, messages, PIECE):
        piece = range(first, min(first + PIECE, messages))
        rows = orjson.dumps([[f"g{n % groups}", Event(n, TEXT).model_dump_json()] for n in piece]).decode()
        server.execute(
            "INSERT INTO messages(group_id,event) SELECT value->>0, value->>1 FROM json_each(?) ORDER BY key", rows
        )
    server.execute('INSERT OR IGNORE INTO "groups"(group_id) SELECT DISTINCT group_id FROM messages')


def claim_and_ack(server: Server, messages: int, callers: int) -> Cost:
    """Work off all messages."""
    fill(server, messages, messages)
    tickets, done = itertools.count(), []

    async def task(transport: AsyncRqliteTransport, k: int) -> None:
        while next(tickets) < messages:
            lease = await transport.claim(f"w{k}", VISIBILITY)
            assert lease is not None, "httpx found nothing where there is work"
            done.append(lease.event.number)
            await transport.ack(lease)

    cost = _run(server, callers, messages, task)
    _check_entries(cost, 4)
    assert sorted(done) == list(range(messages)), "httpx lost or doubled a message"
    server.drop(None)
    return cost
