"""Wall clocks that are wrong, in each process of a soak another, and stepped while it runs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

STEP_SECONDS = 15.0
OFFSETS = (-86_400.0, -3600.0, -61.0, -1.5, 0.0, 0.25, 59.0, 3600.0, 31_536_000.0)
"""How far off a clock may be (seconds)."""


class WrongClock:
    """What `time.time` tells in one process: off by something else every few seconds.

    Args:
        seed: of what it is off by.
        who: the process.
        real: the clock that it is off from (seconds).
    """

    def __init__(self, seed: int, who: str, real: Callable[[], float]) -> None:
        self._name = f"{seed} {who}"
        self._real = real
        self._step = -1
        self._offset = 0.0

    def time(self) -> float:
        """What it tells (seconds since 1970)."""
        step = step_at(time.monotonic())
        if step != self._step:
            self._step = step
            self._offset = random.Random(f"{self._name} {step}").choice(OFFSETS)
        return self._real() + self._offset

    def time_ns(self) -> int:
        """The same in nanoseconds."""
        return int(self.time() * 1e9)

    def install(self) -> None:
        """Tell it to all that asks `time` in this process, for as long as it lives."""
        time.time = self.time
        time.time_ns = self.time_ns


def step_at(now: float) -> int:
    """The number of the step that holds then, by the monotonic clock that all processes share."""
    return int(now // STEP_SECONDS)


def steps_between(begun: float, ended: float) -> list[float]:
    """When clocks were stepped between two times of the monotonic clock (seconds)."""
    return [step * STEP_SECONDS for step in range(step_at(begun) + 1, step_at(ended) + 1)]
