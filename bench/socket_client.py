"""HTTP for one purpose: ready-made requests on a kept connection, as fast as asyncio's sockets go."""

from __future__ import annotations

import asyncio
from typing import Self
from urllib.parse import urlsplit

END = b"\r\n\r\n"


def request_of(url: str, path: str, body: bytes) -> bytes:
    """The bytes of a POST."""
    head = f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """One connection; one request on it at a time."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[bytes] | None = None
        self._data = bytearray()

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(cls, str(parts.hostname), int(parts.port or 80))
        connection._transport = transport
        return connection

    async def post(self, request: bytes) -> bytes:
        """Send the bytes of a request; the body of the reply.

        Raises:
            RuntimeError: it is not an HTTP 200.
        """
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiter

    def close(self) -> None:
        """Hang up."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Of asyncio: the reply, or a part of it."""
        self._data += data
        body = _body_of(self._data)
        if body is None or self._waiter is None:
            return
        ok, told = self._data.startswith(b"HTTP/1.1 200"), bytes(self._data[:200])
        self._data.clear()
        if ok:
            self._waiter.set_result(body)
        else:
            self._waiter.set_exception(RuntimeError(told))

    def connection_lost(self, error: Exception | None) -> None:
        """Of asyncio."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error or ConnectionError("the server hung up"))

    _transport: asyncio.Transport


def _body_of(data: bytearray) -> bytes | None:
    """The whole body, or None when more must come."""
    end = data.find(END)
    if end < 0:
        return None
    head, start = data[:end].lower(), end + len(END)
    length = head.find(b"content-length:")
    if length >= 0:
        size = int(head[length + 15 :].split(b"\r\n", 1)[0])
        return bytes(data[start : start + size]) if len(data) >= start + size else None
    if not data.endswith(b"0" + END):
        return None
    pieces: list[bytes] = []
    while True:
        line = data.index(b"\r\n", start)
        size = int(data[start:line], 16)
        if size == 0:
            return b"".join(pieces)
        pieces.append(bytes(data[line + 2 : line + 2 + size]))
        start = line + 2 + size + 2
