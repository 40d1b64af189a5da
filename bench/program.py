"""The statements of the sides `bare` and `raw`: those that rqfast sends, from rqfast.sql by way of its core.

The only place that knows how a request is made of calls and its reply taken apart; who wants other statements for the
raw ceiling changes them here.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import orjson

from rqfast._core import (
    ACK,
    Batch,
    Batcher,
    Call,
    Claim,
    Lease,
    Settle,
    Slot,
    Texts,
    decode_reply,
    encode_program,
    make_publish,
    slot_errors,
    slot_rows,
)
from rqfast.sql import Statements

from .workload import HOLDER, VISIBILITY

__all__ = ["Lane", "Request", "ack_of", "claim_of", "publish_of", "texts_of"]

WINDOW = 300.0
MAX_ROWS, MAX_BYTES = 1 << 20, 1 << 26


def texts_of(queue: str | None) -> Texts:
    """The statements of a queue, ready to be sent."""
    statements = Statements(queue)
    return Texts(statements.queue, True, statements.operate)


def publish_of(group: str, event: Any) -> Call:
    """One message."""
    return make_publish(group, event, 0, 0.0, 0, None, None, None)


def claim_of(worker: str, limit: int | None = None) -> Call:
    """One message for a worker, or the heads of `limit` groups."""
    return Claim(worker, VISIBILITY, 0, limit or 1, limit is not None)


def ack_of(lease: Lease[Any]) -> Call:
    """It is done."""
    return Settle(lease, ACK)


class Request:
    """One request: its body, and afterwards what came of each of its calls."""

    def __init__(self, batch: Batch, number: int, body: bytes, slots: list[Slot]) -> None:
        self.body = body
        self._batch, self._number, self._slots = batch, number, slots

    def results(self, reply: bytes) -> list[Any]:
        """The outcome of each call: a seq, a lease or leases, None.

        Raises:
            RuntimeError: the server refused it.
        """
        found, error = decode_reply(reply)
        if error is not None or slot_errors(found):
            raise RuntimeError(error or slot_errors(found))
        rows = slot_rows(found)
        if not self._batch.check(rows, self._number):
            raise RuntimeError("the lane's row is not there")
        self._batch.resolve(rows, time.time(), orjson.loads, time.time)
        return [slot.result() for slot in self._slots]


class Lane:
    """Numbers the requests of one line of requests; a second is made when the first was answered."""

    def __init__(self, texts: Texts) -> None:
        self.name = uuid.uuid4().hex[:16]
        self._texts = texts
        self._number = 0
        self._batcher = Batcher(1, MAX_ROWS, MAX_BYTES)

    @staticmethod
    def opening(queue: str | None, lanes: Sequence[Lane]) -> bytes:
        """The body of the request that registers lanes."""
        names = orjson.dumps([lane.name for lane in lanes]).decode()
        return orjson.dumps([[Statements(queue).queue["lane_open"], names, time.time()]])

    def request(self, calls: Sequence[Call]) -> Request:
        """The next request: these calls in one transaction."""
        slots = []
        for call in calls:
            call.future = slot = Slot()
            slots.append(slot)
            self._batcher.add(call)
        batch = self._batcher.take(0)
        assert batch is not None and self._batcher.waiting() == 0
        self._number += 1
        program = batch.program(self._texts, self.name, self._number, time.time(), WINDOW, HOLDER)
        request = Request(batch, self._number, encode_program(program), slots)
        self._batcher.finish(batch)
        return request
