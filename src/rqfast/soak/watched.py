"""Writes down the calls that a `Worker` makes of its transport, as `Recorder` does those of a bare loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from .._core import Lease
from ..demo.journal import Journal
from ..errors import LeaseLost, OutcomeUnknown, Unavailable
from ..transport.awaitable import AwaitableTransport
from .calls import DONE, LOST, UNKNOWN
from .recorder import Fields, answer_of, as_held

SETTLES = ("ack", "nack", "defer")


class Watched:
    """Writes down the claims and settlements of one transport, and of its twin, which extends leases.

    Args:
        transport: open.
        journal: where it is written down.
    """

    def __init__(self, transport: AwaitableTransport[Any], journal: Journal) -> None:
        self._journal = journal
        self._numbers = count(1)
        self._claims: dict[tuple[int, int], int] = {}
        self._waiting: dict[int, Callable[[], None]] = {}
        self._watch(transport)

    def _watch(self, transport: AwaitableTransport[Any]) -> None:
        desk = transport.desk
        for name in ("claim", "claim_many"):
            setattr(transport, name, partial(self._claim, name, getattr(transport, name)))
        for name in SETTLES:
            setattr(transport, name, partial(self._settle, name, getattr(transport, name)))
        replaced: dict[str, Callable[..., Any]] = {
            "bury": partial(self._settle, "dead_letter", desk.bury),
            "give_back": partial(self._settle, "give_back", desk.give_back),
            "twin": partial(self._twin, desk.twin),
        }
        for name, method in replaced.items():
            setattr(desk, name, method)
        transport.extend_many = partial(self._extend, transport.extend_many)  # type: ignore[method-assign]

    def _twin(self, twin: Callable[[], AwaitableTransport[Any]]) -> AwaitableTransport[Any]:
        second = twin()
        self._watch(second)
        return second

    def _claim(
        self,
        name: str,
        claim: Callable[..., asyncio.Future[Any]],
        worker: str,
        visibility: float,
        *more: Any,
        **how: Any,
    ) -> asyncio.Future[Any]:
        limit = more[0] if name == "claim_many" else 1
        number = self._begin(name, {"seconds": visibility, "limit": limit, "settles": []})

        def answer(found: Any) -> Fields:
            leases = found if isinstance(found, list) else [] if found is None else [found]
            for lease in leases:
                self._claims[lease.seq, lease.fence] = number
            return {"held": [as_held(lease, lease.fence) for lease in leases]}

        return self._follow(number, claim(worker, visibility, *more, **how), {}, answer)

    def _settle(
        self, how: str, settle: Callable[..., asyncio.Future[Any]], lease: Lease[Any], *more: Any, **rest: Any
    ) -> asyncio.Future[Any]:
        seconds = float(more[0] or 0) if more and how in ("nack", "defer") else 0.0
        fields: Fields = {"settles": self._numbered([lease]), "seconds": seconds}
        number = self._begin(how, fields)
        return self._follow(number, settle(lease, *more, **rest), fields, lambda _: {})

    def _extend(
        self, extend: Callable[..., asyncio.Future[Any]], leases: list[Lease[Any]], visibility: float
    ) -> asyncio.Future[Any]:
        fields: Fields = {"settles": self._numbered(leases), "seconds": visibility}
        number = self._begin("extend_many", fields)

        def answer(lost: list[Lease[Any]]) -> Fields:
            return {"but": {f"{claim}:{seq}": LOST for claim, seq in self._numbered(lost)}}

        return self._follow(number, extend(leases, visibility), fields, answer)

    def _numbered(self, leases: list[Lease[Any]]) -> list[tuple[int, int]]:
        """Leases as they are written down; what is done and waits for its turn to be written down is so now."""
        if any((lease.seq, lease.fence) not in self._claims for lease in leases):
            for tell in list(self._waiting.values()):
                tell()
        return [(self._claims[lease.seq, lease.fence], lease.seq) for lease in leases]

    def _begin(self, name: str, fields: Fields) -> int:
        number = next(self._numbers)
        self._journal.write([{"n": number, "call": name, "at": time.monotonic_ns(), **fields}])
        return number

    def _follow(
        self, number: int, future: asyncio.Future[Any], fields: Fields, answer: Callable[[Any], Fields]
    ) -> asyncio.Future[Any]:
        def tell(*_: Any) -> None:
            if future.done() and self._waiting.pop(number, None) is not None:
                self._journal.write([{"n": number, "at": time.monotonic_ns(), **told_by(future, fields, answer)}])

        self._waiting[number] = tell
        future.add_done_callback(tell)
        return future


def told_by(done: asyncio.Future[Any], fields: Fields, answer: Callable[[Any], Fields]) -> Fields:
    """What a call that has ended was told, to be written down; an error that nobody expects is an unknown outcome."""
    if done.cancelled():
        return {"told": UNKNOWN}
    error = done.exception()
    if error is None:
        return {"told": DONE, **answer(done.result())}
    if isinstance(error, LeaseLost | Unavailable | OutcomeUnknown):
        told, more = answer_of(error, fields)
        return {"told": told, **more}
    return {"told": UNKNOWN}
