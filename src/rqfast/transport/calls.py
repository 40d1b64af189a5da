"""From the arguments of a public method to a call of the core; for both colours and all engines."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import _core
from ..errors import InvalidMessage, LeaseLost, RqfastError
from ..model import Message
from ..pipeline.parts import truthful
from ..pipeline.stream import MAX_SIZE
from ..sql.own import check_statements
from . import checks
from .options import Options, default_worker


class Calls:
    """Makes the calls of one transport, each checked before it exists.

    Args:
        own: from a checked statement of the user to the form in which this engine takes it.
    """

    def __init__(self, options: Options, own: Callable[[list[Any]], list[Any]]) -> None:
        self._encode = options.encode
        self._own = own
        self._max_batch = options.max_batch

    def publish(
        self,
        group_id: str,
        event: Any,
        priority: Any = 0,
        delay: Any = 0,
        rank: Any = 0,
        headers: Any = None,
        dedup_id: Any = None,
    ) -> _core.Publish:
        """A message on its way in."""
        call = _core.plain_publish(group_id, event, priority, delay, rank, headers, dedup_id, self._encode)
        if call is not None:
            return call
        return _core.make_publish(
            group_id,
            event,
            checks.priority(priority),
            0.0 if delay == 0 and type(delay) is int else checks.seconds(delay, "delay"),
            0 if rank == 0 and type(rank) is int else checks.integer(rank, "rank"),
            None if headers is None else checks.headers(headers),
            dedup_id,
            self._encode,
        )

    def item(self, item: Any, position: int) -> _core.Publish:
        """An item of `publish_many`: a `Message`, or a tuple of its first two or three fields."""
        try:
            if isinstance(item, Message):
                return self.publish(
                    item.group_id,
                    item.event,
                    item.priority,
                    item.delay,
                    item.rank,
                    item.headers,
                    item.dedup_id,
                )
            if isinstance(item, tuple | list) and len(item) in (2, 3):
                return self.publish(*item)
        except (InvalidMessage, TypeError) as error:
            argument = getattr(error, "argument", "")
            raise InvalidMessage(f"item {position}: {error}", argument, position) from error
        raise InvalidMessage(
            f"item {position} is a Message or a tuple (group_id, event[, priority]), not {type(item).__name__}",
            "iterable",
            position,
        )

    def load(self) -> _core.Load:
        """Where the items of a `publish_many` become calls, a request's worth at a time."""
        return _core.Load(self.item, self._encode, self._max_batch, MAX_SIZE)

    def atomic(self, items: Iterable[Any]) -> _core.Bundle:
        """Messages that are one transaction; refused when larger than one request."""
        calls = []
        size = 0
        for position, item in enumerate(items):
            calls.append(self.item(item, position))
            size += calls[-1].size
            if len(calls) > self._max_batch or size > MAX_SIZE:
                raise InvalidMessage(
                    f"atomic=True: more than one request holds ({self._max_batch:,} messages, the option max_batch, "
                    f"or {MAX_SIZE:,} bytes)",
                    "iterable",
                    position,
                )
        return _core.Bundle([], calls, [])

    def _check_room(self, publishes: Sequence[_core.Publish]) -> None:
        """Raise InvalidMessage where messages of one transaction are more than one request may hold."""
        if len(publishes) > self._max_batch or (
            len(publishes) > 1 and sum(call.size for call in publishes) > checks.MAX_EVENT
        ):
            raise InvalidMessage(
                f"publish= has more than one transaction holds ({self._max_batch:,} messages, the option max_batch, or "
                f"{checks.MAX_EVENT:,} bytes)",
                "publish",
            )

    def bundle(
        self, calls: Sequence[_core.Settle | _core.Publish], publish: Any, with_statements: Any
    ) -> _core.Bundle | None:
        """What commits with these calls, acks or one publish; None when nothing does."""
        if not isinstance(publish, Iterable) or isinstance(publish, str | bytes | dict):
            raise TypeError(f"publish is a list of messages, not {type(publish).__name__}")
        publishes = [self.item(item, position) for position, item in enumerate(publish)]
        self._check_room(publishes)
        statements = [self._own(statement) for statement in check_statements(with_statements)]
        if not publishes and not statements:
            return None
        acks = [call for call in calls if isinstance(call, _core.Settle)]
        own = [call for call in calls if isinstance(call, _core.Publish)]
        if not acks and not own:
            raise InvalidMessage("publish= and with_statements= commit with a lease, and none was given", "leases")
        seqs = {ack.lease.seq for ack in acks}
        if len(seqs) < len(acks):
            raise InvalidMessage("the same message twice among the leases", "leases")
        return _core.Bundle(acks, own + publishes, statements)

    def claim(
        self,
        worker_id: str | None,
        visibility: Any,
        limit: int,
        min_priority: Any,
        wait: Any,
        *,
        wants_list: bool,
        run: bool = False,
    ) -> _core.Claim:
        """A claim; its `wait_until` is on the monotonic clock."""
        worker = default_worker() if worker_id is None else _core.check_id(worker_id, "worker_id")
        call = _core.Claim(
            worker,
            checks.seconds(visibility, "visibility", positive=True),
            checks.priority(min_priority, "min_priority"),
            checks.limit(limit),
            wants_list,
            run,
        )
        waits = checks.wait(wait)
        call.wait_until = time.monotonic() + waits if waits else 0.0
        call.deadline = math.inf
        return call

    def ack(self, lease: Any) -> _core.Settle:
        """An acknowledgement."""
        return _core.Settle(checks.lease(lease), _core.ACK)

    def nack(self, lease: Any, delay: Any) -> _core.Settle:
        """Back to its place, at once or after a parking."""
        pause = checks.seconds(delay, "delay")
        return _core.Settle(checks.lease(lease), _core.PARK if pause else _core.NACK, pause)

    def defer(self, lease: Any, delay: Any) -> _core.Settle:
        """A later due time."""
        return _core.Settle(checks.lease(lease), _core.DEFER, checks.seconds(delay, "delay"))

    def extend(self, lease: Any, visibility: Any) -> _core.Settle:
        """A later end of the lease."""
        pause = checks.seconds(visibility, "visibility", positive=True)
        return _core.Settle(checks.lease(lease), _core.EXTEND, pause)

    def dead_letter(self, lease: Any, reason: Any) -> _core.Settle:
        """Out of the queue, to the dead letters."""
        return _core.Settle(checks.lease(lease), _core.DEAD, checks.reason(reason))


def lease_list(leases: Any, argument: str = "leases") -> list[_core.Lease[Any]]:
    """The leases of a `_many` form."""
    if isinstance(leases, _core.Lease) or not isinstance(leases, Iterable):
        raise TypeError(f"{argument} is a list of leases, not {type(leases).__name__}")
    return [checks.lease(lease, f"an item of {argument}") for lease in leases]


def seqs_of(results: Sequence[Any]) -> array[int]:
    """What an atomic `publish_many` returns, or raises: all took effect, or none."""
    for result in results:
        if isinstance(result, RqfastError):
            raise result
    return array("q", results)


def lost_of(calls: Sequence[_core.Settle], results: Sequence[Any]) -> list[_core.Lease[Any]]:
    """What a `_many` form returns: the leases that were lost.  Any other error is raised."""
    lost = []
    for call, result in zip(calls, results, strict=True):
        if isinstance(result, LeaseLost):
            lost.append(call.lease)
        elif isinstance(result, RqfastError):
            raise truthful(result, results)
    return lost
