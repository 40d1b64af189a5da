"""Ctrl-C between two steps, never within one, so that it can be said what is done; the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

STOPPING = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Entered, SIGINT and SIGTERM raise KeyboardInterrupt, but within `step` only when it ends.

    Attributes:
        torn: whether a step was interrupted all the same, by the second one.
    """

    def __init__(self) -> None:
        self.torn = False
        self._before: dict[int, Any] = {}
        self._within = False
        self._noted = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in STOPPING}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def step(self) -> Iterator[None]:
        """What is not to be interrupted.

        Raises:
            KeyboardInterrupt: at its end, if it would have been; or the second time.
        """
        self._within = True
        try:
            yield
        finally:
            self._within = False
        if self._noted:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._within and not self._noted:
            self._noted = True
            return
        self.torn = self.torn or self._within
        raise KeyboardInterrupt
