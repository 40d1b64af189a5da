"""What a subscription says while its database is away, and how long it rests between two tries."""

from __future__ import annotations

import logging
import time

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
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._since = self._tell_at = 0.0

    def tell(self, error: RqfastError) -> None:
        """Nothing could be claimed."""
        now = time.monotonic()
        self._since = self._since or now
        if now >= self._tell_at:
            self._tell_at = now + OFTEN
            since = now - self._since
            log.warning("%s: nothing could be claimed for %.0f s, it is tried again: %s", self._name, since, error)

    def tell_back(self) -> None:
        """A claim was answered: say so, if it was away."""
        if self._since:
            log.info("%s: claims again, after %.0f s", self._name, time.monotonic() - self._since)
            self._since = self._tell_at = 0.0
