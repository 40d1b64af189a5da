"""The same transport on `httpx`, for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Self

import httpx

from . import statements, wire
from .event import Event
from .lease import Lease, lease_of, new_token


class AsyncRqliteTransport:
    """One HTTP request after another for each task; `from_url` also makes the tables."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        base_url: str,
        timeout: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._clock = clock

    @classmethod
    async def from_url(
        cls, url: str, timeout: float = 10.0, connect_retries: int = 30, retry_delay: float = 1.0
    ) -> Self:
        """A transport with a client of its own, once the node is up and has a leader."""
        limits = httpx.Limits(max_connections=wire.POOL, max_keepalive_connections=wire.POOL)
        transport = cls(httpx.AsyncClient(limits=limits, trust_env=False), url, timeout)
        try:
            for _ in range(connect_retries - 1):
                try:
                    await transport._execute(statements.TABLES)
                    return transport
                except (httpx.HTTPError, RuntimeError):
                    await asyncio.sleep(retry_delay)
            await transport._execute(statements.TABLES)
            return transport
        except BaseException:
            await transport.close()
            raise

    async def publish(self, group_id: str, event: Event, priority: int = 0) -> None:
        """Put a message at the end of its group."""
        await self._execute(statements.publish(group_id, event.model_dump_json(), priority), wire.TRANSACTION)

    async def claim(self, worker_id: str, visibility: float, min_priority: int = 0) -> Lease | None:
        """Take a message for `visibility` seconds; None when there is none."""
        token, now = new_token(worker_id), self._clock()
        taken = await self._execute([statements.claim(token, now, visibility, min_priority)])
        if not taken[0].get("rows_affected"):
            return None
        lease = lease_of(await self._query(statements.claimed(token)), token)
        if lease is not None:
            await self._execute([statements.served(lease.group_id, now)])
        return lease

    async def ack(self, lease: Lease) -> None:
        """The message is done."""
        await self._execute(statements.ack(lease), wire.TRANSACTION)

    async def nack(self, lease: Lease, delay: float = 0) -> None:
        """The message is not done: give it back, at once or after `delay` seconds."""
        await self._execute([statements.nack(lease, delay, self._clock())])

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    async def _execute(self, batch: list[statements.Statement], path: str = wire.EXECUTE) -> list[dict[str, Any]]:
        return wire.results_of(await self._post(path, batch))

    async def _query(self, statement: statements.Statement) -> list[list[Any]]:
        return wire.rows_of(await self._post(wire.QUERY, [statement]))

    async def _post(self, path: str, batch: list[statements.Statement]) -> dict[str, Any]:
        reply = await self._client.post(self._base_url + path, json=batch, timeout=self._timeout)
        reply.raise_for_status()
        body: dict[str, Any] = reply.json()
        return body
