"""The bookkeeping of `publish_many`: items into bounded batches, their outcomes into seqs.  No I/O, no waiting."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._core import Publish
from ..errors import OutcomeUnknown, PublishIncomplete

MAX_SIZE = 1 << 20
END = object()

S = TypeVar("S")


class Stream:
    """One `publish_many` on its way.

    Args:
        make: from an item and its position to a checked call.
        max_batch: messages in one request.
    """

    def __init__(self, make: Callable[[Any, int], Publish], max_batch: int) -> None:
        self._make = make
        self._max_batch = max_batch
        self._count = 0
        self._size = 0
        self._batch: list[Publish] = []
        self._unknown = 0
        self._gap = False
        self._error: BaseException | None = None
        self.seqs: array[int] = array("q")

    @property
    def failed(self) -> bool:
        """Whether something was not applied: no more is sent."""
        return self._error is not None

    def fill(self, items: Iterator[Any], begin: Callable[[list[Publish]], S], started: deque[S], window: int) -> bool:
        """Start batches until `window` are on their way; returns whether there will be no more."""
        try:
            while len(started) < window and not self.failed:
                item = next(items, END)
                if item is END:
                    break
                batch = self.offer(item)
                if batch:
                    started.append(begin(batch))
            else:
                return self.failed
        except Exception as error:
            self.stop(error)
        batch = self.rest()
        if batch:
            started.append(begin(batch))
        return True

    def offer(self, item: Any) -> list[Publish]:
        """Take in an item; returns a batch when one is full, else nothing."""
        call = self._make(item, self._count)
        self._count += 1
        self._batch.append(call)
        self._size += call.size
        if len(self._batch) >= self._max_batch or self._size >= MAX_SIZE:
            return self.rest()
        return []

    def rest(self) -> list[Publish]:
        """The batch that is being filled."""
        batch, self._batch, self._size = self._batch, [], 0
        return batch

    def stop(self, error: BaseException) -> None:
        """The iterable raised, an item is bad, or a message was not applied."""
        if self._error is None:
            self._error = error

    def absorb(self, results: list[Any]) -> None:
        """Take in the outcomes of a batch, in the order in which the batches were sent."""
        for result in results:
            if isinstance(result, BaseException):
                self._gap = True
                self._unknown += isinstance(result, OutcomeUnknown)
                self.stop(result)
            elif self._gap:
                self._unknown += 1
            else:
                self.seqs.append(result)

    def end(self) -> array[int]:
        """The seqs of all; raises `PublishIncomplete` when it stopped half-way."""
        if self._error is None:
            return self.seqs
        index = len(self.seqs)
        raise PublishIncomplete(
            f"publish_many stopped: the first {index} messages are in"
            + (f", {self._unknown} of those from there on may be in all the same" if self._unknown else "")
            + f"; the cause: {self._error}",
            self.seqs,
            index,
            self._unknown,
        ) from self._error
