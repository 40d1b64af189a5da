"""Counters and histograms: what happened to messages, added up for whoever exports it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Upper bounds, in seconds.
FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
ATTEMPTS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


class Histogram:
    """Counts values between bounds.

    Args:
        bounds: upper ones, rising; what is above the last is counted too.
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total: float = 0.0

    def add(self, value: float) -> None:
        """Count one more."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def cumulated(self) -> list[tuple[float, int]]:
        """From each bound to how many values are not above it; the last bound is infinity."""
        found, count = [], 0
        for bound, there in zip((*self._bounds, float("inf")), self._counts, strict=True):
            count += there
            found.append((bound, count))
        return found


class Handled:
    """What happened to the messages of one subscription.

    Attributes:
        claims: how many went to a handler.
        outcomes: from the name of each outcome to how often it took effect.
        errors: how often a handler raised.
        lost, extended: leases.
        waits: how long a place had been free at a claim, in seconds.
        works: how long handlers took, in seconds.
        lags: from being published to being done with, in seconds.
        attempts: how many it took to be done with.
    """

    __slots__ = ("attempts", "claims", "errors", "extended", "lags", "lost", "outcomes", "waits", "works")

    def __init__(self) -> None:
        self.claims: int = 0
        self.errors: int = 0
        self.lost: int = 0
        self.extended: int = 0
        self.outcomes: dict[str, int] = {}
        self.waits: Histogram = Histogram(FAST)
        self.works: Histogram = Histogram(FAST)
        self.lags: Histogram = Histogram(SLOW)
        self.attempts: Histogram = Histogram(ATTEMPTS)


class Sent:
    """What one method of transports has published.

    Attributes:
        messages: how many are in.
        failures: how many calls failed.
        works: how long calls took, in seconds.
    """

    __slots__ = ("failures", "messages", "works")

    def __init__(self) -> None:
        self.messages: int = 0
        self.failures: int = 0
        self.works: Histogram = Histogram(FAST)
