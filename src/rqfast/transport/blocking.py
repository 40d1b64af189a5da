"""The public methods of the blocking transports, once for both engines.

A subclass says how calls start (`_start`), how a thread waits for them (`_wait`) and how a claim is made (`_claim`).
"""

from __future__ import annotations

import logging
import time
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from .._core import Call, Claim, Lease, Many, Settle, Slot
from ..api import Item
from ..model import Header, Seconds
from ..pipeline.stream import Stream
from .calls import Calls, lease_list, lost_of
from .operate_blocking import BlockingOperating
from .options import Options

log = logging.getLogger("rqfast")

T = TypeVar("T")


def warn_lost(error: Exception) -> None:
    """What lost="warn" does instead of raising."""
    log.warning("%s", error)


class BlockingTransport(BlockingOperating[T], Generic[T]):
    """What `Transport` promises, in terms of three methods of an engine's own."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._calls = Calls(options)
        self._on_lost = warn_lost if options.lost == "warn" else None
        self._timeout = float("inf")

    # -- the engine's own ---------------------------------------------------------------------------------

    def _slot(self) -> Slot:
        raise NotImplementedError

    def _start(self, calls: Sequence[Call], slot: Slot) -> None:
        raise NotImplementedError

    def _wait(self, slot: Slot) -> Any:
        raise NotImplementedError

    def _claim(self, call: Claim, acks: Sequence[Settle]) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """See `Transport.close`."""
        raise NotImplementedError

    # -- running calls ------------------------------------------------------------------------------------

    def _one(self, call: Call) -> Any:
        slot = self._slot()
        call.future = slot
        call.deadline = time.monotonic() + self._timeout
        self._start((call,), slot)
        return self._wait(slot)

    def _begin(self, calls: Sequence[Call]) -> Slot:
        """Start calls whose outcomes come together, as a list, into the slot."""
        slot = self._slot()
        many = Many(slot, len(calls))
        deadline = time.monotonic() + self._timeout
        for position, call in enumerate(calls):
            call.part_of(many, position)
            call.deadline = deadline
        self._start(calls, slot)
        return slot

    def _settle(self, call: Settle) -> Any:
        call.on_lost = self._on_lost
        return self._one(call)

    def _settle_many(self, calls: list[Settle]) -> list[Lease[Any]]:
        return lost_of(calls, self._wait(self._begin(calls))) if calls else []

    # -- publishing ---------------------------------------------------------------------------------------

    def publish(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: dict[str, Header] | None = None,
        dedup_id: str | None = None,
    ) -> int:
        """See `Transport.publish`."""
        seq: int = self._one(self._calls.publish(group_id, event, priority, delay, rank, headers, dedup_id))
        return seq

    def publish_many(self, iterable: Iterable[Item]) -> array[int]:
        """See `Transport.publish_many`."""
        stream = Stream(self._calls.item, self._options.max_batch)
        started: deque[Slot] = deque()
        items = iter(iterable)
        window = self._options.window
        at_end = stream.fill(items, self._begin, started, window)
        while started:
            stream.absorb(self._wait(started.popleft()))
            at_end = at_end or stream.fill(items, self._begin, started, window)
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

    # -- settling -----------------------------------------------------------------------------------------

    def ack(self, lease: Lease[Any]) -> None:
        """See `Transport.ack`."""
        self._settle(self._calls.ack(lease))

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

    def ack_many(self, leases: Iterable[Lease[Any]]) -> list[Lease[Any]]:
        """See `Transport.ack_many`."""
        return self._settle_many([self._calls.ack(lease) for lease in lease_list(leases)])

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
