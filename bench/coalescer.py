"""A coalescer written well in plain Python with orjson: what the core is to be measured against.

Calls that are made while a request is at the server go together in the next one; one nested list, one `dumps`.  It
publishes and does nothing else: no checks, no retries, no time-outs.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Self

import aiohttp
import orjson

from rqfast._core import Texts
from rqfast.engine.rqlite import EXECUTE

from .bare import HEADERS
from .program import Lane, publish_of, texts_of
from .servers import Server

MAX_ROWS = 2000


class Coalescer:
    """One lane; a context manager."""

    def __init__(self, server: Server, queue: str) -> None:
        self._url, self._queue = server.leader_url, queue
        self._waiting: list[tuple[asyncio.Future[int], str, str]] = []
        self._sending: asyncio.Task[None] | None = None
        self._program = Template(texts_of(queue))

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(headers=HEADERS)
        opening = Lane.opening(self._queue, [self._program.lane])
        async with self._session.post(self._url + EXECUTE, data=opening) as reply:
            assert b'"error"' not in await reply.read()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def publish(self, group: str, event: Any) -> asyncio.Future[int]:
        """Its seq."""
        future: asyncio.Future[int] = self._loop.create_future()
        self._waiting.append((future, group, orjson.dumps(event).decode()))
        if self._sending is None:
            self._sending = self._loop.create_task(self._send())
        return future

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_ROWS], self._waiting[MAX_ROWS:]
            body = self._program.body([(group, text) for _, group, text in batch])
            async with self._session.post(self._url + EXECUTE, data=body) as reply:
                base = self._program.base(await reply.read())
            for seq, (future, _, _) in enumerate(batch, base + 1):
                if not future.done():
                    future.set_result(seq)
        self._sending = None


class Template:
    """The statements of a publish as the core makes them, with other rows put in."""

    def __init__(self, texts: Texts) -> None:
        self.lane = Lane(texts)
        self._program: list[list[Any]] = orjson.loads(self.lane.request([publish_of("G", "E")]).body)
        self._number = 0
        self._rows = self._places('[["G","\\"E\\""]]')
        self._groups = self._places('[["G",0]]')
        assert self._rows, "the core's rows have another form now: put it here as well"

    def _places(self, value: str) -> list[tuple[int, int]]:
        return [
            (at, place)
            for at, statement in enumerate(self._program)
            for place, parameter in enumerate(statement)
            if parameter == value
        ]

    def body(self, rows: list[tuple[str, str]]) -> bytes:
        """The next request."""
        self._number += 1
        self._program[0][2:] = [self._number, time.time()]
        self._program[1][1] = time.time()
        text = orjson.dumps(rows).decode()
        for at, place in self._rows:
            self._program[at][place] = text
        groups = orjson.dumps([(group, 0) for group in dict.fromkeys(group for group, _ in rows)]).decode()
        for at, place in self._groups:
            self._program[at][place] = groups
        return orjson.dumps(self._program)

    @staticmethod
    def base(reply: bytes) -> int:
        """The seq before the first."""
        results = orjson.loads(reply)["results"]
        return int(orjson.loads(results[-1]["values"][0][0])[1])
