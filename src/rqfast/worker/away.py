"""What a subscription says while its database is away, and how long it rests between two tries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..errors import RqfastError

log: logging.Logger = logging.getLogger("rqfast.worker")

# Between two tries, in seconds; grows up to the last.
FIRST_REST, LONGEST_REST = 0.05, 2.0

# How often it is said, in seconds.
OFTEN = 30.0


class Away:
    """Says it once in a while, for all places of a subscription.

    Args:
        name: of the subscription.
        now: seconds that only go forward.
    """

    def __init__(self, name: str, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._now = now
        self._since: float | None = None
        self._tell_at = 0.0

    @property
    def is_away(self) -> bool:
        """Whether the last that was heard of the database is that nothing could be claimed."""
        return self._since is not None

    def tell(self, error: RqfastError) -> None:
        """Nothing could be claimed."""
        now = self._now()
        if self._since is None:
            self._since = self._tell_at = now
        if now >= self._tell_at:
            self._tell_at = now + OFTEN
            since = now - self._since
            log.warning("%s: nothing could be claimed for %.0f s, it is tried again: %s", self._name, since, error)

    def tell_back(self) -> None:
        """A claim was answered: say so, if it was away."""
        if self._since is not None:
            log.warning("%s: claims go on after %.0f s", self._name, self._now() - self._since)
            self._since = None
