"""Each message of a queue counted once, by its state."""

from __future__ import annotations

from ..model import Stats


def states(stats: Stats) -> dict[str, int]:
    """State -> messages (int); "waiting" is what stands behind the head of its group, or in a paused one."""
    known = {name: getattr(stats, name) for name in ("claimable", "in_work", "parked", "delayed")}
    return {**known, "waiting": max(0, stats.messages - sum(known.values()))}
