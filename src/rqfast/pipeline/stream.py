"""The bookkeeping of `publish_many`: items into bounded batches, their outcomes into seqs.  No I/O, no waiting."""

from __future__ import annotations

import contextlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from .._core import Load, Publish
from ..errors import OutcomeUnknown, PublishIncomplete, RqfastError

MAX_SIZE = 1 << 20

S = TypeVar("S")


class Stream(Generic[S]):
    """One `publish_many` on its way.

    Args:
        load: makes checked calls of the items, a batch at a time.
        begin: starts a batch of them; what it returns stands for their outcomes.
        undo: takes back a batch that was begun, as far as it was not sent.
        window: batches that are on their way at once.
    """

    def __init__(
        self,
        load: Load,
        begin: Callable[[list[Publish]], S],
        undo: Callable[[S], object],
        *,
        window: int,
    ) -> None:
        self._load = load
        self._begin = begin
        self._undo = undo
        self._window = window
        self._ended = False
        self.started: deque[S] = deque()
        self._unknown = 0
        self._gap = False
        self._error: BaseException | None = None
        self.seqs: array[int] = array("q")

    @property
    def failed(self) -> bool:
        """Whether something was not applied: no more is sent."""
        return self._error is not None

    @property
    def is_full(self) -> bool:
        """Whether as many batches are on their way as may be."""
        return len(self.started) >= self._window

    def fill(self, items: Iterator[Any]) -> None:
        """Start batches until `window` are on their way, or there are no more items."""
        if self._ended:
            return
        try:
            while not self.is_full and not self.failed:
                if not self._load.fill(items):
                    self.finish()
                    return
                self._start()
        except Exception as error:
            self.stop(error)
        if self.failed:
            self.finish()

    def offer(self, item: Any) -> None:
        """Take in an item, and start a batch when one is full."""
        if self._load.put(item):
            self._start()

    def finish(self) -> None:
        """No more items: start what is left."""
        self._ended = True
        try:
            self._start()
        except RqfastError as error:
            self.stop(error)

    def _start(self) -> None:
        batch = self._load.take()
        if batch:
            self.started.append(self._begin(batch))

    def take_back(self) -> None:
        """Nobody waits any more: what was not sent is not sent, the newest first, so that no gap comes to be."""
        self._ended = True
        while self.started:
            self._undo(self.started.pop())

    def stop(self, error: BaseException) -> None:
        """The iterable raised, an item is bad, or a message was not applied."""
        if self._error is None:
            self._error = error

    def absorb(self, results: list[Any]) -> None:
        """Take in the outcomes of a batch, in the order in which the batches were sent."""
        if not self._gap:
            with contextlib.suppress(TypeError):  # not all of them are seqs
                self.seqs.extend(array("q", results))
                return
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
