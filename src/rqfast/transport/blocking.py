"""The public methods of the blocking transports, once for both engines.

A subclass says how calls start (`_start`), how a thread waits for them (`_wait`) and how a claim is made (`_claim`).
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent import futures
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from .._core import Bundle, Call, Claim, Lease, Publish, Settle, Slot, as_parts
from ..address.inbox import Address, Inbox
from ..api import Item
from ..errors import InvalidMessage, RqfastError
from ..model import Header, Seconds
from ..pipeline.backlog import Soon, ThreadBacklog
from ..pipeline.stream import Stream
from ..sql.own import for_sqlite
from . import checks
from .calls import Calls, lease_list, lost_of, seqs_of
from .lost import log, warn_lost
from .operate_blocking import BlockingOperating
from .options import Options
from .posting import Poster, post

T = TypeVar("T")


class BlockingTransport(BlockingOperating[T], Generic[T]):
    """What `Transport` promises, in terms of three methods of an engine's own."""

    _key: Hashable

    def __init__(self, options: Options) -> None:
        self._options = options
        self._calls = Calls(options, self._own_statement)
        self._on_lost = warn_lost if options.lost == "warn" else None
        self._timeout = float("inf")
        self._backlogs: dict[int, ThreadBacklog] = {}

    _own_statement: Callable[[list[Any]], list[Any]] = staticmethod(for_sqlite)

    # -- the engine's own ---------------------------------------------------------------------------------

    def _slot(self) -> Slot:
        raise NotImplementedError

    def _start(self, calls: Sequence[Call], slot: Slot) -> None:
        raise NotImplementedError

    def _wait(self, slot: Slot, undo: Callable[[], object] | None = None) -> Any:
        raise NotImplementedError

    def _claim(self, call: Claim, acks: Sequence[Settle]) -> Any:
        raise NotImplementedError

    def _check_thread(self) -> None:
        """Refuse to wait in the thread that would have to end the waiting."""
        raise NotImplementedError

    def _expect(self, call: Call, backlog: ThreadBacklog) -> Soon:
        raise NotImplementedError

    def _launch(self, call: Call) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def _publish_on(self, connection: Any, call: Publish) -> int:
        raise InvalidMessage("connection= is of a SQLite file; on a cluster use with_statements=", "connection")

    @property
    def _backlog(self) -> ThreadBacklog:
        # By process: what a forked child inherits of its parent's never ends there.
        pid = os.getpid()
        if pid not in self._backlogs:
            self._backlogs = {pid: ThreadBacklog(self._options.max_in_flight)}
        return self._backlogs[pid]

    # -- running calls ------------------------------------------------------------------------------------

    def _one(self, call: Call, bundle: Bundle | None = None) -> Any:
        slot = self._slot()
        call.future = slot
        call.deadline = time.monotonic() + self._timeout
        if bundle is not None:
            bundle.until(call.deadline)
        self._start((call if bundle is None else bundle,), slot)
        return self._wait(slot)

    def _begin(self, calls: list[Any], bundle: Bundle | None = None) -> Slot:
        """Start calls whose outcomes come together, as a list, into the slot; or the bundle that they are."""
        slot = self._slot()
        deadline = time.monotonic() + self._timeout
        as_parts(slot, calls, deadline)
        if bundle is not None:
            bundle.until(deadline)
        try:
            self._start(calls if bundle is None else (bundle,), slot)
        except BaseException:
            slot.abandon()
            raise
        return slot

    def _settle(self, call: Settle, bundle: Bundle | None = None) -> Any:
        call.on_lost = self._on_lost
        return self._one(call, bundle)

    def _settle_many(self, calls: list[Settle], bundle: Bundle | None = None) -> list[Lease[Any]]:
        return lost_of(calls, self._wait(self._begin(calls, bundle))) if calls else []

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
    ) -> int:
        """See `Transport.publish`."""
        call = self._calls.publish(group_id, event, priority, delay, rank, headers, dedup_id)
        if connection is not None:
            checks.no_statements_beside(with_statements)
            return self._publish_on(connection, call)
        seq: int = self._one(call, self._calls.bundle([call], (), with_statements) if with_statements else None)
        return seq

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
        operating = self._operating
        poster = Poster(self._key, operating.statements, operating.now, self._options.encode, self._own_statement)
        posting = post(address, value, priority, retry_after, headers, poster)
        self._one(posting.bundle, posting.bundle)
        posting.wake()

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
        call = self._calls.publish(group_id, event, priority, delay, rank, headers, dedup_id)
        backlog = self._backlog
        if not backlog.has_room:
            self._check_thread()
            backlog.wait_for_room()
        future = self._expect(call, backlog)
        try:
            # Before it starts: interrupted here, nothing waits for what nobody ends.
            backlog.add(future)
            self._launch(call)
        except BaseException:
            backlog.forget(future)
            raise
        return future

    def flush(self) -> None:
        """See `Transport.flush`."""
        if self._backlog.pending:
            self._check_thread()
        self._backlog.wait()
        self._backlog.raise_failed()

    def publish_many(self, iterable: Iterable[Item], *, atomic: bool = False) -> array[int]:
        """See `Transport.publish_many`."""
        if atomic:
            bundle = self._calls.atomic(iterable)
            return seqs_of(self._wait(self._begin(bundle.publishes, bundle)) if len(bundle) else [])
        items = iter(iterable)
        stream = Stream(self._calls.load(), self._begin, Slot.abandon, window=self._options.window)
        try:
            stream.fill(items)
            while stream.started:
                stream.absorb(self._wait(stream.started[0], stream.take_back))
                stream.started.popleft()
                stream.fill(items)
        except BaseException:
            stream.take_back()
            raise
        return stream.end()

    # -- claiming -----------------------------------------------------------------------------------------

    def claim(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Lease[Any] | None = None,
    ) -> Lease[T] | None:
        """See `Transport.claim`."""
        call = self._calls.claim(worker_id, visibility, 1, min_priority, wait, wants_list=False)
        acks = () if ack is None else (self._calls.ack(ack),)
        lease: Lease[T] | None = self._claim(call, acks)
        return lease

    def claim_many(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> list[Lease[T]]:
        """See `Transport.claim_many`."""
        call = self._calls.claim(worker_id, visibility, limit, min_priority, wait, wants_list=True)
        leases: list[Lease[T]] = self._claim(call, [self._calls.ack(lease) for lease in lease_list(ack, "ack")])
        return leases

    def claim_run(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> list[Lease[T]]:
        """See `Transport.claim_run`."""
        call = self._calls.claim(worker_id, visibility, limit, min_priority, wait, wants_list=True, run=True)
        leases: list[Lease[T]] = self._claim(call, [self._calls.ack(lease) for lease in lease_list(ack, "ack")])
        return leases

    # -- settling -----------------------------------------------------------------------------------------

    def ack(
        self,
        lease: Lease[Any],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> None:
        """See `Transport.ack`."""
        call = self._calls.ack(lease)
        bundle = self._calls.bundle([call], publish, with_statements) if publish or with_statements else None
        self._settle(call, bundle)

    def nack(self, lease: Lease[Any], delay: Seconds = 0) -> None:
        """See `Transport.nack`."""
        self._settle(self._calls.nack(lease, delay))

    def defer(self, lease: Lease[Any], delay: Seconds) -> None:
        """See `Transport.defer`."""
        self._settle(self._calls.defer(lease, delay))

    def extend(self, lease: Lease[Any], visibility: Seconds) -> float:
        """See `Transport.extend`."""
        ends: float = self._settle(self._calls.extend(lease, visibility))
        return ends

    def dead_letter(self, lease: Lease[Any], reason: str) -> None:
        """See `Transport.dead_letter`."""
        self._settle(self._calls.dead_letter(lease, reason))

    def ack_many(
        self,
        leases: Iterable[Lease[Any]],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> list[Lease[Any]]:
        """See `Transport.ack_many`."""
        calls = [self._calls.ack(lease) for lease in lease_list(leases)]
        bundle = self._calls.bundle(calls, publish, with_statements) if publish or with_statements else None
        return self._settle_many(calls, bundle)

    def nack_many(self, leases: Iterable[Lease[Any]], delay: Seconds = 0) -> list[Lease[Any]]:
        """See `Transport.nack_many`."""
        return self._settle_many([self._calls.nack(lease, delay) for lease in lease_list(leases)])

    def defer_many(self, leases: Iterable[Lease[Any]], delay: Seconds) -> list[Lease[Any]]:
        """See `Transport.defer_many`."""
        return self._settle_many([self._calls.defer(lease, delay) for lease in lease_list(leases)])

    def extend_many(self, leases: Iterable[Lease[Any]], visibility: Seconds) -> list[Lease[Any]]:
        """See `Transport.extend_many`."""
        return self._settle_many([self._calls.extend(lease, visibility) for lease in lease_list(leases)])

    def dead_letter_many(self, leases: Iterable[Lease[Any]], reason: str) -> list[Lease[Any]]:
        """See `Transport.dead_letter_many`."""
        return self._settle_many([self._calls.dead_letter(lease, reason) for lease in lease_list(leases)])

    def close(self) -> None:
        """See `Transport.close`."""
        self._end()
        self._backlog.raise_failed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except RqfastError as failed:
            # What ended the block is what its caller must see.
            if error is None:
                raise
            log.error("%s", failed)
