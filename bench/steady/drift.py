"""Whether a series of samples drifts upward."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

# What comes before is start-up: caches fill, the dedup window is not over yet.
SETTLED = 1 / 3
GROWTH = 0.10


def verdict(samples: Sequence[float], slack: float) -> tuple[str, float]:
    """What to say of it, and the growth from the middle third of the run to the last, as a share.

    Args:
        samples: in the order of time, at equal distances.
        slack: a difference that means nothing, in their own unit.
    """
    settled = list(samples[int(len(samples) * SETTLED) :])
    if len(settled) < 6:
        return "too few samples", 0.0
    half = len(settled) // 2
    before, after = median(settled[:half]), median(settled[half:])
    growth = (after - before) / before if before else 0.0
    upward = after - before > slack and growth > GROWTH
    return ("drifts upward" if upward else "steady"), growth
