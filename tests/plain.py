"""The plain transport (bench/reference) as tests hold it: blocking, whatever its colour."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, cast

import httpx

from bench.reference import AsyncRqliteTransport, Event, Lease, RqliteTransport
from tests.contract.views import BlockingView, run_async

COLOURS = ("sync", "async")


class Plain(Protocol):
    """What it can do."""

    def publish(self, group_id: str, event: Event, priority: int = 0) -> None: ...
    def claim(self, worker_id: str, visibility: float, min_priority: int = 0) -> Lease | None: ...
    def ack(self, lease: Lease) -> None: ...
    def nack(self, lease: Lease, delay: float = 0) -> None: ...
    def close(self) -> None: ...


def first_node(url: str) -> str:
    """It knows one node: the first that a URL names."""
    return url.partition(",")[0]


def open_plain(url: str, colour: str, clock: Callable[[], float] = time.time) -> Plain:
    """Open it; the caller closes it."""
    node = first_node(url)
    if colour == "sync":
        return RqliteTransport(node, clock=clock)

    async def connect() -> AsyncRqliteTransport:
        await (await AsyncRqliteTransport.from_url(node)).close()
        return AsyncRqliteTransport(httpx.AsyncClient(trust_env=False), node, 10.0, clock)

    return cast(Plain, BlockingView(run_async(connect(), "from_url")))
