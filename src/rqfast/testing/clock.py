"""A clock that stands until it is moved."""

from __future__ import annotations

from datetime import timedelta

from ..transport import checks


class Clock:
    """The queue's time in a test: pass it as `clock=`, and move it with `advance`.

    Args:
        start: seconds since 1970 UTC.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.now: float = float(start)

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float | timedelta) -> None:
        """Move it forward, and wait for nothing: `TestWorker.advance` also lets handlers do what has become due."""
        self.now += checks.seconds(seconds, "seconds")

    def __repr__(self) -> str:
        return f"Clock({self.now})"
