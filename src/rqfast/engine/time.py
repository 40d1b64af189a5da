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

log: logging.Logger = logging.getLogger("rqfast")

JUMP = 60.0
WATCH = 1.0
BEHIND = 0.5
IDLE = 3600.0

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
        # One number, so that a thread never reads half of a change: t with a source, else t less monotonic time.
        self._base = 0.0 if source is not None else -time.monotonic()

    def now(self) -> float:
        """The queue's time, estimated (float, seconds since 1970 UTC)."""
        if self.source is not None:
            return max(self._base, float(self.source()))
        return self._base + time.monotonic()

    def saw(self, t: float) -> None:
        """Take in t from a reply: the estimate never lags behind what the database said."""
        if self.source is not None:
            self._base = max(self._base, t)
        else:
            self._base = max(self._base, t - time.monotonic())


def must_jump(reading: Reading, wall: float) -> bool:
    """Whether the wall clock is so far ahead that time must not simply go on from there.

    A small step does no harm, and a queue whose time never moved has nobody to harm.
    """
    return wall - reading.t > JUMP and reading.t > 0.0


def must_watch(reading: Reading, wall: float) -> bool:
    """Whether t may lag behind the time of the other clients, and no wall clock tells by how much.

    While there is no leader nobody moves t, and the others count on. Whoever then starts under a server whose clock is
    behind t would give leases that end early by that time: it waits for what the others make of t.
    """
    return reading.held and reading.t - wall > BEHIND


def log_refused(ahead: float, node: str) -> None:
    """The jump was refused, because others are moving t: then the clock that was asked is wrong."""
    log.warning(
        "the clock of %s is %.0f s ahead of the queue's time, which other clients are moving: it is ignored; "
        "set that clock right",
        node,
        ahead,
    )


def boot_clock() -> tuple[str, float] | None:
    """Which boot of this machine this is, and seconds since it began; None where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return boot, time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        return None


def anchored(reading: Reading, boot: tuple[str, float] | None) -> float | None:
    """The queue's time by the anchor of this boot; None where there is none.

    Processes of one machine count from one anchor, so that wall clocks that differ (faked, or stepped between two
    starts) are not asked twice.
    """
    if boot is None or reading.boot != boot[0] or reading.boot_t is None:
        return None
    return max(reading.t, reading.boot_t + boot[1])
