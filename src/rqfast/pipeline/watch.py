"""What a transport knows of the work there is, so that a claim that finds nothing writes nothing (rule 10).

Pure: told what replies and looks said, it answers whether a claim goes out at once or looks first, and how long a
waiting claim may rest.
"""

from __future__ import annotations

FIRST_PAUSE = 0.01


class Watch:
    """Knowledge of one transport about one queue."""

    def __init__(self, max_poll: float) -> None:
        self.max_poll = max_poll
        self._work_up_to = -1
        self._pause = FIRST_PAUSE
        self._next_ready: float | None = None
        self._last_tidy = -1e9

    def claims_at_once(self, min_priority: int) -> bool:
        """Whether the last reply left work for a claim of this `min_priority`."""
        return self._work_up_to >= min_priority

    def replied(self, hint: int | None, short: list[int]) -> None:
        """A request came back: the hint of claimable groups, and the claims that were not filled."""
        if hint is not None:
            self._work_up_to = hint
        if short:
            self._work_up_to = min(self._work_up_to, min(short) - 1)
        else:
            self._pause = FIRST_PAUSE

    def looked(self, work: bool, next_ready: float | None) -> None:
        """A plain read came back: is there work, and when is the next group that is held back ready."""
        self._next_ready = next_ready
        if work:
            self._pause = FIRST_PAUSE

    def stirred(self) -> None:
        """Something was published or settled here: look again soon."""
        self._pause = FIRST_PAUSE

    def rest(self, now: float) -> float:
        """Seconds until the next look, longer each time; never past the moment when a group is ready."""
        pause, self._pause = self._pause, min(self._pause * 2, self.max_poll)
        if self._next_ready is not None:
            pause = min(pause, max(self._next_ready - now, 0.0) + 0.001)
        return min(pause, self.max_poll)

    def tidies(self, short: list[int], monotonic: float) -> int | None:
        """The min_priority to tidy for in the next request, once a second at most."""
        if not short or monotonic - self._last_tidy < 1.0:
            return None
        self._last_tidy = monotonic
        return min(short)
