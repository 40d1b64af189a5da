"""Reads the bodies of requests: so large, in so long a time, and so many large ones at once."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import web

MAX_BODY = 64 << 20
BODY_SECONDS = 60.0
# More than this of a body is read of so many requests at once; others wait with what they have sent.
LARGE, LARGE_AT_ONCE = 1 << 20, 4


class Intake:
    """Of one server."""

    def __init__(self) -> None:
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    def room(self) -> Room:
        """For one request, entered while it is worked on."""
        return Room(self._large)


class Room:
    """Where the body of one request is, from its first byte until it is answered."""

    def __init__(self, large: asyncio.Semaphore) -> None:
        self._large = large
        self._is_large = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_large:
            self._large.release()

    async def read(self, request: web.Request) -> bytes:
        """The whole body.

        Raises:
            web.HTTPRequestEntityTooLarge: it is too large.
            web.HTTPRequestTimeout: it does not come.
        """
        told = request.content_length or 0
        if told > MAX_BODY:  # before any of it is read
            raise web.HTTPRequestEntityTooLarge(MAX_BODY, told)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while piece := await request.content.readany():
                    body += piece
                    if len(body) > MAX_BODY:
                        raise web.HTTPRequestEntityTooLarge(MAX_BODY, len(body))
                    if len(body) > LARGE and not self._is_large:
                        await self._large.acquire()
                        self._is_large = True
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        return bytes(body)
