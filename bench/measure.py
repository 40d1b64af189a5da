"""What a stretch of work cost: time, and what the server and this process saw of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from .servers import Server


@dataclass
class Cost:
    """Of one round: messages done, and the sums for all of them; `requests` -1 where the server does not tell.

    `how` is what a side that chooses (callers, rows a request) has chosen; `latencies` those of some calls, in seconds.
    """

    messages: int
    seconds: float = 0.0
    cpu: float = 0.0
    entries: int = 0
    requests: int = 0
    how: str = ""
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


_elapsed = 0.0


def stopwatch() -> float:
    """Seconds spent inside `measured` so far: the clock that pytest-benchmark is given, so that it sees no set-up."""
    return _elapsed


@contextmanager
def measured(server: Server, messages: int, how: str = "") -> Iterator[Cost]:
    """Measure the body; the server's counters are read outside of the time."""
    cost = Cost(messages, how=how)
    global _elapsed
    before = server.counters()
    start, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.seconds = time.perf_counter() - start
    cost.cpu = time.process_time() - cpu
    _elapsed += cost.seconds
    after = server.counters()
    cost.entries = after.entries - before.entries
    cost.requests = -1 if after.requests < 0 else after.requests - before.requests


@dataclass(frozen=True)
class Spread:
    """Some values of one figure: their median, and how far they lie apart."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(median(values), min(values), max(values))

    @property
    def half(self) -> float:
        """Half of the distance between the outermost values, as a part of the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which the part `q` of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def middle(costs: Sequence[Cost]) -> Cost:
    """The round of the median rate."""
    return sorted(costs, key=lambda cost: cost.rate)[len(costs) // 2]
