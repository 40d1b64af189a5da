"""A bar on stderr, where that is a terminal, for what takes long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..errors import RqfastError
from .console import make_console, printable

# How often a bar that looks at the queue moves, in seconds.
LOOK = 1.0


class RateColumn(ProgressColumn):
    """How many a second, over all of the time."""

    def render(self, task: Task) -> Text:
        """See rich."""
        done, seconds = task.fields["done"], task.elapsed or 0
        return Text(f"{done / seconds:,.0f}/s" if done and seconds > 0.2 else "")


class Bar:
    """Shows how far a work has come; entered, it is there.

    Args:
        what: is done, in a word.
        total: of the steps; None where nobody knows.
        unit: of what `done` counts.
        rate: whether to show how many a second.
    """

    def __init__(self, what: str, total: float | None, unit: str = "messages", *, rate: bool = True) -> None:
        console = make_console(stderr=True)
        self._unit, self._shown = unit, console.is_terminal
        ends = TimeElapsedColumn() if total is None else TimeRemainingColumn(elapsed_when_finished=True)
        self._bars = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[note]}", markup=False),
            *([RateColumn()] if rate else []),
            ends,
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = TaskID(0)
        self._what, self._total = what, total

    def __enter__(self) -> Self:
        if self._shown:
            self._bars.start()
        self._task = self._bars.add_task(self._what, total=self._total, note="", done=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:  # or some versions of rich end the line that is not there
            self._bars.stop()

    def update(self, done: int, step: float | None = None, note: str = "") -> None:
        """So many are done, and the work has come to `step` of the total."""
        text = f"{done:,} {self._unit}{', ' + printable(note) if note else ''}"
        self._bars.update(self._task, completed=done if step is None else step, done=done, note=text)


@contextmanager
def watched(what: str, total: int, unit: str, done: Callable[[], int]) -> Iterator[None]:
    """A bar for a call that does not say how far it is: `done` looks at the queue now and then, in a thread."""
    ended = threading.Event()

    def look() -> None:
        pause = LOOK
        while not ended.wait(pause):
            began = time.monotonic()
            try:
                bar.update(max(0, done()))
            except RqfastError:  # the call itself says it
                return
            # A look at a large queue takes long, and is not to hold up what it looks at.
            pause = max(LOOK, 4 * (time.monotonic() - began))

    with Bar(what, total or None, unit) as bar:
        threading.Thread(target=look, daemon=True).start()
        try:
            yield
        finally:
            ended.set()
