"""Transports whose publishes hooks are told of: what `connect(hooks=[..])` opens; the others know nothing of hooks."""

from __future__ import annotations

from array import array
from asyncio import Future
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any, Generic, Self

from .._core import Lease
from ..address.inbox import Address, Inbox
from ..api import Item
from ..model import Header, Seconds
from ..observe.hooks import Heard, Hooks
from ..observe.sends import Sends
from .awaitable import AwaitableTransport, Opening
from .blocking import BlockingTransport, T
from .options import Options
from .over_loop import RqliteTransport
from .over_thread import AsyncSqliteTransport
from .rqlite_async import AsyncRqliteTransport
from .sqlite_sync import SqliteTransport


class Observed:
    """What both colours share."""

    _options: Options
    _sends = Sends(Heard(()), "")

    def observe(self, hooks: tuple[Hooks, ...]) -> Self:
        """Tell these hooks of what is published from now on."""
        self._sends = Sends(Heard(hooks), self._options.queue or "")
        return self


class ObservedBlocking(Observed, BlockingTransport[T], Generic[T]):
    """The publishing calls of a blocking transport, observed."""

    def publish(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
        with_statements: Iterable[Sequence[Any]] = (),
        connection: Any = None,
    ) -> int:
        """See `Transport.publish`."""
        with self._sends.one("publish", group_id, headers) as send:
            return send.done(
                super().publish(
                    group_id,
                    event,
                    priority,
                    delay=delay,
                    rank=rank,
                    headers=send.headers,
                    dedup_id=dedup_id,
                    with_statements=with_statements,
                    connection=connection,
                )
            )

    def publish_to(
        self,
        address: Inbox | Address,
        value: Any,
        *,
        priority: int | None = None,
        retry_after: Seconds | None = None,
        headers: Mapping[str, Header] | None = None,
    ) -> None:
        """See `Transport.publish_to`."""
        with self._sends.row(address, headers) as send:
            super().publish_to(address, value, priority=priority, retry_after=retry_after, headers=send.headers)
            send.done(None)

    def publish_soon(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
    ) -> futures.Future[int]:
        """See `Transport.publish_soon`."""
        with self._sends.one("publish_soon", group_id, headers) as send:
            return send.follow(
                super().publish_soon(
                    group_id, event, priority, delay=delay, rank=rank, headers=send.headers, dedup_id=dedup_id
                )
            )

    def publish_many(self, iterable: Iterable[Item], *, atomic: bool = False) -> array[int]:
        """See `Transport.publish_many`."""
        with self._sends.many(iterable) as send:
            return send.done(super().publish_many(send.messages, atomic=atomic))

    def ack(
        self,
        lease: Lease[Any],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> None:
        """See `Transport.ack`."""
        if not publish:
            super().ack(lease, publish=publish, with_statements=with_statements)
            return
        with self._sends.ack("ack", publish) as send:
            call = self._calls.ack(lease)
            call.on_lost = send.noting(self._on_lost)
            send.done(self._one(call, self._calls.bundle([call], send.messages, with_statements)))

    def ack_many(
        self,
        leases: Iterable[Lease[Any]],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> list[Lease[Any]]:
        """See `Transport.ack_many`."""
        with self._sends.ack("ack_many", publish) as send:
            return send.done(super().ack_many(leases, publish=send.messages, with_statements=with_statements))


class ObservedAwaitable(Observed, AwaitableTransport[T], Generic[T]):
    """The publishing calls of an async transport, observed."""

    def publish(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
        with_statements: Iterable[Sequence[Any]] = (),
        connection: Any = None,
    ) -> Future[int]:
        """See `Transport.publish`."""
        with self._sends.one("publish", group_id, headers) as send:
            return send.follow(
                super().publish(
                    group_id,
                    event,
                    priority,
                    delay=delay,
                    rank=rank,
                    headers=send.headers,
                    dedup_id=dedup_id,
                    with_statements=with_statements,
                    connection=connection,
                )
            )

    def publish_to(
        self,
        address: Inbox | Address,
        value: Any,
        *,
        priority: int | None = None,
        retry_after: Seconds | None = None,
        headers: Mapping[str, Header] | None = None,
    ) -> Future[None]:
        """See `Transport.publish_to`."""
        with self._sends.row(address, headers) as send:
            return send.follow(
                super().publish_to(address, value, priority=priority, retry_after=retry_after, headers=send.headers)
            )

    def publish_soon(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
    ) -> Future[Future[int]]:
        """See `AsyncTransport.publish_soon`."""
        with self._sends.one("publish_soon", group_id, headers) as send:
            return send.follow_room(
                super().publish_soon(
                    group_id, event, priority, delay=delay, rank=rank, headers=send.headers, dedup_id=dedup_id
                )
            )

    def publish_many(
        self, iterable: Iterable[Item] | AsyncIterable[Item], *, atomic: bool = False
    ) -> Future[array[int]]:
        """See `Transport.publish_many`."""
        with self._sends.many(iterable) as send:
            return send.follow(super().publish_many(send.messages, atomic=atomic))

    def ack(
        self,
        lease: Lease[Any],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> Future[None]:
        """See `Transport.ack`."""
        if not publish:
            return super().ack(lease, publish=publish, with_statements=with_statements)
        with self._sends.ack("ack", publish) as send:
            call = self._calls.ack(lease)
            call.on_lost = send.noting(self._on_lost)
            return send.follow(self._one(call, self._calls.bundle([call], send.messages, with_statements)))

    def ack_many(
        self,
        leases: Iterable[Lease[Any]],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> Future[list[Lease[Any]]]:
        """See `Transport.ack_many`."""
        with self._sends.ack("ack_many", publish) as send:
            return send.follow(super().ack_many(leases, publish=send.messages, with_statements=with_statements))


class ObservedRqlite(ObservedBlocking[T], RqliteTransport[T], Generic[T]):
    """`RqliteTransport` with hooks."""


class ObservedSqlite(ObservedBlocking[T], SqliteTransport[T], Generic[T]):
    """`SqliteTransport` with hooks."""


class AsyncObservedRqlite(ObservedAwaitable[T], AsyncRqliteTransport[T], Generic[T]):
    """`AsyncRqliteTransport` with hooks."""


class AsyncObservedSqlite(ObservedAwaitable[T], AsyncSqliteTransport[T], Generic[T]):
    """`AsyncSqliteTransport` with hooks."""


def observed(url: str, is_rqlite: bool, hooks: tuple[Hooks, ...], options: dict[str, Any]) -> BlockingTransport[Any]:
    """A blocking transport of which these hooks are told; raises as `connect`."""
    transport = (ObservedRqlite if is_rqlite else ObservedSqlite).from_url(url, **options)
    assert isinstance(transport, ObservedBlocking)
    return transport.observe(hooks)


def observed_async(
    url: str, is_rqlite: bool, hooks: tuple[Hooks, ...], options: dict[str, Any]
) -> Opening[AwaitableTransport[Any]]:
    """The same for asyncio."""
    opening = (AsyncObservedRqlite if is_rqlite else AsyncObservedSqlite).from_url(url, **options)

    def make() -> AwaitableTransport[Any]:
        transport = opening.make()
        assert isinstance(transport, ObservedAwaitable)
        return transport.observe(hooks)

    return Opening(make)
