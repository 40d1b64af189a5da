"""The public methods of the async transports, once for both engines.

Each starts its call at once and returns a future.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from asyncio import Future
from collections.abc import AsyncIterable, Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from .._core import Bundle, Call, Claim, ClaimFuture, Intake, Lease, Publish, Settle, as_parts, first_of_each, give_back
from ..address.inbox import Address, Inbox
from ..api import Item
from ..errors import Closed, InvalidMessage, RqfastError, Unavailable
from ..model import Header, Seconds
from ..pipeline.backlog import TaskBacklog
from ..pipeline.gather import Gather
from ..pipeline.parts import failure_of, truthful
from ..pipeline.stream import Stream
from ..pipeline.waiting import Waiting
from ..sql.own import for_sqlite
from . import checks
from .calls import Calls, lease_list, lost_of, seqs_of
from .claim_future import after
from .desk import Desk
from .lost import log, warn_lost
from .operate_awaitable import AwaitableOperating
from .options import Options
from .posting import Poster, Posting, post

T = TypeVar("T")
Batches: TypeAlias = Stream[Future[list[Any]]]


class AwaitableTransport(AwaitableOperating[T], Generic[T]):
    """What `AsyncTransport` promises, in terms of a `Gather` and its `Waiting`, which a subclass makes."""

    _gather: Gather
    _waiting: Waiting
    _intake: Intake
    _key: Hashable
    _own_statement: Callable[[list[Any]], list[Any]] = staticmethod(for_sqlite)

    def __init__(self, options: Options) -> None:
        self._options = options
        self._calls = Calls(options, self._own_statement)
        self._on_lost = warn_lost if options.lost == "warn" else None
        self._closing: asyncio.Task[None] | None = None
        self._desk: Desk | None = None
        self._backlog = TaskBacklog(options.max_in_flight)

    def _use(self, gather: Gather, waiting: Waiting) -> None:
        """Run the calls through these."""
        self._gather = gather
        self._waiting = waiting
        self._intake = gather.intake
        self._intake.encode = self._options.encode
        self._intake.on_lost = self._on_lost
        self._intake.give_back = self._give_back

    async def _close_engine(self) -> None:
        raise NotImplementedError

    async def _publish_on(self, connection: Any, call: Publish) -> int:
        raise InvalidMessage("connection= is of a SQLite file; on a cluster use with_statements=", "connection")

    @property
    def desk(self) -> Desk:
        """What workers do with it beyond its public calls."""
        if self._desk is None:
            self._desk = Desk(self, self._key, self._glance)
        return self._desk

    def _twin(self) -> Self:
        """A second transport on the same queue, for another loop."""
        raise NotImplementedError

    async def _glance(self, names: list[str], statements: list[list[Any]]) -> list[list[list[Any]]]:
        """Plain reads, of the leader; an old answer does no harm."""
        raise NotImplementedError

    # -- running calls ------------------------------------------------------------------------------------

    def _one(self, call: Call, bundle: Bundle | None = None) -> Future[Any]:
        future = self._gather.bind().create_future()
        call.future = future
        call.deadline = time.monotonic() + self._gather.timeout
        if bundle is not None:
            bundle.until(call.deadline)
        self._gather.start(call if bundle is None else bundle)
        return future

    def _begin(self, calls: list[Any], bundle: Bundle | None = None) -> Future[list[Any]]:
        """Start calls whose outcomes come together, as a list; or the bundle that they are."""
        future: Future[list[Any]] = self._gather.bind().create_future()
        if not calls:
            future.set_result([])
            return future
        deadline = time.monotonic() + self._gather.timeout
        as_parts(future, calls, deadline)
        if bundle is None:
            self._intake.start_all(calls)
        else:
            bundle.until(deadline)
            self._gather.start(bundle)
        return future

    def _settle(self, call: Settle, bundle: Bundle | None = None) -> Future[Any]:
        call.on_lost = self._on_lost
        return self._one(call, bundle)

    def _settle_many(self, calls: list[Settle], bundle: Bundle | None = None) -> Future[list[Lease[Any]]]:
        lost: Future[list[Lease[Any]]] = self._gather.bind().create_future()
        if not calls:
            lost.set_result([])
            return lost

        def tell(done: Future[list[Any]]) -> None:
            if lost.done():
                return
            try:
                lost.set_result(lost_of(calls, done.result()))
            except Exception as error:
                lost.set_exception(error)

        self._begin(calls, bundle).add_done_callback(tell)
        return lost

    # -- publishing ---------------------------------------------------------------------------------------

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
        if connection is not None:
            checks.no_statements_beside(with_statements)
            call = self._calls.publish(group_id, event, priority, delay, rank, headers, dedup_id)
            return self._gather.bind().create_task(self._publish_on(connection, call))
        if not with_statements:
            future = self._intake.publish(group_id, event, priority, delay, rank, headers, dedup_id)
            if future is not None:
                return future
        call = self._calls.publish(group_id, event, priority, delay, rank, headers, dedup_id)
        return self._one(call, self._calls.bundle([call], (), with_statements) if with_statements else None)

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
        posting = post(address, value, priority, retry_after, headers, self._poster)
        if posting.is_timed and not self._gather.is_open:
            make = partial(post, address, value, priority, retry_after, headers, self._poster)
            return self._gather.bind().create_task(self._post_timed(make))
        return self._post(posting)

    def _post(self, posting: Posting) -> Future[None]:
        future: Future[None] = self._one(posting.bundle, posting.bundle)
        future.add_done_callback(posting.wake)
        return future

    async def _post_timed(self, make: Callable[[], Posting]) -> None:
        """Its time is counted by the queue's clock, which is not known before."""
        await self._gather.opened()
        await self._post(make())

    @property
    def _poster(self) -> Poster:
        return Poster(
            self._key, self._operating.statements, self._operating.now, self._options.encode, self._own_statement
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
        call = self._calls.publish(group_id, event, priority, delay, rank, headers, dedup_id)
        room: Future[Future[int]] = self._gather.bind().create_future()
        self._backlog.add_when_room(room, lambda: self._one(call))
        return room

    def flush(self) -> Future[None]:
        """See `Transport.flush`."""
        return self._gather.bind().create_task(self._backlog.flush())

    def publish_many(
        self, iterable: Iterable[Item] | AsyncIterable[Item], *, atomic: bool = False
    ) -> Future[array[int]]:
        """See `Transport.publish_many`."""
        loop = self._gather.bind()
        if atomic:
            begun = None if isinstance(iterable, AsyncIterable) else self._begin_atomic(iterable)
            return loop.create_task(self._atomic(iterable, begun))
        stream: Batches = Stream(self._calls.load(), self._begin, Future.cancel, window=self._options.window)
        if isinstance(iterable, AsyncIterable):
            task = loop.create_task(self._stream_async(stream, iterable))
        else:
            items = iter(iterable)
            try:
                stream.fill(items)
            except BaseException:
                stream.take_back()
                raise
            task = loop.create_task(self._stream(stream, items))
        task.add_done_callback(lambda _: stream.take_back())
        return task

    def _begin_atomic(self, items: Iterable[Item]) -> Future[list[Any]]:
        bundle = self._calls.atomic(items)
        return self._begin(bundle.publishes, bundle if len(bundle) else None)

    async def _atomic(
        self, iterable: Iterable[Item] | AsyncIterable[Item], begun: Future[list[Any]] | None
    ) -> array[int]:
        if begun is None:
            assert isinstance(iterable, AsyncIterable)
            begun = self._begin_atomic([item async for item in iterable])
        return seqs_of(await begun)

    async def _stream(self, stream: Batches, items: Iterator[Item]) -> array[int]:
        while stream.started:
            await self._absorb(stream)
            stream.fill(items)
        return stream.end()

    async def _absorb(self, stream: Batches) -> None:
        # Not awaited itself: cancelled with this task, it would be gone before those that came after it.
        await asyncio.wait((stream.started[0],))
        stream.absorb(stream.started.popleft().result())

    async def _stream_async(self, stream: Batches, items: AsyncIterable[Item]) -> array[int]:
        try:
            async for item in items:
                stream.offer(item)
                if stream.is_full:
                    await self._absorb(stream)
                if stream.failed:
                    break
        except Exception as error:
            stream.stop(error)
        stream.finish()
        return await self._stream(stream, iter(()))

    # -- claiming -----------------------------------------------------------------------------------------

    def claim(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Lease[Any] | None = None,
    ) -> Future[Lease[T] | None]:
        """See `Transport.claim`."""
        future = self._intake.claim(worker_id, visibility, min_priority, wait, ack)
        if future is not None:
            return future
        call = self._calls.claim(worker_id, visibility, 1, min_priority, wait, wants_list=False)
        return self._claim(call, None if ack is None else self._calls.ack(ack))

    def claim_many(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> Future[list[Lease[T]]]:
        """See `Transport.claim_many`."""
        call = self._calls.claim(worker_id, visibility, limit, min_priority, wait, wants_list=True)
        return self._claim_list(call, ack)

    def claim_run(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> Future[list[Lease[T]]]:
        """See `Transport.claim_run`."""
        call = self._calls.claim(worker_id, visibility, limit, min_priority, wait, wants_list=True, run=True)
        return self._claim_list(call, ack)

    def _claim_list(self, call: Claim, ack: Iterable[Lease[Any]]) -> ClaimFuture:
        acks = [self._calls.ack(lease) for lease in lease_list(ack, "ack")]
        if len(acks) < 2:
            return self._claim(call, acks[0] if acks else None)
        others = self._begin(acks[:-1])
        claim = self._claim(call, acks[-1])
        return after(claim, asyncio.ensure_future(self._claim_after(others, call, claim)), self._give_back)

    def _claim(self, call: Claim, settle: Settle | None, wait_until: float | None = None) -> ClaimFuture:
        if wait_until is not None:
            call.wait_until, call.deadline = wait_until, float("inf")
        future = self._gather.bind().create_future()
        claimed = ClaimFuture(future, self._give_back)
        call.wait_for(future, claimed)
        if settle is not None:
            settle.tie(call)
            settle.on_lost = self._on_lost
            settle.deadline = time.monotonic() + self._gather.timeout
        self._waiting.start(call)
        return claimed

    async def _claim_after(self, acks: Future[list[Any]], call: Claim, claim: ClaimFuture) -> list[Lease[T]]:
        """The claim of several `ack=`: when one of them was lost, nothing stays claimed."""
        outcomes: list[Any] = []
        try:
            outcomes = await acks
            failure = failure_of(outcomes, self._on_lost)
            if failure is not None:
                call.wait_until = 0.0
            leases: list[Lease[T]] = await claim
            if failure is not None:
                await self._gather.return_leases(leases, call.until)
                raise truthful(failure, [None])
        except Unavailable as error:
            raise truthful(error, outcomes) from error.__cause__
        except asyncio.CancelledError:
            claim.drop()
            raise
        return leases

    def _give_back(self, leases: list[Lease[Any]]) -> None:
        """Leases that nobody took; from any thread, since futures are collected anywhere."""

        def start() -> None:
            for lease in first_of_each(leases):
                self._gather.start(give_back(lease))

        self._gather.call_soon(start)

    # -- settling -----------------------------------------------------------------------------------------

    def ack(
        self,
        lease: Lease[Any],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> Future[None]:
        """See `Transport.ack`."""
        if not publish and not with_statements:
            future = self._intake.ack(lease)
            if future is not None:
                return future
        call = self._calls.ack(lease)
        bundle = self._calls.bundle([call], publish, with_statements) if publish or with_statements else None
        return self._settle(call, bundle)

    def nack(self, lease: Lease[Any], delay: Seconds = 0) -> Future[None]:
        """See `Transport.nack`."""
        return self._settle(self._calls.nack(lease, delay))

    def defer(self, lease: Lease[Any], delay: Seconds) -> Future[None]:
        """See `Transport.defer`."""
        return self._settle(self._calls.defer(lease, delay))

    def extend(self, lease: Lease[Any], visibility: Seconds) -> Future[float]:
        """See `Transport.extend`."""
        return self._settle(self._calls.extend(lease, visibility))

    def dead_letter(self, lease: Lease[Any], reason: str) -> Future[None]:
        """See `Transport.dead_letter`."""
        return self._settle(self._calls.dead_letter(lease, reason))

    def ack_many(
        self,
        leases: Iterable[Lease[Any]],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> Future[list[Lease[Any]]]:
        """See `Transport.ack_many`."""
        calls = [self._calls.ack(lease) for lease in lease_list(leases)]
        bundle = self._calls.bundle(calls, publish, with_statements) if publish or with_statements else None
        return self._settle_many(calls, bundle)

    def nack_many(self, leases: Iterable[Lease[Any]], delay: Seconds = 0) -> Future[list[Lease[Any]]]:
        """See `Transport.nack_many`."""
        return self._settle_many([self._calls.nack(lease, delay) for lease in lease_list(leases)])

    def defer_many(self, leases: Iterable[Lease[Any]], delay: Seconds) -> Future[list[Lease[Any]]]:
        """See `Transport.defer_many`."""
        return self._settle_many([self._calls.defer(lease, delay) for lease in lease_list(leases)])

    def extend_many(self, leases: Iterable[Lease[Any]], visibility: Seconds) -> Future[list[Lease[Any]]]:
        """See `Transport.extend_many`."""
        return self._settle_many([self._calls.extend(lease, visibility) for lease in lease_list(leases)])

    def dead_letter_many(self, leases: Iterable[Lease[Any]], reason: str) -> Future[list[Lease[Any]]]:
        """See `Transport.dead_letter_many`."""
        return self._settle_many([self._calls.dead_letter(lease, reason) for lease in lease_list(leases)])

    # -- opening and closing ------------------------------------------------------------------------------

    async def _ready(self) -> Self:
        """Connect and make the tables, unless a call has done so."""
        self._gather.bind()
        await self._gather.opened()
        return self

    def close(self) -> Future[None]:
        """See `Transport.close`."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
            return asyncio.shield(self._closing)
        return asyncio.ensure_future(self._closed_before(self._closing))

    async def _closed_before(self, closing: asyncio.Task[None]) -> None:
        # What failed is told once, to the first who closes.
        await asyncio.wait((closing,))

    async def _close(self) -> None:
        self._gather.shut()
        await self._waiting.close()
        await self._gather.close()
        await self._close_engine()
        self._backlog.drop(Closed("this transport was closed"))
        self._backlog.raise_failed()

    @property
    def _awaited(self) -> str:
        """What its opening waits for, for people."""
        return str(self)

    async def __aenter__(self) -> Self:
        try:
            return await self._ready()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except RqfastError as failed:
            # What ended the block is what its caller must see.
            if error is None:
                raise
            log.error("%s", failed)


A_co = TypeVar("A_co", bound=AwaitableTransport[Any], covariant=True)


class Opening(Generic[A_co]):
    """A transport that is opened when this is awaited or entered.

    Example:
        >>> t = await connect_async(url)
        >>> async with connect_async(url) as t: ...
    """

    def __init__(self, make: Callable[[], A_co]) -> None:
        self.make = make
        self._transport: A_co | None = None
        self._begun: A_co | None = None

    @property
    def begun(self) -> A_co | None:
        """What is being opened, or was; None before."""
        return self._begun

    async def _open(self) -> A_co:
        transport = self._begun = self.make()
        try:
            await transport._ready()
        except BaseException:
            await transport.close()
            raise
        self._transport = transport
        return transport

    def __await__(self) -> Generator[Any, None, A_co]:
        return self._open().__await__()

    async def __aenter__(self) -> A_co:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transport is not None:
            await self._transport.__aexit__(kind, error, trace)
