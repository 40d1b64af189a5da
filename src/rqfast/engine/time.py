"""The queue's time, as one client counts it.

t is a row in the database that only moves forward (rule 7 of the queue).  A client learns t with its first reply
and from then on counts by its own monotonic clock; a wall clock is read once, at the start, to carry t over the
time in which nobody moved it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .._core import set_default_clock

log = logging.getLogger("rqfast")

JUMP = 60.0
WATCH = 1.0

set_default_clock(time.time)


class Reading(NamedTuple):
    """The clock's row: t, the boot anchor, and whether a jump would change something (a lease, a delay)."""

    t: float
    boot: str | None
    boot_t: float | None
    held: bool


class QueueClock:
    """Estimates the queue's time.

    Args:
        source: the `clock=` of the user, a callable that returns seconds: for a database of its own.
    """

    def __init__(self, source: Callable[[], float] | None = None) -> None:
        self.source = source
        self._t = 0.0
        self._at = time.monotonic()

    def now(self) -> float:
        """The queue's time, estimated (float, seconds since 1970 UTC)."""
        if self.source is not None:
            return max(self._t, float(self.source()))
        return self._t + (time.monotonic() - self._at)

    def saw(self, t: float) -> None:
        """Take in t from a reply: the estimate never lags behind what the database said."""
        if self.source is not None:
            self._t = max(self._t, t)
        elif t > self.now():
            self._t, self._at = t, time.monotonic()


def jump_is_safe(reading: Reading, wall: float) -> bool:
    """Whether time may go on from the wall clock at once: a small step, or nothing in the queue depends on time."""
    return wall - reading.t <= JUMP or reading.t == 0.0 or not reading.held


def after_watching(first: Reading, second: Reading, wall: float, node: str) -> float:
    """The time to start from after t was read twice, `WATCH` seconds apart, because a jump is not safe.

    Others are moving t: then the wall clock that was asked is wrong, whoever it belongs to.
    """
    if second.t > first.t:
        log.warning(
            "the clock of %s is %.0f s ahead of the queue's time, which other clients are moving: it is ignored; "
            "set that clock right",
            node,
            wall - second.t,
        )
        return second.t
    return max(second.t, wall)


def boot_clock() -> tuple[str, float] | None:
    """Which boot of this machine this is, and seconds since it began; None where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return boot, time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        return None


def embedded_start(reading: Reading, wall: float) -> float | None:
    """The time to start from on this machine's own database; None: watch whether others move t.

    Processes of one boot count from one anchor, so that what their wall clocks say (stepped, or faked) is not asked
    twice.
    """
    boot = boot_clock()
    if boot is None or reading.boot != boot[0] or reading.boot_t is None:
        return max(reading.t, wall) if boot is not None or jump_is_safe(reading, wall) else None
    anchored = max(reading.t, reading.boot_t + boot[1])
    if wall - anchored > JUMP and not reading.held:
        return wall
    return anchored
